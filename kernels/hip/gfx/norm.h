/* norm.h: RMS norms of whole rows: one block has a row, and four neighbours of every 4096 are a thread's. */
#ifndef HALO_GFX_NORM_H
#define HALO_GFX_NORM_H

#include "rows.h"

/* As many threads as a block can have, so that a usual row takes one pass. */
constexpr uint32_t NORM_THREADS = 1024, NORM_COLS = 4 * NORM_THREADS;
struct norm_lds {
    float part[NORM_THREADS / 32], most[NORM_THREADS / 32];
};

/* x = (x + add * add_scale) * x_scale */
HALO_DEVICE void norm_join(const halo_rmsnorm_args &a, const halo_f4 &add, halo_f4 *x)
{
    for (int j = 0; j < 4; j++)
        x->e[j] = halo_fma(add.e[j], a.add_scale, x->e[j]) * a.x_scale;
}

HALO_DEVICE float norm_squares(const halo_f4 &v, float sum)
{
    for (int j = 0; j < 4; j++)
        sum = halo_fma(v.e[j], v.e[j], sum);
    return sum;
}

/* The thread's elements from i on of the norm of the row at x. */
HALO_DEVICE halo_f4 norm_of(const halo_rmsnorm_args &a, const float *x, uint32_t i, float scale, halo_f4 v, halo_f4 w)
{
    if (a.n_cols > NORM_COLS) {
        v = halo_load4(x, i, a.n_cols);
        w = halo_load4_or_ones(a.weight, i, a.n_cols);
    }
    for (int j = 0; j < 4; j++)
        v.e[j] = v.e[j] * scale * w.e[j];
    return v;
}

/* The norm of the row at x, which stands there already. squares: the sum of the thread's; v, w: its elements of the row
 * and of the weight, where the row has no more than NORM_COLS. For all threads of the block. */
HALO_DEVICE void norm_leave(const halo_rmsnorm_args &a, const float *x, float squares, const halo_f4 &v,
                            const halo_f4 &w, norm_lds &lds)
{
    const uint32_t row = halo_block_x(), n = a.n_cols, first = halo_tid() * 4;
    squares = halo_wave_sum(squares);
    if (halo_lane() == 0)
        lds.part[halo_wave()] = squares;
    halo_barrier();
    const float scale = halo_rsqrt(halo_wave_sum(lds.part[halo_lane()]) / (float)n + a.eps);
    float most = 0;
    for (uint32_t i = first; i < first + n; i += NORM_COLS) {
        const halo_f4 y = norm_of(a, x, i, scale, v, w);
        if (a.out)
            halo_store4(a.out + (uint64_t)row * n, i, n, y);
        if (a.act)
            halo_quantize4(y, i, n, static_cast<uint8_t *>(a.act) + (uint64_t)row * halo_hip_act_bytes(n));
        most = halo_most4(y, most);
    }
    if (!a.half)
        return;
    most = halo_wave_max(most);
    if (halo_lane() == 0)
        lds.most[halo_wave()] = most;
    halo_barrier();
    const int shift = halo_half_shift(halo_wave_max(lds.most[halo_lane()]));
    for (uint32_t i = first; i < n; i += NORM_COLS)
        halo_store4_half(a.half + (uint64_t)row * n + i, norm_of(a, x, i, scale, v, w), halo_power2(-shift));
    if (first == 0)
        a.half_scale[row] = halo_power2(shift);
}

#endif
