/* unicode.h: general categories of code points, by Unicode 15.1.
 *
 * A stated version, so that what depends on it (token ids, templates) is the same on every machine, whatever its
 * libraries know. Constant; any thread. Source: field 2 of UnicodeData.txt; surrogates are CS, code points that are not
 * assigned and numbers past U+10FFFF are CN.
 */
#ifndef HALO_BASE_UNICODE_H
#define HALO_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HALO_UNICODE_VERSION "15.1"
#define HALO_UNICODE_END 0x110000u /* one past the last code point */

enum halo_unicode_category {
    HALO_UNICODE_CN,
    HALO_UNICODE_LU,
    HALO_UNICODE_LL,
    HALO_UNICODE_LT,
    HALO_UNICODE_LM,
    HALO_UNICODE_LO,
    HALO_UNICODE_MN,
    HALO_UNICODE_MC,
    HALO_UNICODE_ME,
    HALO_UNICODE_ND,
    HALO_UNICODE_NL,
    HALO_UNICODE_NO,
    HALO_UNICODE_PC,
    HALO_UNICODE_PD,
    HALO_UNICODE_PS,
    HALO_UNICODE_PE,
    HALO_UNICODE_PI,
    HALO_UNICODE_PF,
    HALO_UNICODE_PO,
    HALO_UNICODE_SM,
    HALO_UNICODE_SC,
    HALO_UNICODE_SK,
    HALO_UNICODE_SO,
    HALO_UNICODE_ZS,
    HALO_UNICODE_ZL,
    HALO_UNICODE_ZP,
    HALO_UNICODE_CC,
    HALO_UNICODE_CF,
    HALO_UNICODE_CS,
    HALO_UNICODE_CO,
    HALO_UNICODE_N_CATEGORIES
};

/* The category of `c`. *ret_last, unless NULL: the last code point of the run of this category that `c` lies in. */
enum halo_unicode_category halo_unicode_category(uint32_t c, uint32_t *ret_last);

/* A set of categories by the name of a property: "Lu" one, "L" all that begin with L. A bit for each category; 0: no
 * such name. */
uint32_t halo_unicode_mask(const char *name, size_t n);

static inline bool halo_unicode_is(uint32_t c, uint32_t mask)
{
    return mask >> halo_unicode_category(c, NULL) & 1;
}

#endif
