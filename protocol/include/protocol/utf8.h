/* utf8.h: one UTF-8 character at a time.
 *
 * Well-formed means Table 3-7 of the Unicode Standard: no overlong forms, no surrogates, nothing past U+10FFFF.
 */
#ifndef HALO_PROTOCOL_UTF8_H
#define HALO_PROTOCOL_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length (1-4) of the character at `s`, of which `n` >= 1 bytes are there; if there is none, minus the length (1-3)
 * of the longest start of one, which is what one U+FFFD stands for. */
int halo_utf8_char(const char *s, size_t n);

/* The bytes of `s` before the first that no well-formed character holds; `n` when all is well-formed. */
size_t halo_utf8_whole(const char *s, size_t n);

/* Writes the character `code` (no surrogate, <= 0x10FFFF) to `ret`, returns its length. */
size_t halo_utf8_put(char ret[static 4], uint32_t code);

/* The longest length <= `n` at which the text `s` can be cut without cutting a character. */
size_t halo_utf8_cut(const char *s, size_t n);

/* The bytes of `s` once each of its broken pieces is one U+FFFD, as the writer sends it and the reader counts it. */
size_t halo_utf8_bytes(const char *s, size_t n);

/* The longest length <= `n` at which `s` can be cut so that halo_utf8_bytes() of it is at most `most`. */
size_t halo_utf8_fit(const char *s, size_t n, size_t most);

#endif
