/* gemm_store.h: what a block of gemm.h computes, and where its sums go: to rows of f32, or, of gate and up together,
 * through the activation of a GLU to rows of f16.
 *
 * A block has two times 64 weight rows: neighbours of one matrix, or the same rows of gate and of up. A wave has as
 * many of the first half as of the second, so its lanes hold gate and up of the same outputs.
 */
#ifndef HALO_GFX_GEMM_STORE_H
#define HALO_GFX_GEMM_STORE_H

#include "glu.h"
#include "rows.h"

constexpr uint32_t GEMM_HALF = HALO_GEMM_COLS / 2;

/* Which rows of x and of out the block has: rows in order, or slots that a list names. */
struct gemm_job {
    const uint8_t *weight[2]; /* row 0, of each half of the block's weight rows */
    /* Of two matrices, the second where `second`: chosen where they are used, since registers are short. */
    const float *bias[2];
    float *out[2];
    bool second;
    uint32_t bias_at;
    const uint16_t *half;
    const float *scale;
    const uint32_t *slot; /* NULL, or the list: row i of the block is slot[i] */
    uint32_t x_divisor;   /* with a list: the row of x is slot / x_divisor */
    uint32_t first_row, n_rows, col[2], n_weight_rows, n_cols, out_stride; /* col: the first weight row of each half */
    halo_glu_arg glu;                                                      /* glu.half NULL: sums go to out */
};

HALO_DEVICE uint32_t gemm_out_row(const gemm_job &job, uint32_t i)
{
    return job.slot ? job.slot[i] : job.first_row + i;
}

HALO_DEVICE uint32_t gemm_x_row(const gemm_job &job, uint32_t i)
{
    return gemm_out_row(job, i) / job.x_divisor;
}

/* Weight row i of a half; behind the last one, the last. */
HALO_DEVICE const uint8_t *gemm_weight_row(const gemm_job &job, uint32_t half, uint32_t i, uint32_t stride)
{
    const uint32_t row = halo_min_of((half ? job.col[1] : job.col[0]) + i, job.n_weight_rows - 1);
    return (half ? job.weight[1] : job.weight[0]) + (uint64_t)row * stride;
}

/* Tiles of 16 x 16 that a wave has: M of rows, N of weight rows. */
constexpr int GEMM_N = HALO_GEMM_WAVE_COLS / 16, GEMM_M = HALO_GEMM_ROWS / 16 * 2 / GEMM_N;
typedef halo_acc gemm_sums[GEMM_M][GEMM_N];

/* The first weight row, among those of the block, of a wave's column j of tiles; col0: of its first in either half. */
HALO_DEVICE uint32_t gemm_w_row(uint32_t col0, int j)
{
    return col0 + (uint32_t)(j / (GEMM_N / 2)) * GEMM_HALF + (uint32_t)(j % (GEMM_N / 2)) * 16;
}

/* The same in the matrix. */
HALO_DEVICE uint32_t gemm_out_col(const gemm_job &job, uint32_t col0, int j)
{
    return job.col[j / (GEMM_N / 2)] + col0 + (uint32_t)(j % (GEMM_N / 2)) * 16;
}

/* Loads of a row of tiles are all under way before the first is used. */
HALO_DEVICE void gemm_store(const gemm_job &job, float factor, uint32_t row0, uint32_t col0, gemm_sums &acc)
{
    const float *from = job.second ? job.bias[1] : job.bias[0];
    float *to = job.second ? job.out[1] : job.out[0], bias[GEMM_N][8] = {};
    if (from)
#pragma unroll
        for (int j = 0; j < GEMM_N; j++)
#pragma unroll
            for (int v = 0; v < 8; v++) {
                const uint32_t col = gemm_out_col(job, col0, j) + halo_mma_col(v);
                bias[j][v] = from[job.bias_at + halo_min_of(col, job.n_weight_rows - 1)];
            }
#pragma unroll
    for (int i = 0; i < GEMM_M; i++) {
        const uint32_t first = row0 + 16 * (uint32_t)i;
        if (first >= job.n_rows)
            break;
        uint32_t at[8];
        float scale[8];
#pragma unroll
        for (int v = 0; v < 8; v++)
            at[v] = gemm_out_row(job, halo_min_of(first + halo_mma_row(v), job.n_rows - 1));
#pragma unroll
        for (int v = 0; v < 8; v++)
            scale[v] = job.scale[at[v] / job.x_divisor] * factor;
#pragma unroll
        for (int v = 0; v < 8; v++) {
            if (first + halo_mma_row(v) >= job.n_rows)
                continue;
            float *out = to + (uint64_t)at[v] * job.out_stride;
#pragma unroll
            for (int j = 0; j < GEMM_N; j++) {
                const uint32_t col = gemm_out_col(job, col0, j) + halo_mma_col(v);
                if (col < job.n_weight_rows)
                    out[col] = halo_fma(acc[i][j][v], scale[v], bias[j][v]);
            }
        }
    }
}

/* How a wave brings its sums to lanes that have a row and HALO_GLU_SEGMENT neighbouring outputs: by way of LDS, TILES
 * rows of tiles at a time, rows of COLS of gate and as many of up. */
struct gemm_turn {
    static constexpr uint32_t COLS = GEMM_N / 2 * 16, SEGMENTS = COLS / HALO_GLU_SEGMENT, PITCH = 2 * COLS + 4;
    static constexpr int TILES = 2 / SEGMENTS;
    static constexpr uint32_t WAVE = 16 * TILES * PITCH; /* floats */
};

/* Four neighbours of a bias, or zeros. */
HALO_DEVICE halo_f4 gemm_bias4(const float *bias, uint32_t i)
{
    return bias ? halo_load<halo_f4>(bias + i) : halo_f4{{0, 0, 0, 0}};
}

/* What a lane makes of the wave's sums in LDS: HALO_GLU_SEGMENT outputs of a row. */
HALO_DEVICE void gemm_activate(const gemm_job &job, float factor, uint32_t row0, uint32_t col0, float *sums)
{
    typedef gemm_turn turn;
    const uint32_t r = halo_lane() / turn::SEGMENTS, segment = halo_lane() % turn::SEGMENTS;
    const uint32_t col = job.col[0] + col0 + segment * HALO_GLU_SEGMENT;
    if (row0 + r >= job.n_rows || col >= job.n_weight_rows)
        return;
    const uint32_t row = gemm_out_row(job, row0 + r);
    const float scale = job.scale[row / job.x_divisor] * factor;
    float *mine = sums + r * turn::PITCH + segment * HALO_GLU_SEGMENT, most = 0;
#pragma unroll 1 /* the code of all activations once */
    for (uint32_t k = 0; k < HALO_GLU_SEGMENT; k += 4) {
        halo_f4 gate = halo_load<halo_f4>(mine + k);
        const halo_f4 up = halo_load<halo_f4>(mine + turn::COLS + k);
        const halo_f4 gate_bias = gemm_bias4(job.bias[0], job.bias_at + col + k);
        const halo_f4 up_bias = gemm_bias4(job.bias[1], job.bias_at + col + k);
#pragma unroll
        for (int e = 0; e < 4; e++)
            gate.e[e] = activated_by(job.glu.act, halo_fma(gate.e[e], scale, gate_bias.e[e]),
                                     halo_fma(up.e[e], scale, up_bias.e[e]), job.glu.limit);
        most = halo_most4(gate, most);
        *reinterpret_cast<halo_f4 *>(mine + k) = gate;
    }
    const int shift = halo_half_shift(most);
    uint16_t *half = job.glu.half + (uint64_t)row * job.n_weight_rows + col;
    job.glu.shift[(uint64_t)row * (job.n_weight_rows / HALO_GLU_SEGMENT) + col / HALO_GLU_SEGMENT] = (uint8_t)shift;
#pragma unroll
    for (uint32_t k = 0; k < HALO_GLU_SEGMENT; k += 4)
        halo_store4_half(half + k, halo_load<halo_f4>(mine + k), halo_power2(-shift));
}

/* lds: free for all waves, each of which has a part of its own. */
HALO_DEVICE void gemm_store_glu(const gemm_job &job, float factor, uint32_t row0, uint32_t col0, gemm_sums &acc,
                                float *lds)
{
    typedef gemm_turn turn;
    float *sums = lds + halo_wave() * turn::WAVE;
#pragma unroll 1
    for (int turns = 0; turns < GEMM_M; turns += turn::TILES) {
#pragma unroll
        for (int i = 0; i < GEMM_M; i++) /* acc stays in registers: each i is code of its own */
            if (i / turn::TILES * turn::TILES == turns)
#pragma unroll
                for (int j = 0; j < GEMM_N; j++)
#pragma unroll
                    for (int v = 0; v < 8; v++)
                        sums[((uint32_t)(i % turn::TILES) * 16 + halo_mma_row(v)) * turn::PITCH + 16 * (uint32_t)j +
                             halo_mma_col(v)] = acc[i][j][v];
        halo_wave_barrier();
        gemm_activate(job, factor, row0 + 16 * (uint32_t)turns, col0, sums);
        halo_wave_barrier();
    }
}

#endif
