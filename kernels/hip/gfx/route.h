/* route.h: the choice of experts: routing of logits, and routers of F32 whose last block routes. */
#ifndef HALO_GFX_ROUTE_H
#define HALO_GFX_ROUTE_H

#include "order.h"
#include "rows.h"

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

/* Slots at .. at + 31 of a choice, one to a lane, which `choice` points to. */
HALO_DEVICE void store_slots(const halo_moe_route_args &a, float *choice, uint32_t at, float weight, uint32_t id)
{
    choice[at] = weight;
    choice[a.n_used + at] = halo_bits_float(id);
}

/* The last slots, from `ready` on, and the factor of all: those in front of them wait for it in memory. */
HALO_DEVICE void store_choice(const halo_moe_route_args &a, float *choice, uint32_t ready, float weight, uint32_t id,
                              float whole)
{
    for (uint32_t s = 0; s < ready; s += 32)
        choice[s] = choice[s] / whole * a.scale;
    if (ready + halo_lane() < a.n_used)
        store_slots(a, choice, ready, weight / whole * a.scale, id);
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
            store_slots(a, choice, s - 32, power, kept_id);
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
    store_choice(a, choice, ready, power, kept_id, a.normalise && all == all ? chosen : all);
}

HALO_DEVICE void route_row(const halo_moe_route_args &a, uint32_t row)
{
    if (a.n_expert <= 128)
        route<4>(a, row);
    else
        route<HALO_MOE_EXPERTS_MAX / 32>(a, row);
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
            store_slots(a, choice, s - 32, kept, kept_id);
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
    const float whole = a.normalise ? halo_max(chosen, 6.103515625e-5f) : 1;
    store_choice(a, choice, ready, kept, kept_id, all == all ? whole : all);
}

HALO_DEVICE void route_row_scored(const halo_moe_route_args &a, uint32_t row)
{
    if (a.n_expert <= 128)
        route_scored<4>(a, row);
    else
        route_scored<HALO_MOE_EXPERTS_MAX / 32>(a, row);
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

/* A weight row times x, added up in the order of gemv_f32_x1. `inputs` waits for x and says where it is. */
template <typename INPUTS> HALO_DEVICE float router_logit(const float *weight, INPUTS &inputs, uint32_t n_chunks)
{
    const uint32_t last = n_chunks - 1;
    router_stage now, next;
    float acc = 0;
    now.load(weight, halo_lane(), last);
    const float *x = inputs.ready();
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

/* The row of x as it stands in memory. */
struct router_row {
    const float *x;
    HALO_DEVICE_MEMBER const float *ready()
    {
        halo_inputs_ready();
        return x;
    }
};

/* The logit of the wave's row of the weights. */
template <typename INPUTS> HALO_DEVICE void router_row_logit(const halo_moe_router_args &a, INPUTS &inputs)
{
    const uint32_t row = halo_block_y(), n = a.matrix[0].n_rows + a.matrix[1].n_rows,
                   i = halo_block_x() * HALO_ROUTER_ROWS + halo_wave();
    const uint32_t index = halo_min_of(i, n - 1), at = index < a.matrix[0].n_rows ? index : index - a.matrix[0].n_rows;
    const halo_matrix_arg matrix = index < a.matrix[0].n_rows ? a.matrix[0] : a.matrix[1];
    const float *weight = static_cast<const float *>(matrix.weight) + (uint64_t)at * a.n_cols;
    const float logit = router_logit(weight, inputs, a.n_cols / 4);
    if (i < n && halo_lane() == 0)
        matrix.out[(uint64_t)row * matrix.out_stride + at] = matrix.bias ? logit + matrix.bias[at] : logit;
}

/* Whether this is the last of n_blocks blocks of a row of the batch. */
HALO_DEVICE bool router_ends(const halo_moe_router_args &a, uint32_t n_blocks, router_lds &lds)
{
    return halo_last_block(a.counter + halo_block_y(), n_blocks, &lds.last);
}

template <bool SCORED> HALO_DEVICE void router_route(const halo_moe_router_args &a)
{
    if (halo_wave() > 0)
        return;
    if constexpr (SCORED)
        route_row_scored(a.route, halo_block_y());
    else
        route_row(a.route, halo_block_y());
}

/* A wave has a row of the weights; the last block of a row of the batch routes it. */
template <bool SCORED> HALO_DEVICE void router(const halo_moe_router_args &a, router_lds &lds)
{
    router_row row = {a.x + (uint64_t)halo_block_y() * a.n_cols};
    router_row_logit(a, row);
    if (router_ends(a, HALO_HIP_CEIL(a.matrix[0].n_rows + a.matrix[1].n_rows, HALO_ROUTER_ROWS), lds))
        router_route<SCORED>(a);
}

#endif
