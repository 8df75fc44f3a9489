/* scratch.c: everything a run writes, in one region, sized from the plan. Pure; the model's creation calls it twice
 * (common/carve.h). */
#include <common/carve.h>

#include "device_priv.h"

#define ALIGN 64

/* Splits that wait for their merge at the same time (op_attend.c). One thread needs none. */
static uint32_t n_partials(const struct halo_plan *plan, uint32_t n_threads)
{
    uint32_t n_splits = plan->n_context / HALO_CPU_SPLIT_MIN + 1;
    n_splits = n_splits < HALO_CPU_SPLITS_MAX ? n_splits : HALO_CPU_SPLITS_MAX;
    return n_threads > 1 ? HALO_CPU_SPLIT_BELOW * n_threads * n_splits : 0;
}

struct needs {
    uint64_t act_bytes; /* of all prepared rows of an op, at most */
    uint32_t n_used, n_expert, n_products;
    uint32_t n_block_scores;
};

static uint64_t act_bytes(const struct halo_plan *plan, uint32_t weight, uint64_t n_rows)
{
    uint64_t bytes, one = halo_cpu_act_bytes(HALO_CPU_ACT_Q8, plan->weights[weight].n_cols);
    return __builtin_mul_overflow(one, n_rows, &bytes) ? UINT64_MAX : bytes;
}

static void raise_to(uint64_t *most, uint64_t n)
{
    *most = n > *most ? n : *most;
}

static struct needs needs_of(const struct halo_plan *plan)
{
    struct needs needs = {.n_used = 1, .n_products = HALO_MATMUL_MAX};
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct halo_op *op = &plan->ops[i];
        if (op->kind == HALO_OP_MATMUL) {
            raise_to(&needs.act_bytes, act_bytes(plan, op->u.matmul.weight[0], plan->max_rows));
        } else if (op->kind == HALO_OP_LOGITS) {
            raise_to(&needs.act_bytes, act_bytes(plan, op->u.logits.weight, plan->max_outputs));
        } else if (op->kind == HALO_OP_BLOCKS_CHOOSE) {
            uint32_t n_blocks = plan->n_context / op->u.blocks_choose.ratio;
            needs.n_block_scores = n_blocks > needs.n_block_scores ? n_blocks : needs.n_block_scores;
        } else if (op->kind == HALO_OP_MOE_MATMUL) {
            const struct halo_op_moe_matmul *moe = &op->u.moe_matmul;
            uint32_t n_expert = plan->weights[moe->weight[0]].n_experts;
            needs.n_used = moe->n_used > needs.n_used ? moe->n_used : needs.n_used;
            needs.n_expert = n_expert > needs.n_expert ? n_expert : needs.n_expert;
            raise_to(&needs.act_bytes,
                     act_bytes(plan, moe->weight[0], (uint64_t)plan->max_rows * (moe->per_slot ? moe->n_used : 1)));
        }
    }
    needs.n_products = 2 * needs.n_expert > needs.n_products ? 2 * needs.n_expert : needs.n_products;
    return needs;
}

static void carve_values(const struct halo_plan *plan, struct halo_carver *carver, struct halo_cpu_scratch *scratch)
{
    scratch->values = halo_carve(carver, plan->n_values, sizeof(*scratch->values), ALIGN);
    for (uint32_t i = 0; i < plan->n_values; i++) {
        uint32_t width = plan->values[i].width, stride = halo_cpu_stride(width);
        float *data = halo_carve(carver, plan->max_rows, (uint64_t)stride * sizeof(float), ALIGN);
        if (scratch->values)
            scratch->values[i] = (struct halo_cpu_value){data, width, stride};
    }
    scratch->rope = halo_carve(carver, plan->n_ropes, sizeof(*scratch->rope), ALIGN);
    for (uint32_t i = 0; i < plan->n_ropes; i++) {
        float *table = halo_carve(carver, plan->max_rows, (uint64_t)plan->ropes[i].n_rot * sizeof(float), ALIGN);
        if (scratch->rope)
            scratch->rope[i] = table;
    }
}

static void carve_attention(const struct halo_plan *plan, uint32_t n_threads, struct halo_carver *carver,
                            struct halo_cpu_scratch *scratch)
{
    uint64_t k = 0, v = 0;
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        raise_to(&k, halo_cpu_stride(plan->kv[group].head_dim_k));
        raise_to(&v, halo_cpu_stride(plan->kv[group].head_dim_v));
    }
    uint64_t softmax = 2 * HALO_CPU_ATTEND_QUERIES + HALO_CPU_ATTEND_QUERIES * v;
    uint64_t floats = HALO_CPU_ATTEND_QUERIES * k + HALO_KV_PAGE_TOKENS * (k + v) + 2 * softmax;
    scratch->tiles = halo_carve(carver, plan->max_rows, sizeof(*scratch->tiles), ALIGN);
    scratch->attend_thread_bytes = (floats * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
    scratch->attend_thread = halo_carve(carver, n_threads, scratch->attend_thread_bytes, ALIGN);
    scratch->n_partials = n_partials(plan, n_threads);
    scratch->partial_floats = (uint32_t)softmax;
    scratch->partial = halo_carve(carver, scratch->n_partials, softmax * sizeof(float), ALIGN);
}

uint64_t halo_cpu_scratch_carve(const struct halo_plan *plan, uint32_t n_threads, uint8_t *base,
                                struct halo_cpu_scratch *scratch)
{
    struct halo_carver carver = {.base = base};
    struct needs needs = needs_of(plan);
    uint64_t n_slots = (uint64_t)plan->max_rows * needs.n_used;
    n_slots = n_slots > plan->max_outputs ? n_slots : plan->max_outputs;
    if (n_slots > UINT32_MAX)
        return UINT64_MAX;
    scratch->n_slots = (uint32_t)n_slots;
    carve_values(plan, &carver, scratch);
    carve_attention(plan, n_threads, &carver, scratch);
    scratch->act = halo_carve(&carver, needs.act_bytes, 1, ALIGN);
    scratch->n_block_scores = needs.n_block_scores;
    scratch->block_scores = halo_carve(&carver, n_threads, needs.n_block_scores * sizeof(float), ALIGN);
    scratch->plain_row = halo_carve(&carver, n_slots, sizeof(void *), ALIGN);
    scratch->act_row = halo_carve(&carver, n_slots, sizeof(void *), ALIGN);
    for (uint32_t i = 0; i < 2; i++)
        scratch->slot_row[i] = halo_carve(&carver, needs.n_expert ? n_slots : 0, sizeof(void *), ALIGN);
    for (uint32_t i = 0; i < HALO_MATMUL_MAX; i++)
        scratch->out_row[i] = halo_carve(&carver, n_slots, sizeof(void *), ALIGN);
    scratch->products = halo_carve(&carver, needs.n_products, sizeof(*scratch->products), ALIGN);
    scratch->expert_first = halo_carve(&carver, needs.n_expert + 1, sizeof(uint32_t), ALIGN);
    scratch->expert_slot = halo_carve(&carver, n_slots, sizeof(uint32_t), ALIGN);
    return carver.n_bytes;
}
