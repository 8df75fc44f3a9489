/* heads.hip: what happens to the heads of q, k and v between their product and attention, in one launch: norm,
 * rotation, cache.
 *
 * A wave has one head, and keeps it in LDS of its own between the steps.
 */
#include "kv_store.h"

struct heads_lds { float x[HALO_HEAD_WAVES][HALO_HEADS_DIM]; };

HALO_DEVICE void norm_head(float *x, const float *weight, uint32_t dim, float eps)
{
    float sum = 0;
    for (uint32_t i = halo_lane(); i < dim; i += 32)
        sum = halo_fma(x[i], x[i], sum);
    const float scale = halo_rsqrt(halo_wave_sum(sum) / (float)dim + eps);
    for (uint32_t i = halo_lane(); i < dim; i += 32)
        x[i] = x[i] * scale * weight[i];
    halo_wave_barrier();
}

HALO_DEVICE void rotate_head(float *x, const halo_heads_args &a, uint32_t row)
{
    const uint32_t n = a.n_rot / 2, step = a.neox ? n : 1, next = a.neox ? 1 : 2;
    const float *table = a.table + (uint64_t)row * a.n_rot;
    for (uint32_t i = halo_lane(); i < n; i += 32) {
        const float cosine = table[i], sine = table[n + i], left = x[next * i], right = x[next * i + step];
        x[next * i] = left * cosine - right * sine;
        x[next * i + step] = left * sine + right * cosine;
    }
    halo_wave_barrier();
}

template <uint32_t TYPE> HALO_DEVICE void heads(const halo_heads_args &a, float *x)
{
    const uint32_t n_kv = a.kv.n_head_kv, dim = a.kv.head_dim_k, row = halo_block_y();
    const uint32_t index = halo_block_x() * HALO_HEAD_WAVES + halo_wave();
    if (index >= a.n_head + 2 * n_kv)
        return;
    const bool is_q = index < a.n_head, is_v = index >= a.n_head + n_kv;
    const uint32_t head = is_q ? index : is_v ? index - a.n_head - n_kv : index - a.n_head;
    const uint64_t at = ((uint64_t)row * (is_q ? a.n_head : n_kv) + head) * dim;
    const float *from = (is_q ? a.q : is_v ? a.v : a.k) + at;
    for (uint32_t i = halo_lane(); i < dim; i += 32)
        x[i] = from[i];
    halo_wave_barrier();
    if (!is_v) {
        float *back = (is_q ? a.q : a.k) + at;
        if (a.q_weight)
            norm_head(x, is_q ? a.q_weight : a.k_weight, dim, a.eps);
        rotate_head(x, a, row);
        for (uint32_t i = halo_lane(); i < dim; i += 32)
            back[i] = x[i];
    }
    const int32_t pos = a.kv.pos[row];
    if (is_q || pos < 0)
        return;
    uint8_t *page = kv_page(a.kv, row, (uint32_t)pos);
    if (is_v)
        store_head<TYPE, true>(kv_head_v<TYPE>(a.kv, page, head), x, dim, (uint32_t)pos % KV_PAGE, 0, 32);
    else
        store_head<TYPE, false>(kv_head_k<TYPE>(a.kv, page, head), x, dim, (uint32_t)pos % KV_PAGE, 0, 32);
}

#define HALO_HEADS_KERNEL(TYPE, type)                                                                                  \
    HALO_KERNEL(heads_##type, halo_heads_args, 256)                                                                    \
    {                                                                                                                  \
        HALO_LDS(heads_lds, lds);                                                                                      \
        heads<HALO_KV_##TYPE>(a, lds.x[halo_wave()]);                                                                  \
    }
HALO_HEADS_KERNEL(F32, f32)
HALO_HEADS_KERNEL(F16, f16)
HALO_HEADS_KERNEL(Q8, q8)
