/* scratch.c: everything a run writes on the GPU, in one region, sized from the plan. Pure; the model's creation calls
 * it twice. */
#include <common/carve.h>

#include "run_priv.h"

static void *carve(struct halo_carver *c, uint64_t n, uint64_t size)
{
    return halo_carve(c, n, size, HALO_HIP_ALIGN);
}

uint64_t halo_hip_scales_before(const struct halo_plan *plan, uint32_t weight)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < weight; i++)
        n += halo_hip_scaled(&plan->weights[i]) ? plan->weights[i].n_experts : 0;
    return n;
}

uint64_t halo_hip_table_size(const struct halo_plan *plan, uint32_t op)
{
    const struct halo_op *o = &plan->ops[op];
    return o->kind == HALO_OP_MOE_ROUTE && o->u.moe_route.table ? (uint64_t)plan->n_vocab * o->u.moe_route.n_used : 0;
}

uint64_t halo_hip_tables_before(const struct halo_plan *plan, uint32_t op)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < op; i++)
        n += halo_hip_table_size(plan, i);
    return n;
}

struct needs {
    uint64_t scales, act, act_cols, half, half_rows, gathered, partial, counters, slots, tiles, orders;
};

static void raise_to(uint64_t *most, uint64_t n)
{
    *most = n > *most ? n : *most;
}

/* n_rows inputs of a product with n_cols. */
static void need_product(struct needs *needs, uint32_t n_cols, uint64_t n_rows)
{
    raise_to(&needs->act, n_rows * halo_hip_act_bytes(n_cols));
    raise_to(&needs->act_cols, n_cols);
    raise_to(&needs->half, n_rows * halo_hip_strip_stride(n_cols) * sizeof(uint16_t));
    raise_to(&needs->half_rows, n_rows);
}

static void need_experts(struct needs *needs, const struct halo_plan *plan, const struct halo_op_moe_matmul *u)
{
    const struct halo_weight *w = &plan->weights[u->weight[0]];
    uint64_t n_slots = (uint64_t)plan->max_rows * u->n_used;
    need_product(needs, w->n_cols, u->per_slot ? n_slots : plan->max_rows);
    raise_to(&needs->slots, n_slots);
    raise_to(&needs->tiles, halo_hip_moe_tiles((uint32_t)n_slots, w->n_experts));
}

/* Splits of attention with heads of so many elements. */
static void need_splits(struct needs *needs, uint32_t n_head, uint32_t head_dim)
{
    raise_to(&needs->partial, (uint64_t)HALO_HIP_ITEMS_MAX * n_head * HALO_PARTIAL_STRIDE((uint64_t)head_dim));
    raise_to(&needs->counters, (uint64_t)HALO_HIP_ITEMS_MAX * n_head);
}

static struct needs needs_of(const struct halo_plan *plan)
{
    struct needs needs = {.scales = halo_hip_scales_before(plan, plan->n_weights)};
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct halo_op *op = &plan->ops[i];
        if (op->kind == HALO_OP_MATMUL) {
            need_product(&needs, plan->weights[op->u.matmul.weight[0]].n_cols, plan->max_rows);
        } else if (op->kind == HALO_OP_MOE_MATMUL) {
            need_experts(&needs, plan, &op->u.moe_matmul);
        } else if (op->kind == HALO_OP_MOE_ROUTE) {
            raise_to(&needs.counters, HALO_HIP_ROUTER_ROWS_MAX);
        } else if (op->kind == HALO_OP_LOGITS) {
            uint32_t n_cols = plan->weights[op->u.logits.weight].n_cols;
            uint32_t n_rows = plan->max_outputs > HALO_HIP_GEMV_ROWS_MAX ? plan->max_outputs : HALO_HIP_GEMV_ROWS_MAX;
            need_product(&needs, n_cols, n_rows);
            raise_to(&needs.gathered, (uint64_t)plan->max_outputs * n_cols);
        } else if (op->kind == HALO_OP_ATTEND) {
            need_splits(&needs, op->u.attend.n_head, plan->kv[op->u.attend.kv_group].head_dim_v);
        } else if (op->kind == HALO_OP_ATTEND_BLOCKS) {
            need_splits(&needs, op->u.attend_blocks.n_head, plan->kv[op->u.attend_blocks.kv_group].head_dim_v);
        } else if (op->kind == HALO_OP_BLOCKS_CHOOSE) {
            uint64_t n_rows = plan->max_rows < HALO_CHOOSE_ROWS ? plan->max_rows : HALO_CHOOSE_ROWS;
            raise_to(&needs.orders, n_rows * (plan->n_context / op->u.blocks_choose.ratio));
        }
    }
    return needs;
}

uint64_t halo_hip_scratch_carve(const struct halo_plan *plan, bool integrated, uint8_t *base,
                                struct halo_hip_scratch *scratch)
{
    struct halo_carver c = {.base = base};
    struct needs needs = needs_of(plan);
    for (uint32_t i = 0; i < plan->n_values; i++) {
        float *value = carve(&c, plan->max_rows, (uint64_t)plan->values[i].width * sizeof(float));
        if (scratch->values)
            scratch->values[i] = value;
    }
    scratch->scales = carve(&c, needs.scales, sizeof(float));
    for (uint32_t i = 0; i < HALO_HIP_ACTS; i++)
        scratch->act[i] = carve(&c, needs.act, 1);
    for (uint32_t i = 0; i < HALO_HIP_ACTS; i++)
        scratch->squares[i] = carve(&c, needs.act_cols / HALO_HIP_UNIT, sizeof(float));
    scratch->half = carve(&c, needs.half, 1);
    scratch->half_scale = carve(&c, needs.half_rows, sizeof(float));
    scratch->gathered = carve(&c, needs.gathered, sizeof(float));
    scratch->partial = carve(&c, needs.partial, sizeof(float));
    scratch->counters = carve(&c, needs.counters, sizeof(*scratch->counters));
    scratch->n_counters = needs.counters;
    scratch->moe_slot = carve(&c, needs.slots, sizeof(uint32_t));
    scratch->moe_tile = carve(&c, needs.tiles, sizeof(struct halo_moe_tile));
    scratch->expert_tables = carve(&c, halo_hip_tables_before(plan, plan->n_ops), sizeof(int32_t));
    scratch->block_order = carve(&c, needs.orders, sizeof(uint32_t));
    scratch->digests = carve(&c, halo_hip_hop_digests(plan), sizeof(*scratch->digests));
    scratch->left = carve(&c, plan->max_outputs, halo_hip_top_left(plan->n_vocab) * sizeof(*scratch->left));
    if (!integrated) {
        scratch->logits = carve(&c, plan->max_outputs, (uint64_t)plan->n_vocab * sizeof(float));
        scratch->top = carve(&c, plan->max_outputs, HALO_CANDIDATES_MAX * sizeof(*scratch->top));
        scratch->input = carve(&c, halo_hip_input_bytes(plan), 1);
        scratch->places = carve(&c, halo_hip_experts_table_bytes(plan), 1);
    }
    return c.n_bytes;
}
