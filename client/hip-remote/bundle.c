/* bundle.c: reads bundles, and unpacks them first where they are compressed. */
#include "bundle_priv.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef HALO_HIP_REMOTE_ZLIB
#include <zlib.h>
#endif
#ifdef HALO_HIP_REMOTE_ZSTD
#include <zstd.h>
#endif

#include <hip_remote/code_object.h>

#define ELF_HEADER_BYTES 64
#define PLAIN_MAGIC "__CLANG_OFFLOAD_BUNDLE__"
#define PLAIN_HEADER_BYTES 32 /* the magic and how many entries there are */
#define ENTRY_BYTES 24        /* offset, size, length of the name that follows */
#define NAME_MAX_BYTES 1024u
#define PACKED_MAGIC "CCOB"
#define RATIO_MAX 4096u /* of an honest bundle it is below 100 */

static int fail(const char **ret_reason, int error, const char *reason)
{
    *ret_reason = reason;
    return error;
}

static uint64_t number_at(const uint8_t *at, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static bool begins(const uint8_t *at, size_t n, const char *magic)
{
    return n >= strlen(magic) && memcmp(at, magic, strlen(magic)) == 0;
}

/* ---- an ELF file: its table of sections ends it ---- */

static int find_elf(const uint8_t *at, size_t n, struct halo_bundle_code *ret, const char **ret_reason)
{
    if (n < ELF_HEADER_BYTES || at[4] != 2 || at[5] != 1)
        return fail(ret_reason, -EBADMSG, "an ELF file that is not of 64 bits, little-endian");
    uint64_t sections = number_at(at + 40, 8), bytes = number_at(at + 58, 2) * number_at(at + 60, 2);
    if (sections < ELF_HEADER_BYTES || sections > HALO_CODE_IMAGE_MAX || bytes > HALO_CODE_IMAGE_MAX - sections ||
        sections + bytes > n)
        return fail(ret_reason, -EBADMSG, "an ELF file whose sections leave it");
    *ret = (struct halo_bundle_code){.image = at, .n = sections + bytes};
    return 0;
}

/* ---- targets ---- */

/* "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-" -> "gfx90a:xnack-"; NULL: code for something else. */
static const char *target_of(const char *name)
{
    static const char triple[] = "amdgcn-amd-amdhsa-", unknown[] = "unknown-";
    const char *at = strncmp(name, "hip", 3) == 0 ? strstr(name, triple) : NULL;
    if (!at)
        return NULL;
    at += sizeof(triple) - 1;
    if (strncmp(at, unknown, sizeof(unknown) - 1) == 0)
        return at + sizeof(unknown) - 1;
    return *at == '-' ? at + 1 : at;
}

/* Whether the GPU has each feature that the target names, in the state that it names. Returns how many; -1: not. */
static int count_features(const char *target, const char *arch)
{
    int n = 0;
    for (const char *at = strchr(target, ':'); at; n++) {
        size_t length = 1 + strcspn(at + 1, ":");
        const char *has = arch;
        while (has && (strncmp(has, at, length) != 0 || (has[length] != ':' && has[length] != '\0')))
            has = *has ? strchr(has + 1, ':') : NULL;
        if (!has)
            return -1;
        at = at[length] == ':' ? at + length : NULL;
    }
    return n;
}

/* 0: not for this GPU; the greater, the closer. */
static int rank_target(const char *target, const char *arch)
{
    const struct halo_code_object object = {.target = {target, (uint32_t)strcspn(target, ":")}};
    int n_features = count_features(target, arch);
    if (n_features < 0 || !halo_code_object_is_for(&object, arch))
        return 0;
    bool is_exact = strcspn(arch, ":") == object.target.n && memcmp(target, arch, object.target.n) == 0;
    return 1 + n_features + (is_exact ? 1 << 16 : 0);
}

/* ---- bundles ---- */

static int find_plain(const uint8_t *at, size_t n, const char *arch, struct halo_bundle_code *ret,
                      const char **ret_reason)
{
    uint64_t n_entries = n >= PLAIN_HEADER_BYTES ? number_at(at + PLAIN_HEADER_BYTES - 8, 8) : 0;
    size_t p = PLAIN_HEADER_BYTES;
    int best = 0;
    if (n_entries == 0)
        return fail(ret_reason, -EBADMSG, "a bundle without entries");
    if (n_entries > HALO_BUNDLE_ENTRIES_MAX)
        return fail(ret_reason, -E2BIG, "a bundle of more than 1024 entries");
    for (uint64_t i = 0; i < n_entries; i++) {
        char name[NAME_MAX_BYTES + 1];
        if (n - p < ENTRY_BYTES)
            return fail(ret_reason, -EBADMSG, "a bundle whose table is cut");
        uint64_t offset = number_at(at + p, 8), size = number_at(at + p + 8, 8), n_name = number_at(at + p + 16, 8);
        p += ENTRY_BYTES;
        if (n_name > NAME_MAX_BYTES)
            return fail(ret_reason, -E2BIG, "a bundle with a target of more than 1024 bytes");
        if (n_name > n - p || offset > n || size > n - offset)
            return fail(ret_reason, -EBADMSG, "a bundle whose entries leave it");
        memcpy(name, at + p, n_name);
        name[n_name] = '\0';
        p += n_name;
        const char *target = target_of(name);
        int rank = size > 0 && target ? rank_target(target, arch) : 0;
        if (rank <= best)
            continue;
        best = rank;
        *ret = (struct halo_bundle_code){.image = at + offset, .n = size};
    }
    return best ? 0 : fail(ret_reason, -ENOENT, "no code object for this GPU");
}

/* ---- compressed bundles ---- */

struct packed {
    const uint8_t *at;
    size_t n; /* with version 1 the compressed bytes end by themselves, in these */
    size_t n_unpacked;
    uint64_t version, method;
};

static int read_header(const uint8_t *at, size_t n, struct packed *ret, const char **ret_reason)
{
    static const uint8_t header_bytes[] = {0, 20, 24, 32};
    uint64_t version = n >= 8 ? number_at(at + 4, 2) : 0, file_bytes = n, n_unpacked = 0;
    if (version < 1 || version > 3 || n < header_bytes[version])
        return fail(ret_reason, -EBADMSG, "a compressed bundle with a header that is cut, or not of version 1 to 3");
    unsigned width = version == 3 ? 8 : 4;
    if (version > 1)
        file_bytes = number_at(at + 8, width);
    n_unpacked = number_at(at + (version == 1 ? 8 : 8 + width), width);
    if (file_bytes <= header_bytes[version] || file_bytes > n)
        return fail(ret_reason, -EBADMSG, "a compressed bundle whose size leaves it");
    *ret = (struct packed){at + header_bytes[version], file_bytes - header_bytes[version], n_unpacked, version,
                           number_at(at + 6, 2)};
    if (n_unpacked > HALO_CODE_IMAGE_MAX)
        return fail(ret_reason, -E2BIG, "a compressed bundle of more than 512 MiB");
    if (n_unpacked < PLAIN_HEADER_BYTES || n_unpacked / RATIO_MAX > ret->n)
        return fail(ret_reason, -EBADMSG, "a compressed bundle with a size that its bytes cannot have");
    return 0;
}

static int unpack_zlib(const struct packed *packed, uint8_t *to)
{
#ifdef HALO_HIP_REMOTE_ZLIB
    size_t n = packed->n < UINT_MAX ? packed->n : UINT_MAX;
    z_stream z = {.next_in = (Bytef *)(uintptr_t)packed->at,
                  .avail_in = (uInt)n,
                  .next_out = to,
                  .avail_out = (uInt)packed->n_unpacked};
    if (inflateInit(&z) != Z_OK)
        return -ENOMEM;
    int r = inflate(&z, Z_FINISH);
    bool is_whole = r == Z_STREAM_END && z.avail_out == 0;
    inflateEnd(&z);
    return is_whole ? 0 : -EBADMSG;
#else
    (void)packed;
    (void)to;
    return -ENOTSUP;
#endif
}

static int unpack_zstd(const struct packed *packed, uint8_t *to)
{
#ifdef HALO_HIP_REMOTE_ZSTD
    size_t n = packed->version == 1 ? ZSTD_findFrameCompressedSize(packed->at, packed->n) : packed->n;
    if (ZSTD_isError(n))
        return -EBADMSG;
    return ZSTD_decompress(to, packed->n_unpacked, packed->at, n) == packed->n_unpacked ? 0 : -EBADMSG;
#else
    (void)packed;
    (void)to;
    return -ENOTSUP;
#endif
}

static int find_packed(const uint8_t *at, size_t n, const char *arch, struct halo_bundle_code *ret,
                       const char **ret_reason)
{
    struct packed packed;
    int r = read_header(at, n, &packed, ret_reason);
    if (r < 0)
        return r;
    uint8_t *unpacked = malloc(packed.n_unpacked);
    if (!unpacked)
        return fail(ret_reason, -ENOMEM, "no memory to unpack a bundle");
    r = packed.method == 0   ? unpack_zlib(&packed, unpacked)
        : packed.method == 1 ? unpack_zstd(&packed, unpacked)
                             : -ENOTSUP;
    if (r == -ENOTSUP)
        r = fail(ret_reason, r, "a bundle compressed in a way that this library does not know");
    else if (r < 0)
        r = fail(ret_reason, r, "a compressed bundle that does not unpack to its size");
    else if (!begins(unpacked, packed.n_unpacked, PLAIN_MAGIC))
        r = fail(ret_reason, -EBADMSG, "a compressed file that is not a bundle");
    else
        r = find_plain(unpacked, packed.n_unpacked, arch, ret, ret_reason);
    if (r < 0)
        free(unpacked);
    else
        ret->unpacked = unpacked;
    return r;
}

int halo_bundle_find(const void *at, size_t n, const char *arch, struct halo_bundle_code *ret, const char **ret_reason)
{
    *ret = (struct halo_bundle_code){0};
    *ret_reason = NULL;
    if (begins(at, n,
               "\x7f"
               "ELF"))
        return find_elf(at, n, ret, ret_reason);
    if (begins(at, n, PLAIN_MAGIC))
        return find_plain(at, n, arch, ret, ret_reason);
    if (begins(at, n, PACKED_MAGIC))
        return find_packed(at, n, arch, ret, ret_reason);
    return fail(ret_reason, -EBADMSG, "neither an ELF file nor a bundle");
}
