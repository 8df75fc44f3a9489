/* elf.c: walks the segments and sections of an ELF file of 64 bits, little-endian, for its notes.
 *
 * The structs are our own: the client is also built where there is no <elf.h>.
 */
#include "elf_priv.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "wire_priv.h"

#define HEADER_BYTES 64
#define SEGMENT_BYTES 56
#define SECTION_BYTES 64
#define SEGMENT_NOTE 4
#define SECTION_NOTE 7
#define SECTION_NOBITS 8
#define NOTE_METADATA 32 /* NT_AMDGPU_METADATA */

struct image {
    const uint8_t *at;
    size_t n;
};

static bool holds(const struct image *m, uint64_t offset, uint64_t n)
{
    return offset <= m->n && n <= m->n - offset;
}

static uint64_t aligned(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* The metadata among the notes that lie in these bytes, which were checked to lie in the image. */
static bool find_note(const uint8_t *at, uint64_t n, struct halo_remote_bytes *ret)
{
    while (n >= 12) {
        uint64_t name = halo_remote_get(at, 4), text = halo_remote_get(at + 4, 4), type = halo_remote_get(at + 8, 4);
        uint64_t before = 12 + aligned(name, 4);
        if (before > n || text > n - before)
            return false;
        if (type == NOTE_METADATA && name == sizeof("AMDGPU") && memcmp(at + 12, "AMDGPU", name) == 0) {
            *ret = (struct halo_remote_bytes){at + before, (uint32_t)text};
            return text > 0;
        }
        uint64_t all = before + aligned(text, 4);
        if (all > n)
            return false;
        at += all;
        n -= all;
    }
    return false;
}

/* Walks one of the two tables. The fields of both stand at the places that are given. */
struct table {
    uint64_t offset, n, entry_bytes, least_bytes;
    unsigned at_offset, at_size, type_at;
    uint32_t note, without_bytes; /* types */
};

static bool walk(const struct image *m, const struct table *t, struct halo_remote_bytes *ret)
{
    if (t->n == 0)
        return true;
    if (t->entry_bytes != t->least_bytes || !holds(m, t->offset, t->n * t->entry_bytes))
        return false;
    for (uint64_t i = 0; i < t->n; i++) {
        const uint8_t *entry = m->at + t->offset + i * t->entry_bytes;
        uint64_t type = halo_remote_get(entry + t->type_at, 4);
        uint64_t offset = halo_remote_get(entry + t->at_offset, 8), size = halo_remote_get(entry + t->at_size, 8);
        if (type == t->without_bytes)
            continue;
        if (!holds(m, offset, size))
            return false;
        if (type == t->note && !ret->at)
            (void)find_note(m->at + offset, size, ret);
    }
    return true;
}

int halo_elf_metadata(const void *image, size_t n, struct halo_remote_bytes *ret, const char **ret_reason)
{
    const struct image m = {image, n};
    static const uint8_t magic[6] = {0x7f, 'E', 'L', 'F', 2, 1}; /* 64 bits, little-endian */
    *ret = (struct halo_remote_bytes){0};
    if (n < HEADER_BYTES || memcmp(m.at, magic, sizeof(magic)) != 0) {
        *ret_reason = "is no ELF file of 64 bits";
        return -ENOEXEC;
    }
    const struct table segments = {
        .offset = halo_remote_get(m.at + 32, 8),
        .n = halo_remote_get(m.at + 56, 2),
        .entry_bytes = halo_remote_get(m.at + 54, 2),
        .least_bytes = SEGMENT_BYTES,
        .at_offset = 8,
        .at_size = 32,
        .note = SEGMENT_NOTE,
        .without_bytes = UINT32_MAX,
    };
    const struct table sections = {
        .offset = halo_remote_get(m.at + 40, 8),
        .n = halo_remote_get(m.at + 60, 2),
        .entry_bytes = halo_remote_get(m.at + 58, 2),
        .least_bytes = SECTION_BYTES,
        .type_at = 4,
        .at_offset = 24,
        .at_size = 32,
        .note = SECTION_NOTE,
        .without_bytes = SECTION_NOBITS,
    };
    if (!walk(&m, &segments, ret) || !walk(&m, &sections, ret)) {
        *ret_reason = "has segments or sections that leave the file";
        return -ENOEXEC;
    }
    if (!ret->at) {
        *ret_reason = "has no AMDGPU metadata";
        return -EBADMSG;
    }
    return 0;
}
