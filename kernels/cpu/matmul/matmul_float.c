/* matmul_float.c: the products of F32, F16 and BF16 weights. Compiled once for each vector instruction set.
 *
 * Chunks of 32 columns are summed from zero and the chunk sums added in order. So chunks are independent, and the bits
 * are the same however many chunks and activation rows run side by side. With few rows the weights are widened as they
 * come from memory, and several chunks run side by side to hide the latency of the fma. With more rows the weights of
 * some chunks are widened once, by the first tile of up to HALO_TILE rows, into a buffer that stays in the first cache
 * for the tiles behind it.
 */
#include <assert.h>
#include <stdbool.h>

#include <kernels/quant.h>

#include "matmul_priv.h"
#include "simd_priv.h"

#define HALO_HALVES (HALO_CPU_GROUP / HALO_LANES)
#define HALO_SIDE (HALO_LANES == 16 ? 8 : 4) /* chunk sums side by side: HALO_HALVES registers each */
#define HALO_FEW (HALO_LANES == 16 ? 8 : 4)  /* activation rows that are too few for tiles */
#define HALO_TILE (HALO_LANES == 16 ? 8 : 6) /* activation rows: with AVX2, 12 sums leave 4 registers of 16 */
#define HALO_WIDE_COLS 64                    /* columns that are widened together */
#define HALO_PASS_ROWS 96                    /* activation rows for which they are widened once */

typedef halo_vfloat widen_fn(const uint8_t *row, unsigned half);

HALO_INLINE halo_vfloat widen_f32(const uint8_t *row, unsigned half)
{
    return v_fload((const float *)row + half * HALO_LANES);
}

HALO_INLINE halo_vfloat widen_f16(const uint8_t *row, unsigned half)
{
    return v_f16(row + half * HALO_LANES * 2);
}

HALO_INLINE halo_vfloat widen_bf16(const uint8_t *row, unsigned half)
{
    return v_from_bits(v_sll32(v_u16(row + half * HALO_LANES * 2), 16));
}

/* n_chunks chunks of n_cols columns times n_x rows, all side by side, and added to sum[i]. column_bytes: of 16 rows.
 * The chunks are as many streams, but the memory is asked for what follows them in one, in the order of addresses. */
HALO_INLINE void chunks_add(widen_fn *widen, const unsigned column_bytes, const uint8_t *packed, const float *const *x,
                            uint32_t first, uint32_t n_cols, const unsigned n_chunks, const unsigned n_x,
                            float (*sum)[HALO_CPU_GROUP])
{
    halo_vfloat part[HALO_SIDE][HALO_HALVES];
    for (unsigned p = 0; p < n_chunks * n_x; p++)
        for (unsigned half = 0; half < HALO_HALVES; half++)
            part[p][half] = v_fzero();
    const uint8_t *column = packed + (size_t)first * column_bytes;
    const uint8_t *ahead = column + n_chunks * HALO_QK * column_bytes + HALO_PREFETCH_BYTES / 2;
    for (uint32_t k = 0; k < n_cols; k++, column += column_bytes, ahead += n_chunks * column_bytes) {
        halo_prefetch(ahead, n_chunks * column_bytes);
        for (unsigned c = 0; c < n_chunks; c++) {
            halo_vfloat w[HALO_HALVES];
            for (unsigned half = 0; half < HALO_HALVES; half++)
                w[half] = widen(column + c * HALO_QK * column_bytes, half);
            for (unsigned i = 0; i < n_x; i++) {
                halo_vfloat value = v_fset(x[i][first + c * HALO_QK + k]);
                for (unsigned half = 0; half < HALO_HALVES; half++)
                    part[c * n_x + i][half] = v_fma(w[half], value, part[c * n_x + i][half]);
            }
        }
    }
    for (unsigned i = 0; i < n_x; i++)
        for (unsigned half = 0; half < HALO_HALVES; half++) {
            float *to = sum[i] + half * HALO_LANES;
            halo_vfloat acc = v_fload(to);
            for (unsigned c = 0; c < n_chunks; c++)
                acc = v_fadd(acc, part[c * n_x + i][half]);
            v_fstore(to, acc);
        }
}

HALO_INLINE uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* All columns of a group times n_x rows. */
HALO_INLINE void run_rows(widen_fn *widen, const unsigned column_bytes, const uint8_t *packed, uint32_t n_cols,
                          const float *const *x, const unsigned n_x, float (*sum)[HALO_CPU_GROUP])
{
    const unsigned n_chunks = HALO_SIDE / n_x;
    uint32_t col = 0;
    for (; col + n_chunks * HALO_QK <= n_cols; col += n_chunks * HALO_QK)
        chunks_add(widen, column_bytes, packed, x, col, HALO_QK, n_chunks, n_x, sum);
    for (; col < n_cols; col += HALO_QK)
        chunks_add(widen, column_bytes, packed, x, col, least(n_cols - col, HALO_QK), 1, n_x, sum);
}

/* X(n): up to HALO_FEW rows. */
#if HALO_LANES == 16
#define HALO_FEW_LIST(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#else
#define HALO_FEW_LIST(X) X(1) X(2) X(3) X(4)
#endif

HALO_INLINE void run_few(widen_fn *widen, const unsigned column_bytes, const struct halo_matmul_job *job)
{
    const float *const *x = (const float *const *)job->act;
    for (uint32_t g = job->first_group; g < job->first_group + job->n_groups; g++) {
        const uint8_t *packed = job->w->data + g * job->w->group_bytes;
        _Alignas(64) float sum[HALO_FEW][HALO_CPU_GROUP] = {{0}};
        switch (job->n_x) {
#define X(n)                                                                                                           \
    case n: run_rows(widen, column_bytes, packed, job->w->n_cols, x, n, sum); break;
            HALO_FEW_LIST(X)
#undef X
        default: assert(!"a few rows");
        }
        for (uint32_t i = 0; i < job->n_x; i++)
            halo_matmul_store(job, g, i, sum[i]);
    }
}

/* Where a tile has its weights from. Always constants. */
struct tile_source {
    widen_fn *widen;
    unsigned column_bytes; /* of 16 rows */
    bool streams;          /* from memory: what follows is asked for */
    bool keeps;            /* what was widened, for the tiles behind */
};

/* One chunk of columns, or what is left of it, of one group times n_x rows, added to sum[i]. */
HALO_INLINE void tile_add(const struct tile_source source, const uint8_t *from, float (*wide)[HALO_CPU_GROUP],
                          const float *const *x, uint32_t first, uint32_t n_cols, const unsigned n_x,
                          float (*sum)[HALO_CPU_GROUP])
{
    halo_vfloat part[HALO_TILE][HALO_HALVES];
    const float *at[HALO_TILE];
    for (unsigned i = 0; i < n_x; i++) {
        at[i] = x[i] + first;
        HALO_KEEP_SCALAR(at[i]);
        for (unsigned half = 0; half < HALO_HALVES; half++)
            part[i][half] = v_fzero();
    }
    for (uint32_t k = 0; k < n_cols; k++, from += source.column_bytes) {
        halo_vfloat w[HALO_HALVES];
        if (source.streams)
            halo_prefetch(from + HALO_PREFETCH_BYTES, source.column_bytes);
        for (unsigned half = 0; half < HALO_HALVES; half++) {
            w[half] = source.widen(from, half);
            if (source.keeps)
                v_fstore(wide[k] + half * HALO_LANES, w[half]);
        }
        for (unsigned i = 0; i < n_x; i++) {
            halo_vfloat value = v_fset(at[i][k]);
            for (unsigned half = 0; half < HALO_HALVES; half++)
                part[i][half] = v_fma(w[half], value, part[i][half]);
        }
    }
    for (unsigned i = 0; i < n_x; i++)
        for (unsigned half = 0; half < HALO_HALVES; half++) {
            float *to = sum[i] + half * HALO_LANES;
            v_fstore(to, v_fadd(v_fload(to), part[i][half]));
        }
}

/* X(n): the tiles that more than HALO_FEW rows are cut into, as even as can be. */
#if HALO_LANES == 16
#define HALO_TILE_LIST(X) X(4) X(5) X(6) X(7) X(8)
#else
#define HALO_TILE_LIST(X) X(3) X(4) X(5) X(6)
#endif

HALO_INLINE void tile_run(const struct tile_source source, const uint8_t *from, float (*wide)[HALO_CPU_GROUP],
                          const float *const *x, uint32_t first, uint32_t n_cols, uint32_t n_x,
                          float (*sum)[HALO_CPU_GROUP])
{
    for (uint32_t c = 0; c < n_cols; c += HALO_QK, from += HALO_QK * source.column_bytes) {
        uint32_t now = least(n_cols - c, HALO_QK);
        switch (n_x) {
#define X(n)                                                                                                           \
    case n: tile_add(source, from, wide + c, x, first + c, now, n, sum); break;
            HALO_TILE_LIST(X)
#undef X
        default: assert(!"a tile");
        }
    }
}

/* The tiles behind the first. */
static void wide_tile_run(const void *wide, const float *const *x, uint32_t first, uint32_t n_cols, uint32_t n_x,
                          float (*sum)[HALO_CPU_GROUP])
{
    tile_run((struct tile_source){.widen = widen_f32, .column_bytes = 64}, wide, NULL, x, first, n_cols, n_x, sum);
}

/* All columns of a group times up to HALO_PASS_ROWS rows. F32 weights are as wide as they will be. */
HALO_INLINE void run_pass(widen_fn *widen, const unsigned column_bytes, const uint8_t *packed, uint32_t all_cols,
                          const float *const *x, uint32_t n_x, float (*sum)[HALO_CPU_GROUP])
{
    _Alignas(64) float wide[HALO_WIDE_COLS][HALO_CPU_GROUP];
    const bool keeps = widen != widen_f32;
    const struct tile_source memory = {widen, column_bytes, .streams = true, .keeps = keeps};
    const uint32_t n_tiles = (n_x + HALO_TILE - 1) / HALO_TILE;
    memset(sum, 0, n_x * sizeof(sum[0]));
    for (uint32_t col = 0; col < all_cols; col += HALO_WIDE_COLS, packed += HALO_WIDE_COLS * column_bytes) {
        uint32_t n_cols = least(all_cols - col, HALO_WIDE_COLS), row = (n_x + n_tiles - 1) / n_tiles;
        tile_run(memory, packed, wide, x, col, n_cols, row, sum);
        for (uint32_t t = 1, n; t < n_tiles; t++, row += n) {
            n = n_x / n_tiles + (t < n_x % n_tiles);
            wide_tile_run(keeps ? (const void *)wide : packed, x + row, col, n_cols, n, sum + row);
        }
    }
}

HALO_INLINE void run_job(widen_fn *widen, const unsigned column_bytes, const struct halo_matmul_job *job)
{
    if (job->n_x <= HALO_FEW) {
        run_few(widen, column_bytes, job);
        return;
    }
    const float *const *x = (const float *const *)job->act;
    const uint32_t n_passes = (job->n_x + HALO_PASS_ROWS - 1) / HALO_PASS_ROWS;
    for (uint32_t g = job->first_group; g < job->first_group + job->n_groups; g++) {
        const uint8_t *packed = job->w->data + g * job->w->group_bytes;
        for (uint32_t p = 0, first = 0, n; p < n_passes; p++, first += n) {
            _Alignas(64) float sum[HALO_PASS_ROWS][HALO_CPU_GROUP];
            n = job->n_x / n_passes + (p < job->n_x % n_passes);
            run_pass(widen, column_bytes, packed, job->w->n_cols, x + first, n, sum);
            for (uint32_t i = 0; i < n; i++)
                halo_matmul_store(job, g, first + i, sum[i]);
        }
    }
}

static void matmul_f32(const struct halo_matmul_job *job)
{
    run_job(widen_f32, 64, job);
}

static void matmul_f16(const struct halo_matmul_job *job)
{
    run_job(widen_f16, 32, job);
}

static void matmul_bf16(const struct halo_matmul_job *job)
{
    run_job(widen_bf16, 32, job);
}

halo_matmul_fn *HALO_SIMD(halo_matmul_find)(enum halo_type type)
{
    switch (type) {
    case HALO_TYPE_F32: return matmul_f32;
    case HALO_TYPE_F16: return matmul_f16;
    case HALO_TYPE_BF16: return matmul_bf16;
    default: return HALO_SIMD(halo_matmul_find_int)(type);
    }
}
