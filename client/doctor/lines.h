/* lines.h: values out of the kernel's texts, whatever is in them. Pure; any thread. */
#ifndef HALO_DOCTOR_LINES_H
#define HALO_DOCTOR_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number at the beginning of a text, decimal or 0x: no sign, no space in front. *ret_end: behind it. */
bool halo_doctor_number_parse(const char *text, uint64_t *ret, const char **ret_end);
/* "KEY VALUE" or "KEY: VALUE" lines: the text of a key's value (ended by a NUL in `buf`, spaces in front dropped), NULL
 * without such a line. */
const char *halo_doctor_line_of(const char *text, const char *key, char *buf, size_t room);
/* The same as a number: decimal or 0x, whatever follows it. */
bool halo_doctor_number_of(const char *text, const char *key, uint64_t *ret);
/* Does a line of words, or one of "KEY=VALUE" words, have it? The value ("" without one), or NULL. */
const char *halo_doctor_option_of(const char *line, const char *key, char *buf, size_t room);

#endif
