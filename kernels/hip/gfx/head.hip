/* head.hip: ops on the heads of q and k: their norm and their rotation. One wave to a head, in place. */
#include "gfx.h"

/* Head `index` of the row: first those of q, then those of k. There must be one: a pointer that may be null would have
 * FLAT loads. */
HALO_DEVICE float *head_at(float *q, float *k, uint32_t n_head, uint32_t n_head_kv, uint32_t dim, uint32_t index)
{
    const bool of_q = index < n_head;
    const uint64_t at = (uint64_t)halo_block_y() * (of_q ? n_head : n_head_kv) + (of_q ? index : index - n_head);
    return (of_q ? q : k) + at * dim;
}

HALO_KERNEL(qk_norm, halo_qk_norm_args, 256)
{
    const uint32_t index = halo_block_x() * HALO_HEAD_WAVES + halo_wave(), dim = a.head_dim;
    if (index >= a.n_head + a.n_head_kv)
        return;
    float *x = head_at(a.q, a.k, a.n_head, a.n_head_kv, dim, index);
    const float *weight = index < a.n_head ? a.q_weight : a.k_weight;
    const uint32_t first = index < a.n_head ? index * a.q_step : 0;
    float sum = 0;
    for (uint32_t i = halo_lane(); i < dim; i += 32)
        sum = halo_fma(x[i], x[i], sum);
    const float scale = halo_rsqrt(halo_wave_sum(sum) / (float)dim + a.eps);
    for (uint32_t i = halo_lane(); i < dim; i += 32)
        x[i] = x[i] * scale * (weight ? weight[first + i] : 1.0f);
}

/* `step` lies between the elements of a pair, `next` between pairs. */
HALO_DEVICE void rotate(const halo_rope_args &a, uint32_t step, uint32_t next)
{
    const uint32_t index = halo_block_x() * HALO_HEAD_WAVES + halo_wave();
    if (index >= a.n_head + a.n_head_kv)
        return;
    float *x = head_at(a.q, a.k, a.n_head, a.n_head_kv, a.head_dim, index);
    const uint32_t n = a.n_rot / 2;
    const float *table = a.table + (uint64_t)halo_block_y() * a.n_rot;
    for (uint32_t i = halo_lane(); i < n; i += 32) {
        float cosine = table[i], sine = table[n + i], left = x[next * i], right = x[next * i + step];
        x[next * i] = left * cosine - right * sine;
        x[next * i + step] = left * sine + right * cosine;
    }
}

HALO_KERNEL(rope_norm, halo_rope_args, 256)
{
    rotate(a, 1, 2);
}

HALO_KERNEL(rope_neox, halo_rope_args, 256)
{
    rotate(a, a.n_rot / 2, 1);
}
