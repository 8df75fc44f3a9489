/* unicode.c: general categories of code points, from the table of runs. Pure; any thread. */
#include <base/unicode.h>

#include <string.h>

#include "unicode_priv.h"

enum halo_unicode_category halo_unicode_category(uint32_t c, uint32_t *ret_last)
{
    size_t low = 0, high = halo_unicode_n_runs; /* the run lies in [low, high) */
    if (c >= HALO_UNICODE_END) {
        if (ret_last)
            *ret_last = UINT32_MAX;
        return HALO_UNICODE_CN;
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (halo_unicode_runs[middle] >> 5 <= c)
            low = middle;
        else
            high = middle;
    }
    if (ret_last)
        *ret_last = (high < halo_unicode_n_runs ? halo_unicode_runs[high] >> 5 : HALO_UNICODE_END) - 1;
    return (enum halo_unicode_category)(halo_unicode_runs[low] & 31);
}

uint32_t halo_unicode_mask(const char *name, size_t n)
{
    static const char names[HALO_UNICODE_N_CATEGORIES][3] = {
        [HALO_UNICODE_CN] = "Cn", [HALO_UNICODE_LU] = "Lu", [HALO_UNICODE_LL] = "Ll", [HALO_UNICODE_LT] = "Lt",
        [HALO_UNICODE_LM] = "Lm", [HALO_UNICODE_LO] = "Lo", [HALO_UNICODE_MN] = "Mn", [HALO_UNICODE_MC] = "Mc",
        [HALO_UNICODE_ME] = "Me", [HALO_UNICODE_ND] = "Nd", [HALO_UNICODE_NL] = "Nl", [HALO_UNICODE_NO] = "No",
        [HALO_UNICODE_PC] = "Pc", [HALO_UNICODE_PD] = "Pd", [HALO_UNICODE_PS] = "Ps", [HALO_UNICODE_PE] = "Pe",
        [HALO_UNICODE_PI] = "Pi", [HALO_UNICODE_PF] = "Pf", [HALO_UNICODE_PO] = "Po", [HALO_UNICODE_SM] = "Sm",
        [HALO_UNICODE_SC] = "Sc", [HALO_UNICODE_SK] = "Sk", [HALO_UNICODE_SO] = "So", [HALO_UNICODE_ZS] = "Zs",
        [HALO_UNICODE_ZL] = "Zl", [HALO_UNICODE_ZP] = "Zp", [HALO_UNICODE_CC] = "Cc", [HALO_UNICODE_CF] = "Cf",
        [HALO_UNICODE_CS] = "Cs", [HALO_UNICODE_CO] = "Co",
    };
    uint32_t mask = 0;
    for (unsigned i = 0; i < HALO_UNICODE_N_CATEGORIES; i++)
        if ((n == 1 || n == 2) && memcmp(names[i], name, n) == 0)
            mask |= 1u << i;
    return mask;
}
