/* unicode_priv.h: the table behind unicode.h. */
#ifndef HALO_BASE_UNICODE_PRIV_H
#define HALO_BASE_UNICODE_PRIV_H

#include <base/unicode.h>

/* A run of code points of one category: its first one, and the category in the low 5 bits. In order, without gaps. */
extern const uint32_t halo_unicode_runs[];
extern const size_t halo_unicode_n_runs;

#define HALO_UNICODE_RUN(first, category) ((uint32_t)(first) << 5 | HALO_UNICODE_##category)

#endif
