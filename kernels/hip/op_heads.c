/* op_heads.c: what lies between the product of q, k and v and attention, in one launch instead of three. Device thread.
 *
 * The ops stay what they are: a plan that has them otherwise, or heads of a size that the kernel does not take, runs
 * them one by one.
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
    *ret_n = g.n_ops;
    halo_hip_wrote(run, g.rope->q);
    halo_hip_wrote(run, g.rope->k);
    uint32_t n_heads = g.rope->n_head + 2 * kv->n_head_kv;
    return halo_hip_launch(run, HALO_HIP_HEADS, type, run->n_rows,
                           (struct halo_hip_grid){HALO_HIP_CEIL(n_heads, HALO_HEAD_WAVES), run->n_rows, 1}, &args);
}
