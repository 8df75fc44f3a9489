/* gemm.h: the products of many rows: f16 matrix tiles with f32 sums. What the gemm and moe_gemm kernels of all types
 * share.
 *
 * A block of four waves computes ROWS rows of x by 128 weight rows. The K axis goes by slabs of 32, one unit: a thread
 * brings the unit of one weight row to f16, and all threads together copy the rows of x. Two slabs lie in LDS: while
 * the waves multiply one, the loads of the next are in flight, and they are expanded and stored after the products, so
 * that one barrier a slab is enough. Rows in LDS are 40 halves apart, which spreads the 16 rows of a tile over the
 * banks and keeps 16-byte alignment.
 *   ROWS = 128: a wave computes 64 x 64, 4 x 4 tiles; ROWS = 32: 32 x 32, 2 x 2 tiles.
 * In a tile A is x and B is the weights: neighbouring lanes hold neighbouring outputs of a row, which are stored
 * together.
 */
#ifndef HALO_GFX_GEMM_H
#define HALO_GFX_GEMM_H

#include "gemv.h"

constexpr uint32_t GEMM_SLAB = 32, GEMM_PITCH = 40, GEMM_THREADS = 128;

template <uint32_t ROWS> struct gemm_lds {
    alignas(16) uint16_t x[2][ROWS * GEMM_PITCH];
    alignas(16) uint16_t w[2][HALO_GEMM_COLS * GEMM_PITCH];
};

HALO_DEVICE uint32_t gemm_pair(float low, float high)
{
    return halo_float_half(low) | (uint32_t)halo_float_half(high) << 16;
}

/* A unit of a weight row: loaded early, brought to f16 late. */
template <uint32_t TYPE> struct gemm_weight {
    typedef halo_type_code<TYPE> code;
    typedef typename code::raw raw;
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &at, uint32_t u)
    {
        return code::load(row, at, u);
    }
    HALO_DEVICE void store(const raw &r, uint32_t u, uint16_t *to)
    {
        halo_unit w;
        uint32_t halves[16];
        code::expand(r, u, &w);
        halo_unit_halves<code>(w, halves);
#pragma unroll
        for (int i = 0; i < 16; i += 4)
            *reinterpret_cast<halo_u4 *>(to + 2 * i) =
                halo_u4{{halves[i], halves[i + 1], halves[i + 2], halves[i + 3]}};
    }
    static constexpr float FACTOR = HALO_HALVES_FACTOR; /* of what is stored */
};

template <uint32_t TYPE> struct gemm_plain {
    typedef gemv_plain_code<TYPE> code;
    static constexpr uint32_t N = GEMM_SLAB / code::CHUNK;
    static constexpr float FACTOR = 1;
    struct raw {
        halo_u4 e[N];
    };
    HALO_DEVICE raw load(const uint8_t *row, const halo_row_layout &, uint32_t u)
    {
        raw r;
        for (uint32_t i = 0; i < N; i++)
            r.e[i] = halo_load<halo_u4>(row, u * N + i);
        return r;
    }
    HALO_DEVICE void store(const raw &r, uint32_t, uint16_t *to)
    {
        for (uint32_t i = 0; i < GEMM_SLAB; i += 8) {
            halo_u4 v;
            for (uint32_t k = 0; k < 8; k += 2) {
                const halo_u4 &from = r.e[(i + k) / code::CHUNK];
                v.e[k / 2] =
                    gemm_pair(code::weight(from, (i + k) % code::CHUNK), code::weight(from, (i + k + 1) % code::CHUNK));
            }
            *reinterpret_cast<halo_u4 *>(to + i) = v;
        }
    }
};
template <> struct gemm_weight<HALO_TYPE_F32> : gemm_plain<HALO_TYPE_F32> {
};
template <> struct gemm_weight<HALO_TYPE_F16> : gemm_plain<HALO_TYPE_F16> {
};
template <> struct gemm_weight<HALO_TYPE_BF16> : gemm_plain<HALO_TYPE_BF16> {
};

/* Which rows of x and of out the block has: rows in order, or slots that a list names. */
struct gemm_job {
    const uint8_t *weight; /* row 0 */
    const float *bias;
    float *out;
    const uint16_t *half;
    const float *scale;
    const uint32_t *slot; /* NULL, or the list: row i of the block is slot[i] */
    uint32_t x_divisor;   /* with a list: the row of x is slot / x_divisor */
    uint32_t first_row, n_rows, first_col, n_weight_rows, n_cols, out_stride;
};

HALO_DEVICE uint32_t gemm_out_row(const gemm_job &job, uint32_t i)
{
    return job.slot ? job.slot[i] : job.first_row + i;
}

HALO_DEVICE uint32_t gemm_x_row(const gemm_job &job, uint32_t i)
{
    return gemm_out_row(job, i) / job.x_divisor;
}

/* Tiles of a wave: T x T of 16 x 16. */
template <uint32_t ROWS> constexpr int gemm_tiles = ROWS == 128 ? 4 : 2;

#if defined(HALO_NO_MATRIX)
/* Two halves of K at a time by dot products: the same sums in the same lanes. */
template <uint32_t ROWS>
HALO_DEVICE void gemm_products(const uint16_t *x, const uint16_t *w,
                               halo_acc (&acc)[gemm_tiles<ROWS>][gemm_tiles<ROWS>])
{
    constexpr int T = gemm_tiles<ROWS>;
    for (uint32_t k = 0; k < GEMM_SLAB; k += 2) {
        uint32_t b[T];
#pragma unroll
        for (int j = 0; j < T; j++)
            b[j] = *reinterpret_cast<const uint32_t *>(w + (16 * (uint32_t)j + halo_mma_col(0)) * GEMM_PITCH + k);
#pragma unroll
        for (int i = 0; i < T; i++)
#pragma unroll
            for (int v = 0; v < 8; v++) {
                const uint32_t a =
                    *reinterpret_cast<const uint32_t *>(x + (16 * (uint32_t)i + halo_mma_row(v)) * GEMM_PITCH + k);
#pragma unroll
                for (int j = 0; j < T; j++)
                    acc[i][j][v] = halo_dot2(a, b[j], acc[i][j][v]);
            }
    }
}
#else
template <uint32_t ROWS>
HALO_DEVICE void gemm_products(const uint16_t *x, const uint16_t *w,
                               halo_acc (&acc)[gemm_tiles<ROWS>][gemm_tiles<ROWS>])
{
    constexpr int T = gemm_tiles<ROWS>;
#pragma unroll
    for (uint32_t k = 0; k < GEMM_SLAB; k += 16) {
        halo_frag b[T];
#pragma unroll
        for (int j = 0; j < T; j++)
            b[j] = halo_mma_load(w + (uint32_t)j * 16 * GEMM_PITCH + k, GEMM_PITCH);
#pragma unroll
        for (int i = 0; i < T; i++) {
            const halo_frag a = halo_mma_load(x + (uint32_t)i * 16 * GEMM_PITCH + k, GEMM_PITCH);
#pragma unroll
            for (int j = 0; j < T; j++)
                acc[i][j] = halo_mma(a, b[j], acc[i][j]);
            halo_schedule_here();
        }
    }
}
#endif

template <uint32_t ROWS>
HALO_DEVICE void gemm_store(const gemm_job &job, float factor, uint32_t row0, uint32_t col0,
                            halo_acc (&acc)[gemm_tiles<ROWS>][gemm_tiles<ROWS>])
{
    constexpr int T = gemm_tiles<ROWS>;
#pragma unroll
    for (int i = 0; i < T; i++)
#pragma unroll
        for (int v = 0; v < 8; v++) {
            const uint32_t row = row0 + 16 * (uint32_t)i + halo_mma_row(v);
            if (row >= job.n_rows)
                continue;
            const float scale = job.scale[gemm_x_row(job, row)] * factor;
            float *out = job.out + (uint64_t)gemm_out_row(job, row) * job.out_stride;
#pragma unroll
            for (int j = 0; j < T; j++) {
                const uint32_t col = job.first_col + col0 + 16 * (uint32_t)j + halo_mma_col(v);
                if (col < job.n_weight_rows)
                    out[col] = halo_fma(acc[i][j][v], scale, job.bias ? job.bias[col] : 0);
            }
        }
}

/* SPARSE: many a tile has few rows: waves that have none multiply nothing. */
template <uint32_t TYPE, uint32_t ROWS, bool SPARSE> HALO_DEVICE void gemm(const gemm_job &job, gemm_lds<ROWS> &lds)
{
    typedef gemm_weight<TYPE> weight;
    constexpr int T = gemm_tiles<ROWS>;
    constexpr uint32_t COPIES = ROWS / 32; /* 16-byte chunks of x for a thread */
    const uint32_t t = halo_tid(), wave = halo_wave(), n_slabs = job.n_cols / GEMM_SLAB;
    const uint32_t row0 = ROWS == 128 ? wave / 2 * 64 : 0, col0 = ROWS == 128 ? wave % 2 * 64 : wave * 32;
    const halo_row_layout at = halo_hip_row_layout(TYPE, job.n_cols);
    const uint8_t *w_row = job.weight + (uint64_t)halo_min_of(job.first_col + t, job.n_weight_rows - 1) * at.stride;
    const uint16_t *x_row[COPIES];
#pragma unroll
    for (uint32_t i = 0; i < COPIES; i++)
        x_row[i] =
            job.half + (uint64_t)gemm_x_row(job, halo_min_of(t / 4 + 32 * i, job.n_rows - 1)) * job.n_cols + t % 4 * 8;
    halo_acc acc[T][T] = {};
    typename weight::raw raw = weight::load(w_row, at, 0);
    halo_u4 x[COPIES];
#pragma unroll
    for (uint32_t i = 0; i < COPIES; i++)
        x[i] = halo_load<halo_u4>(x_row[i]);
    for (uint32_t s = 0; s < n_slabs; s++) {
        uint16_t *lds_x = lds.x[s & 1], *lds_w = lds.w[s & 1];
        weight::store(raw, s, lds_w + t * GEMM_PITCH);
#pragma unroll
        for (uint32_t i = 0; i < COPIES; i++)
            *reinterpret_cast<halo_u4 *>(lds_x + (t / 4 + 32 * i) * GEMM_PITCH + t % 4 * 8) = x[i];
        halo_barrier();
        const uint32_t next = halo_min_of(s + 1, n_slabs - 1); /* the last is loaded twice: cheaper than a branch */
        raw = weight::load(w_row, at, next);
#pragma unroll
        for (uint32_t i = 0; i < COPIES; i++)
            x[i] = halo_load<halo_u4>(x_row[i] + next * GEMM_SLAB);
        if (!SPARSE || row0 < job.n_rows)
            gemm_products<ROWS>(lds_x + row0 * GEMM_PITCH, lds_w + col0 * GEMM_PITCH, acc);
    }
    gemm_store<ROWS>(job, 1 / weight::FACTOR, row0, col0, acc);
}

template <uint32_t TYPE, uint32_t ROWS> HALO_DEVICE void gemm_run(const halo_gemm_args &a, gemm_lds<ROWS> &lds)
{
    const uint32_t first = halo_block_x() * ROWS;
    const gemm_job job = {static_cast<const uint8_t *>(a.matrix.weight),
                          a.matrix.bias,
                          a.matrix.out,
                          a.half,
                          a.scale,
                          nullptr,
                          1,
                          first,
                          a.n_rows - first,
                          halo_block_y() * HALO_GEMM_COLS,
                          a.matrix.n_rows,
                          a.n_cols,
                          a.matrix.out_stride};
    gemm<TYPE, ROWS, false>(job, lds);
}

template <uint32_t TYPE, uint32_t ROWS> HALO_DEVICE void moe_gemm_run(const halo_moe_gemm_args &a, gemm_lds<ROWS> &lds)
{
    const halo_moe_tile tile = a.tile[halo_block_x()];
    if (tile.n_slots == 0)
        return;
    const uint32_t place = a.place ? a.place[tile.expert] : tile.expert;
    const gemm_job job = {static_cast<const uint8_t *>(a.matrix.weight) + place * a.matrix.expert_bytes,
                          a.matrix.bias ? a.matrix.bias + (uint64_t)tile.expert * a.matrix.n_rows : nullptr,
                          a.matrix.out,
                          a.half,
                          a.scale,
                          a.slot + tile.first,
                          a.per_slot ? 1 : a.n_used,
                          0,
                          tile.n_slots,
                          halo_block_y() * HALO_GEMM_COLS,
                          a.matrix.n_rows,
                          a.n_cols,
                          a.matrix.out_stride};
    gemm<TYPE, ROWS, (ROWS > HALO_MOE_TILE)>(job, lds);
}

typedef gemm_lds<32> gemm_lds_32;
typedef gemm_lds<128> gemm_lds_128;

#define HALO_GEMM_KERNELS(TYPE, type)                                                                                  \
    HALO_KERNEL(gemm_##type##_m32, halo_gemm_args, 128)                                                                \
    {                                                                                                                  \
        HALO_LDS(gemm_lds_32, lds);                                                                                    \
        gemm_run<HALO_TYPE_##TYPE>(a, lds);                                                                            \
    }                                                                                                                  \
    HALO_KERNEL(gemm_##type##_m128, halo_gemm_args, 128)                                                               \
    {                                                                                                                  \
        HALO_LDS(gemm_lds_128, lds);                                                                                   \
        gemm_run<HALO_TYPE_##TYPE>(a, lds);                                                                            \
    }                                                                                                                  \
    HALO_KERNEL(moe_gemm_##type, halo_moe_gemm_args, 128)                                                              \
    {                                                                                                                  \
        HALO_LDS(gemm_lds_32, lds);                                                                                    \
        moe_gemm_run<HALO_TYPE_##TYPE>(a, lds);                                                                        \
    }                                                                                                                  \
    HALO_KERNEL(moe_gemm_##type##_m128, halo_moe_gemm_args, 128)                                                       \
    {                                                                                                                  \
        HALO_LDS(gemm_lds_128, lds);                                                                                   \
        moe_gemm_run<HALO_TYPE_##TYPE>(a, lds);                                                                        \
    }

#endif
