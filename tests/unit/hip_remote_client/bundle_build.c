/* bundle_build.c: builds bundles and compresses them. */
#include "bundle_build.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#include <zstd.h>

#define ALIGNMENT 4096

static void *get(size_t n)
{
    void *p = calloc(1, n);
    if (!p)
        abort();
    return p;
}

static size_t put(uint8_t *to, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        to[i] = (uint8_t)(value >> 8 * i);
    return n;
}

static uint8_t *build_plain(const struct bundle_entry *entries, size_t n, size_t *ret_bytes)
{
    static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
    size_t p = sizeof(magic) - 1 + 8, end = ALIGNMENT;
    for (size_t i = 0; i < n; i++)
        end += (entries[i].n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *bundle = get(end);
    memcpy(bundle, magic, sizeof(magic) - 1);
    put(bundle + sizeof(magic) - 1, n, 8);
    *ret_bytes = ALIGNMENT;
    for (size_t i = 0; i < n; i++) {
        size_t n_name = strlen(entries[i].target);
        p += put(bundle + p, *ret_bytes, 8);
        p += put(bundle + p, entries[i].n, 8);
        p += put(bundle + p, n_name, 8);
        memcpy(bundle + p, entries[i].target, n_name);
        p += n_name;
        if (entries[i].n > 0)
            memcpy(bundle + *ret_bytes, entries[i].code, entries[i].n);
        *ret_bytes += (entries[i].n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return bundle;
}

uint8_t *bundle_build(const struct bundle_entry *entries, size_t n, enum bundle_method method, int version,
                      size_t *ret_bytes)
{
    size_t n_plain, p = 8;
    uint8_t *plain = build_plain(entries, n, &n_plain);
    *ret_bytes = n_plain;
    if (method == BUNDLE_PLAIN)
        return plain;
    uLongf n_zlib = compressBound(n_plain);
    size_t header = version == 1 ? 20 : version == 2 ? 24 : 32, width = version == 3 ? 8 : 4;
    size_t most = ZSTD_compressBound(n_plain) > n_zlib ? ZSTD_compressBound(n_plain) : n_zlib, packed;
    uint8_t *bundle = get(header + most);
    if (method == BUNDLE_ZLIB) {
        if (compress2(bundle + header, &n_zlib, plain, n_plain, 1) != Z_OK)
            abort();
        packed = n_zlib;
    } else {
        packed = ZSTD_compress(bundle + header, most, plain, n_plain, 1);
    }
    *ret_bytes = header + packed;
    memcpy(bundle, "CCOB", 4);
    put(bundle + 4, (uint64_t)version, 2);
    put(bundle + 6, (uint64_t)method, 2);
    if (version > 1)
        p += put(bundle + p, *ret_bytes, (unsigned)width);
    put(bundle + p, n_plain, (unsigned)width);
    free(plain);
    return bundle;
}
