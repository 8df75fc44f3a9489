/* stub_driver.c: the functions of the stub driver that deal with cards and contexts (contract in stub_driver.h). */
#include "stub_driver.h"

#include <stdatomic.h>
#include <stddef.h>

#include "driver.h"

#define HALO_CU_FN(name, symbol, arguments)                                                                            \
    __attribute__((visibility("default"))) int stub_##name arguments __asm__(symbol);
#include "driver.def"
#undef HALO_CU_FN

static char cards[STUB_CARDS];
static atomic_int n_retained[STUB_CARDS], retain_error, set_error;
static atomic_ullong n_allocated;
static _Thread_local int current = -1, seen = -1;

int stub_current(void)
{
    return current;
}

int stub_seen(void)
{
    return seen;
}

int stub_n_retained(int card)
{
    return atomic_load(&n_retained[card]);
}

void stub_fail_set_current(int error)
{
    atomic_store(&set_error, error);
}

void stub_fail_retain(int error)
{
    atomic_store(&retain_error, error);
}

void stub_note(void)
{
    seen = current;
}

int stub_DeviceGetCount(int *ret)
{
    *ret = STUB_CARDS;
    return CUDA_SUCCESS;
}

int stub_DeviceGet(int *ret, int ordinal)
{
    *ret = ordinal;
    return ordinal >= 0 && ordinal < STUB_CARDS ? CUDA_SUCCESS : CUDA_INVALID_DEVICE;
}

int stub_DevicePrimaryCtxRetain(void **ret, int device)
{
    int r = atomic_load(&retain_error);
    if (r)
        return r;
    atomic_fetch_add(&n_retained[device], 1);
    *ret = &cards[device];
    return CUDA_SUCCESS;
}

int stub_CtxSetCurrent(void *context)
{
    int r = atomic_exchange(&set_error, 0);
    current = r ? -1 : (int)((char *)context - cards); /* after an error nothing may rely on the context before */
    return r;
}

int stub_MemAlloc(uint64_t *ret, size_t n)
{
    stub_note();
    if (current < 0)
        return CUDA_INVALID_CONTEXT;
    *ret = (uint64_t)(current + 1) * STUB_CARD_BYTES + atomic_fetch_add(&n_allocated, n);
    return CUDA_SUCCESS;
}
