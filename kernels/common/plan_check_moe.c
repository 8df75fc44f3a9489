/* plan_check_moe.c: checks of the ops of a mixture (check_priv.h). */
#include "check_priv.h"

#include <errno.h>

#include <common/reason.h>

static int check_choice(const struct halo_check *c, uint16_t choice, uint32_t n_used, uint32_t n_expert)
{
    if (n_used == 0 || n_used > n_expert || n_expert > c->limits->experts_max)
        return halo_reason(c->reason, -ENOTSUP, "%s: uses %u of %u experts, at most %u are supported", c->op, n_used,
                           n_expert, c->limits->experts_max);
    return halo_check_value(c, "choice", choice, 2 * n_used);
}

/* The experts of every token, where they are given. */
static int check_table(const struct halo_check *c, const struct halo_op_moe_route *u)
{
    uint64_t n = (uint64_t)c->plan->n_vocab * u->n_used;
    for (uint64_t i = 0; u->table && i < n; i++)
        if (u->table[i] < 0 || (uint32_t)u->table[i] >= u->n_expert)
            return halo_reason(c->reason, -ENOTSUP, "%s: token %u has expert %d of %u", c->op,
                               (unsigned)(i / u->n_used), u->table[i], u->n_expert);
    return 0;
}

int halo_check_moe_route(const struct halo_check *c, const struct halo_op_moe_route *u)
{
    TRY(halo_check_value(c, "logits", u->logits, u->n_expert));
    TRY(check_choice(c, u->choice, u->n_used, u->n_expert));
    if (u->gate != HALO_MOE_SOFTMAX && u->gate != HALO_MOE_SIGMOID && u->gate != HALO_MOE_SQRT_SOFTPLUS)
        return halo_check_refuse(c, "gate", u->gate, HALO_MOE_SOFTMAX);
    if (u->bias != HALO_WEIGHT_NONE)
        TRY(halo_check_weight(c, u->bias, HALO_WEIGHT_VECTOR, u->n_expert));
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
static int check_expert_vectors(const struct halo_check *c, uint32_t weight, uint32_t n_cols, uint32_t n_rows)
{
    if (weight == HALO_WEIGHT_NONE)
        return 0;
    TRY(halo_check_weight(c, weight, HALO_WEIGHT_VECTOR, n_cols));
    uint32_t have = c->plan->weights[weight].n_rows;
    return have != n_rows ? halo_check_refuse(c, "vectors of the experts", have, n_rows) : 0;
}

int halo_check_moe_matmul(const struct halo_check *c, const struct halo_op_moe_matmul *u)
{
    TRY(halo_check_value(c, "x", u->x, 0));
    if (u->n == 0 || u->n > 2)
        return halo_check_refuse(c, "weights", u->n, 2);
    if (u->n_used == 0 || (u->per_slot && halo_check_width_of(c, u->x) % u->n_used != 0))
        return halo_check_refuse(c, "slots", u->n_used, 1);
    for (uint32_t k = 0; k < u->n; k++) {
        TRY(halo_check_weight(c, u->weight[k], HALO_WEIGHT_EXPERTS,
                              halo_check_width_of(c, u->x) / (u->per_slot ? u->n_used : 1)));
        const struct halo_weight *w = &c->plan->weights[u->weight[k]];
        if (w->n_experts != c->plan->weights[u->weight[0]].n_experts)
            return halo_check_refuse(c, "experts", w->n_experts, c->plan->weights[u->weight[0]].n_experts);
        if (w->streamed != c->plan->weights[u->weight[0]].streamed || (w->streamed > 0 && u->choice == HALO_NONE))
            return halo_reason(c->reason, -ENOTSUP, "%s: %s is streamed, which the other weight or the choice forbids",
                               c->op, w->name);
        TRY(halo_check_value(c, "out", u->out[k], u->n_used * w->n_rows));
        TRY(check_expert_vectors(c, u->bias[k], w->n_rows, w->n_experts));
        if (u->out[k] == u->x)
            return halo_check_refuse_same(c, "out", u->out[k], "x");
    }
    uint32_t n_experts = c->plan->weights[u->weight[0]].n_experts;
    if (u->choice == HALO_NONE)
        return !u->per_slot || u->n_used != n_experts || n_experts > c->limits->experts_max
                   ? halo_check_refuse(c, "slots without a choice", u->n_used, n_experts)
                   : 0;
    return check_choice(c, u->choice, u->n_used, n_experts);
}

int halo_check_moe_sum(const struct halo_check *c, const struct halo_op_moe_sum *u)
{
    TRY(halo_check_value(c, "out", u->out, 0));
    TRY(halo_check_value(c, "choice", u->choice, 2 * u->n_used));
    TRY(halo_check_value(c, "x", u->x, u->n_used * halo_check_width_of(c, u->out)));
    if (u->add == HALO_NONE)
        return u->add_gate == HALO_NONE ? 0 : halo_check_refuse(c, "add_gate without add", u->add_gate, HALO_NONE);
    TRY(halo_check_value(c, "add", u->add, halo_check_width_of(c, u->out)));
    return u->add_gate == HALO_NONE ? 0 : halo_check_value(c, "add_gate", u->add_gate, 1);
}
