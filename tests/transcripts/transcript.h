/* transcript.h: the patterns of transcript files. */
#ifndef HALO_TEST_TRANSCRIPT_H
#define HALO_TEST_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the whole line fits: `*` in the place of a value is any JSON value, `...` any text, the rest stands for
 * itself. */
bool transcript_match(const char *pattern, const char *line, size_t len);

#endif
