/* plan_check.c: whether the values, weights and shapes of an op fit each other (contract in check.h). The creation of a
 * model checks every op, so that the op functions check nothing again. */
#include <common/check.h>

#include <errno.h>
#include <float.h>
#include <inttypes.h>

#include <common/reason.h>

struct check {
    const struct halo_plan *plan;
    const struct halo_plan_limits *limits;
    const char *op;
    char *reason;
};

static int refuse(const struct check *c, const char *what, uint32_t have, uint32_t want)
{
    return halo_reason(c->reason, -ENOTSUP, "%s: %s is %u, wanted %u", c->op, what, have, want);
}

/* Something is named by an index that the plan does not have. */
static int refuse_index(const struct check *c, const char *what, uint32_t index, uint32_t n)
{
    return halo_reason(c->reason, -ENOTSUP, "%s: %s %u of %u", c->op, what, index, n);
}

/* A value of at least one row that is `width` wide (0: any). */
static int check_value(const struct check *c, const char *what, uint16_t value, uint32_t width)
{
    if (value >= c->plan->n_values)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s is value %u of %u", c->op, what, value, c->plan->n_values);
    uint32_t have = c->plan->values[value].width;
    return width != 0 && have != width ? refuse(c, what, have, width) : 0;
}

static uint32_t width_of(const struct check *c, uint16_t value)
{
    return value < c->plan->n_values ? c->plan->values[value].width : 0;
}

static int check_weight(const struct check *c, uint32_t weight, enum halo_weight_role role, uint32_t n_cols)
{
    if (weight >= c->plan->n_weights)
        return refuse_index(c, "weight", weight, c->plan->n_weights);
    const struct halo_weight *w = &c->plan->weights[weight];
    const struct halo_type_info type = halo_type_info(w->type);
    if (!type.name || w->type == HALO_TYPE_I32)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s has type %d, which has no kernels", c->op, w->name,
                           (int)w->type);
    uint64_t n = (uint64_t)w->n_cols * w->n_rows * w->n_experts;
    bool fits = n > 0 && c->limits->weight_fits(role, w->type, role == HALO_WEIGHT_VECTOR ? n : w->n_cols);
    if (!fits || w->n_rows == 0 || w->n_experts == 0 ||
        w->n_bytes != halo_type_row_bytes(w->type, w->n_cols) * w->n_rows * w->n_experts)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s of type %s has no kernel for rows of %u", c->op, w->name,
                           type.name, w->n_cols);
    if (w->role != role)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s is declared as another kind of weight", c->op, w->name);
    if (w->n_cols != n_cols)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s has rows of %u, its input has %u", c->op, w->name, w->n_cols,
                           n_cols);
    if (w->streamed > 0 && !(c->limits->streams && role == HALO_WEIGHT_EXPERTS))
        return halo_reason(c->reason, -ENOTSUP, "%s: %s must be resident, this device cannot stream it", c->op,
                           w->name);
    return 0;
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int error_ = (call);                                                                                           \
        if (error_)                                                                                                    \
            return error_;                                                                                             \
    } while (0)

/* A vector of n, or none. */
static int check_vector(const struct check *c, uint32_t weight, uint32_t n)
{
    return weight == HALO_WEIGHT_NONE ? 0 : check_weight(c, weight, HALO_WEIGHT_VECTOR, n);
}

/* A number that is positive, or 0 for none. */
static int check_positive(const struct check *c, const char *what, float number)
{
    return number >= 0 && number <= FLT_MAX
               ? 0
               : halo_reason(c->reason, -ENOTSUP, "%s: %s is %g, wanted a number of at least 0", c->op, what,
                             (double)number);
}

static int check_embed(const struct check *c, const struct halo_op_embed *u)
{
    TRY(check_value(c, "out", u->out, 0));
    TRY(check_weight(c, u->weight, HALO_WEIGHT_MATRIX, width_of(c, u->out)));
    uint32_t n_rows = c->plan->weights[u->weight].n_rows;
    return n_rows < c->plan->n_vocab ? refuse(c, "rows of the table", n_rows, c->plan->n_vocab) : 0;
}

static int check_rmsnorm(const struct check *c, const struct halo_op_rmsnorm *u)
{
    TRY(check_value(c, "x", u->x, 0));
    TRY(check_value(c, "out", u->out, width_of(c, u->x)));
    if (u->add != HALO_NONE)
        TRY(check_value(c, "add", u->add, width_of(c, u->x)));
    if (u->bias != HALO_WEIGHT_NONE && !u->centre)
        return halo_reason(c->reason, -ENOTSUP, "%s: only a norm that subtracts the mean has a bias", c->op);
    if (u->x_scale != 0 && (u->add == HALO_NONE || !(u->x_scale >= -FLT_MAX && u->x_scale <= FLT_MAX)))
        return halo_reason(c->reason, -ENOTSUP, "%s: the factor %g of x wants an addition and a finite number", c->op,
                           (double)u->x_scale);
    TRY(check_vector(c, u->bias, width_of(c, u->x)));
    return check_vector(c, u->weight, width_of(c, u->x));
}

static int check_matmul(const struct check *c, const struct halo_op_matmul *u)
{
    TRY(check_value(c, "x", u->x, 0));
    if (u->n == 0 || u->n > HALO_MATMUL_MAX)
        return refuse(c, "weights", u->n, HALO_MATMUL_MAX);
    for (uint32_t k = 0; k < u->n; k++) {
        TRY(check_weight(c, u->weight[k], HALO_WEIGHT_MATRIX, width_of(c, u->x)));
        uint32_t n_rows = c->plan->weights[u->weight[k]].n_rows;
        TRY(check_value(c, "out", u->out[k], n_rows));
        if (u->out[k] == u->x)
            return refuse(c, "out, which must differ from x,", u->out[k], u->x);
        TRY(check_vector(c, u->bias[k], n_rows));
    }
    return 0;
}

static int check_heads(const struct check *c, uint16_t q, uint16_t k, uint32_t n_head, uint32_t n_head_kv,
                       uint32_t head_dim)
{
    TRY(check_value(c, "q", q, n_head * head_dim));
    if (n_head == 0 || head_dim == 0)
        return refuse(c, "heads", 0, 1);
    if (k == HALO_NONE)
        return n_head_kv != 0 ? refuse(c, "heads of no k", n_head_kv, 0) : 0;
    TRY(check_value(c, "k", k, n_head_kv * head_dim));
    return n_head_kv == 0 ? refuse(c, "heads", 0, 1) : 0;
}

static int check_qk_norm(const struct check *c, const struct halo_op_qk_norm *u)
{
    TRY(check_heads(c, u->q, u->k, u->n_head, u->n_head_kv, u->head_dim));
    TRY(check_vector(c, u->q_weight, u->head_dim));
    uint32_t n = u->q_weight == HALO_WEIGHT_NONE ? 1 : c->plan->weights[u->q_weight].n_rows;
    if (n != 1 && (n != u->n_head || u->k != HALO_NONE))
        return refuse(c, "vectors of q", n, 1);
    TRY(check_vector(c, u->k_weight, u->head_dim));
    n = u->k_weight == HALO_WEIGHT_NONE ? 1 : c->plan->weights[u->k_weight].n_rows;
    return n != 1 ? refuse(c, "vectors of k", n, 1) : 0;
}

static int check_rope(const struct check *c, const struct halo_op_rope *u)
{
    TRY(check_heads(c, u->q, u->k, u->n_head, u->n_head_kv, u->head_dim));
    if (u->rope >= c->plan->n_ropes)
        return refuse_index(c, "rotation", u->rope, c->plan->n_ropes);
    const struct halo_rope *rope = &c->plan->ropes[u->rope];
    if (rope->n_rot % 2 != 0 || rope->n_rot > u->head_dim)
        return refuse(c, "rotated elements", rope->n_rot, u->head_dim);
    return rope->pairing != HALO_ROPE_NEOX && rope->pairing != HALO_ROPE_NORM ? refuse(c, "pairing", rope->pairing, 0)
                                                                              : 0;
}

static int check_cache(const struct check *c, uint32_t group, uint32_t layer)
{
    if (c->plan->n_kv_groups > HALO_KV_GROUPS_MAX || group >= c->plan->n_kv_groups)
        return refuse_index(c, "group of the cache", group, c->plan->n_kv_groups);
    const struct halo_kv_group *kv = &c->plan->kv[group];
    if (layer >= kv->n_layers)
        return refuse_index(c, "layer of the cache", layer, kv->n_layers);
    if (kv->state_width > 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: group %u of the cache has states", c->op, group);
    if (halo_kv_row_bytes(kv->type, kv->head_dim_k) == 0)
        return refuse(c, "type of the cache", kv->type, HALO_KV_F16);
    return 0;
}

/* A layer that keeps a row for every position. */
static int check_positions(const struct check *c, uint32_t group, uint32_t layer)
{
    TRY(check_cache(c, group, layer));
    return c->plan->kv[group].stride > 1 ? refuse(c, "positions of a row of the cache", c->plan->kv[group].stride, 1)
                                         : 0;
}

static int check_kv_write(const struct check *c, const struct halo_op_kv_write *u)
{
    TRY(check_positions(c, u->kv_group, u->kv_layer));
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    TRY(check_value(c, "k", u->k, kv->n_head_kv * kv->head_dim_k));
    if (kv->latent)
        return kv->head_dim_v > kv->head_dim_k ? refuse(c, "value of a latent row", kv->head_dim_v, kv->head_dim_k)
               : u->v != HALO_NONE             ? refuse(c, "v of a latent group", u->v, HALO_NONE)
                                               : 0;
    return check_value(c, "v", u->v, kv->n_head_kv * kv->head_dim_v);
}

static int check_attend(const struct check *c, const struct halo_op_attend *u)
{
    TRY(check_positions(c, u->kv_group, u->kv_layer));
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    if (kv->window > 0 && (u->window == 0 || u->window > kv->window))
        return refuse(c, "window", u->window, kv->window);
    if (kv->n_head_kv == 0 || kv->head_dim_v == 0 || u->n_head == 0 || u->n_head % kv->n_head_kv != 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: %u heads over %u kv heads", c->op, u->n_head, kv->n_head_kv);
    TRY(check_value(c, "q", u->q, u->n_head * kv->head_dim_k));
    TRY(check_value(c, "out", u->out, u->n_head * kv->head_dim_v));
    TRY(check_positive(c, "cap", u->cap));
    TRY(check_positive(c, "temperature", u->temperature));
    if (u->temperature > 0 && u->temperature_period == 0)
        return refuse(c, "period of the temperature", 0, 1);
    return check_vector(c, u->sinks, u->n_head);
}

static int check_glu(const struct check *c, const struct halo_op_glu *u)
{
    TRY(check_value(c, "gate", u->gate, 0));
    if (u->up != HALO_NONE || u->act == HALO_GLU_CLAMPED)
        TRY(check_value(c, "up", u->up, width_of(c, u->gate)));
    TRY(check_value(c, "out", u->out, width_of(c, u->gate)));
    TRY(check_positive(c, "limit", u->limit));
    if (u->limit > 0 && (u->up == HALO_NONE || u->up == u->gate))
        return halo_reason(c->reason, -ENOTSUP, "%s: a limit needs an up of its own; up is value %u and gate value %u",
                           c->op, u->up, u->gate);
    return u->act >= HALO_GLU_ACTS ? refuse_index(c, "activation", u->act, HALO_GLU_ACTS) : 0;
}

static int check_choice(const struct check *c, uint16_t choice, uint32_t n_used, uint32_t n_expert)
{
    if (n_used == 0 || n_used > n_expert || n_expert > c->limits->experts_max)
        return halo_reason(c->reason, -ENOTSUP, "%s: uses %u of %u experts, at most %u are supported", c->op, n_used,
                           n_expert, c->limits->experts_max);
    return check_value(c, "choice", choice, 2 * n_used);
}

/* The experts of every token, where they are given. */
static int check_table(const struct check *c, const struct halo_op_moe_route *u)
{
    uint64_t n = (uint64_t)c->plan->n_vocab * u->n_used;
    for (uint64_t i = 0; u->table && i < n; i++)
        if (u->table[i] < 0 || (uint32_t)u->table[i] >= u->n_expert)
            return halo_reason(c->reason, -ENOTSUP, "%s: token %u has expert %d of %u", c->op,
                               (unsigned)(i / u->n_used), u->table[i], u->n_expert);
    return 0;
}

static int check_moe_route(const struct check *c, const struct halo_op_moe_route *u)
{
    TRY(check_value(c, "logits", u->logits, u->n_expert));
    TRY(check_choice(c, u->choice, u->n_used, u->n_expert));
    if (u->gate != HALO_MOE_SOFTMAX && u->gate != HALO_MOE_SIGMOID && u->gate != HALO_MOE_SQRT_SOFTPLUS)
        return refuse(c, "gate", u->gate, HALO_MOE_SOFTMAX);
    if (u->bias != HALO_WEIGHT_NONE)
        TRY(check_weight(c, u->bias, HALO_WEIGHT_VECTOR, u->n_expert));
    TRY(check_table(c, u));
    if (u->n_groups <= 1)
        return 0;
    uint32_t size = u->n_expert / u->n_groups;
    if (u->n_groups > HALO_MOE_GROUPS_MAX || u->n_expert % u->n_groups != 0 || size < 2 || u->n_groups_used == 0 ||
        u->n_groups_used > u->n_groups || u->n_groups_used * size < u->n_used)
        return halo_reason(c->reason, -ENOTSUP, "%s: %u of %u groups of %u experts for %u to choose", c->op,
                           u->n_groups_used, u->n_groups, u->n_expert, u->n_used);
    return 0;
}

/* n_rows vectors of n_cols, or none. */
static int check_expert_vectors(const struct check *c, uint32_t weight, uint32_t n_cols, uint32_t n_rows)
{
    if (weight == HALO_WEIGHT_NONE)
        return 0;
    TRY(check_weight(c, weight, HALO_WEIGHT_VECTOR, n_cols));
    uint32_t have = c->plan->weights[weight].n_rows;
    return have != n_rows ? refuse(c, "vectors of the experts", have, n_rows) : 0;
}

static int check_moe_matmul(const struct check *c, const struct halo_op_moe_matmul *u)
{
    TRY(check_value(c, "x", u->x, 0));
    if (u->n == 0 || u->n > 2)
        return refuse(c, "weights", u->n, 2);
    if (u->n_used == 0 || (u->per_slot && width_of(c, u->x) % u->n_used != 0))
        return refuse(c, "slots", u->n_used, 1);
    for (uint32_t k = 0; k < u->n; k++) {
        TRY(check_weight(c, u->weight[k], HALO_WEIGHT_EXPERTS, width_of(c, u->x) / (u->per_slot ? u->n_used : 1)));
        const struct halo_weight *w = &c->plan->weights[u->weight[k]];
        if (w->n_experts != c->plan->weights[u->weight[0]].n_experts)
            return refuse(c, "experts", w->n_experts, c->plan->weights[u->weight[0]].n_experts);
        if (w->streamed != c->plan->weights[u->weight[0]].streamed || (w->streamed > 0 && u->choice == HALO_NONE))
            return halo_reason(c->reason, -ENOTSUP, "%s: %s is streamed, which the other weight or the choice forbids",
                               c->op, w->name);
        TRY(check_value(c, "out", u->out[k], u->n_used * w->n_rows));
        TRY(check_expert_vectors(c, u->bias[k], w->n_rows, w->n_experts));
        if (u->out[k] == u->x)
            return refuse(c, "out, which must differ from x,", u->out[k], u->x);
    }
    uint32_t n_experts = c->plan->weights[u->weight[0]].n_experts;
    if (u->choice == HALO_NONE)
        return !u->per_slot || u->n_used != n_experts || n_experts > c->limits->experts_max
                   ? refuse(c, "slots without a choice", u->n_used, n_experts)
                   : 0;
    return check_choice(c, u->choice, u->n_used, n_experts);
}

static int check_moe_sum(const struct check *c, const struct halo_op_moe_sum *u)
{
    TRY(check_value(c, "out", u->out, 0));
    TRY(check_value(c, "choice", u->choice, 2 * u->n_used));
    TRY(check_value(c, "x", u->x, u->n_used * width_of(c, u->out)));
    if (u->add == HALO_NONE)
        return u->add_gate == HALO_NONE ? 0 : refuse(c, "add_gate without add", u->add_gate, HALO_NONE);
    TRY(check_value(c, "add", u->add, width_of(c, u->out)));
    return u->add_gate == HALO_NONE ? 0 : check_value(c, "add_gate", u->add_gate, 1);
}

static int check_add(const struct check *c, const struct halo_op_add *u)
{
    TRY(check_value(c, "x", u->x, 0));
    return check_value(c, "add", u->add, width_of(c, u->x));
}

static int check_concat(const struct check *c, const struct halo_op_concat *u)
{
    TRY(check_value(c, "a", u->a, 0));
    TRY(check_value(c, "out", u->out, 0));
    uint32_t stride = u->n_head > 0 ? width_of(c, u->a) / u->n_head : 0;
    if (stride * u->n_head != width_of(c, u->a) || u->n_a == 0 || (uint64_t)u->a_first + u->n_a > stride ||
        width_of(c, u->out) != (uint64_t)u->n_head * (u->n_a + u->n_b) || (u->b == HALO_NONE) != (u->n_b == 0))
        return halo_reason(c->reason, -ENOTSUP, "%s: %u heads of %u and %u elements", c->op, u->n_head, u->n_a, u->n_b);
    if (u->b != HALO_NONE)
        TRY(check_value(c, "b", u->b, u->n_b * (u->b_shared ? 1 : u->n_head)));
    return u->out == u->a || u->out == u->b ? refuse(c, "out, which must differ from a and b,", u->out, u->out) : 0;
}

/* n f32 of the state of a layer. */
static int check_state(const struct check *c, const struct halo_state_part *state, uint64_t n)
{
    if (c->plan->n_kv_groups > HALO_KV_GROUPS_MAX || state->kv_group >= c->plan->n_kv_groups)
        return refuse_index(c, "group of the cache", state->kv_group, c->plan->n_kv_groups);
    const struct halo_kv_group *kv = &c->plan->kv[state->kv_group];
    if (state->kv_layer >= kv->n_layers)
        return refuse_index(c, "layer of the cache", state->kv_layer, kv->n_layers);
    if (state->offset + n > kv->state_width)
        return halo_reason(c->reason, -ENOTSUP, "%s: %" PRIu64 " f32 from %u on do not fit into a state of %u", c->op,
                           n, state->offset, kv->state_width);
    return 0;
}

static int check_conv1d(const struct check *c, const struct halo_op_conv1d *u)
{
    TRY(check_value(c, "x", u->x, 0));
    uint32_t width = width_of(c, u->x);
    TRY(check_value(c, "out", u->out, width));
    if (u->out == u->x)
        return refuse(c, "out, which must differ from x,", u->out, u->x);
    uint32_t n_kernel = u->weight < c->plan->n_weights ? c->plan->weights[u->weight].n_cols : 0;
    TRY(check_weight(c, u->weight, HALO_WEIGHT_VECTOR, n_kernel));
    if (n_kernel < 2 || n_kernel > HALO_CONV1D_TAPS_MAX)
        return refuse(c, "taps", n_kernel, HALO_CONV1D_TAPS_MAX);
    if (c->plan->weights[u->weight].n_rows != width)
        return refuse(c, "channels", c->plan->weights[u->weight].n_rows, width);
    TRY(check_vector(c, u->bias, width));
    return check_state(c, &u->state, (uint64_t)(n_kernel - 1) * width);
}

static int check_delta_rule(const struct check *c, const struct halo_op_delta_rule *u)
{
    if (u->n_head_k == 0 || u->n_head_v == 0 || u->n_head_v % u->n_head_k != 0 || u->dim_k == 0 || u->dim_v == 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: %u heads of %u over %u heads of %u", c->op, u->n_head_v, u->dim_v,
                           u->n_head_k, u->dim_k);
    uint32_t per_k = u->n_head_v / u->n_head_k;
    if (u->gate_stride < per_k || u->alpha_first > u->gate_stride - per_k || u->beta_first > u->gate_stride - per_k)
        return halo_reason(c->reason, -ENOTSUP,
                           "%s: %u gates from element %u and from element %u on do not fit into %u", c->op, per_k,
                           u->alpha_first, u->beta_first, u->gate_stride);
    TRY(check_value(c, "qkv", u->qkv, 2 * u->n_head_k * u->dim_k + u->n_head_v * u->dim_v));
    TRY(check_value(c, "alpha", u->alpha, u->n_head_k * u->gate_stride));
    TRY(check_value(c, "beta", u->beta, u->n_head_k * u->gate_stride));
    TRY(check_value(c, "out", u->out, u->n_head_v * u->dim_v));
    if (u->out == u->qkv || u->out == u->alpha || u->out == u->beta)
        return refuse(c, "out, which must differ from the inputs,", u->out, u->out);
    TRY(check_weight(c, u->a, HALO_WEIGHT_VECTOR, u->n_head_v));
    TRY(check_weight(c, u->dt_bias, HALO_WEIGHT_VECTOR, u->n_head_v));
    TRY(check_positive(c, "eps", u->eps));
    return check_state(c, &u->state, (uint64_t)u->n_head_v * u->dim_v * u->dim_k);
}

static int check_streams(const struct check *c, uint16_t x, uint16_t one, uint32_t n)
{
    if (n < 2 || n > HALO_STREAMS_MAX)
        return halo_reason(c->reason, -ENOTSUP, "%s: %u streams, wanted 2 to %d", c->op, n, HALO_STREAMS_MAX);
    TRY(check_value(c, "stream", one, 0));
    TRY(check_value(c, "x", x, n * width_of(c, one)));
    return x == one ? refuse(c, "a stream, which must differ from x,", one, x) : 0;
}

static int check_streams_mix(const struct check *c, const struct halo_op_streams_mix *u)
{
    TRY(check_streams(c, u->x, u->out, u->n));
    uint32_t n_mix = u->back == HALO_NONE ? u->n : u->n * (u->n + 2);
    TRY(check_value(c, "mix", u->mix, n_mix));
    if (u->back != HALO_NONE)
        TRY(check_value(c, "back", u->back, u->n * (u->n + 1)));
    if (u->out == u->mix || u->out == u->back || u->back == u->mix || u->back == u->x)
        return refuse(c, "out, which must differ from its inputs,", u->out, u->mix);
    if (u->back != HALO_NONE && (u->iterations == 0 || u->iterations > 1000))
        return refuse(c, "iterations", u->iterations, 1000);
    TRY(check_positive(c, "eps", u->eps));
    TRY(check_weight(c, u->scale, HALO_WEIGHT_VECTOR, u->back == HALO_NONE ? 1 : 3));
    return check_weight(c, u->base, HALO_WEIGHT_VECTOR, n_mix);
}

static int check_streams_add(const struct check *c, const struct halo_op_streams_add *u)
{
    TRY(check_streams(c, u->x, u->add, u->n));
    return check_value(c, "back", u->back, u->n * (u->n + 1));
}

/* A group that keeps a row of K for each block of `ratio` positions. */
static int check_blocks(const struct check *c, uint32_t group, uint32_t layer, uint32_t ratio)
{
    TRY(check_cache(c, group, layer));
    const struct halo_kv_group *kv = &c->plan->kv[group];
    uint32_t stride = ratio < HALO_KV_PAGE_TOKENS ? ratio : HALO_KV_PAGE_TOKENS;
    if (ratio < 2 || HALO_KV_PAGE_TOKENS % stride != 0 || ratio % stride != 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: blocks of %u positions, wanted a divisor or a multiple of %d",
                           c->op, ratio, HALO_KV_PAGE_TOKENS);
    if (kv->stride != stride)
        return refuse(c, "positions of a row of the cache", kv->stride, stride);
    if (kv->type == HALO_KV_Q4)
        return halo_reason(c->reason, -ENOTSUP, "%s: compressed blocks cannot be q4; use q8 or f16", c->op);
    if (kv->n_head_kv != 1 || !kv->latent || kv->window > 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: group %u of the cache does not hold compressed blocks", c->op,
                           group);
    return 0;
}

static int check_compress(const struct check *c, const struct halo_op_compress *u)
{
    uint32_t width = u->overlap ? 2 * u->dim : u->dim;
    TRY(check_value(c, "u", u->u, width));
    TRY(check_value(c, "z", u->z, width));
    if (u->u == u->z || u->dim == 0)
        return refuse(c, "z, which must differ from u,", u->z, u->u);
    TRY(check_blocks(c, u->kv_group, u->kv_layer, u->ratio));
    if (c->plan->kv[u->kv_group].head_dim_k != u->dim)
        return refuse(c, "elements of a row", c->plan->kv[u->kv_group].head_dim_k, u->dim);
    TRY(check_weight(c, u->bias, HALO_WEIGHT_VECTOR, width));
    if (c->plan->weights[u->bias].n_rows != u->ratio)
        return refuse(c, "vectors of the bias", c->plan->weights[u->bias].n_rows, u->ratio);
    TRY(check_weight(c, u->norm, HALO_WEIGHT_VECTOR, u->dim));
    if (u->rope >= c->plan->n_ropes)
        return refuse_index(c, "rotation", u->rope, c->plan->n_ropes);
    const struct halo_rope *rope = &c->plan->ropes[u->rope];
    if (rope->n_rot % 2 != 0 || rope->n_rot > u->dim || rope->n_rot > HALO_COMPRESS_ROTATED_MAX)
        return refuse(c, "rotated elements", rope->n_rot, u->dim);
    return check_state(c, &u->state, halo_compress_state_width(u->dim, u->overlap));
}

static int check_blocks_choose(const struct check *c, const struct halo_op_blocks_choose *u)
{
    TRY(check_blocks(c, u->kv_group, u->kv_layer, u->ratio));
    TRY(check_value(c, "q", u->q, u->n_head * c->plan->kv[u->kv_group].head_dim_k));
    TRY(check_value(c, "weight", u->weight, u->n_head));
    TRY(check_value(c, "out", u->out, u->top_k));
    return u->n_head == 0 || u->top_k == 0 || u->out == u->q || u->out == u->weight
               ? refuse(c, "out, which must differ from its inputs,", u->out, u->q)
               : 0;
}

static int check_attend_blocks(const struct check *c, const struct halo_op_attend_blocks *u)
{
    TRY(check_positions(c, u->kv_group, u->kv_layer));
    const struct halo_kv_group *kv = &c->plan->kv[u->kv_group];
    if (!kv->latent || kv->n_head_kv != 1 || kv->head_dim_k != kv->head_dim_v || kv->type == HALO_KV_Q4)
        return halo_reason(c->reason, -ENOTSUP, "%s: group %u of the cache does not keep one row for K and V", c->op,
                           u->kv_group);
    if (kv->window > 0 && (u->window == 0 || u->window > kv->window))
        return refuse(c, "window", u->window, kv->window);
    TRY(check_blocks(c, u->block_group, u->block_layer, u->ratio));
    if (c->plan->kv[u->block_group].head_dim_k != kv->head_dim_k)
        return refuse(c, "elements of a block", c->plan->kv[u->block_group].head_dim_k, kv->head_dim_k);
    TRY(check_value(c, "q", u->q, u->n_head * kv->head_dim_k));
    TRY(check_value(c, "out", u->out, u->n_head * kv->head_dim_k));
    if (u->chosen != HALO_NONE)
        TRY(check_value(c, "chosen", u->chosen, 0));
    if (u->n_head == 0 || u->out == u->chosen)
        return refuse(c, "heads", u->n_head, 1);
    return check_vector(c, u->sinks, u->n_head);
}

/* n numbers, as one vector or as n of one. */
static int check_numbers(const struct check *c, const char *what, uint32_t weight, uint32_t n)
{
    if (weight >= c->plan->n_weights)
        return refuse_index(c, "weight", weight, c->plan->n_weights);
    const struct halo_weight *w = &c->plan->weights[weight];
    TRY(check_weight(c, weight, HALO_WEIGHT_VECTOR, w->n_cols));
    uint64_t have = (uint64_t)w->n_cols * w->n_rows;
    return have != n ? refuse(c, what, have > UINT32_MAX ? UINT32_MAX : (uint32_t)have, n) : 0;
}

static int check_ssm_scan(const struct check *c, const struct halo_op_ssm_scan *u)
{
    uint64_t inner = (uint64_t)u->n_head * u->head_dim, shared = (uint64_t)u->n_group * u->n_state;
    if (inner == 0 || shared == 0 || u->n_head % u->n_group != 0 || inner + 2 * shared > UINT32_MAX)
        return halo_reason(c->reason, -ENOTSUP, "%s: %u heads of %u over %u groups of %u", c->op, u->n_head,
                           u->head_dim, u->n_group, u->n_state);
    TRY(check_value(c, "xbc", u->xbc, (uint32_t)(inner + 2 * shared)));
    TRY(check_value(c, "dt", u->dt, u->n_head));
    TRY(check_value(c, "out", u->out, (uint32_t)inner));
    if (u->out == u->xbc || u->out == u->dt)
        return refuse(c, "out, which must differ from the inputs,", u->out, u->out);
    TRY(check_numbers(c, "numbers of a", u->a, u->n_head));
    TRY(check_numbers(c, "numbers of d", u->d, u->n_head));
    TRY(check_numbers(c, "numbers of dt_bias", u->dt_bias, u->n_head));
    return check_state(c, &u->state, inner * u->n_state);
}

static int check_logits(const struct check *c, const struct halo_op_logits *u)
{
    TRY(check_value(c, "x", u->x, 0));
    TRY(check_weight(c, u->weight, HALO_WEIGHT_MATRIX, width_of(c, u->x)));
    uint32_t n_rows = c->plan->weights[u->weight].n_rows;
    if (n_rows != c->plan->n_vocab)
        return refuse(c, "rows of the head", n_rows, c->plan->n_vocab);
    TRY(check_positive(c, "cap", u->cap));
    return check_vector(c, u->bias, n_rows);
}

int halo_plan_check(const struct halo_plan *plan, uint32_t index, const struct halo_plan_limits *limits, char *reason)
{
    const struct halo_op *op = &plan->ops[index];
    switch (op->kind) {
#define CASE(id, name)                                                                                                 \
    case HALO_OP_##id: return check_##name(&(struct check){plan, limits, #name, reason}, &op->u.name)
        CASE(EMBED, embed);
        CASE(RMSNORM, rmsnorm);
        CASE(MATMUL, matmul);
        CASE(QK_NORM, qk_norm);
        CASE(ROPE, rope);
        CASE(KV_WRITE, kv_write);
        CASE(ATTEND, attend);
        CASE(GLU, glu);
        CASE(MOE_ROUTE, moe_route);
        CASE(MOE_MATMUL, moe_matmul);
        CASE(MOE_SUM, moe_sum);
        CASE(ADD, add);
        CASE(LOGITS, logits);
        CASE(CONCAT, concat);
        CASE(CONV1D, conv1d);
        CASE(SSM_SCAN, ssm_scan);
        CASE(DELTA_RULE, delta_rule);
        CASE(STREAMS_MIX, streams_mix);
        CASE(STREAMS_ADD, streams_add);
        CASE(COMPRESS, compress);
        CASE(BLOCKS_CHOOSE, blocks_choose);
        CASE(ATTEND_BLOCKS, attend_blocks);
#undef CASE
    case HALO_OP_COUNT: break;
    }
    return halo_reason(reason, -ENOTSUP, "op %u has no kernel", (unsigned)op->kind);
}
