/* op_heads.c: what lies between the product of q, k and v and attention, in one launch instead of three; together with
 * attention where the rows are of a sequence each, so that none needs what another one brings. Device thread.
 *
 * The ops stay what they are: a plan that has them otherwise, or heads of a size that the kernel does not take, runs
 * them one by one. With attention, q and k are rotated on the way and not written back: no op behind may read them.
 */
#include "run_priv.h"

/* The ops of a plan that belong together; norm may be NULL. */
struct group {
    const struct halo_op_qk_norm *norm;
    const struct halo_op_rope *rope;
    const struct halo_op_kv_write *write;
    uint32_t n_ops;
};

static bool find_group(const struct halo_plan *plan, uint32_t index, struct group *ret)
{
    const struct halo_op *op = &plan->ops[index], *end = plan->ops + plan->n_ops;
    *ret = (struct group){0};
    if (op->kind == HALO_OP_QK_NORM)
        ret->norm = &op++->u.qk_norm;
    if (op + 1 >= end || op[0].kind != HALO_OP_ROPE || op[1].kind != HALO_OP_KV_WRITE)
        return false;
    ret->rope = &op[0].u.rope;
    ret->write = &op[1].u.kv_write;
    ret->n_ops = ret->norm ? 3 : 2;
    const struct halo_op_qk_norm *norm = ret->norm;
    if (norm && (norm->q != ret->rope->q || norm->k != ret->rope->k || norm->head_dim != ret->rope->head_dim ||
                 norm->n_head != ret->rope->n_head || norm->n_head_kv != ret->rope->n_head_kv))
        return false;
    const struct halo_kv_shape *kv = &plan->kv;
    return ret->write->k == ret->rope->k && ret->write->v != ret->rope->k && kv->n_head_kv == ret->rope->n_head_kv &&
           kv->head_dim_k == ret->rope->head_dim && kv->head_dim_v == ret->rope->head_dim &&
           kv->head_dim_k <= HALO_HEADS_DIM;
}

/* The values that an op reads, two at most. */
struct inputs {
    uint16_t x, y;
};

static struct inputs inputs_of(const struct halo_op *op)
{
    switch (op->kind) {
    case HALO_OP_RMSNORM: return (struct inputs){op->u.rmsnorm.x, op->u.rmsnorm.add};
    case HALO_OP_MATMUL: return (struct inputs){op->u.matmul.x, HALO_NONE};
    case HALO_OP_QK_NORM: return (struct inputs){op->u.qk_norm.q, op->u.qk_norm.k};
    case HALO_OP_ROPE: return (struct inputs){op->u.rope.q, op->u.rope.k};
    case HALO_OP_KV_WRITE: return (struct inputs){op->u.kv_write.k, op->u.kv_write.v};
    case HALO_OP_ATTEND: return (struct inputs){op->u.attend.q, HALO_NONE};
    case HALO_OP_GLU: return (struct inputs){op->u.glu.gate, op->u.glu.up};
    case HALO_OP_MOE_ROUTE: return (struct inputs){op->u.moe_route.logits, HALO_NONE};
    case HALO_OP_MOE_MATMUL: return (struct inputs){op->u.moe_matmul.x, op->u.moe_matmul.choice};
    case HALO_OP_MOE_SUM: return (struct inputs){op->u.moe_sum.x, op->u.moe_sum.choice};
    case HALO_OP_ADD: return (struct inputs){op->u.add.x, op->u.add.add};
    case HALO_OP_LOGITS: return (struct inputs){op->u.logits.x, HALO_NONE};
    default: return (struct inputs){HALO_NONE, HALO_NONE};
    }
}

/* Whether nothing from op `index` on reads the value before a product writes it anew. */
static bool is_over(const struct halo_plan *plan, uint32_t index, uint16_t value)
{
    for (const struct halo_op *op = plan->ops + index; op < plan->ops + plan->n_ops; op++) {
        const struct inputs in = inputs_of(op);
        if (in.x == value || in.y == value)
            return false;
        for (uint32_t i = 0; op->kind == HALO_OP_MATMUL && i < op->u.matmul.n; i++)
            if (op->u.matmul.out[i] == value)
                return true;
    }
    return true;
}

static const struct halo_op_attend *find_attend(const struct halo_plan *plan, uint32_t index, const struct group *g)
{
    const struct halo_op *op = plan->ops + index;
    return index < plan->n_ops && op->kind == HALO_OP_ATTEND && op->u.attend.q == g->rope->q &&
                   op->u.attend.n_head == g->rope->n_head && op->u.attend.kv_layer == g->write->kv_layer &&
                   is_over(plan, index + 1, g->rope->q) && is_over(plan, index + 1, g->rope->k)
               ? &op->u.attend
               : NULL;
}

int halo_hip_op_heads(struct halo_hip_run *run, uint32_t index, uint32_t *ret_n)
{
    const struct halo_device_model *model = run->model;
    const struct halo_kv_shape *kv = &model->plan->kv;
    uint32_t type = HALO_HIP_TYPE_KV_F32 + (uint32_t)kv->type;
    struct group g;
    *ret_n = 0;
    if (!find_group(model->plan, index, &g) ||
        halo_hip_kernel_find(model->device, HALO_HIP_HEADS, type, run->n_rows) < 0)
        return 0;
    const struct halo_rope *rope = &model->plan->ropes[g.rope->rope];
    struct halo_heads_args args = {.kv = halo_hip_kv_arg(run, g.write->kv_layer, 0),
                                   .q = halo_hip_value(model, g.rope->q),
                                   .k = halo_hip_value(model, g.rope->k),
                                   .v = halo_hip_value(model, g.write->v),
                                   .q_weight = g.norm ? halo_hip_vector(model, g.norm->q_weight) : NULL,
                                   .k_weight = g.norm ? halo_hip_vector(model, g.norm->k_weight) : NULL,
                                   .table = run->in.rope[g.rope->rope],
                                   .n_head = g.rope->n_head,
                                   .n_rot = rope->n_rot,
                                   .neox = rope->pairing == HALO_ROPE_NEOX,
                                   .eps = g.norm ? g.norm->eps : 0};
    const struct halo_op_attend *attend =
        run->apart && run->n_rows <= HALO_HIP_ITEMS_MAX ? find_attend(model->plan, index + g.n_ops, &g) : NULL;
    *ret_n = g.n_ops + (attend ? 1 : 0);
    if (attend) {
        run->op = index + g.n_ops;
        return halo_hip_attend_fresh(run, attend, &args);
    }
    halo_hip_wrote(run, g.rope->q);
    halo_hip_wrote(run, g.rope->k);
    uint32_t n_heads = g.rope->n_head + 2 * kv->n_head_kv;
    return halo_hip_launch(run, HALO_HIP_HEADS, type, run->n_rows,
                           (struct halo_hip_grid){HALO_HIP_CEIL(n_heads, HALO_HEAD_WAVES), run->n_rows, 1}, &args);
}
