/* pack.c: rows of the file -> groups of 16 interleaved rows.
 *
 * Pure. A group is copied to the scratch and permuted from there, so that source and destination may overlap; groups go
 * up or down like the bytes of memmove(). Loading a model passes every byte through here: the units are moved with
 * SSE2, which every x86-64 has.
 */
#include <assert.h>
#include <emmintrin.h>
#include <string.h>

#include "format_priv.h"

/* 4 units of 4 bytes from 4 rows -> 4 rows of 4 places. */
static void transpose_4x4(const uint8_t *src, size_t stride, uint8_t *dst)
{
    __m128i a = _mm_loadu_si128((const __m128i *)src), b = _mm_loadu_si128((const __m128i *)(src + stride));
    __m128i c = _mm_loadu_si128((const __m128i *)(src + 2 * stride)),
            d = _mm_loadu_si128((const __m128i *)(src + 3 * stride));
    __m128i ab0 = _mm_unpacklo_epi32(a, b), ab1 = _mm_unpackhi_epi32(a, b);
    __m128i cd0 = _mm_unpacklo_epi32(c, d), cd1 = _mm_unpackhi_epi32(c, d);
    _mm_storeu_si128((__m128i *)dst, _mm_unpacklo_epi64(ab0, cd0));
    _mm_storeu_si128((__m128i *)(dst + 64), _mm_unpackhi_epi64(ab0, cd0));
    _mm_storeu_si128((__m128i *)(dst + 128), _mm_unpacklo_epi64(ab1, cd1));
    _mm_storeu_si128((__m128i *)(dst + 192), _mm_unpackhi_epi64(ab1, cd1));
}

/* 8 units of 2 bytes from 8 rows -> 8 rows of 8 places. */
static void transpose_8x8(const uint8_t *src, size_t stride, uint8_t *dst)
{
    __m128i row[8], pair[8], quad[8];
    for (int r = 0; r < 8; r++)
        row[r] = _mm_loadu_si128((const __m128i *)(src + r * stride));
    for (int r = 0; r < 4; r++) { /* pair[2r], pair[2r+1]: units 0..3 and 4..7 of rows 2r, 2r+1 */
        pair[2 * r] = _mm_unpacklo_epi16(row[2 * r], row[2 * r + 1]);
        pair[2 * r + 1] = _mm_unpackhi_epi16(row[2 * r], row[2 * r + 1]);
    }
    for (int h = 0; h < 2; h++) { /* quad[4h + 0..3]: units 2i, 2i+1 of rows 4h..4h+3 */
        quad[4 * h] = _mm_unpacklo_epi32(pair[4 * h], pair[4 * h + 2]);
        quad[4 * h + 1] = _mm_unpackhi_epi32(pair[4 * h], pair[4 * h + 2]);
        quad[4 * h + 2] = _mm_unpacklo_epi32(pair[4 * h + 1], pair[4 * h + 3]);
        quad[4 * h + 3] = _mm_unpackhi_epi32(pair[4 * h + 1], pair[4 * h + 3]);
    }
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)(dst + 64 * i), _mm_unpacklo_epi64(quad[i], quad[4 + i]));
        _mm_storeu_si128((__m128i *)(dst + 64 * i + 32), _mm_unpackhi_epi64(quad[i], quad[4 + i]));
    }
}

/* Unit i of row r to place i * 16 + r, for i from `first` on. Always inlined, with a constant unit. */
static inline __attribute__((always_inline)) void pack_units(const uint32_t unit, uint32_t first, uint32_t count,
                                                             const uint8_t *src, size_t stride, uint8_t *dst)
{
    for (uint32_t i = first; i < count; i++)
        for (uint32_t r = 0; r < HALO_CPU_GROUP; r++)
            memcpy(dst + (i * HALO_CPU_GROUP + r) * unit, src + r * stride + i * unit, unit);
}

/* One segment of one block of 16 rows that lie `stride` apart. */
static void pack_segment(uint32_t unit, uint32_t count, const uint8_t *src, size_t stride, uint8_t *dst)
{
    uint32_t i = 0;
    switch (unit) {
    case 4:
        for (; i + 4 <= count; i += 4)
            for (uint32_t r = 0; r < HALO_CPU_GROUP; r += 4)
                transpose_4x4(src + r * stride + i * 4, stride, dst + i * 64 + r * 4);
        pack_units(4, i, count, src, stride, dst);
        return;
    case 2:
        for (; i + 8 <= count; i += 8)
            for (uint32_t r = 0; r < HALO_CPU_GROUP; r += 8)
                transpose_8x8(src + r * stride + i * 2, stride, dst + i * 32 + r * 2);
        pack_units(2, i, count, src, stride, dst);
        return;
    default: assert(unit == 1); pack_units(1, i, count, src, stride, dst);
    }
}

/* Units that are turned (format_priv.h), or lie apart: their words, one after the other, as units of 4 bytes. */
static void pack_turned(const struct halo_cpu_segment *s, const uint8_t *src, size_t stride, uint8_t *dst)
{
    for (uint32_t i = 0; i < s->count; i++, src += halo_cpu_unit_stride(s)) {
        uint32_t words[2][HALO_CPU_GROUP];
        for (uint32_t at = 0; at < s->unit; at += 4)
            for (uint32_t r = 0; r < HALO_CPU_GROUP; r++)
                memcpy(&words[at / 4][r], src + r * stride + at, 4);
        halo_cpu_turn(s->turn, HALO_CPU_GROUP, words[0], words[1]);
        memcpy(dst, words, s->unit * HALO_CPU_GROUP);
        dst += s->unit * HALO_CPU_GROUP;
    }
}

static void pack_group(const struct halo_cpu_format *format, uint32_t n_cols, const uint8_t *src, size_t stride,
                       uint8_t *dst)
{
    if (format->block_weights == 1) { /* floats: the row is one segment */
        pack_segment(format->block_bytes, n_cols, src, stride, dst);
        return;
    }
    for (uint32_t col = 0; col < n_cols; col += format->block_weights, src += format->block_bytes) {
        for (const struct halo_cpu_segment *s = format->segments; s < format->segments + HALO_CPU_SEGMENTS && s->count;
             s++) {
            if (s->turn || s->stride)
                pack_turned(s, src + s->offset, stride, dst);
            else
                pack_segment(s->unit, s->count, src + s->offset, stride, dst);
            dst += (uint32_t)s->count * s->unit * HALO_CPU_GROUP;
        }
    }
}

static uint32_t n_groups_of(uint32_t n_rows)
{
    return n_rows / HALO_CPU_GROUP + (n_rows % HALO_CPU_GROUP != 0);
}

/* A group of n rows in file layout at `src`. */
static void pack_rows(const struct halo_cpu_format *format, size_t row_bytes, uint32_t n_cols, uint32_t n,
                      const uint8_t *src, uint8_t *dst, uint8_t *scratch)
{
    size_t stride = halo_cpu_spread_bytes(row_bytes);
    for (uint32_t r = 0; r < n; r++)
        memcpy(scratch + r * stride, src + r * row_bytes, row_bytes);
    memset(scratch + n * stride, 0, (HALO_CPU_GROUP - n) * stride);
    pack_group(format, n_cols, scratch, stride, dst);
}

void halo_cpu_matrix_pack(enum halo_type type, uint32_t n_cols, uint32_t n_rows, const void *src, void *dst,
                          void *scratch)
{
    assert(halo_cpu_matrix_fits(type, n_cols));
    const struct halo_cpu_format *format = halo_cpu_format_of(type);
    size_t row_bytes = halo_type_row_bytes(type, n_cols), group_bytes = row_bytes * HALO_CPU_GROUP;
    uint32_t n_groups = n_groups_of(n_rows);
    bool up = (uintptr_t)dst <= (uintptr_t)src;
    for (uint32_t i = 0; i < n_groups; i++) {
        uint32_t group = up ? i : n_groups - 1 - i;
        uint32_t left = n_rows - group * HALO_CPU_GROUP, n = left < HALO_CPU_GROUP ? left : HALO_CPU_GROUP;
        pack_rows(format, row_bytes, n_cols, n, (const uint8_t *)src + group * group_bytes,
                  (uint8_t *)dst + group * group_bytes, scratch);
    }
}

uint32_t halo_cpu_matrix_pieces(enum halo_type type, uint32_t n_cols, uint32_t n_rows, const void *src, const void *dst,
                                uint32_t most)
{
    size_t group_bytes = halo_type_row_bytes(type, n_cols) * HALO_CPU_GROUP;
    uint32_t n_groups = n_groups_of(n_rows);
    uintptr_t from = (uintptr_t)src, to = (uintptr_t)dst;
    if (to > from || from - to > group_bytes) /* a piece would write over more than the last group of the one before */
        return 1;
    return most < n_groups ? most : n_groups;
}

static uint32_t first_group(uint32_t n_groups, const struct halo_cpu_piece *piece, uint32_t i)
{
    return (uint32_t)((uint64_t)n_groups * i / piece->n);
}

void halo_cpu_piece_save(enum halo_type type, uint32_t n_cols, uint32_t n_rows, const void *src,
                         const struct halo_cpu_piece *piece)
{
    size_t group_bytes = halo_type_row_bytes(type, n_cols) * HALO_CPU_GROUP;
    uint32_t end = first_group(n_groups_of(n_rows), piece, piece->i + 1);
    if (piece->i + 1 < piece->n)
        memcpy(piece->saved, (const uint8_t *)src + (end - 1) * group_bytes, group_bytes);
}

void halo_cpu_piece_pack(enum halo_type type, uint32_t n_cols, uint32_t n_rows, const void *src, void *dst,
                         const struct halo_cpu_piece *piece, void *scratch)
{
    const struct halo_cpu_format *format = halo_cpu_format_of(type);
    size_t row_bytes = halo_type_row_bytes(type, n_cols), group_bytes = row_bytes * HALO_CPU_GROUP;
    uint32_t n_groups = n_groups_of(n_rows), end = first_group(n_groups, piece, piece->i + 1);
    for (uint32_t group = first_group(n_groups, piece, piece->i); group < end; group++) {
        bool is_saved = group + 1 == end && piece->i + 1 < piece->n;
        uint32_t left = n_rows - group * HALO_CPU_GROUP, n = left < HALO_CPU_GROUP ? left : HALO_CPU_GROUP;
        pack_rows(format, row_bytes, n_cols, n, is_saved ? piece->saved : (const uint8_t *)src + group * group_bytes,
                  (uint8_t *)dst + group * group_bytes, scratch);
    }
}
