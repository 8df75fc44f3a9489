/* span.h: bytes with a length, not NUL-terminated. Borrowed: whoever gives one says how long it lives. */
#ifndef HALO_BASE_SPAN_H
#define HALO_BASE_SPAN_H

#include <stddef.h>

struct halo_span {
    const char *bytes;
    size_t n;
};

#endif
