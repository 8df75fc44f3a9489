/* matmul_int.c: the products of all quantized types. Compiled once for each vector instruction set.
 *
 * A slab of 32 columns is unpacked into registers once and multiplied with up to HALO_TILE activation rows; then come
 * the next 32 columns. Per output row there is one f32 accumulator, whatever the number of activation rows: that keeps
 * the bits the same. Activation rows go in tiles inside a group, so that the group's weights come from the cache for
 * all tiles but the first.
 */
#include <assert.h>

#include "act_priv.h"
#include "matmul_priv.h"
#include "panel_codes_priv.h"
#include "panel_priv.h"

#define HALO_DOT_ROWS 4 /* activation rows whose sums run side by side */
#define HALO_TILE 16

#if HALO_LANES == 16
#include "dot_avx512_priv.h"
#else
#include "dot_avx2_priv.h"
#endif

typedef void panel_fn(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret);

#if HALO_LANES == 8
#include "wide_avx2_priv.h"
#endif

/* What the rows of a tile have in common at one panel: everything but the activations. */
struct panel_terms {
    struct halo_dot dot;
    halo_vfloat scale, min;
    halo_vint min_pair;
};

HALO_INLINE void terms_load(const struct halo_panel_shape shape, panel_fn *unpack, const uint8_t *block, unsigned slab,
                            unsigned half, struct panel_terms *ret)
{
    struct halo_panel panel;
    unpack(block, slab, half * HALO_LANES * 4, &panel);
    dot_prepare(shape, &panel, &ret->dot);
    ret->scale = panel.scale;
    if (shape.min || shape.min_halves)
        ret->min = panel.min;
    if (shape.min_halves)
        ret->min_pair = v_or(panel.sub_min[0], v_sll32(panel.sub_min[1], 16));
}

/* acc[i] += panel * act[i] for n rows; the same order of roundings as slab_add() of the reference. */
HALO_INLINE void terms_add(const struct halo_panel_shape shape, const struct panel_terms *terms,
                           const struct halo_act_block *const *act, const unsigned n, halo_vfloat *acc)
{
    halo_vfloat part[HALO_DOT_ROWS];
    dot_run(shape, &terms->dot, act, n, part);
    for (unsigned i = 0; i < n; i++) {
        acc[i] = v_fma(part[i], v_fmul(terms->scale, v_fset(act[i]->d)), acc[i]);
        if (shape.min)
            acc[i] = v_fma(terms->min, v_fset(act[i]->dsum), acc[i]);
        if (shape.min_halves) {
            halo_vfloat min_part = v_float(v_madd16(terms->min_pair, v_set32(halo_load_i32(act[i]->sum16))));
            acc[i] = v_fnma(min_part, v_fmul(terms->min, v_fset(act[i]->d)), acc[i]);
        }
    }
}

/* One activation row: accumulators in registers, and the weights stream from memory. */
HALO_INLINE void run_one(const struct halo_panel_shape shape, panel_fn *unpack, uint32_t n_blocks, const uint8_t *block,
                         const struct halo_act_block *act, float *ret_sum)
{
    const unsigned packed_bytes = shape.block_bytes * HALO_CPU_GROUP;
    halo_vfloat acc[HALO_CPU_GROUP / HALO_LANES];
    for (unsigned half = 0; half < HALO_CPU_GROUP / HALO_LANES; half++)
        acc[half] = v_fzero();
    for (uint32_t b = 0; b < n_blocks; b++, block += packed_bytes) {
        if (HALO_LANES == 16 && shape.n_slabs == 1)
            halo_prefetch_first(block + HALO_PREFETCH_BYTES, packed_bytes);
        else
            halo_prefetch(block + HALO_PREFETCH_BYTES, packed_bytes);
        HALO_UNROLL
        for (unsigned slab = 0; slab < shape.n_slabs; slab++, act++) {
            for (unsigned half = 0; half < HALO_CPU_GROUP / HALO_LANES; half++) {
                struct panel_terms terms;
                const struct halo_act_block *a = act;
                const uint8_t *from = block;
                HALO_KEEP_SCALAR(a);
                HALO_KEEP_SCALAR(from);
                terms_load(shape, unpack, from, slab, half, &terms);
                terms_add(shape, &terms, &a, 1, &acc[half]);
            }
        }
    }
    for (unsigned half = 0; half < HALO_CPU_GROUP / HALO_LANES; half++)
        v_fstore(ret_sum + half * HALO_LANES, acc[half]);
}

HALO_INLINE void tile_add(const struct halo_panel_shape shape, const struct panel_terms *terms,
                          const struct halo_act_block *const *act, uint32_t at, const unsigned n,
                          float (*sum)[HALO_CPU_GROUP])
{
    const struct halo_act_block *a[HALO_DOT_ROWS];
    halo_vfloat acc[HALO_DOT_ROWS];
    for (unsigned i = 0; i < n; i++) {
        a[i] = act[i] + at;
        HALO_KEEP_SCALAR(a[i]);
        acc[i] = v_fload(sum[i]);
    }
    terms_add(shape, terms, a, n, acc);
    for (unsigned i = 0; i < n; i++)
        v_fstore(sum[i], acc[i]);
}

HALO_INLINE void run_tile(const struct halo_panel_shape shape, panel_fn *unpack, uint32_t n_blocks,
                          const uint8_t *block, const struct halo_act_block *const *act, unsigned n,
                          float (*sum)[HALO_CPU_GROUP])
{
    const unsigned packed_bytes = shape.block_bytes * HALO_CPU_GROUP, slab_bytes = packed_bytes / shape.n_slabs;
    for (uint32_t at = 0; at < n_blocks * shape.n_slabs; at++) {
        const uint8_t *from = block + (size_t)(at / shape.n_slabs) * packed_bytes;
        /* A slab's part of a block at a time: a whole block at once would fill the queues. */
        halo_prefetch(from + at % shape.n_slabs * slab_bytes + HALO_PREFETCH_BYTES, slab_bytes);
        for (unsigned half = 0; half < HALO_CPU_GROUP / HALO_LANES; half++) {
            struct panel_terms terms;
            terms_load(shape, unpack, from, at % shape.n_slabs, half, &terms);
            unsigned i = 0;
            for (; i + HALO_DOT_ROWS <= n; i += HALO_DOT_ROWS)
                tile_add(shape, &terms, act + i, at, HALO_DOT_ROWS,
                         (float(*)[HALO_CPU_GROUP])(sum[i] + half * HALO_LANES));
            for (; i < n; i++)
                tile_add(shape, &terms, act + i, at, 1, (float(*)[HALO_CPU_GROUP])(sum[i] + half * HALO_LANES));
        }
    }
}

HALO_INLINE void run_job(const struct halo_panel_shape shape, panel_fn *unpack, const struct halo_matmul_job *job)
{
#if HALO_LANES == 8
    if (wide_pays(shape, job->n_x)) {
        wide_run(shape, unpack, job);
        return;
    }
#endif
    const uint32_t n_blocks = job->w->n_cols / HALO_QK / shape.n_slabs;
    const struct halo_act_block *const *act = (const struct halo_act_block *const *)job->act;
    for (uint32_t g = job->first_group; g < job->first_group + job->n_groups; g++) {
        const uint8_t *packed = job->w->data + g * job->w->group_bytes;
        for (uint32_t first = 0; first < job->n_x; first += HALO_TILE) {
            _Alignas(64) float sum[HALO_TILE][HALO_CPU_GROUP];
            uint32_t left = job->n_x - first, n = left < HALO_TILE ? left : HALO_TILE;
            if (n == 1) {
                run_one(shape, unpack, n_blocks, packed, act[first], sum[0]);
            } else {
                memset(sum, 0, n * sizeof sum[0]);
                run_tile(shape, unpack, n_blocks, packed, act + first, n, sum);
            }
            for (uint32_t i = 0; i < n; i++)
                halo_matmul_store(job, g, first + i, sum[i]);
        }
    }
}

/* X(type, unpacker, shape: block_bytes, n_slabs, is_signed, offset_shift, top, halves, min, min_halves, float_halves)
 */
#define HALO_QUANTIZED_LIST(X)                                                                                         \
    X(Q4_0, q4_0, 18, 1, false, 3, 15, false, false, false)                                                            \
    X(Q4_1, q4_1, 20, 1, false, 0, 15, false, true, false)                                                             \
    X(Q5_0, q5_0, 22, 1, false, 4, 31, false, false, false)                                                            \
    X(Q5_1, q5_1, 24, 1, false, 0, 31, false, true, false)                                                             \
    X(Q8_0, q8_0, 34, 1, true, 0, 128, false, false, false)                                                            \
    X(IQ4_NL, iq4_nl, 18, 1, true, 0, 128, false, false, false)                                                        \
    X(MXFP4, mxfp4, 17, 1, false, 4, 28, false, false, false)                                                          \
    X(Q2_K, q2_k, 84, 8, false, 0, 3, true, false, true)                                                               \
    X(Q3_K, q3_k, 110, 8, false, 2, 7, true, false, false)                                                             \
    X(Q4_K, q4_k, 144, 8, false, 0, 15, false, true, false)                                                            \
    X(Q5_K, q5_k, 176, 8, false, 0, 31, false, true, false)                                                            \
    X(Q6_K, q6_k, 210, 8, false, 5, 63, true, false, false)                                                            \
    X(IQ4_XS, iq4_xs, 136, 8, true, 0, 128, false, false, false)                                                       \
    X(IQ1_S, iq1_s, 50, 8, false, 4, 25, false, false, false)                                                          \
    X(IQ1_M, iq1_m, 56, 8, false, 4, 25, true, false, false)                                                           \
    X(IQ2_XXS, iq2_xxs, 66, 8, true, 0, 43, false, false, false)                                                       \
    X(IQ2_XS, iq2_xs, 74, 8, true, 0, 43, true, false, false)                                                          \
    X(IQ2_S, iq2_s, 82, 8, true, 0, 43, true, false, false)                                                            \
    X(IQ3_XXS, iq3_xxs, 98, 8, true, 0, 62, false, false, false)                                                       \
    X(IQ3_S, iq3_s, 110, 8, true, 0, 15, false, false, false)                                                          \
    X(TQ1_0, tq1_0, 54, 8, false, 1, 4, false, false, false)                                                           \
    X(TQ2_0, tq2_0, 66, 8, false, 1, 6, false, false, false)                                                           \
    X(NVFP4, nvfp4, 36, 2, false, 4, 28, true, false, false, true)                                                     \
    X(Q1_0, q1_0, 18, 4, false, 1, 4, false, false, false)                                                             \
    X(Q2_0, q2_0, 18, 2, false, 1, 6, false, false, false)

#define X(ID, id, ...)                                                                                                 \
    static void matmul_##id(const struct halo_matmul_job *job)                                                         \
    {                                                                                                                  \
        run_job((struct halo_panel_shape){__VA_ARGS__}, panel_##id, job);                                              \
    }
HALO_QUANTIZED_LIST(X)
#undef X

halo_matmul_fn *HALO_SIMD(halo_matmul_find_int)(enum halo_type type)
{
    switch (type) {
#define X(ID, id, ...)                                                                                                 \
    case HALO_TYPE_##ID: return matmul_##id;
        HALO_QUANTIZED_LIST(X)
#undef X
    default: return NULL;
    }
}
