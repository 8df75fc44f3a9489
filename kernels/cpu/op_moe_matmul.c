/* op_moe_matmul.c: the products of the chosen experts. Device thread.
 *
 * The (row, slot) pairs are sorted by expert, so that each expert's weights are read once for all rows that chose it;
 * the other rows of the group change none of a row's numbers.
 */
#include <assert.h>
#include <string.h>

#include "device_priv.h"

static uint32_t expert_of(const struct halo_device_model *model, const struct halo_op_moe_matmul *u, uint32_t slot)
{
    if (u->choice == HALO_NONE)
        return slot % u->n_used;
    int32_t expert;
    memcpy(&expert, halo_cpu_row(model, u->choice, slot / u->n_used) + u->n_used + slot % u->n_used, sizeof(expert));
    assert(expert >= 0 && (uint32_t)expert < model->plan->weights[u->weight[0]].n_experts);
    return (uint32_t)expert;
}

/* Counting sort: expert_slot holds the slots of expert e at expert_first[e] .. expert_first[e + 1]. */
static void sort_slots(struct halo_device_model *model, const struct halo_op_moe_matmul *u, uint32_t n_expert,
                       uint32_t n_slots)
{
    uint32_t *first = model->scratch.expert_first;
    memset(first, 0, (n_expert + 1) * sizeof(*first));
    for (uint32_t s = 0; s < n_slots; s++)
        first[expert_of(model, u, s) + 1]++;
    for (uint32_t e = 0; e < n_expert; e++)
        first[e + 1] += first[e];
    for (uint32_t s = 0; s < n_slots; s++)
        model->scratch.expert_slot[first[expert_of(model, u, s)]++] = s;
    /* Each entry has moved on to the next expert's. */
    memmove(first + 1, first, n_expert * sizeof(*first));
    first[0] = 0;
}

/* The rows as they are, and prepared if a weight wants them so: one for each slot, or one for each row. */
static void prepare(struct halo_device_model *model, const struct halo_op_moe_matmul *u, uint32_t n_cols)
{
    uint32_t parts = u->per_slot ? u->n_used : 1, n_x = model->batch->n_rows * parts;
    bool quantized = false;
    for (uint32_t i = 0; i < n_x; i++)
        model->scratch.plain_row[i] = halo_cpu_row(model, u->x, i / parts) + (size_t)(i % parts) * n_cols;
    for (uint32_t k = 0; k < u->n; k++)
        quantized |= halo_cpu_act_kind(model->plan->weights[u->weight[k]].type) == HALO_CPU_ACT_Q8;
    if (quantized)
        halo_cpu_act_rows(model, n_cols, n_x);
}

/* Lines up inputs and outputs of weight k in the sorted order. */
static void line_up(struct halo_device_model *model, const struct halo_op_moe_matmul *u, uint32_t k, uint32_t n_slots)
{
    struct halo_cpu_scratch *scratch = &model->scratch;
    const struct halo_weight *weight = &model->plan->weights[u->weight[k]];
    const void **from = halo_cpu_act_kind(weight->type) == HALO_CPU_ACT_Q8 ? scratch->act_row : scratch->plain_row;
    for (uint32_t i = 0; i < n_slots; i++) {
        uint32_t slot = scratch->expert_slot[i], row = slot / u->n_used;
        scratch->slot_row[k][i] = from[u->per_slot ? slot : row];
        scratch->out_row[k][i] = halo_cpu_row(model, u->out[k], row) + (size_t)(slot % u->n_used) * weight->n_rows;
    }
}

static const float *bias_of(const struct halo_device_model *model, const struct halo_op_moe_matmul *u, uint32_t k,
                            uint32_t expert)
{
    if (u->bias[k] == HALO_WEIGHT_NONE)
        return NULL;
    return halo_cpu_vector(model, u->bias[k]) + (size_t)expert * model->plan->weights[u->weight[k]].n_rows;
}

/* The products of expert e with its slots. Returns how many were added. */
static uint32_t add_products(struct halo_device_model *model, const struct halo_op_moe_matmul *u, uint32_t e,
                             struct halo_cpu_product *products)
{
    const struct halo_cpu_scratch *scratch = &model->scratch;
    uint32_t first = scratch->expert_first[e], n_x = scratch->expert_first[e + 1] - first, n = 0;
    for (uint32_t k = 0; k < u->n && n_x > 0; k++)
        products[n++] = (struct halo_cpu_product){
            .matrix = halo_cpu_expert(model, u->weight[k], e),
            .bias = bias_of(model, u, k, e),
            .act = scratch->slot_row[k] + first,
            .out = scratch->out_row[k] + first,
            .n_x = n_x,
        };
    return n;
}

/* The products of the chosen experts whose matrices are there and that were not computed yet. Returns how many experts
 * still wait. */
static uint32_t run_ready(struct halo_device_model *model, const struct halo_op_moe_matmul *u, uint32_t parts)
{
    const struct halo_cpu_experts *experts = &model->experts;
    uint32_t n_products = 0, n_left = 0;
    for (uint32_t i = 0; i < experts->n_chosen; i++) {
        uint32_t id = experts->ids[i];
        bool is_ready = halo_cpu_experts_has(model, id, parts);
        n_left += !is_ready;
        if (!is_ready || experts->is_done[id])
            continue;
        experts->is_done[id] = true;
        n_products += add_products(model, u, id, model->scratch.products + n_products);
    }
    if (n_products > 0)
        halo_cpu_products_run(model, model->scratch.products, n_products);
    return n_left;
}

/* As they arrive from the disk, those that are in memory first. */
static void run_arriving(struct halo_device_model *model, const struct halo_op_moe_matmul *u, uint32_t layer,
                         uint32_t n_expert)
{
    uint32_t parts = 0;
    for (uint32_t k = 0; k < u->n; k++)
        parts |= 1u << model->weights[u->weight[k]].part;
    halo_cpu_experts_choose(model, layer, model->scratch.expert_first, n_expert);
    memset(model->experts.is_done, 0, n_expert * sizeof(*model->experts.is_done));
    while (!model->experts.error && run_ready(model, u, parts) > 0 && halo_cpu_experts_take(model))
        ;
}

static void run_all(struct halo_device_model *model, const struct halo_op_moe_matmul *u, uint32_t n_expert)
{
    uint32_t n_products = 0;
    for (uint32_t e = 0; e < n_expert; e++)
        n_products += add_products(model, u, e, model->scratch.products + n_products);
    halo_cpu_products_run(model, model->scratch.products, n_products);
}

void halo_cpu_op_moe_matmul(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_moe_matmul *u = &op->u.moe_matmul;
    const struct halo_weight *weight = &model->plan->weights[u->weight[0]];
    sort_slots(model, u, weight->n_experts, model->batch->n_rows * u->n_used);
    prepare(model, u, weight->n_cols);
    for (uint32_t k = 0; k < u->n; k++)
        line_up(model, u, k, model->batch->n_rows * u->n_used);
    if (weight->streamed > 0)
        run_arriving(model, u, weight->streamed, weight->n_experts);
    else
        run_all(model, u, weight->n_experts);
    if (weight->streamed > 0 && halo_cpu_experts_is_last(model, u->weight[u->n - 1]))
        halo_cpu_experts_release(model);
}

void halo_cpu_moe_chosen(struct halo_device_model *model, const struct halo_op *route)
{
    const struct halo_op *end = model->plan->ops + model->plan->n_ops;
    for (const struct halo_op *op = route + 1; op < end && op->layer == route->layer; op++) {
        const struct halo_op_moe_matmul *u = &op->u.moe_matmul;
        if (op->kind != HALO_OP_MOE_MATMUL || u->choice != route->u.moe_route.choice)
            continue;
        const struct halo_weight *weight = &model->plan->weights[u->weight[0]];
        if (weight->streamed == 0)
            return;
        sort_slots(model, u, weight->n_experts, model->batch->n_rows * u->n_used);
        halo_cpu_experts_choose(model, weight->streamed, model->scratch.expert_first, weight->n_experts);
        halo_cpu_experts_guess(model, weight->streamed);
        return;
    }
}
