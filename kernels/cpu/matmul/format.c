/* format.c: the table of packed layouts, and what follows from it: sizes, views, single blocks. Pure functions. */
#include <assert.h>
#include <string.h>

#include "format_priv.h"

#define FORMAT(ID, weights, bytes, ...) [HALO_TYPE_##ID] = {weights, bytes, {__VA_ARGS__}}

static const struct halo_cpu_format halo_cpu_formats[HALO_TYPE_END] = {
    FORMAT(F32, 1, 4, {0, 4, 1}), FORMAT(F16, 1, 2, {0, 2, 1}), FORMAT(BF16, 1, 2, {0, 2, 1}),
    FORMAT(Q4_0, 32, 18, {2, 4, 4}, {0, 2, 1}),                                 /* qs; d */
    FORMAT(Q4_1, 32, 20, {4, 4, 4}, {0, 2, 2}),                                 /* qs; d, m */
    FORMAT(Q5_0, 32, 22, {6, 4, 4}, {2, 4, 1, HALO_TURN_BITS}, {0, 2, 1}),      /* qs; qh; d */
    FORMAT(Q5_1, 32, 24, {8, 4, 4}, {4, 4, 1, HALO_TURN_BITS}, {0, 2, 2}),      /* qs; qh; d, m */
    FORMAT(Q8_0, 32, 34, {2, 4, 8}, {0, 2, 1}),                                 /* qs; d */
    FORMAT(IQ4_NL, 32, 18, {2, 4, 4}, {0, 2, 1}),                               /* qs; d */
    FORMAT(MXFP4, 32, 17, {1, 4, 4}, {0, 1, 1}),                                /* qs; e */
    FORMAT(Q2_K, 256, 84, {16, 4, 16}, {0, 4, 4}, {80, 2, 2}),                  /* qs; scales; d, dmin */
    FORMAT(Q3_K, 256, 110, {32, 4, 16}, {0, 4, 8}, {96, 4, 3}, {108, 2, 1}),    /* qs; hmask; scales; d */
    FORMAT(Q4_K, 256, 144, {16, 4, 32}, {4, 4, 3}, {0, 2, 2}),                  /* qs; scales; d, dmin */
    FORMAT(Q5_K, 256, 176, {48, 4, 32}, {16, 4, 8}, {4, 4, 3}, {0, 2, 2}),      /* qs; qh; scales; d, dmin */
    FORMAT(Q6_K, 256, 210, {0, 4, 32}, {128, 4, 16}, {192, 4, 4}, {208, 2, 1}), /* ql; qh; scales; d */
    FORMAT(IQ4_XS, 256, 136, {8, 4, 32}, {4, 4, 1}, {0, 2, 2}),                 /* qs; scales_l; d, scales_h */
    FORMAT(IQ1_S, 256, 50, {2, 4, 8}, {34, 4, 4}, {0, 2, 1}),                   /* qs; qh; d */
    FORMAT(IQ1_M, 256, 56, {0, 4, 8}, {32, 4, 4}, {48, 4, 2}),                  /* qs; qh; sc */
    /* grid indices; signs and scale; d */
    FORMAT(IQ2_XXS, 256, 66, {2, 4, 8, HALO_TURN_NONE, 8}, {6, 4, 8, HALO_TURN_SIGNS, 8}, {0, 2, 1}),
    FORMAT(IQ2_XS, 256, 74, {2, 8, 8, HALO_TURN_IQ2_XS}, {66, 4, 2}, {0, 2, 1}),          /* qs; scales; d */
    FORMAT(IQ2_S, 256, 82, {2, 4, 8}, {34, 4, 8, HALO_TURN_BITS}, {66, 4, 4}, {0, 2, 1}), /* qs; signs; qh, scales; d */
    FORMAT(IQ3_XXS, 256, 98, {2, 4, 16}, {66, 4, 8, HALO_TURN_SIGNS}, {0, 2, 1}),         /* qs; words; d */
    /* qs; qh; signs; scales; d */
    FORMAT(IQ3_S, 256, 110, {2, 4, 16}, {66, 4, 2}, {74, 4, 8, HALO_TURN_BITS}, {106, 4, 1}, {0, 2, 1}),
    FORMAT(TQ1_0, 256, 54, {0, 4, 12}, {48, 4, 1}, {52, 2, 1}),  /* qs; qh; d */
    FORMAT(TQ2_0, 256, 66, {0, 4, 16}, {64, 2, 1}),              /* qs; d */
    FORMAT(NVFP4, 64, 36, {4, 4, 8}, {0, 4, 1, HALO_TURN_E4M3}), /* qs; e */
    FORMAT(Q1_0, 128, 18, {2, 4, 4, HALO_TURN_BITS}, {0, 2, 1}), /* qs; d */
    FORMAT(Q2_0, 64, 18, {2, 4, 4, HALO_TURN_PAIRS}, {0, 2, 1}), /* qs; d */
};

const struct halo_cpu_format *halo_cpu_format_of(enum halo_type type)
{
    if ((unsigned)type >= HALO_TYPE_END || halo_cpu_formats[type].block_weights == 0)
        return NULL;
    return &halo_cpu_formats[type];
}

static void turn_back_at(const struct halo_cpu_segment *s, uint8_t *unit)
{
    uint32_t words[2] = {0};
    memcpy(words, unit, s->unit);
    halo_cpu_turn_back(s->turn, &words[0], &words[1]);
    memcpy(unit, words, s->unit);
}

void halo_cpu_block_gather(const struct halo_cpu_format *format, const uint8_t *packed, uint32_t row, void *ret_block)
{
    assert(row < HALO_CPU_GROUP);
    for (const struct halo_cpu_segment *s = format->segments; s < format->segments + HALO_CPU_SEGMENTS && s->count;
         s++) {
        /* What is turned lies as words. */
        const uint32_t n_parts = s->turn && s->unit > 4 ? s->unit / 4u : 1, part = s->unit / n_parts;
        for (uint32_t i = 0; i < s->count; i++) {
            uint8_t *to = (uint8_t *)ret_block + s->offset + i * halo_cpu_unit_stride(s);
            for (uint32_t k = 0; k < n_parts; k++)
                memcpy(to + k * part, packed + ((i * n_parts + k) * HALO_CPU_GROUP + row) * part, part);
            if (s->turn)
                turn_back_at(s, to);
        }
        packed += (uint32_t)s->count * s->unit * HALO_CPU_GROUP;
    }
}

bool halo_cpu_matrix_fits(enum halo_type type, uint32_t n_cols)
{
    const struct halo_cpu_format *format = halo_cpu_format_of(type);
    return format && n_cols > 0 && n_cols % format->block_weights == 0;
}

uint64_t halo_cpu_matrix_scratch_bytes(enum halo_type type, uint32_t n_cols)
{
    assert(halo_cpu_matrix_fits(type, n_cols));
    return halo_cpu_spread_bytes(halo_type_row_bytes(type, n_cols)) * HALO_CPU_GROUP;
}

/* A group of 16 rows, packed or in the file. */
static uint64_t group_bytes(enum halo_type type, uint32_t n_cols)
{
    assert(halo_cpu_matrix_fits(type, n_cols));
    return halo_type_row_bytes(type, n_cols) * HALO_CPU_GROUP;
}

static uint32_t group_count(uint32_t n_rows)
{
    return n_rows / HALO_CPU_GROUP + (n_rows % HALO_CPU_GROUP != 0);
}

uint64_t halo_cpu_matrix_bytes(enum halo_type type, uint32_t n_cols, uint32_t n_rows)
{
    return group_bytes(type, n_cols) * group_count(n_rows);
}

void halo_cpu_matrix_init(struct halo_cpu_matrix *matrix, enum halo_type type, uint32_t n_cols, uint32_t n_rows,
                          const void *packed)
{
    assert(halo_cpu_matrix_fits(type, n_cols));
    *matrix = (struct halo_cpu_matrix){.type = type,
                                       .n_cols = n_cols,
                                       .n_rows = n_rows,
                                       .n_groups = group_count(n_rows),
                                       .group_bytes = group_bytes(type, n_cols),
                                       .data = packed,
                                       .scale = 1};
}

void halo_cpu_matrix_row(const struct halo_cpu_matrix *matrix, uint32_t row, float *out)
{
    assert(row < matrix->n_rows);
    const struct halo_cpu_format *format = halo_cpu_format_of(matrix->type);
    const uint8_t *packed = matrix->data + row / HALO_CPU_GROUP * matrix->group_bytes;
    _Alignas(8) uint8_t block[HALO_CPU_BLOCK_MAX];
    for (uint32_t col = 0; col < matrix->n_cols; col += format->block_weights) {
        halo_cpu_block_gather(format, packed, row % HALO_CPU_GROUP, block);
        halo_cpu_block_dequantize(matrix->type, block, out + col);
        packed += (uint32_t)format->block_bytes * HALO_CPU_GROUP;
    }
    for (uint32_t col = 0; matrix->scale != 1 && col < matrix->n_cols; col++)
        out[col] *= matrix->scale;
}
