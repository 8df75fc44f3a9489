/* plan_builder.c: what a plan is made of: its ops, values, weights, groups of the cache, and numbers of the file.
 *
 * Runs where the model is created (io thread). Everything lies in the model's arena; the op table grows by doubling
 * and leaves its old copies there, which is at most as much again. Fails with: OUT_OF_MEMORY, LOAD_FAILED (a
 * number of the file).
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_builder_priv.h"

#define MAX_VALUES 64

int halo_builder_no_memory(struct halo_builder *builder)
{
    if (builder->error == 0)
        builder->error =
            halo_fault_set(builder->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the plan of the model");
    return builder->error;
}

void halo_builder_init(struct halo_builder *builder, struct halo_arena *arena, const struct halo_hparams *hparams,
                       const struct halo_binding *binding, struct halo_fault *fault)
{
    *builder = (struct halo_builder){.arena = arena,
                                     .hparams = hparams,
                                     .model = hparams,
                                     .binding = binding,
                                     .fault = fault,
                                     .layer = HALO_NONE,
                                     .ops_capacity = 64,
                                     .n_kv_groups = 1};
    builder->ops = halo_arena_alloc(arena, builder->ops_capacity, sizeof(*builder->ops));
    builder->weights = halo_arena_alloc(arena, binding->n_found, sizeof(*builder->weights));
    builder->weight_of =
        halo_arena_alloc(arena, (size_t)HALO_TENSOR_COUNT * binding->n_layers, sizeof(*builder->weight_of));
    builder->values = halo_arena_alloc(arena, MAX_VALUES, sizeof(*builder->values));
    builder->ropes = halo_arena_alloc(arena, HALO_BUILDER_ROPES, sizeof(*builder->ropes));
    if (!builder->ops || !builder->weights || !builder->weight_of || !builder->values || !builder->ropes)
        halo_builder_no_memory(builder);
}

int halo_builder_finish(struct halo_builder *builder, struct halo_plan *ret)
{
    uint32_t n_host = 0;

    if (builder->error)
        return builder->error;
    /* A tensor that the family's table demands and its plan forgets is a bug of the family. */
    for (int id = 0; id < HALO_TENSOR_COUNT; id++)
        for (uint32_t i = 0; builder->binding->specs[id] && builder->binding->specs[id]->host &&
                             i < (halo_tensors_layered(id) ? builder->binding->n_layers : 1);
             i++)
            n_host += halo_binding_find(builder->binding, id, i) != NULL;
    assert(builder->n_weights + n_host == builder->binding->n_found);
    ret->n_ops = builder->n_ops;
    ret->ops = builder->ops;
    ret->n_weights = builder->n_weights;
    ret->weights = builder->weights;
    ret->n_values = builder->n_values;
    ret->values = builder->values;
    ret->n_ropes = builder->n_ropes;
    ret->ropes = builder->ropes;
    assert(builder->kv[0].n_layers > 0 && builder->kv[0].window == 0); /* the group that keeps every position */
    const struct halo_kv_group common = ret->kv[0];
    for (uint32_t i = 0; i < builder->n_kv_groups; i++) {
        ret->kv[i] = builder->kv[i];
        ret->kv[i].type = common.type;
        ret->kv[i].n_pages = common.n_pages;
    }
    ret->n_kv_groups = builder->n_kv_groups;
    halo_plan_set_pages(ret, ret->kv[0].n_pages);
    return 0;
}

struct halo_op *halo_builder_append(struct halo_builder *builder, enum halo_op_kind kind)
{
    if (builder->error)
        return &builder->spare;
    if (builder->n_ops == builder->ops_capacity) {
        struct halo_op *grown = halo_arena_alloc(builder->arena, (size_t)builder->ops_capacity * 2, sizeof(*grown));
        if (!grown) {
            halo_builder_no_memory(builder);
            return &builder->spare;
        }
        memcpy(grown, builder->ops, builder->n_ops * sizeof(*grown));
        builder->ops = grown;
        builder->ops_capacity *= 2;
    }
    builder->ops[builder->n_ops] = (struct halo_op){.kind = kind, .layer = builder->layer};
    return &builder->ops[builder->n_ops++];
}

bool halo_builder_has(const struct halo_builder *builder, enum halo_tensor_id id)
{
    struct halo_bound bound;
    return halo_binding_get(builder->binding, id, builder->layer == HALO_NONE ? 0 : builder->layer, &bound);
}

/* The factors of a matrix's product, one for each expert; NULL without any. */
static const float *scales_read(struct halo_builder *builder, const struct halo_bound *bound)
{
    const struct halo_gguf_tensor *scale = halo_binding_scale(builder->binding, bound->tensor);
    uint32_t n = (uint32_t)bound->dims[2];
    if (!scale)
        return NULL;
    float *scales = halo_arena_alloc(builder->arena, n, sizeof(*scales));
    if (!scales)
        return (void)halo_builder_no_memory(builder), NULL;
    int r = halo_binding_read(builder->binding, scale, scales, (uint32_t)scale->dims[0], builder->fault);
    if (r < 0)
        builder->error = r;
    for (uint32_t i = (uint32_t)scale->dims[0]; i < n; i++)
        scales[i] = scales[0];
    return scales;
}

uint32_t halo_builder_weight(struct halo_builder *builder, enum halo_tensor_id id)
{
    uint32_t layer = halo_tensors_layered(id) ? builder->layer : 0;
    const struct halo_tensor_spec *spec = builder->binding->specs[id];
    struct halo_bound bound;
    struct halo_weight *weight;
    uint32_t *slot;

    if (builder->error)
        return 0;
    bool found = halo_binding_get(builder->binding, id, layer, &bound);
    assert(spec && !spec->host && found);
    slot = &builder->weight_of[id * builder->binding->n_layers + layer];
    if (*slot)
        return *slot - 1;
    assert(builder->n_weights < builder->binding->n_found);
    weight = &builder->weights[builder->n_weights];
    *weight = (struct halo_weight){.type = bound.tensor->type,
                                   .role = spec->role,
                                   .n_cols = (uint32_t)bound.dims[0],
                                   .n_rows = (uint32_t)bound.dims[1],
                                   .n_experts = (uint32_t)bound.dims[2],
                                   .n_bytes = bound.n_bytes,
                                   .part = bound.tensor->part,
                                   .offset = bound.offset,
                                   .expert_step = bound.expert_step,
                                   .scales = scales_read(builder, &bound)};
    _Static_assert(sizeof(weight->name) >= sizeof(bound.tensor->name),
                   "any name fits, no name of a fused one is so long");
    snprintf(weight->name, sizeof(weight->name), "%s%s", bound.tensor->name, bound.suffix);
    *slot = ++builder->n_weights;
    return *slot - 1;
}

/* The same for one that the file need not have; id may be HALO_TENSOR_NONE. */
uint32_t halo_builder_weight_if(struct halo_builder *builder, enum halo_tensor_id id)
{
    return id != HALO_TENSOR_NONE && halo_builder_has(builder, id) ? halo_builder_weight(builder, id)
                                                                   : HALO_WEIGHT_NONE;
}

void halo_builder_layer(struct halo_builder *builder, uint32_t layer)
{
    assert(layer < builder->hparams->n_layers);
    builder->layer = (uint16_t)layer;
    halo_hparams_of_layer(builder->model, layer, &builder->of_layer);
    builder->hparams = &builder->of_layer;
}

void halo_builder_outside(struct halo_builder *builder)
{
    builder->layer = HALO_NONE;
    builder->hparams = builder->model;
}

uint16_t halo_builder_value(struct halo_builder *builder, const char *name, uint64_t width)
{
    if (builder->error)
        return 0;
    for (uint32_t i = 0; i < builder->n_values; i++)
        if (strcmp(builder->values[i].name, name) == 0) {
            assert(builder->values[i].width == width);
            return (uint16_t)i;
        }
    assert(builder->n_values < MAX_VALUES && width > 0 && width <= HALO_MODEL_MAX_WIDTH);
    builder->values[builder->n_values] = (struct halo_value){.name = name, .width = (uint32_t)width};
    return (uint16_t)builder->n_values++;
}

float halo_builder_number(struct halo_builder *builder, enum halo_tensor_id id)
{
    const struct halo_gguf_tensor *tensor = halo_binding_find(builder->binding, id, builder->layer);
    float number = 1;
    if (!tensor || builder->error)
        return number;
    builder->error = halo_binding_read(builder->binding, tensor, &number, 1, builder->fault);
    if (builder->error == 0 && (number == 0 || !isfinite(number)))
        builder->error = halo_fault_set(builder->fault, HALO_FAULT_LOAD_FAILED,
                                        "%s is %g, must be a finite number other than 0", tensor->name, (double)number);
    return builder->error ? 1 : number;
}

void halo_builder_factor(struct halo_builder *builder, enum halo_tensor_id id, float factor)
{
    uint32_t weight = halo_builder_weight(builder, id);
    float *scales = halo_arena_alloc(builder->arena, 1, sizeof(*scales));
    if (!scales)
        halo_builder_no_memory(builder);
    if (builder->error)
        return;
    assert(builder->weights[weight].role == HALO_WEIGHT_VECTOR && !builder->weights[weight].scales);
    *scales = factor;
    builder->weights[weight].scales = scales;
}

uint32_t halo_builder_kv_group(struct halo_builder *builder, uint32_t window)
{
    if (window >= builder->hparams->n_context)
        window = 0;
    for (uint32_t i = 0; i < builder->n_kv_groups; i++)
        if (builder->kv[i].window == window && builder->kv[i].state_width == 0)
            return i;
    return halo_builder_kv_group_apart(builder, window);
}

uint32_t halo_builder_kv_group_apart(struct halo_builder *builder, uint32_t window)
{
    assert(builder->n_kv_groups < HALO_KV_GROUPS_MAX);
    builder->kv[builder->n_kv_groups].window = window;
    return builder->n_kv_groups++;
}

void halo_builder_state(struct halo_builder *builder, uint64_t width)
{
    uint32_t group = 0;

    while (group < builder->n_kv_groups && builder->kv[group].state_width == 0)
        group++;
    assert(group < HALO_KV_GROUPS_MAX && width > 0 && width <= HALO_MODEL_MAX_WIDTH);
    assert(group == builder->n_kv_groups || builder->kv[group].state_width == width);
    builder->n_kv_groups += group == builder->n_kv_groups;
    builder->kv[group].state_width = (uint32_t)width;
    builder->state = (struct halo_state_part){.kv_group = group, .kv_layer = builder->kv[group].n_layers++};
}

struct halo_state_part halo_builder_state_take(struct halo_builder *builder, uint64_t n)
{
    struct halo_state_part part = builder->state;
    assert(builder->error || part.offset + n <= builder->kv[part.kv_group].state_width);
    builder->state.offset += (uint32_t)n;
    return part;
}

const int32_t *halo_builder_table(struct halo_builder *builder, enum halo_tensor_id id)
{
    uint32_t layer = builder->layer == HALO_NONE ? 0 : builder->layer;
    const struct halo_gguf_tensor *tensor = halo_binding_find(builder->binding, id, layer);
    if (!tensor || builder->error)
        return NULL;
    size_t n = tensor->n_bytes / sizeof(int32_t);
    int32_t *table = halo_arena_alloc(builder->arena, n, sizeof(*table));
    if (!table)
        return (void)halo_builder_no_memory(builder), NULL;
    builder->error = halo_binding_read_table(builder->binding, tensor, table, n, builder->fault);
    return builder->error ? NULL : table;
}
