/* estimate.c: what a plan costs: bytes read and operations of a step.
 *
 * Pure arithmetic over the plan, any thread, no overflow for a plan that a checked file gave. A step reads each weight
 * once for all its rows, so a step of more rows costs more operations but hardly more weight bytes: the two bounds of
 * the roofline.
 */
#include <assert.h>
#include <math.h>

#include <model/model.h>

/* Of n_experts, how many are touched when each of n_rows rows picks n_used at random: what a mixture reads of its
 * weights. */
static double experts_touched(uint32_t n_experts, uint32_t n_used, uint32_t n_rows)
{
    double missed = pow(1 - (double)n_used / n_experts, n_rows);
    return n_experts * (1 - missed);
}

static void matrix_cost(const struct halo_plan *plan, uint32_t index, uint32_t n_rows, struct halo_plan_cost *cost)
{
    const struct halo_weight *weight = &plan->weights[index];

    cost->weight_bytes += weight->n_bytes;
    cost->flops += 2ull * weight->n_cols * weight->n_rows * n_rows;
}

/* n_seen rows of one K, V or both. */
static void rows_cost(const struct halo_kv_group *kv, uint32_t n_head, uint32_t n_seen, uint32_t n_rows,
                      struct halo_plan_cost *cost)
{
    uint64_t row_bytes = (uint64_t)halo_kv_row_bytes(kv->type, kv->head_dim_k) + halo_kv_value_bytes(kv);

    cost->kv_bytes += row_bytes * kv->n_head_kv * n_seen * n_rows;
    cost->flops += 2ull * (kv->head_dim_k + kv->head_dim_v) * n_head * n_seen * n_rows;
}

static void blocks_cost(const struct halo_plan *plan, const struct halo_op_attend_blocks *op, uint32_t n_positions,
                        uint32_t n_rows, struct halo_plan_cost *cost)
{
    uint32_t n_blocks = n_positions / op->ratio;
    if (op->chosen != HALO_NONE && n_blocks > plan->values[op->chosen].width)
        n_blocks = plan->values[op->chosen].width;
    rows_cost(&plan->kv[op->block_group], op->n_head, n_blocks, n_rows, cost);
    if (op->window > 0 && op->window < n_positions)
        n_positions = op->window;
    rows_cost(&plan->kv[op->kv_group], op->n_head, n_positions, n_rows, cost);
}

/* Every block is scored by its key; there are no values. */
static void choose_cost(const struct halo_plan *plan, const struct halo_op_blocks_choose *op, uint32_t n_positions,
                        uint32_t n_rows, struct halo_plan_cost *cost)
{
    const struct halo_kv_group *kv = &plan->kv[op->kv_group];
    uint64_t n_blocks = n_positions / op->ratio;

    if (n_blocks <= op->top_k) /* all of them, unseen */
        return;
    cost->kv_bytes += halo_kv_row_bytes(kv->type, kv->head_dim_k) * n_blocks * n_rows;
    cost->flops += 2ull * kv->head_dim_k * op->n_head * n_blocks * n_rows;
}

static void attend_cost(const struct halo_plan *plan, const struct halo_op_attend *op, uint32_t n_positions,
                        uint32_t n_rows, struct halo_plan_cost *cost)
{
    const struct halo_kv_group *kv = &plan->kv[op->kv_group];
    if (op->window > 0 && op->window < n_positions)
        n_positions = op->window;
    rows_cost(kv, op->n_head, n_positions, n_rows, cost);
}

/* A step reads and writes a state once for all rows of its sequence: as if they were of one. Seven operations an
 * element and row: the decay, two products and the update. */
static void delta_rule_cost(const struct halo_op_delta_rule *op, uint32_t n_rows, struct halo_plan_cost *cost)
{
    uint64_t n = (uint64_t)op->n_head_v * op->dim_v * op->dim_k;

    cost->kv_bytes += 2 * n * sizeof(float);
    cost->flops += 7 * n * n_rows;
}

/* The same; five operations: the decay, the update and a product. */
static void ssm_scan_cost(const struct halo_op_ssm_scan *op, uint32_t n_rows, struct halo_plan_cost *cost)
{
    uint64_t n = (uint64_t)op->n_head * op->head_dim * op->n_state;

    cost->kv_bytes += 2 * n * sizeof(float);
    cost->flops += 5 * n * n_rows;
}

void halo_plan_cost(const struct halo_plan *plan, uint32_t n_positions, uint32_t n_rows, struct halo_plan_cost *ret)
{
    *ret = (struct halo_plan_cost){0};
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct halo_op *op = &plan->ops[i];
        if (op->kind == HALO_OP_EMBED) {
            ret->weight_bytes +=
                halo_type_row_bytes(plan->weights[op->u.embed.weight].type, plan->weights[op->u.embed.weight].n_cols) *
                n_rows;
        } else if (op->kind == HALO_OP_MATMUL) {
            for (uint16_t k = 0; k < op->u.matmul.n; k++)
                matrix_cost(plan, op->u.matmul.weight[k], n_rows, ret);
        } else if (op->kind == HALO_OP_MOE_MATMUL) {
            for (uint16_t k = 0; k < op->u.moe_matmul.n; k++) {
                const struct halo_weight *weight = &plan->weights[op->u.moe_matmul.weight[k]];
                double touched = experts_touched(weight->n_experts, op->u.moe_matmul.n_used, n_rows);
                ret->weight_bytes += (uint64_t)((double)weight->n_bytes / weight->n_experts * touched);
                ret->flops += 2ull * weight->n_cols * weight->n_rows * op->u.moe_matmul.n_used * n_rows;
            }
        } else if (op->kind == HALO_OP_ATTEND) {
            attend_cost(plan, &op->u.attend, n_positions, n_rows, ret);
        } else if (op->kind == HALO_OP_ATTEND_BLOCKS) {
            blocks_cost(plan, &op->u.attend_blocks, n_positions, n_rows, ret);
        } else if (op->kind == HALO_OP_BLOCKS_CHOOSE) {
            choose_cost(plan, &op->u.blocks_choose, n_positions, n_rows, ret);
        } else if (op->kind == HALO_OP_CONV1D) {
            matrix_cost(plan, op->u.conv1d.weight, n_rows, ret);
        } else if (op->kind == HALO_OP_DELTA_RULE) {
            delta_rule_cost(&op->u.delta_rule, n_rows, ret);
        } else if (op->kind == HALO_OP_SSM_SCAN) {
            ssm_scan_cost(&op->u.ssm_scan, n_rows, ret);
        } else if (op->kind == HALO_OP_LOGITS) {
            matrix_cost(plan, op->u.logits.weight, n_rows, ret);
        }
    }
}
