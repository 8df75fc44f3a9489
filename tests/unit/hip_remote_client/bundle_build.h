/* bundle_build.h: bundles as clang writes them, for tests. */
#ifndef HALO_TESTS_BUNDLE_BUILD_H
#define HALO_TESTS_BUNDLE_BUILD_H

#include <stddef.h>
#include <stdint.h>

struct bundle_entry {
    const char *target; /* "hipv4-amdgcn-amd-amdhsa--gfx1030:xnack-" */
    const void *code;   /* NULL: none, as the host's entry */
    size_t n;
};

enum bundle_method { BUNDLE_PLAIN = -1, BUNDLE_ZLIB, BUNDLE_ZSTD };

/* The caller frees it. `version` (1 to 3) is that of a compressed one. Ends the program without memory. */
uint8_t *bundle_build(const struct bundle_entry *entries, size_t n, enum bundle_method method, int version,
                      size_t *ret_bytes);

#endif
