/* expert_shape.c: how the weights of an expert layer lie in a slot. Pure; any thread. */
#include "device/expert_shape_priv.h"

#include <assert.h>

#include <store/hull.h>
#include <store/slab.h>

#define ALIGN HALO_HULL_ALIGN

static uint64_t align_up(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Returns where the next part begins. */
static uint64_t add_part(const struct halo_device_ops *ops, const struct halo_device *device,
                         const struct halo_plan *plan, uint32_t index, uint64_t at, struct halo_expert_layout *layer)
{
    const struct halo_weight *w = &plan->weights[index];
    uint64_t n_bytes = w->n_bytes / w->n_experts, packed = ops->expert_bytes(device, w);
    assert(layer->n_parts < HALO_LAYER_PARTS);
    struct halo_expert_part *part = &layer->parts[layer->n_parts++];
    *part = (struct halo_expert_part){
        .weight = index,
        .at = at,
        .growth = packed > n_bytes ? align_up(packed - n_bytes) : 0,
        .n_bytes = n_bytes,
        .step = w->expert_step > 0 ? w->expert_step : n_bytes,
        .offset = w->offset,
        .file_part = w->part,
    };
    layer->n_expert = w->n_experts;
    layer->n_bytes += n_bytes;
    return at + part->growth + align_up(n_bytes + ALIGN - 1); /* with the hull of any offset */
}

static bool reads_first(const struct halo_op *op, uint32_t weight)
{
    return (op->kind == HALO_OP_MOE_MATMUL && op->u.moe_matmul.weight[0] == weight) ||
           (op->kind == HALO_OP_MATMUL && op->u.matmul.weight[0] == weight);
}

uint64_t halo_expert_layout_of(const struct halo_device_ops *ops, const struct halo_device *device,
                               const struct halo_plan *plan, uint32_t layer, struct halo_expert_layout *ret)
{
    uint64_t at = 0;
    *ret = (struct halo_expert_layout){0};
    for (uint32_t i = 0; i < plan->n_weights; i++)
        if (plan->weights[i].streamed == layer + 1)
            at = add_part(ops, device, plan, i, at, ret);
    for (uint32_t i = 0; i < plan->n_ops && ret->n_parts > 0; i++)
        if (reads_first(&plan->ops[i], ret->parts[0].weight))
            ret->number = plan->ops[i].layer;
    return at;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

void halo_expert_shape_of(const struct halo_device_ops *ops, const struct halo_device *device,
                          const struct halo_plan *plan, struct halo_expert_shape *ret)
{
    *ret = (struct halo_expert_shape){0};
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        ret->n_layers = max_u32(ret->n_layers, plan->weights[i].streamed);
        ret->is_dense |= plan->weights[i].streamed > 0 && plan->weights[i].role == HALO_WEIGHT_MATRIX;
    }
    if (ret->n_layers == 0)
        return;
    for (uint32_t layer = 0; layer < ret->n_layers; layer++) {
        struct halo_expert_layout layout;
        uint64_t n_bytes = halo_expert_layout_of(ops, device, plan, layer, &layout);
        ret->slot_bytes = n_bytes > ret->slot_bytes ? n_bytes : ret->slot_bytes;
        ret->n_expert = max_u32(ret->n_expert, layout.n_expert);
        ret->n_experts += layout.n_expert;
        ret->file_bytes += layout.n_bytes * layout.n_expert;
    }
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct halo_op_moe_matmul *u = &plan->ops[i].u.moe_matmul;
        if (plan->ops[i].kind == HALO_OP_MOE_MATMUL && plan->weights[u->weight[0]].streamed > 0)
            ret->n_used = max_u32(ret->n_used, u->n_used);
    }
    ret->slot_bytes += ALIGN; /* what slab.h adds to each slot */
    if (ret->is_dense) {
        ret->n_used = 1;
        ret->least_slots = HALO_LAYER_BUFFERS;
        return;
    }
    ret->min_slots = ret->n_used + HALO_EXPERTS_MARGIN;
    ret->min_slots = ret->min_slots < ret->n_expert ? ret->min_slots : ret->n_expert;
    ret->least_slots = halo_expert_cache_least(ret->n_layers, ret->n_expert, ret->min_slots);
}

uint32_t halo_expert_slab_slots(const struct halo_expert_shape *shape, uint32_t n_slots)
{
    uint64_t part = (n_slots + HALO_EXPERTS_SLABS - 1) / HALO_EXPERTS_SLABS;
    uint64_t most = HALO_SLAB_BYTES_MAX / shape->slot_bytes;
    return max_u32((uint32_t)(part < most ? part : most), 1);
}
