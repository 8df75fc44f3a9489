/* gemv_wave.h: what the waves of all gemv kernels share: how many rows they make, and where sums go. */
#ifndef HALO_GFX_GEMV_WAVE_H
#define HALO_GFX_GEMV_WAVE_H

#include "units_grid.h"

template <uint32_t TYPE>
constexpr bool gemv_plain_type = TYPE == HALO_TYPE_F32 || TYPE == HALO_TYPE_F16 || TYPE == HALO_TYPE_BF16;
template <uint32_t TYPE, int N> constexpr int gemv_wave_rows = HALO_GEMV_WAVE_ROWS(gemv_plain_type<TYPE>, N);

/* The wave's sums into out, [x row][out_stride]; sum (r, j) leaves from lane r * N + j. */
template <int R, int N>
HALO_DEVICE void gemv_store(float acc[R][N], const float *bias, float *out, uint32_t out_stride, uint32_t row,
                            uint32_t n_weight_rows, uint32_t n_rows)
{
    float mine = 0;
    for (int r = 0; r < R; r++)
        for (int j = 0; j < N; j++) {
            float sum = halo_wave_sum(acc[r][j]);
            mine = halo_lane() == (uint32_t)(r * N + j) ? sum : mine;
        }
    const uint32_t r = halo_lane() / N, j = halo_lane() % N;
    if (r < R && row + r < n_weight_rows && j < n_rows)
        out[(uint64_t)j * out_stride + row + r] = bias ? mine + bias[row + r] : mine;
}

#endif
