/* fuse.c: which ops of a plan share a launch, and what an op leaves for the one behind it (contract in compile_priv.h).
 *
 * The ops stay what they are: a plan that has them in another order, or heads of a size that the kernel does not take,
 * has a launch for each. With attention, q and k are rotated on the way and not written back: no op behind may read
 * them.
 */
#include "compile_priv.h"

static bool find_heads(const struct halo_plan *plan, uint32_t index, struct halo_hip_heads *ret)
{
    const struct halo_op *op = &plan->ops[index], *end = plan->ops + plan->n_ops;
    *ret = (struct halo_hip_heads){0};
    if (op->kind == HALO_OP_QK_NORM)
        ret->norm = &op++->u.qk_norm;
    if (op + 1 >= end || op[0].kind != HALO_OP_ROPE || op[1].kind != HALO_OP_KV_WRITE)
        return false;
    ret->rope = &op[0].u.rope;
    ret->write = &op[1].u.kv_write;
    ret->n_ops = ret->norm ? 3 : 2;
    const struct halo_op_qk_norm *norm = ret->norm;
    if (norm && (norm->q_weight == HALO_WEIGHT_NONE || norm->k_weight == HALO_WEIGHT_NONE))
        return false;
    if (norm && (norm->q != ret->rope->q || norm->k != ret->rope->k || norm->head_dim != ret->rope->head_dim ||
                 norm->n_head != ret->rope->n_head || norm->n_head_kv != ret->rope->n_head_kv))
        return false;
    const struct halo_kv_group *kv = &plan->kv[ret->write->kv_group];
    return !kv->latent && ret->write->k == ret->rope->k && ret->write->v != ret->rope->k &&
           kv->n_head_kv == ret->rope->n_head_kv && kv->head_dim_k == ret->rope->head_dim &&
           kv->head_dim_v == ret->rope->head_dim && kv->head_dim_k <= HALO_HEADS_DIM;
}

/* What a stage leaves is read by the next one. */
bool halo_hip_is_dead(const struct halo_plan *plan, uint32_t index, uint16_t value)
{
    for (const struct halo_op *op = plan->ops + index; op < plan->ops + plan->n_ops; op++) {
        if (halo_op_reads(op, value))
            return false;
        if (halo_op_writes(op, value))
            return true;
    }
    for (uint32_t i = 0; i < plan->leaves.n; i++)
        if (plan->leaves.value[i] == value)
            return false;
    return true;
}

static const struct halo_op_attend *find_attend(const struct halo_plan *plan, uint32_t index,
                                                const struct halo_hip_heads *g)
{
    const struct halo_op *op = plan->ops + index;
    return index < plan->n_ops && op->kind == HALO_OP_ATTEND && op->u.attend.q == g->rope->q &&
                   op->u.attend.n_head == g->rope->n_head && op->u.attend.kv_layer == g->write->kv_layer &&
                   op->u.attend.kv_group == g->write->kv_group && halo_hip_is_dead(plan, index + 1, g->rope->q) &&
                   halo_hip_is_dead(plan, index + 1, g->rope->k)
               ? &op->u.attend
               : NULL;
}

bool halo_hip_fuse_heads(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_heads *ret)
{
    if (!find_heads(c->plan, index, ret))
        return false;
    uint32_t type = HALO_HIP_TYPE_KV_F32 + (uint32_t)c->plan->kv[ret->write->kv_group].type;
    if (halo_hip_kernel_find(c->model->device, HALO_HIP_HEADS, type, c->min_rows) < 0)
        return false;
    ret->attend = c->shape == HALO_HIP_APART ? find_attend(c->plan, index + ret->n_ops, ret) : NULL;
    ret->n_ops += ret->attend ? 1 : 0;
    return true;
}

/* The ops of plan_latent's absorbed form, by their kinds. */
static bool find_latent(const struct halo_plan *plan, uint32_t index, struct halo_hip_latent *ret)
{
    static const enum halo_op_kind kinds[HALO_HIP_LATENT_OPS] = {HALO_OP_RMSNORM, HALO_OP_CONCAT,     HALO_OP_CONCAT,
                                                                 HALO_OP_ROPE,    HALO_OP_MOE_MATMUL, HALO_OP_CONCAT,
                                                                 HALO_OP_CONCAT,  HALO_OP_KV_WRITE};
    const struct halo_op *op = &plan->ops[index];
    for (uint32_t i = 0; i < HALO_HIP_LATENT_OPS; i++)
        if (index + i >= plan->n_ops || op[i].kind != kinds[i])
            return false;
    *ret = (struct halo_hip_latent){.norm = &op[0].u.rmsnorm,
                                    .low = &op[1].u.concat,
                                    .rot = &op[2].u.concat,
                                    .rope = &op[3].u.rope,
                                    .down = &op[4].u.moe_matmul,
                                    .q = &op[5].u.concat,
                                    .k = &op[6].u.concat,
                                    .write = &op[7].u.kv_write};
    return true;
}

/* Whether what one of the ops writes is what the next reads, head by head. */
static bool latent_connects(const struct halo_hip_latent *l)
{
    const struct halo_op_concat *low = l->low, *rot = l->rot, *q = l->q, *k = l->k;
    uint32_t n_head = l->rope->n_head, n_rot = l->rope->head_dim;
    return l->norm->x == l->norm->out && low->a == rot->a && low->a_first == 0 && rot->a_first == low->n_a &&
           low->n_b == 0 && rot->n_b == 0 && rot->n_a == n_rot && low->n_head == n_head && rot->n_head == n_head &&
           l->rope->q == rot->out && l->rope->n_head_kv == 1 && l->down->x == low->out && l->down->n_used == n_head &&
           q->a == l->down->out[0] && q->a_first == 0 && q->b == rot->out && q->n_b == n_rot && !q->b_shared &&
           q->n_head == n_head && k->a == l->norm->out && k->a_first == 0 && k->b == l->rope->k && k->n_b == n_rot &&
           k->n_head == 1 && k->n_a == q->n_a && l->write->k == k->out && l->write->v == HALO_NONE;
}

/* Whether the kernel computes this: heads of these sizes, a plain norm, one matrix for each head. */
static bool latent_fits(const struct halo_plan *plan, const struct halo_hip_latent *l)
{
    const struct halo_op_rmsnorm *norm = l->norm;
    const struct halo_op_moe_matmul *down = l->down;
    const struct halo_weight *w = &plan->weights[down->weight[0]];
    const struct halo_kv_group *kv = &plan->kv[l->write->kv_group];
    uint32_t n_low = l->low->n_a, n_rot = l->rot->n_a, n_row = l->q->n_a;
    return norm->add == HALO_NONE && norm->bias == HALO_WEIGHT_NONE && norm->weight != HALO_WEIGHT_NONE &&
           !norm->centre && down->n == 1 && down->choice == HALO_NONE && down->per_slot &&
           down->bias[0] == HALO_WEIGHT_NONE && !halo_hip_scaled(w) && w->n_rows == n_row && w->n_cols == n_low &&
           plan->values[l->low->a].width == l->rope->n_head * (n_low + n_rot) && kv->latent &&
           kv->head_dim_k == n_row + n_rot && n_row <= HALO_LATENT_DIM_V && n_low % 4 == 0 &&
           n_low <= HALO_LATENT_LOW && n_rot % 4 == 0 && n_rot <= HALO_LATENT_ROT;
}

bool halo_hip_fuse_latent(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_latent *ret)
{
    if (c->max_rows > HALO_HIP_GEMV_ROWS_MAX || !find_latent(c->plan, index, ret) || !latent_connects(ret) ||
        !latent_fits(c->plan, ret))
        return false;
    /* None of these is written. */
    const uint16_t inner[] = {ret->norm->out, ret->low->out, ret->rot->out,
                              ret->rope->k,   ret->k->out,   ret->down->out[0]};
    for (uint32_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++)
        if (!halo_hip_is_dead(c->plan, index + HALO_HIP_LATENT_OPS, inner[i]))
            return false;
    uint32_t type = HALO_HIP_TYPE_KV_F32 + (uint32_t)c->plan->kv[ret->write->kv_group].type;
    return halo_hip_kernel_find(c->model->device, HALO_HIP_LATENT_HEADS, type, c->min_rows) >= 0;
}

/* Whether the op neither reads nor makes activation rows: the routing of experts, by weights that are not quantized. */
static bool passes_act(const struct halo_plan *plan, const struct halo_op *op)
{
    if (op->kind == HALO_OP_MOE_ROUTE)
        return true;
    for (uint32_t k = 0; op->kind == HALO_OP_MATMUL && k < op->u.matmul.n; k++)
        if (halo_hip_quantized(plan->weights[op->u.matmul.weight[k]].type))
            return false;
    return op->kind == HALO_OP_MATMUL;
}

uint32_t halo_hip_fuse_act(const struct halo_hip_compiler *c, uint16_t out, uint32_t *ret_per_row)
{
    const struct halo_op *next = c->plan->ops + c->op + 1, *end = c->plan->ops + c->plan->n_ops;
    *ret_per_row = 1;
    while (next < end && passes_act(c->plan, next) && !halo_op_writes(next, out))
        next++;
    if (next >= end || c->max_rows > HALO_HIP_GEMV_ROWS_MAX)
        return 0;
    uint32_t weight;
    if (next->kind == HALO_OP_MATMUL && next->u.matmul.x == out) {
        weight = next->u.matmul.weight[0];
    } else if (next->kind == HALO_OP_LOGITS && next->u.logits.x == out) {
        weight = next->u.logits.weight;
    } else if (next->kind == HALO_OP_MOE_MATMUL && next->u.moe_matmul.x == out) {
        weight = next->u.moe_matmul.weight[0];
        *ret_per_row = next->u.moe_matmul.per_slot ? next->u.moe_matmul.n_used : 1;
    } else {
        return 0;
    }
    const struct halo_weight *w = &c->plan->weights[weight];
    bool strips = next->kind != HALO_OP_MOE_MATMUL && halo_hip_uses_strips(c, w->type, c->min_rows, w->n_cols);
    return halo_hip_quantized(w->type) && !strips ? w->n_cols : 0;
}

bool halo_hip_fuse_last_norm(const struct halo_hip_compiler *c, uint32_t index)
{
    const struct halo_op *op = &c->plan->ops[index];
    if (c->max_rows <= HALO_HIP_GEMV_ROWS_MAX || index + 1 >= c->plan->n_ops || op[0].kind != HALO_OP_RMSNORM ||
        op[1].kind != HALO_OP_LOGITS)
        return false;
    const struct halo_op_rmsnorm *norm = &op[0].u.rmsnorm;
    return norm->out == op[1].u.logits.x && norm->out != norm->x && !norm->centre &&
           halo_hip_is_dead(c->plan, index + 2, norm->out) && halo_hip_is_dead(c->plan, index + 2, norm->x);
}
