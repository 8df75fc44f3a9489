/* utf8.h: where characters begin and end.
 *
 * Reading is strict (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing past U+10FFFF). Any thread.
 */
#ifndef HALO_BASE_UTF8_H
#define HALO_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum halo_utf8 {
    HALO_UTF8_VALID,   /* a whole character */
    HALO_UTF8_BAD,     /* a maximal ill-formed part: more bytes would not make it a character */
    HALO_UTF8_PARTIAL, /* the bytes end inside a character that is well-formed so far */
};

#define HALO_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define HALO_UTF8_REPLACEMENT_BYTES 3

/* Looks at the front of `bytes` (n >= 1). *ret_n: how many bytes the verdict is about, at least 1. */
enum halo_utf8 halo_utf8_scan(const char *bytes, size_t n, size_t *ret_n);

/* The length of the longest front part that is well-formed. */
size_t halo_utf8_valid_run(const char *bytes, size_t n);

/* The code point of a character that scan found valid. */
uint32_t halo_utf8_decode(const char *bytes, size_t n);

/* Writes a code point of at most U+10FFFF, also half of a surrogate pair, as 1 to 4 bytes. Returns how many. */
size_t halo_utf8_encode(char *ret, uint32_t point);

#endif
