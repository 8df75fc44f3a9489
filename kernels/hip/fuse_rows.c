/* fuse_rows.c: what ops of many rows leave to those behind them: rows of f16 to products by matrix tiles, and to the
 * logits the norm of the rows that are wanted (contract in compile_priv.h).
 */
#include "compile_priv.h"

/* Whether the op is a product by matrix tiles of the rows of x; their length, and how many to a row of the batch. */
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
        uint32_t kind = of_experts ? HALO_HIP_MOE_GEMM : HALO_HIP_GEMM, rows = of_experts ? HALO_MOE_TILE : c->min_rows;
        if (!halo_hip_uses_gemm(c->min_rows, w->n_cols) ||
            halo_hip_kernel_find(c->model->device, kind, halo_hip_form(w->type), rows) < 0)
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
    for (; op < end && c->min_rows > HALO_HIP_GEMV_ROWS_MAX; op++) {
        if (op->kind == HALO_OP_MOE_ROUTE && !halo_op_reads(op, out))
            continue; /* between a router and the experts */
        if (!takes_half(c, op, out, &next_cols, &next_per_row) ||
            (n_cols > 0 && (next_cols != n_cols || next_per_row != *ret_per_row)))
            break;
        n_cols = next_cols;
        *ret_per_row = next_per_row;
        if (halo_op_writes(op, out))
            break;
    }
    *ret_alone = n_cols > 0 && halo_hip_is_dead(c->plan, (uint32_t)(op - c->plan->ops), out);
    return n_cols;
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
