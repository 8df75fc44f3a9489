/* matmul_float.c: the products of F32, F16 and BF16 weights. Compiled once for each vector instruction set.
 *
 * Chunks of 32 columns are summed from zero and the chunk sums added in order. So chunks are independent: with few
 * activation rows several chunks run side by side to hide the latency of the fma, with many rows the rows do, and the
 * bits are the same. A widened weight serves all rows of a tile.
 */
#include <kernels/quant.h>

#include "matmul_priv.h"
#include "simd_priv.h"

#define HALO_HALVES (HALO_CPU_GROUP / HALO_LANES)
#define HALO_SIDE (HALO_LANES == 16 ? 8 : 4) /* chunk sums side by side: HALO_HALVES registers each */

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

/* n_chunks chunks of n_cols columns times n_x rows, all side by side, and added to sum[i]. column_bytes: of 16 rows. The
 * chunks are as many streams, but the memory is asked for what follows them in one, in the order of the addresses. */
HALO_INLINE void chunks_add(widen_fn *widen, const unsigned column_bytes, const uint8_t *packed, const float *const *x,
                            uint32_t first, uint32_t n_cols, const unsigned n_chunks, const unsigned n_x,
                            float (*sum)[HALO_CPU_GROUP])
{
    halo_vfloat part[HALO_SIDE][HALO_HALVES];
    for (unsigned p = 0; p < n_chunks * n_x; p++)
        for (unsigned half = 0; half < HALO_HALVES; half++)
            part[p][half] = v_fzero();
    const uint8_t *column = packed + (size_t)first * column_bytes, *ahead = column + n_chunks * HALO_QK * column_bytes;
    for (uint32_t k = 0; k < n_cols; k++, column += column_bytes, ahead += n_chunks * column_bytes) {
        halo_prefetch(ahead, n_chunks * column_bytes, HALO_PREFETCH_SECOND);
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

/* All columns of a group times n_x rows. */
HALO_INLINE void run_rows(widen_fn *widen, const unsigned column_bytes, const uint8_t *packed, uint32_t n_cols,
                          const float *const *x, const unsigned n_x, float (*sum)[HALO_CPU_GROUP])
{
    const unsigned n_chunks = HALO_SIDE / n_x;
    uint32_t col = 0;
    for (; col + n_chunks * HALO_QK <= n_cols; col += n_chunks * HALO_QK)
        chunks_add(widen, column_bytes, packed, x, col, HALO_QK, n_chunks, n_x, sum);
    for (; col < n_cols; col += HALO_QK)
        chunks_add(widen, column_bytes, packed, x, col, n_cols - col < HALO_QK ? n_cols - col : HALO_QK, 1, n_x, sum);
}

HALO_INLINE void run_job(widen_fn *widen, const unsigned column_bytes, const struct halo_matmul_job *job)
{
    const float *const *x = (const float *const *)job->act;
    for (uint32_t g = job->first_group; g < job->first_group + job->n_groups; g++) {
        const uint8_t *packed = job->w->data + g * job->w->group_bytes;
        for (uint32_t first = 0, n; first < job->n_x; first += n) {
            _Alignas(64) float sum[HALO_SIDE][HALO_CPU_GROUP] = {{0}};
            uint32_t left = job->n_x - first;
            n = left >= HALO_SIDE ? HALO_SIDE : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            if (n == HALO_SIDE)
                run_rows(widen, column_bytes, packed, job->w->n_cols, x + first, HALO_SIDE, sum);
            else if (n == 4)
                run_rows(widen, column_bytes, packed, job->w->n_cols, x + first, 4, sum);
            else if (n == 2)
                run_rows(widen, column_bytes, packed, job->w->n_cols, x + first, 2, sum);
            else
                run_rows(widen, column_bytes, packed, job->w->n_cols, x + first, 1, sum);
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
