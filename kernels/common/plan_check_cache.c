/* plan_check_cache.c: checks of ops that read and write positions, blocks or states of the cache (check_priv.h). */
#include "check_priv.h"

#include <errno.h>
#include <inttypes.h>

#include <common/reason.h>

static int check_cache(const struct halo_check *c, uint32_t group, uint32_t layer)
{
    if (c->plan->n_kv_groups > HALO_KV_GROUPS_MAX || group >= c->plan->n_kv_groups)
        return halo_check_refuse_index(c, "group of the cache", group, c->plan->n_kv_groups);
    const struct halo_kv_group *kv = &c->plan->kv[group];
    if (layer >= kv->n_layers)
        return halo_check_refuse_index(c, "layer of the cache", layer, kv->n_layers);
    if (kv->state_width > 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: group %u of the cache has states", c->op, group);
    if (halo_kv_row_bytes(kv->type, kv->head_dim_k) == 0)
        return halo_check_refuse(c, "type of the cache", kv->type, HALO_KV_F16);
    return 0;
}

/* A layer that keeps a row for every position. */
static int check_positions(const struct halo_check *c, uint32_t group, uint32_t layer)
{
    TRY(check_cache(c, group, layer));
    return c->plan->kv[group].stride > 1
               ? halo_check_refuse(c, "positions of a row of the cache", c->plan->kv[group].stride, 1)
               : 0;
}

int halo_check_kv_write(const struct halo_check *c, const struct halo_op_kv_write *u)
{
    TRY(check_positions(c, u->kv_group, u->kv_layer));
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    TRY(halo_check_value(c, "k", u->k, kv->n_head_kv * kv->head_dim_k));
    if (kv->latent)
        return kv->head_dim_v > kv->head_dim_k
                   ? halo_check_refuse(c, "value of a latent row", kv->head_dim_v, kv->head_dim_k)
               : u->v != HALO_NONE ? halo_check_refuse(c, "v of a latent group", u->v, HALO_NONE)
                                   : 0;
    return halo_check_value(c, "v", u->v, kv->n_head_kv * kv->head_dim_v);
}

int halo_check_attend(const struct halo_check *c, const struct halo_op_attend *u)
{
    TRY(check_positions(c, u->kv_group, u->kv_layer));
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    if (kv->window > 0 && (u->window == 0 || u->window > kv->window))
        return halo_check_refuse(c, "window", u->window, kv->window);
    if (kv->n_head_kv == 0 || kv->head_dim_v == 0 || u->n_head == 0 || u->n_head % kv->n_head_kv != 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: %u heads over %u kv heads", c->op, u->n_head, kv->n_head_kv);
    TRY(halo_check_value(c, "q", u->q, u->n_head * kv->head_dim_k));
    TRY(halo_check_value(c, "out", u->out, u->n_head * kv->head_dim_v));
    TRY(halo_check_positive(c, "cap", u->cap));
    TRY(halo_check_positive(c, "temperature", u->temperature));
    if (u->temperature > 0 && u->temperature_period == 0)
        return halo_check_refuse(c, "period of the temperature", 0, 1);
    return halo_check_vector(c, u->sinks, u->n_head);
}

/* n f32 of the state of a layer. */
static int check_state(const struct halo_check *c, const struct halo_state_part *state, uint64_t n)
{
    if (c->plan->n_kv_groups > HALO_KV_GROUPS_MAX || state->kv_group >= c->plan->n_kv_groups)
        return halo_check_refuse_index(c, "group of the cache", state->kv_group, c->plan->n_kv_groups);
    const struct halo_kv_group *kv = &c->plan->kv[state->kv_group];
    if (state->kv_layer >= kv->n_layers)
        return halo_check_refuse_index(c, "layer of the cache", state->kv_layer, kv->n_layers);
    if (state->offset + n > kv->state_width)
        return halo_reason(c->reason, -ENOTSUP, "%s: %" PRIu64 " f32 from %u on do not fit into a state of %u", c->op,
                           n, state->offset, kv->state_width);
    return 0;
}

int halo_check_conv1d(const struct halo_check *c, const struct halo_op_conv1d *u)
{
    TRY(halo_check_value(c, "x", u->x, 0));
    uint32_t width = halo_check_width_of(c, u->x);
    TRY(halo_check_value(c, "out", u->out, width));
    if (u->out == u->x)
        return halo_check_refuse_same(c, "out", u->out, "x");
    uint32_t n_kernel = u->weight < c->plan->n_weights ? c->plan->weights[u->weight].n_cols : 0;
    TRY(halo_check_weight(c, u->weight, HALO_WEIGHT_VECTOR, n_kernel));
    if (n_kernel < 2 || n_kernel > HALO_CONV1D_TAPS_MAX)
        return halo_check_refuse(c, "taps", n_kernel, HALO_CONV1D_TAPS_MAX);
    if (c->plan->weights[u->weight].n_rows != width)
        return halo_check_refuse(c, "channels", c->plan->weights[u->weight].n_rows, width);
    TRY(halo_check_vector(c, u->bias, width));
    return check_state(c, &u->state, (uint64_t)(n_kernel - 1) * width);
}

int halo_check_delta_rule(const struct halo_check *c, const struct halo_op_delta_rule *u)
{
    if (u->n_head_k == 0 || u->n_head_v == 0 || u->n_head_v % u->n_head_k != 0 || u->dim_k == 0 || u->dim_v == 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: %u heads of %u over %u heads of %u", c->op, u->n_head_v, u->dim_v,
                           u->n_head_k, u->dim_k);
    uint32_t per_k = u->n_head_v / u->n_head_k;
    if (u->gate_stride < per_k || u->alpha_first > u->gate_stride - per_k || u->beta_first > u->gate_stride - per_k)
        return halo_reason(c->reason, -ENOTSUP,
                           "%s: %u gates from element %u and from element %u on do not fit into %u", c->op, per_k,
                           u->alpha_first, u->beta_first, u->gate_stride);
    TRY(halo_check_value(c, "qkv", u->qkv, 2 * u->n_head_k * u->dim_k + u->n_head_v * u->dim_v));
    TRY(halo_check_value(c, "alpha", u->alpha, u->n_head_k * u->gate_stride));
    TRY(halo_check_value(c, "beta", u->beta, u->n_head_k * u->gate_stride));
    TRY(halo_check_value(c, "out", u->out, u->n_head_v * u->dim_v));
    if (u->out == u->qkv || u->out == u->alpha || u->out == u->beta)
        return halo_check_refuse_same(c, "out", u->out, "the inputs");
    TRY(halo_check_weight(c, u->a, HALO_WEIGHT_VECTOR, u->n_head_v));
    TRY(halo_check_weight(c, u->dt_bias, HALO_WEIGHT_VECTOR, u->n_head_v));
    TRY(halo_check_positive(c, "eps", u->eps));
    return check_state(c, &u->state, (uint64_t)u->n_head_v * u->dim_v * u->dim_k);
}

/* n numbers, as one vector or as n of one. */
static int check_numbers(const struct halo_check *c, const char *what, uint32_t weight, uint32_t n)
{
    if (weight >= c->plan->n_weights)
        return halo_check_refuse_index(c, "weight", weight, c->plan->n_weights);
    const struct halo_weight *w = &c->plan->weights[weight];
    TRY(halo_check_weight(c, weight, HALO_WEIGHT_VECTOR, w->n_cols));
    uint64_t have = (uint64_t)w->n_cols * w->n_rows;
    return have != n ? halo_check_refuse(c, what, have > UINT32_MAX ? UINT32_MAX : (uint32_t)have, n) : 0;
}

int halo_check_ssm_scan(const struct halo_check *c, const struct halo_op_ssm_scan *u)
{
    uint64_t inner = (uint64_t)u->n_head * u->head_dim, shared = (uint64_t)u->n_group * u->n_state;
    if (inner == 0 || shared == 0 || u->n_head % u->n_group != 0 || inner + 2 * shared > UINT32_MAX)
        return halo_reason(c->reason, -ENOTSUP, "%s: no support for %u heads of %u over %u groups of %u", c->op,
                           u->n_head, u->head_dim, u->n_group, u->n_state);
    TRY(halo_check_value(c, "xbc", u->xbc, (uint32_t)(inner + 2 * shared)));
    TRY(halo_check_value(c, "dt", u->dt, u->n_head));
    TRY(halo_check_value(c, "out", u->out, (uint32_t)inner));
    if (u->out == u->xbc || u->out == u->dt)
        return halo_check_refuse_same(c, "out", u->out, "the inputs");
    TRY(check_numbers(c, "numbers of a", u->a, u->n_head));
    TRY(check_numbers(c, "numbers of d", u->d, u->n_head));
    TRY(check_numbers(c, "numbers of dt_bias", u->dt_bias, u->n_head));
    return check_state(c, &u->state, inner * u->n_state);
}

/* A group that keeps a row of K for each block of `ratio` positions. */
static int check_blocks(const struct halo_check *c, uint32_t group, uint32_t layer, uint32_t ratio)
{
    TRY(check_cache(c, group, layer));
    const struct halo_kv_group *kv = &c->plan->kv[group];
    uint32_t stride = ratio < HALO_KV_PAGE_TOKENS ? ratio : HALO_KV_PAGE_TOKENS;
    if (ratio < 2 || HALO_KV_PAGE_TOKENS % stride != 0 || ratio % stride != 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: blocks of %u positions, wanted a divisor or a multiple of %d",
                           c->op, ratio, HALO_KV_PAGE_TOKENS);
    if (kv->stride != stride)
        return halo_check_refuse(c, "positions of a row of the cache", kv->stride, stride);
    if (kv->type == HALO_KV_Q4)
        return halo_reason(c->reason, -ENOTSUP, "%s: compressed blocks cannot be q4; use q8 or f16", c->op);
    if (kv->n_head_kv != 1 || !kv->latent || kv->window > 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: group %u of the cache does not hold compressed blocks", c->op,
                           group);
    return 0;
}

int halo_check_compress(const struct halo_check *c, const struct halo_op_compress *u)
{
    uint32_t width = u->overlap ? 2 * u->dim : u->dim;
    TRY(halo_check_value(c, "u", u->u, width));
    TRY(halo_check_value(c, "z", u->z, width));
    if (u->u == u->z || u->dim == 0)
        return halo_check_refuse_same(c, "z", u->z, "u");
    TRY(check_blocks(c, u->kv_group, u->kv_layer, u->ratio));
    if (c->plan->kv[u->kv_group].head_dim_k != u->dim)
        return halo_check_refuse(c, "elements of a row", c->plan->kv[u->kv_group].head_dim_k, u->dim);
    TRY(halo_check_weight(c, u->bias, HALO_WEIGHT_VECTOR, width));
    if (c->plan->weights[u->bias].n_rows != u->ratio)
        return halo_check_refuse(c, "vectors of the bias", c->plan->weights[u->bias].n_rows, u->ratio);
    TRY(halo_check_weight(c, u->norm, HALO_WEIGHT_VECTOR, u->dim));
    if (u->rope >= c->plan->n_ropes)
        return halo_check_refuse_index(c, "rotation", u->rope, c->plan->n_ropes);
    const struct halo_rope *rope = &c->plan->ropes[u->rope];
    if (rope->n_rot % 2 != 0 || rope->n_rot > u->dim || rope->n_rot > HALO_COMPRESS_ROTATED_MAX)
        return halo_check_refuse(c, "rotated elements", rope->n_rot, u->dim);
    return check_state(c, &u->state, halo_compress_state_width(u->dim, u->overlap));
}

int halo_check_blocks_choose(const struct halo_check *c, const struct halo_op_blocks_choose *u)
{
    TRY(check_blocks(c, u->kv_group, u->kv_layer, u->ratio));
    TRY(halo_check_value(c, "q", u->q, u->n_head * c->plan->kv[u->kv_group].head_dim_k));
    TRY(halo_check_value(c, "weight", u->weight, u->n_head));
    TRY(halo_check_value(c, "out", u->out, u->top_k));
    return u->n_head == 0 || u->top_k == 0 || u->out == u->q || u->out == u->weight
               ? halo_check_refuse_same(c, "out", u->out, "its inputs")
               : 0;
}

int halo_check_attend_blocks(const struct halo_check *c, const struct halo_op_attend_blocks *u)
{
    TRY(check_positions(c, u->kv_group, u->kv_layer));
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    if (!kv->latent || kv->n_head_kv != 1 || kv->head_dim_k != kv->head_dim_v || kv->type == HALO_KV_Q4)
        return halo_reason(c->reason, -ENOTSUP, "%s: group %u of the cache does not keep one row for K and V", c->op,
                           u->kv_group);
    if (kv->window > 0 && (u->window == 0 || u->window > kv->window))
        return halo_check_refuse(c, "window", u->window, kv->window);
    TRY(check_blocks(c, u->block_group, u->block_layer, u->ratio));
    if (c->plan->kv[u->block_group].head_dim_k != kv->head_dim_k)
        return halo_check_refuse(c, "elements of a block", c->plan->kv[u->block_group].head_dim_k, kv->head_dim_k);
    TRY(halo_check_value(c, "q", u->q, u->n_head * kv->head_dim_k));
    TRY(halo_check_value(c, "out", u->out, u->n_head * kv->head_dim_k));
    if (u->chosen != HALO_NONE)
        TRY(halo_check_value(c, "chosen", u->chosen, 0));
    if (u->n_head == 0 || u->out == u->chosen)
        return halo_check_refuse(c, "heads", u->n_head, 1);
    return halo_check_vector(c, u->sinks, u->n_head);
}
