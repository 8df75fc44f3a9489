/* moe.hip: choosing experts, grouping their work, and adding their results up. The products are in gemv.h and
 * gemm.h. */
#include "norm.h"
#include "order.h"
#include "plain.h"

/* The largest of the wave's logits that are left, which is then taken. */
template <uint32_t PARTS> HALO_DEVICE void take_best(uint32_t *order, uint32_t *ret_best, uint32_t *ret_id)
{
    const uint32_t lane = halo_lane();
    uint32_t best = order[0], id = lane;
#pragma unroll
    for (uint32_t j = 1; j < PARTS; j++)
        best = best > order[j] ? best : order[j];
#pragma unroll
    for (uint32_t j = PARTS; j-- > 0;)
        id = order[j] == best ? lane + 32 * j : id;
    wave_best(&best, &id);
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++)
        order[j] = id == lane + 32 * j ? 0 : order[j];
    *ret_best = best;
    *ret_id = id;
}

/* Two sums over the wave, their steps interleaved. */
template <int M> HALO_DEVICE void add_both(float *x, float *y)
{
    const float more_x = halo_xor<M>(*x), more_y = halo_xor<M>(*y);
    *x += more_x;
    *y += more_y;
}
HALO_DEVICE void sum_both(float *x, float *y)
{
    add_both<16>(x, y);
    add_both<8>(x, y);
    add_both<4>(x, y);
    add_both<2>(x, y);
    add_both<1>(x, y);
}

/* A wave has the logits of a row in registers, lane l those of experts l, l + 32, and so on: PARTS of them, enough for
 * all. Lane l keeps slots l, l + 32, and so on; those before the last 32 wait in memory for their factor. */
template <uint32_t PARTS> HALO_DEVICE void route(const halo_moe_route_args &a, uint32_t row)
{
    const uint32_t lane = halo_lane(), last = a.n_expert - 1, ready = (a.n_used - 1) / 32 * 32;
    const float *logits = a.logits + (uint64_t)row * a.n_expert;
    float *choice = a.choice + (uint64_t)row * 2 * a.n_used + lane;
    float logit[PARTS], top = 0, all = 0, chosen = 0;
    uint32_t order[PARTS], kept = 0, kept_id = 0; /* order 0: taken, or no expert */
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++) /* every lane loads: loads behind a branch would wait for each other */
        logit[j] = logits[halo_min_of(lane + 32 * j, last)];
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++) {
        order[j] = order_of(logit[j]);
        order[j] = lane + 32 * j <= last ? order[j] : 0;
    }
    for (uint32_t s = 0; s < a.n_used; s++) {
        uint32_t best, id;
        if (s > 0 && s % 32 == 0) {
            const float power = halo_exp(logit_of(kept) - top);
            chosen += power;
            choice[s - 32] = power;
            choice[a.n_used + s - 32] = halo_bits_float(kept_id);
        }
        take_best<PARTS>(order, &best, &id);
        top = s == 0 ? logit_of(best) : top; /* the softmax is relative to the largest */
        kept = lane == s % 32 ? best : kept;
        kept_id = lane == s % 32 ? id : kept_id;
    }
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++) {
        const float power = halo_exp(logit[j] - top);
        all += lane + 32 * j <= last ? power : 0;
    }
    const float power = halo_exp(logit_of(kept) - top);
    chosen += ready + lane < a.n_used ? power : 0;
    sum_both(&all, &chosen);
    /* A NaN among the logits is in `all`, and makes every weight one. */
    const float whole = a.normalise && all == all ? chosen : all;
    for (uint32_t s = 0; s < ready; s += 32)
        choice[s] = choice[s] / whole * a.scale;
    if (ready + lane < a.n_used) {
        choice[ready] = power / whole * a.scale;
        choice[a.n_used + ready] = halo_bits_float(kept_id);
    }
}

HALO_DEVICE void route_row(const halo_moe_route_args &a, uint32_t row)
{
    if (a.n_expert <= 128)
        route<4>(a, row);
    else
        route<HALO_MOE_EXPERTS_MAX / 32>(a, row);
}

HALO_KERNEL(moe_route, halo_moe_route_args, 32)
{
    route_row(a, halo_block_x());
}

enum { GATE_SOFTMAX, GATE_SIGMOID, GATE_SQRT_SOFTPLUS }; /* enum halo_moe_gate */

/* ln(1 + t), 0 <= t <= 1: the series of the area tangent, which keeps the digits of a small t. */
HALO_DEVICE float log_1_plus(float t)
{
    const float s = t * halo_rcp(2 + t), q = s * s;
    float sum = halo_fma(q, 1.0f / 11, 1.0f / 9);
    sum = halo_fma(q, sum, 1.0f / 7);
    sum = halo_fma(q, sum, 1.0f / 5);
    sum = halo_fma(q, sum, 1.0f / 3);
    return 2 * s * halo_fma(q, sum, 1);
}

/* The score of a logit, of softmax before it is divided. */
HALO_DEVICE float score_of(uint32_t gate, float logit, float top)
{
    if (gate == GATE_SOFTMAX)
        return halo_exp(logit - top);
    if (gate == GATE_SIGMOID)
        return halo_sigmoid(logit);
    const float plus = halo_max(logit, 0) + log_1_plus(halo_exp(-halo_abs(logit)));
    return plus == 0 ? 0 : plus * halo_rsqrt(plus);
}

/* Takes the experts of all groups but the best out of the choice. Lane g has the rank of group g. */
template <uint32_t PARTS> HALO_DEVICE void keep_groups(const halo_moe_route_args &a, uint32_t *order)
{
    const uint32_t lane = halo_lane(), size = a.n_expert / a.n_groups;
    uint32_t rank = 0, mask = 0;
    for (uint32_t g = 0; g < a.n_groups; g++) {
        uint32_t members[PARTS], best, second, id;
#pragma unroll
        for (uint32_t j = 0; j < PARTS; j++)
            members[j] = (lane + 32 * j) / size == g ? order[j] : 0;
        take_best<PARTS>(members, &best, &id);
        take_best<PARTS>(members, &second, &id);
        const uint32_t sum = order_of(logit_of(best) + logit_of(second));
        rank = lane == g ? sum : rank;
    }
    for (uint32_t k = 0; k < a.n_groups_used; k++) {
        uint32_t best = rank, id = lane;
        wave_best(&best, &id);
        rank = lane == id ? 0 : rank;
        mask |= 1u << id;
    }
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++)
        order[j] = (lane + 32 * j) / size < a.n_groups && mask >> (lane + 32 * j) / size % 32 & 1 ? order[j] : 0;
}

/* As route(), with scores other than a softmax, chosen by more than the logit or by the row's token. */
template <uint32_t PARTS> HALO_DEVICE void route_scored(const halo_moe_route_args &a, uint32_t row)
{
    const uint32_t lane = halo_lane(), last = a.n_expert - 1, ready = (a.n_used - 1) / 32 * 32;
    const float *logits = a.logits + (uint64_t)row * a.n_expert;
    float *choice = a.choice + (uint64_t)row * 2 * a.n_used + lane;
    const uint64_t by_token = a.table ? (uint64_t)a.token[row] * a.n_used : 0;
    float score[PARTS], kept = 0, all = 0, chosen = 0;
    uint32_t order[PARTS], top = 0, kept_id = 0;
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++) {
        score[j] = logits[halo_min_of(lane + 32 * j, last)];
        top = order_of(score[j]) > top ? order_of(score[j]) : top;
    }
    top = halo_wave_most(top);
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++) {
        score[j] = score_of(a.gate, score[j], logit_of(top));
        all += lane + 32 * j <= last ? score[j] : 0;
    }
    all = halo_wave_sum(all); /* which a NaN among the logits makes one */
#pragma unroll
    for (uint32_t j = 0; j < PARTS; j++) {
        score[j] = a.gate == GATE_SOFTMAX ? score[j] / all : score[j];
        order[j] = order_of(score[j] + (a.bias ? a.bias[halo_min_of(lane + 32 * j, last)] : 0));
        order[j] = lane + 32 * j <= last ? order[j] : 0;
    }
    if (a.n_groups > 1)
        keep_groups<PARTS>(a, order);
    for (uint32_t s = 0; s < a.n_used; s++) {
        uint32_t best, id;
        float mine = 0;
        if (s > 0 && s % 32 == 0) {
            chosen += kept;
            choice[s - 32] = kept;
            choice[a.n_used + s - 32] = halo_bits_float(kept_id);
        }
        if (a.table)
            id = (uint32_t)a.table[by_token + s];
        else
            take_best<PARTS>(order, &best, &id);
#pragma unroll
        for (uint32_t j = 0; j < PARTS; j++)
            mine = id == lane + 32 * j ? score[j] : mine;
        const float best_score = halo_bits_float(halo_broadcast(halo_float_bits(mine), id % 32));
        kept = lane == s % 32 ? best_score : kept;
        kept_id = lane == s % 32 ? id : kept_id;
    }
    chosen = halo_wave_sum(chosen + (ready + lane < a.n_used ? kept : 0));
    float whole = a.normalise ? halo_max(chosen, 6.103515625e-5f) : 1;
    whole = all == all ? whole : all;
    for (uint32_t s = 0; s < ready; s += 32)
        choice[s] = choice[s] / whole * a.scale;
    if (ready + lane < a.n_used) {
        choice[ready] = kept / whole * a.scale;
        choice[a.n_used + ready] = halo_bits_float(kept_id);
    }
}

HALO_DEVICE void route_row_scored(const halo_moe_route_args &a, uint32_t row)
{
    if (a.n_expert <= 128)
        route_scored<4>(a, row);
    else
        route_scored<HALO_MOE_EXPERTS_MAX / 32>(a, row);
}

HALO_KERNEL(moe_route_scored, halo_moe_route_args, 32)
{
    route_row_scored(a, halo_block_x());
}

constexpr uint32_t ROUTER_AHEAD = 8; /* chunks of a weight row that a lane has in flight */
struct router_lds {
    uint32_t last;
};

struct router_stage {
    halo_u4 w[ROUTER_AHEAD];
    HALO_DEVICE_MEMBER void load(const float *weight, uint32_t first, uint32_t last)
    {
#pragma unroll
        for (uint32_t k = 0; k < ROUTER_AHEAD; k++)
            w[k] = halo_load<halo_u4>(weight, halo_min_of(first + 32 * k, last));
    }
};

/* A weight row times x, added up in the order of gemv_f32_x1. */
HALO_DEVICE float router_logit(const float *weight, const float *x, uint32_t n_chunks)
{
    const uint32_t last = n_chunks - 1;
    router_stage now, next;
    float acc = 0;
    now.load(weight, halo_lane(), last);
    halo_inputs_ready();
#pragma unroll 1
    for (uint32_t c = halo_lane(); c < n_chunks; c += 32 * ROUTER_AHEAD) {
        halo_f4 v[ROUTER_AHEAD];
#pragma unroll
        for (uint32_t k = 0; k < ROUTER_AHEAD; k++)
            v[k] = halo_load<halo_f4>(x, halo_min_of(c + 32 * k, last));
        next.load(weight, c + 32 * ROUTER_AHEAD, last);
#pragma unroll
        for (uint32_t k = 0; k < ROUTER_AHEAD; k++)
#pragma unroll
            for (uint32_t e = 0; e < 4; e++) {
                const float sum = halo_fma(halo_bits_float(now.w[k].e[e]), v[k].e[e], acc);
                acc = c + 32 * k < n_chunks ? sum : acc;
            }
        now = next;
    }
    return halo_wave_sum(acc);
}

/* A wave has a row of the weights; the last block of a row of the batch routes it. */
template <bool SCORED> HALO_DEVICE void router(const halo_moe_router_args &a, router_lds &lds)
{
    const uint32_t row = halo_block_y(), n = a.matrix[0].n_rows + a.matrix[1].n_rows,
                   i = halo_block_x() * HALO_ROUTER_ROWS + halo_wave();
    const uint32_t index = halo_min_of(i, n - 1), at = index < a.matrix[0].n_rows ? index : index - a.matrix[0].n_rows;
    const halo_matrix_arg matrix = index < a.matrix[0].n_rows ? a.matrix[0] : a.matrix[1];
    const float *weight = static_cast<const float *>(matrix.weight) + (uint64_t)at * a.n_cols;
    const float logit = router_logit(weight, a.x + (uint64_t)row * a.n_cols, a.n_cols / 4);
    if (i < n && halo_lane() == 0)
        matrix.out[(uint64_t)row * matrix.out_stride + at] = matrix.bias ? logit + matrix.bias[at] : logit;
    if (!halo_last_block(a.counter + row, HALO_HIP_CEIL(n, HALO_ROUTER_ROWS), &lds.last) || halo_wave() > 0)
        return;
    if constexpr (SCORED)
        route_row_scored(a.route, row);
    else
        route_row(a.route, row);
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
HALO_DEVICE uint32_t first_tile(const halo_moe_group_args &a, uint32_t expert, uint32_t below)
{
    return below / a.tile_rows + halo_min_of(expert, below);
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
    const uint32_t first = first_tile(a, e, below),
                   behind = e + 1 == a.n_expert ? a.n_tiles : first_tile(a, e + 1, below + own);
    for (uint32_t t = first + halo_tid(); t < behind; t += GROUP_THREADS) {
        const uint32_t at = (t - first) * a.tile_rows;
        a.tile[t] = halo_moe_tile{e, below + at, at < own ? halo_min_of(own - at, a.tile_rows) : 0};
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
