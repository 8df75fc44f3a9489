/* plan_check_rows.c: checks of ops that read and write values alone (check_priv.h). */
#include "check_priv.h"

#include <errno.h>
#include <float.h>

#include <common/reason.h>

int halo_check_embed(const struct halo_check *c, const struct halo_op_embed *u)
{
    TRY(halo_check_value(c, "out", u->out, 0));
    TRY(halo_check_weight(c, u->weight, HALO_WEIGHT_MATRIX, halo_check_width_of(c, u->out)));
    uint32_t n_rows = c->plan->weights[u->weight].n_rows;
    return n_rows < c->plan->n_vocab ? halo_check_refuse(c, "rows of the table", n_rows, c->plan->n_vocab) : 0;
}

int halo_check_rmsnorm(const struct halo_check *c, const struct halo_op_rmsnorm *u)
{
    TRY(halo_check_value(c, "x", u->x, 0));
    TRY(halo_check_value(c, "out", u->out, halo_check_width_of(c, u->x)));
    if (u->add != HALO_NONE)
        TRY(halo_check_value(c, "add", u->add, halo_check_width_of(c, u->x)));
    if (u->bias != HALO_WEIGHT_NONE && !u->centre)
        return halo_reason(c->reason, -ENOTSUP, "%s: only a norm that subtracts the mean has a bias", c->op);
    if (u->x_scale != 0 && (u->add == HALO_NONE || !(u->x_scale >= -FLT_MAX && u->x_scale <= FLT_MAX)))
        return halo_reason(c->reason, -ENOTSUP, "%s: the factor %g of x wants an addition and a finite number", c->op,
                           (double)u->x_scale);
    TRY(halo_check_vector(c, u->bias, halo_check_width_of(c, u->x)));
    return halo_check_vector(c, u->weight, halo_check_width_of(c, u->x));
}

int halo_check_matmul(const struct halo_check *c, const struct halo_op_matmul *u)
{
    TRY(halo_check_value(c, "x", u->x, 0));
    if (u->n == 0 || u->n > HALO_MATMUL_MAX)
        return halo_check_refuse(c, "weights", u->n, HALO_MATMUL_MAX);
    for (uint32_t k = 0; k < u->n; k++) {
        TRY(halo_check_factor(c, u->weight[k], halo_check_width_of(c, u->x)));
        const struct halo_weight *w = &c->plan->weights[u->weight[k]];
        uint32_t n_rows = w->n_rows;
        if (w->streamed != c->plan->weights[u->weight[0]].streamed)
            return halo_reason(c->reason, -ENOTSUP, "%s: %s is not streamed with the other weights", c->op, w->name);
        TRY(halo_check_value(c, "out", u->out[k], n_rows));
        if (u->out[k] == u->x)
            return halo_check_refuse_same(c, "out", u->out[k], "x");
        TRY(halo_check_vector(c, u->bias[k], n_rows));
    }
    return 0;
}

static int check_heads(const struct halo_check *c, uint16_t q, uint16_t k, uint32_t n_head, uint32_t n_head_kv,
                       uint32_t head_dim)
{
    TRY(halo_check_value(c, "q", q, n_head * head_dim));
    if (n_head == 0 || head_dim == 0)
        return halo_check_refuse(c, "heads", 0, 1);
    if (k == HALO_NONE)
        return n_head_kv != 0 ? halo_check_refuse(c, "heads of no k", n_head_kv, 0) : 0;
    TRY(halo_check_value(c, "k", k, n_head_kv * head_dim));
    return n_head_kv == 0 ? halo_check_refuse(c, "heads", 0, 1) : 0;
}

int halo_check_qk_norm(const struct halo_check *c, const struct halo_op_qk_norm *u)
{
    TRY(check_heads(c, u->q, u->k, u->n_head, u->n_head_kv, u->head_dim));
    TRY(halo_check_vector(c, u->q_weight, u->head_dim));
    uint32_t n = u->q_weight == HALO_WEIGHT_NONE ? 1 : c->plan->weights[u->q_weight].n_rows;
    if (n != 1 && (n != u->n_head || u->k != HALO_NONE))
        return halo_check_refuse(c, "vectors of q", n, 1);
    TRY(halo_check_vector(c, u->k_weight, u->head_dim));
    n = u->k_weight == HALO_WEIGHT_NONE ? 1 : c->plan->weights[u->k_weight].n_rows;
    return n != 1 ? halo_check_refuse(c, "vectors of k", n, 1) : 0;
}

int halo_check_rope(const struct halo_check *c, const struct halo_op_rope *u)
{
    TRY(check_heads(c, u->q, u->k, u->n_head, u->n_head_kv, u->head_dim));
    if (u->rope >= c->plan->n_ropes)
        return halo_check_refuse_index(c, "rotation", u->rope, c->plan->n_ropes);
    const struct halo_rope *rope = &c->plan->ropes[u->rope];
    if (rope->n_rot % 2 != 0 || rope->n_rot > u->head_dim)
        return halo_check_refuse(c, "rotated elements", rope->n_rot, u->head_dim);
    return rope->pairing != HALO_ROPE_NEOX && rope->pairing != HALO_ROPE_NORM
               ? halo_check_refuse(c, "pairing", rope->pairing, 0)
               : 0;
}

int halo_check_glu(const struct halo_check *c, const struct halo_op_glu *u)
{
    TRY(halo_check_value(c, "gate", u->gate, 0));
    if (u->up != HALO_NONE || u->act == HALO_GLU_CLAMPED)
        TRY(halo_check_value(c, "up", u->up, halo_check_width_of(c, u->gate)));
    TRY(halo_check_value(c, "out", u->out, halo_check_width_of(c, u->gate)));
    TRY(halo_check_positive(c, "limit", u->limit));
    if (u->limit > 0 && (u->up == HALO_NONE || u->up == u->gate))
        return halo_reason(c->reason, -ENOTSUP, "%s: a limit needs an up of its own; up is value %u and gate value %u",
                           c->op, u->up, u->gate);
    return u->act >= HALO_GLU_ACTS ? halo_check_refuse_index(c, "activation", u->act, HALO_GLU_ACTS) : 0;
}

int halo_check_add(const struct halo_check *c, const struct halo_op_add *u)
{
    TRY(halo_check_value(c, "x", u->x, 0));
    return halo_check_value(c, "add", u->add, halo_check_width_of(c, u->x));
}

int halo_check_concat(const struct halo_check *c, const struct halo_op_concat *u)
{
    TRY(halo_check_value(c, "a", u->a, 0));
    TRY(halo_check_value(c, "out", u->out, 0));
    uint32_t stride = u->n_head > 0 ? halo_check_width_of(c, u->a) / u->n_head : 0;
    if (stride * u->n_head != halo_check_width_of(c, u->a) || u->n_a == 0 || (uint64_t)u->a_first + u->n_a > stride ||
        halo_check_width_of(c, u->out) != (uint64_t)u->n_head * (u->n_a + u->n_b) ||
        (u->b == HALO_NONE) != (u->n_b == 0))
        return halo_reason(c->reason, -ENOTSUP, "%s: %u heads of %u and %u elements", c->op, u->n_head, u->n_a, u->n_b);
    if (u->b != HALO_NONE)
        TRY(halo_check_value(c, "b", u->b, u->n_b * (u->b_shared ? 1 : u->n_head)));
    return u->out == u->a || u->out == u->b ? halo_check_refuse_same(c, "out", u->out, "a and b") : 0;
}

static int check_streams(const struct halo_check *c, uint16_t x, uint16_t one, uint32_t n)
{
    if (n < 2 || n > HALO_STREAMS_MAX)
        return halo_reason(c->reason, -ENOTSUP, "%s: %u streams, wanted 2 to %d", c->op, n, HALO_STREAMS_MAX);
    TRY(halo_check_value(c, "stream", one, 0));
    TRY(halo_check_value(c, "x", x, n * halo_check_width_of(c, one)));
    return x == one ? halo_check_refuse_same(c, "stream", one, "x") : 0;
}

int halo_check_streams_mix(const struct halo_check *c, const struct halo_op_streams_mix *u)
{
    TRY(check_streams(c, u->x, u->out, u->n));
    uint32_t n_mix = u->back == HALO_NONE ? u->n : u->n * (u->n + 2);
    TRY(halo_check_value(c, "mix", u->mix, n_mix));
    if (u->back != HALO_NONE)
        TRY(halo_check_value(c, "back", u->back, u->n * (u->n + 1)));
    if (u->out == u->mix || u->out == u->back || u->back == u->mix || u->back == u->x)
        return halo_check_refuse_same(c, "out", u->out, "its inputs");
    if (u->back != HALO_NONE && (u->iterations == 0 || u->iterations > 1000))
        return halo_check_refuse(c, "iterations", u->iterations, 1000);
    TRY(halo_check_positive(c, "eps", u->eps));
    TRY(halo_check_weight(c, u->scale, HALO_WEIGHT_VECTOR, u->back == HALO_NONE ? 1 : 3));
    return halo_check_weight(c, u->base, HALO_WEIGHT_VECTOR, n_mix);
}

int halo_check_streams_add(const struct halo_check *c, const struct halo_op_streams_add *u)
{
    TRY(check_streams(c, u->x, u->add, u->n));
    return halo_check_value(c, "back", u->back, u->n * (u->n + 1));
}

int halo_check_logits(const struct halo_check *c, const struct halo_op_logits *u)
{
    TRY(halo_check_value(c, "x", u->x, 0));
    TRY(halo_check_weight(c, u->weight, HALO_WEIGHT_MATRIX, halo_check_width_of(c, u->x)));
    uint32_t n_rows = c->plan->weights[u->weight].n_rows;
    if (n_rows != c->plan->n_vocab)
        return halo_check_refuse(c, "rows of the head", n_rows, c->plan->n_vocab);
    TRY(halo_check_positive(c, "cap", u->cap));
    return halo_check_vector(c, u->bias, n_rows);
}
