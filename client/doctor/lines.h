/* lines.h: values from the kernel's text files, whatever they hold. Pure; any thread. */
#ifndef HALO_DOCTOR_LINES_H
#define HALO_DOCTOR_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number at the start of a text, decimal or 0x, without sign or leading space. *ret_end: the byte after it. */
bool halo_doctor_number_parse(const char *text, uint64_t *ret, const char **ret_end);
/* "KEY VALUE" or "KEY: VALUE" lines: the text of a key's value (ended by a NUL in `buf`, spaces in front dropped), NULL
 * without such a line. */
const char *halo_doctor_line_of(const char *text, const char *key, char *buf, size_t room);
/* The same as a number: decimal or 0x, whatever follows it. */
bool halo_doctor_number_of(const char *text, const char *key, uint64_t *ret);
/* The value of a key in a line of words or of "KEY=VALUE" words: "" for a bare word, NULL when it is absent. */
const char *halo_doctor_option_of(const char *line, const char *key, char *buf, size_t room);

#endif
