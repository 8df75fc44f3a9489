/* fuse_moe.c: which ops of a mixture share a launch: few rows, whose launches cost more than what they do, and many,
 * whose rows then are not written in between (contract in compile_priv.h).
 */
#include "compile_priv.h"

/* Whether the matrices are rows of F32 behind each other, as a router's are. */
static bool is_plain(const struct halo_plan *plan, const struct halo_op_matmul *u)
{
    for (uint32_t k = 0; k < u->n; k++) {
        const struct halo_weight *w = &plan->weights[u->weight[k]];
        if (w->type != HALO_TYPE_F32 || w->n_cols % 4 != 0 || halo_hip_scaled(w))
            return false;
    }
    return true;
}

bool halo_hip_fuse_router(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_router *ret)
{
    const struct halo_op *op = &c->plan->ops[index];
    if (c->max_rows > HALO_HIP_ROUTER_ROWS_MAX || index + 1 >= c->plan->n_ops || op[0].kind != HALO_OP_MATMUL ||
        op[1].kind != HALO_OP_MOE_ROUTE)
        return false;
    *ret = (struct halo_hip_router){&op[0].u.matmul, &op[1].u.moe_route};
    return ret->product->n <= HALO_ROUTER_MATRICES && ret->product->out[0] == ret->route->logits &&
           is_plain(c->plan, ret->product) &&
           halo_hip_kernel_find(c->model->device, HALO_HIP_MOE_ROUTER, HALO_HIP_TYPE_ANY, c->min_rows) >= 0;
}

bool halo_hip_fuse_router_norm(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_router_norm *ret)
{
    const struct halo_op *op = &c->plan->ops[index];
    if (op->kind != HALO_OP_RMSNORM || index + 1 >= c->plan->n_ops || !halo_hip_fuse_router(c, index + 1, &ret->router))
        return false;
    ret->norm = &op->u.rmsnorm;
    uint32_t n_cols = c->plan->values[ret->norm->out].width;
    return !ret->norm->centre && ret->norm->out != ret->norm->x && ret->router.product->x == ret->norm->out &&
           n_cols % HALO_HIP_UNIT == 0 && n_cols <= HALO_ROUTER_NORM_COLS &&
           halo_hip_kernel_find(c->model->device, HALO_HIP_MOE_ROUTER_NORM, HALO_HIP_TYPE_ANY, c->min_rows) >= 0;
}

/* Whether the sum joins what the norm is of, or is it, and is read by nobody else. */
static bool sum_is_taken(const struct halo_plan *plan, uint32_t next, const struct halo_hip_sum_norm *pair)
{
    uint16_t sum = pair->sum->out;
    if (pair->norm->x == sum)
        return pair->norm->add == HALO_NONE;
    return pair->norm->add == sum && (pair->norm->out == sum || halo_hip_is_dead(plan, next, sum));
}

bool halo_hip_fuse_sum_norm(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_sum_norm *ret)
{
    const struct halo_op *op = &c->plan->ops[index];
    if (index + 1 >= c->plan->n_ops || op[0].kind != HALO_OP_MOE_SUM || op[1].kind != HALO_OP_RMSNORM ||
        halo_hip_fuse_last_norm(c, index + 1))
        return false;
    *ret = (struct halo_hip_sum_norm){&op[0].u.moe_sum, &op[1].u.rmsnorm};
    return !ret->norm->centre && c->plan->values[ret->sum->out].width % 4 == 0 &&
           sum_is_taken(c->plan, index + HALO_HIP_PAIR_OPS, ret) &&
           halo_hip_kernel_find(c->model->device, HALO_HIP_MOE_SUM_NORM, HALO_HIP_TYPE_ANY, c->min_rows) >= 0;
}
