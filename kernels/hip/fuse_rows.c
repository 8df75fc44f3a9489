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

/* halo_hip_fuse_half behind the op `index`. */
static uint32_t half_readers(const struct halo_hip_compiler *c, uint32_t index, uint16_t out, uint32_t *ret_per_row,
                             bool *ret_alone)
{
    const struct halo_op *op = c->plan->ops + index + 1, *end = c->plan->ops + c->plan->n_ops;
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

uint32_t halo_hip_fuse_half(const struct halo_hip_compiler *c, uint16_t out, uint32_t *ret_per_row, bool *ret_alone)
{
    return half_readers(c, c->op, out, ret_per_row, ret_alone);
}

/* Whether the op is a product of two matrices by tiles that can be gate and up of a GLU in its epilogue; ret_x and
 * ret_out are its values. */
static bool makes_pair(const struct halo_hip_compiler *c, const struct halo_op *op, uint16_t *ret_x,
                       const uint16_t **ret_out, uint32_t *ret_cols)
{
    const bool of_experts = op->kind == HALO_OP_MOE_MATMUL;
    if (!of_experts && op->kind != HALO_OP_MATMUL)
        return false;
    const struct halo_op_matmul *u = &op->u.matmul;
    const struct halo_op_moe_matmul *experts = &op->u.moe_matmul;
    const uint32_t *weight = of_experts ? experts->weight : u->weight;
    if ((of_experts ? experts->n : u->n) != 2)
        return false;
    const struct halo_weight *gate = &c->plan->weights[weight[0]], *up = &c->plan->weights[weight[1]];
    *ret_x = of_experts ? experts->x : u->x;
    *ret_out = of_experts ? experts->out : u->out;
    *ret_cols = gate->n_rows;
    if (gate->n_rows != up->n_rows || gate->n_rows % HALO_HIP_UNIT != 0 || halo_hip_scaled(gate) || halo_hip_scaled(up))
        return false;
    if (of_experts)
        return gate->type == up->type && halo_hip_uses_expert_tiles(c, experts, 0);
    return halo_hip_form(gate->type) == halo_hip_form(up->type) && is_tiled(c, gate) &&
           !halo_hip_uses_strips(c, gate->type, c->min_rows, gate->n_cols);
}

bool halo_hip_fuse_glu_rows(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_glu_rows *ret)
{
    const struct halo_plan *plan = c->plan;
    const struct halo_op *op = &plan->ops[index];
    const uint16_t *made;
    uint32_t n_cols;
    uint16_t x;
    bool alone = false;
    if (c->max_rows <= HALO_HIP_GEMV_ROWS_MAX || index + 2 >= plan->n_ops || op[1].kind != HALO_OP_GLU ||
        !makes_pair(c, op, &x, &made, &n_cols))
        return false;
    const struct halo_op_glu *glu = &op[1].u.glu;
    if (glu->gate != made[0] || glu->up != made[1] || glu->gate == glu->up || glu->out == x)
        return false;
    *ret = (struct halo_hip_glu_rows){.glu = glu, .n_cols = n_cols};
    if (half_readers(c, index + 1, glu->out, &ret->per_row, &alone) != n_cols || !alone ||
        plan->values[glu->out].width != n_cols * ret->per_row)
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (made[i] != glu->out && !halo_hip_is_dead(plan, index + HALO_HIP_PAIR_OPS, made[i]))
            return false;
    return halo_hip_kernel_find(c->model->device, HALO_HIP_HALF_ALIGN, HALO_HIP_TYPE_ANY, c->min_rows) >= 0;
}
