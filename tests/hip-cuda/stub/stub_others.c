/* stub_others.c: every function of the driver that stub_driver.c does not have: it succeeds and notes the context. */
#include "stub_driver.h"

int stub_other(void);

int stub_other(void)
{
    stub_note();
    return 0;
}

#define HALO_CU_FN(name, symbol, arguments)                                                                            \
    __asm__(".weak " symbol "\n\t.type " symbol ", @function\n\t.set " symbol ", stub_other");
#include "driver.def"
#undef HALO_CU_FN
