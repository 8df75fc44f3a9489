/* heads.h: norm and rotation of one head of q or k by a wave.
 *
 * Lane l has elements l, l + 32, ... of the head, N of them, zero behind its end; the rotated head stands in LDS.
 * Tables of the host and weights are loaded separately (head_tables), so that they can be in flight before the head is
 * there.
 */
#ifndef HALO_GFX_HEADS_H
#define HALO_GFX_HEADS_H

#include "gfx.h"

template <int N> struct head_tables {
    float weight[N], cosine[N / 2], sine[N / 2];
};

template <int N>
HALO_DEVICE void load_tables(const float *weight, uint32_t dim, const float *table, uint32_t n_rot, head_tables<N> *ret)
{
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t d = halo_lane() + 32 * i;
        ret->weight[i] = weight && d < dim ? weight[d] : 0;
    }
    for (uint32_t i = 0; i < N / 2; i++) {
        const uint32_t pair = halo_lane() + 32 * i;
        ret->cosine[i] = pair < n_rot / 2 ? table[pair] : 1;
        ret->sine[i] = pair < n_rot / 2 ? table[n_rot / 2 + pair] : 0;
    }
}

template <int N> HALO_DEVICE void load_head(const float *from, uint32_t dim, float *ret)
{
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t d = halo_lane() + 32 * i;
        ret[i] = d < dim ? from[d] : 0;
    }
}

template <int N> HALO_DEVICE void norm_head(const head_tables<N> &tables, uint32_t dim, float eps, float *head)
{
    float sum = 0;
    for (int i = 0; i < N; i++)
        sum = halo_fma(head[i], head[i], sum);
    const float scale = halo_rsqrt(halo_wave_sum(sum) / (float)dim + eps);
    for (int i = 0; i < N; i++)
        head[i] = head[i] * scale * tables.weight[i];
}

/* Into x in LDS, which has n elements. */
template <int N> HALO_DEVICE void leave_head(const float *head, uint32_t n, float *x)
{
    for (uint32_t i = 0; i < N; i++)
        if (halo_lane() + 32 * i < n)
            x[halo_lane() + 32 * i] = head[i];
    halo_wave_barrier();
}

template <int N> HALO_DEVICE void rotate_head(const head_tables<N> &tables, uint32_t n_rot, bool neox, float *x)
{
    const uint32_t n = n_rot / 2, step = neox ? n : 1, next = neox ? 1 : 2;
    for (uint32_t k = 0; k < N / 2; k++) {
        const uint32_t i = halo_lane() + 32 * k;
        if (i < n) {
            const float left = x[next * i], right = x[next * i + step];
            x[next * i] = left * tables.cosine[k] - right * tables.sine[k];
            x[next * i + step] = left * tables.sine[k] + right * tables.cosine[k];
        }
    }
    halo_wave_barrier();
}

#endif
