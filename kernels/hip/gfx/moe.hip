/* moe.hip: choosing experts, grouping their work, and adding their results up. The products are in gemv.h and
 * gemm.h. */
#include "order.h"
#include "rows.h"

constexpr int PER_LANE = HALO_MOE_EXPERTS_MAX / 32;

HALO_KERNEL(moe_route, halo_moe_route_args, 32)
{
    const uint32_t row = halo_block_x(), lane = halo_lane();
    const float *logits = a.logits + (uint64_t)row * a.n_expert;
    float *choice = a.choice + (uint64_t)row * 2 * a.n_used;
    uint32_t order[PER_LANE];
    for (int j = 0; j < PER_LANE; j++) {
        const uint32_t e = lane + 32 * (uint32_t)j;
        order[j] = e < a.n_expert ? order_of(logits[e]) : 0;
    }
    float top = 0, chosen = 0, all = 0;
    for (uint32_t s = 0; s < a.n_used; s++) {
        uint32_t best = 0, id = UINT32_MAX;
        for (int j = 0; j < PER_LANE; j++)
            if (order[j] > best) {
                best = order[j];
                id = lane + 32 * (uint32_t)j;
            }
        wave_best(&best, &id);
        for (int j = 0; j < PER_LANE; j++)
            order[j] = id == lane + 32 * (uint32_t)j ? 0 : order[j];
        if (s == 0) { /* the first is the largest: the softmax of all is relative to it */
            top = logits[id];
            for (uint32_t e = lane; e < a.n_expert; e += 32)
                all += halo_exp(logits[e] - top);
            all = halo_wave_sum(all);
        }
        const float weight = halo_exp(logits[id] - top) / all;
        chosen += weight;
        if (lane == 0) {
            choice[s] = weight;
            choice[a.n_used + s] = halo_bits_float(id);
        }
    }
    const float factor = a.normalise ? a.scale / chosen : a.scale;
    for (uint32_t s = 0; s < a.n_used && lane == 0; s++)
        choice[s] *= factor;
}

struct group_lds {
    uint32_t first[HALO_MOE_EXPERTS_MAX + 1], tile[HALO_MOE_EXPERTS_MAX + 1];
};

HALO_DEVICE uint32_t expert_of(const halo_moe_group_args &a, uint32_t slot)
{
    return halo_float_bits(a.choice[(slot / a.n_used * 2 + 1) * a.n_used + slot % a.n_used]);
}

/* Each expert's thread reads all choices: no atomics, so the order of the slots is always the same. */
HALO_KERNEL(moe_group, halo_moe_group_args, 256)
{
    HALO_LDS(group_lds, lds);
    for (uint32_t e = halo_tid(); e < a.n_expert; e += 256) {
        uint32_t n = 0;
        for (uint32_t s = 0; s < a.n_slots; s++)
            n += expert_of(a, s) == e;
        lds.first[e + 1] = n;
    }
    halo_barrier();
    if (halo_tid() == 0) {
        lds.first[0] = lds.tile[0] = 0;
        for (uint32_t e = 0; e < a.n_expert; e++) {
            lds.tile[e + 1] = lds.tile[e] + HALO_HIP_CEIL(lds.first[e + 1], HALO_MOE_TILE);
            lds.first[e + 1] += lds.first[e];
        }
    }
    halo_barrier();
    for (uint32_t e = halo_tid(); e < a.n_expert; e += 256) {
        uint32_t at = lds.first[e], end = lds.first[e + 1], tile = lds.tile[e];
        for (uint32_t s = 0; s < a.n_slots && at < end; s++)
            if (expert_of(a, s) == e)
                a.slot[at++] = s;
        for (at = lds.first[e]; at < end; at += HALO_MOE_TILE, tile++)
            a.tile[tile] = halo_moe_tile{e, at, halo_min_of(end - at, (uint32_t)HALO_MOE_TILE)};
    }
    for (uint32_t t = lds.tile[a.n_expert] + halo_tid(); t < a.n_tiles; t += 256)
        a.tile[t] = halo_moe_tile{0, 0, 0};
}

HALO_KERNEL(moe_sum, halo_moe_sum_args, 256)
{
    const uint32_t row = halo_block_y(), n = a.n_cols, i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    const float *x = a.x + (uint64_t)row * a.n_used * n, *weight = a.choice + (uint64_t)row * 2 * a.n_used;
    halo_f4 sum = {{0, 0, 0, 0}};
    for (uint32_t s = 0; s < a.n_used; s++) {
        halo_f4 v = halo_load4(x + (uint64_t)s * n, i, n);
        for (int j = 0; j < 4; j++)
            sum.e[j] = halo_fma(weight[s], v.e[j], sum.e[j]);
    }
    halo_store4(a.out + (uint64_t)row * n, i, n, sum);
}
