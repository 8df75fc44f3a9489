/* op_cost.c: bytes and operations of one op, from the plan alone. */
#include "device/op_cost_priv.h"

#include <assert.h>

/* parts of `whole` of a weight are used: 1 of n_rows for an embedding, n_used of n_experts. */
static void add(const struct halo_plan *plan, uint32_t index, uint64_t part, uint64_t whole, struct halo_op_cost *cost)
{
    if (index == HALO_WEIGHT_NONE)
        return;
    assert(index < plan->n_weights && whole > 0);
    const struct halo_weight *w = &plan->weights[index];
    cost->weight_bytes += w->n_bytes / whole * part;
    cost->flops += 2 * ((uint64_t)w->n_cols * w->n_rows * w->n_experts / whole * part);
}

struct halo_op_cost halo_op_cost_of(const struct halo_plan *plan, const struct halo_op *op)
{
    struct halo_op_cost cost = {0};
    switch (op->kind) {
    case HALO_OP_EMBED:
        add(plan, op->u.embed.weight, 1, plan->weights[op->u.embed.weight].n_rows, &cost);
        cost.flops = 0; /* a look-up */
        break;
    case HALO_OP_RMSNORM:
        add(plan, op->u.rmsnorm.weight, 1, 1, &cost);
        add(plan, op->u.rmsnorm.bias, 1, 1, &cost);
        break;
    case HALO_OP_ATTEND: add(plan, op->u.attend.sinks, 1, 1, &cost); break;
    case HALO_OP_MATMUL:
        for (uint32_t i = 0; i < op->u.matmul.n; i++) {
            add(plan, op->u.matmul.weight[i], 1, 1, &cost);
            add(plan, op->u.matmul.bias[i], 1, 1, &cost);
        }
        break;
    case HALO_OP_QK_NORM:
        add(plan, op->u.qk_norm.q_weight, 1, 1, &cost);
        add(plan, op->u.qk_norm.k_weight, 1, 1, &cost);
        break;
    case HALO_OP_MOE_MATMUL:
        for (uint32_t i = 0; i < op->u.moe_matmul.n; i++) {
            uint32_t index = op->u.moe_matmul.weight[i];
            add(plan, index, op->u.moe_matmul.n_used, plan->weights[index].n_experts, &cost);
        }
        break;
    case HALO_OP_CONV1D:
        add(plan, op->u.conv1d.weight, 1, 1, &cost);
        add(plan, op->u.conv1d.bias, 1, 1, &cost);
        break;
    case HALO_OP_STREAMS_MIX:
        add(plan, op->u.streams_mix.scale, 1, 1, &cost);
        add(plan, op->u.streams_mix.base, 1, 1, &cost);
        break;
    case HALO_OP_COMPRESS:
        add(plan, op->u.compress.bias, 1, 1, &cost);
        add(plan, op->u.compress.norm, 1, 1, &cost);
        break;
    case HALO_OP_ATTEND_BLOCKS: add(plan, op->u.attend_blocks.sinks, 1, 1, &cost); break;
    case HALO_OP_SSM_SCAN:
        add(plan, op->u.ssm_scan.a, 1, 1, &cost);
        add(plan, op->u.ssm_scan.d, 1, 1, &cost);
        add(plan, op->u.ssm_scan.dt_bias, 1, 1, &cost);
        break;
    case HALO_OP_LOGITS:
        add(plan, op->u.logits.weight, 1, 1, &cost);
        add(plan, op->u.logits.bias, 1, 1, &cost);
        break;
    case HALO_OP_DELTA_RULE:
        add(plan, op->u.delta_rule.a, 1, 1, &cost);
        add(plan, op->u.delta_rule.dt_bias, 1, 1, &cost);
        break;
    default: break; /* no weights */
    }
    return cost;
}
