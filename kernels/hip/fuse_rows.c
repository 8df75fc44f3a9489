/* fuse_rows.c: what ops of many rows leave to those behind them: rows of f16 to products by matrix tiles (contract in
 * compile_priv.h).
 */
#include "compile_priv.h"

/* Whether the weight is multiplied by matrix tiles, or by strips that take their halves in the order of tiles. */
static bool is_tiled(const struct halo_hip_compiler *c, const struct halo_weight *w)
{
    bool reorders = halo_hip_quantized(w->type) && halo_hip_uses_strips(c, w->type, c->min_rows, w->n_cols);
    return halo_hip_uses_gemm(c->min_rows, w->n_cols) && !reorders &&
           halo_hip_kernel_find(c->model->device, HALO_HIP_GEMM, w->type, c->min_rows) >= 0;
}

/* Whether the op is such a product of the rows of x; their length, and how many to a row of the batch. */
static bool takes_half(const struct halo_hip_compiler *c, const struct halo_op *op, uint16_t x, uint32_t *ret_cols,
                       uint32_t *ret_per_row)
{
    bool of_experts = op->kind == HALO_OP_MOE_MATMUL && op->u.moe_matmul.x == x;
    if (!of_experts && (op->kind != HALO_OP_MATMUL || op->u.matmul.x != x))
        return false;
    const uint32_t *weight = of_experts ? op->u.moe_matmul.weight : op->u.matmul.weight;
    uint32_t n = of_experts ? op->u.moe_matmul.n : op->u.matmul.n;
    for (uint32_t k = 0; k < n; k++) {
        const struct halo_weight *w = &c->plan->weights[weight[k]];
        if (!(of_experts ? halo_hip_uses_expert_tiles(c, &op->u.moe_matmul, k) : is_tiled(c, w)))
            return false;
        *ret_cols = w->n_cols;
    }
    *ret_per_row = of_experts && op->u.moe_matmul.per_slot ? op->u.moe_matmul.n_used : 1;
    return true;
}

uint32_t halo_hip_fuse_half(const struct halo_hip_compiler *c, uint16_t out, uint32_t *ret_per_row, bool *ret_alone)
{
    const struct halo_op *op = c->plan->ops + c->op + 1, *end = c->plan->ops + c->plan->n_ops;
    uint32_t n_cols = 0, next_cols = 0, next_per_row = 0;
    struct halo_hip_router router;
    bool read = false;
    for (; op < end && c->min_rows > HALO_HIP_GEMV_ROWS_MAX; op++) {
        if (op->kind == HALO_OP_MOE_ROUTE && !halo_op_reads(op, out))
            continue; /* between a router and the experts */
        if (halo_hip_fuse_router(c, (uint32_t)(op - c->plan->ops), &router)) {
            read = read || halo_op_reads(op, out);
            continue;
        }
        if (!takes_half(c, op, out, &next_cols, &next_per_row) ||
            (n_cols > 0 && (next_cols != n_cols || next_per_row != *ret_per_row)))
            break;
        n_cols = next_cols;
        *ret_per_row = next_per_row;
        if (halo_op_writes(op, out))
            break;
    }
    *ret_alone = n_cols > 0 && !read && halo_hip_is_dead(c->plan, (uint32_t)(op - c->plan->ops), out);
    return n_cols;
}
