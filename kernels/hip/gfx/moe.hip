/* moe.hip: choosing experts, grouping their work, and adding their results up. The products are in gemv.h and
 * gemm.h. */
#include "norm.h"
#include "plain.h"
#include "route.h"

HALO_KERNEL(moe_route, halo_moe_route_args, 32)
{
    route_row(a, halo_block_x());
}

HALO_KERNEL(moe_route_scored, halo_moe_route_args, 32)
{
    route_row_scored(a, halo_block_x());
}

HALO_KERNEL_EARLY(moe_router, halo_moe_router_args, 256)
{
    HALO_LDS(router_lds, lds);
    router<false>(a, lds);
}

HALO_KERNEL_EARLY(moe_router_scored, halo_moe_router_args, 256)
{
    HALO_LDS(router_lds, lds);
    router<true>(a, lds);
}

constexpr uint32_t GROUP_THREADS = 256, GROUP_WAVES = GROUP_THREADS / 32;

struct group_lds {
    uint32_t own[GROUP_WAVES], below[GROUP_WAVES];
};

HALO_DEVICE uint32_t expert_of(const halo_moe_group_args &a, uint32_t slot)
{
    const uint32_t row = slot / a.n_used, at = slot % a.n_used;
    return a.choice ? halo_float_bits(a.choice[(row * 2 + 1) * a.n_used + at]) : at;
}

template <int M> HALO_DEVICE uint32_t with_other(uint32_t v, bool add)
{
    const uint32_t other = (uint32_t)halo_xor<M>((int)v);
    return add ? v + other : v | other;
}

/* The sum over the wave, or the bits that any lane has. */
HALO_DEVICE uint32_t of_wave(uint32_t v, bool add)
{
    v = with_other<16>(v, add);
    v = with_other<8>(v, add);
    v = with_other<4>(v, add);
    v = with_other<2>(v, add);
    return with_other<1>(v, add);
}

/* The first tile of an expert that `below` slots of lower ones are in front of: behind as many tiles as those can fill,
 * and one for the rest of each. No two experts share one, whatever the others have. */
HALO_DEVICE uint32_t first_tile(uint32_t expert, uint32_t below)
{
    return below / HALO_GEMM_ROWS + halo_min_of(expert, below);
}

/* The slots of the block's expert behind those of lower ones, in their order: a wave looks at a part of all slots and
 * knows from the counts of the others where its own begin. No atomics, so the order is always the same. */
HALO_KERNEL(moe_group, halo_moe_group_args, 256)
{
    HALO_LDS(group_lds, lds);
    const uint32_t e = halo_block_x(), lane = halo_lane(), wave = halo_wave();
    const uint32_t part = HALO_HIP_CEIL(a.n_slots, GROUP_THREADS) * 32, from = halo_min_of(wave * part, a.n_slots),
                   end = halo_min_of(from + part, a.n_slots);
    uint32_t own = 0, below = 0;
    for (uint32_t s = from + lane; s < end; s += 32) {
        const uint32_t expert = expert_of(a, s);
        own += expert == e;
        below += expert < e;
    }
    own = of_wave(own, true);
    below = of_wave(below, true);
    if (lane == 0) {
        lds.own[wave] = own;
        lds.below[wave] = below;
    }
    halo_barrier();
    uint32_t before = 0;
    own = below = 0;
    for (uint32_t w = 0; w < GROUP_WAVES; w++) {
        before += w < wave ? lds.own[w] : 0;
        own += lds.own[w];
        below += lds.below[w];
    }
    for (uint32_t first = from, at = below + before; first < end; first += 32) {
        const uint32_t s = first + lane;
        const bool mine = s < end && expert_of(a, s) == e;
        const uint32_t lanes = of_wave(mine ? 1u << lane : 0, false);
        if (mine)
            a.slot[at + (uint32_t)__builtin_popcount(lanes & ((1u << lane) - 1))] = s;
        at += (uint32_t)__builtin_popcount(lanes);
    }
    const uint32_t first = first_tile(e, below),
                   behind = e + 1 == a.n_expert ? a.n_tiles : first_tile(e + 1, below + own);
    for (uint32_t t = first + halo_tid(); t < behind; t += GROUP_THREADS) {
        const uint32_t at = (t - first) * HALO_GEMM_ROWS;
        a.tile[t] = halo_moe_tile{e, below + at, at < own ? halo_min_of(own - at, (uint32_t)HALO_GEMM_ROWS) : 0};
    }
}

constexpr uint32_t SUM_SLOTS = 8; /* whose loads are in flight together */

/* Elements i .. i + 3 of a row of n, at the end the last again; i < n. WHOLE: n is a multiple of four. */
template <bool WHOLE> HALO_DEVICE halo_f4 load4_inside(const float *x, uint32_t i, uint32_t n)
{
    if constexpr (WHOLE)
        return halo_load<halo_f4>(x + i);
    const uint32_t last = n - 1;
    return halo_f4{{x[i], x[halo_min_of(i + 1, last)], x[halo_min_of(i + 2, last)], x[halo_min_of(i + 3, last)]}};
}

/* Beyond the last slot, that slot is loaded again and not added. */
template <bool WHOLE> HALO_DEVICE halo_f4 sum_slots(const halo_moe_sum_args &a, uint32_t row, uint32_t i)
{
    const uint32_t n = a.n_cols, last = a.n_used - 1;
    const float *x = a.x + (uint64_t)row * a.n_used * n, *weight = a.choice + (uint64_t)row * 2 * a.n_used;
    halo_f4 sum = {{0, 0, 0, 0}};
    for (uint32_t first = 0; first < a.n_used; first += SUM_SLOTS) {
        halo_f4 v[SUM_SLOTS];
        float w[SUM_SLOTS];
#pragma unroll
        for (uint32_t k = 0; k < SUM_SLOTS; k++) {
            const uint32_t s = halo_min_of(first + k, last);
            w[k] = weight[s];
            v[k] = load4_inside<WHOLE>(x + (uint64_t)s * n, i, n);
        }
#pragma unroll
        for (uint32_t k = 0; k < SUM_SLOTS; k++)
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                sum.e[j] = first + k < a.n_used ? halo_fma(w[k], v[k].e[j], sum.e[j]) : sum.e[j];
    }
    if (a.add) {
        const halo_f4 v = load4_inside<WHOLE>(a.add + (uint64_t)row * n, i, n);
        const float gate = a.add_gate ? halo_sigmoid(a.add_gate[row]) : 1;
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            sum.e[j] = halo_fma(gate, v.e[j], sum.e[j]);
    }
    return sum;
}

HALO_KERNEL(moe_sum, halo_moe_sum_args, 256)
{
    const uint32_t i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    if (i >= a.n_cols)
        return;
    const halo_f4 sum =
        a.n_cols % 4 == 0 ? sum_slots<true>(a, halo_block_y(), i) : sum_slots<false>(a, halo_block_y(), i);
    halo_store4(a.out + (uint64_t)halo_block_y() * a.n_cols, i, a.n_cols, sum);
}

HALO_KERNEL_EARLY(moe_sum_norm, halo_moe_sum_norm_args, 1024)
{
    HALO_LDS(norm_lds, lds);
    const uint32_t row = halo_block_x(), n = a.norm.n_cols, first = halo_tid() * 4;
    const halo_f4 w = halo_load4_or_ones(a.norm.weight, first, n);
    halo_inputs_ready();
    float *x = a.norm.x + (uint64_t)row * n, squares = 0;
    halo_f4 v = {{0, 0, 0, 0}};
    for (uint32_t i = first; i < n; i += NORM_COLS) {
        const halo_f4 sum = sum_slots<true>(a.sum, row, i);
        if (a.joins) {
            v = halo_load4(x, i, n);
            norm_join(a.norm, sum, &v);
        } else {
            v = sum;
        }
        halo_store4(x, i, n, v);
        squares = norm_squares(v, squares);
    }
    norm_leave(a.norm, x, squares, v, w, lds);
}

HALO_KERNEL(moe_scale, halo_moe_scale_args, 256)
{
    const uint32_t slot = halo_block_y(), i = halo_block_x() * HALO_QUANTIZE_COLS + halo_tid() * 4;
    if (i >= a.n_cols)
        return;
    const uint64_t row = halo_block_z();
    const uint32_t expert = a.choice ? halo_float_bits(a.choice[row * 2 * a.n_used + a.n_used + slot]) : slot;
    const float scale = a.scale[expert];
    float *x = a.x + (row * a.n_used + slot) * a.n_cols;
    halo_f4 v = halo_load4(x, i, a.n_cols);
    for (uint32_t j = 0; j < 4; j++)
        v.e[j] *= scale;
    halo_store4(x, i, a.n_cols, v);
}
