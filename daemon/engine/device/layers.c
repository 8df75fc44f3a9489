/* layers.c: see layers.h. */
#include <engine/layers.h>

#include <stdlib.h>
#include <string.h>

#include <model/streamed.h>
#include <store/hull.h>

#include <engine/budget.h>
#include <engine/experts.h>

/* Marks all layers that can stream. Returns their number. */
static uint32_t stream_all(struct halo_model *model)
{
    bool is_streamed[HALO_MODEL_MAX_LAYERS];
    for (uint32_t layer = 0; layer < HALO_MODEL_MAX_LAYERS; layer++)
        is_streamed[layer] = true;
    return halo_model_stream_layers(model, is_streamed);
}

static void make_resident(struct halo_model *model)
{
    halo_model_stream_experts(model, false);
}

static uint64_t file_bytes(const struct halo_plan *plan)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++)
        n += plan->weights[i].n_bytes;
    return n;
}

/* One past the last layer that can stream. */
static uint32_t end_of_layers(const struct halo_plan *plan)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        uint16_t layer = halo_weight_stream_layer(&plan->weights[i]);
        if (layer != HALO_NONE && layer >= end)
            end = layer + 1u;
    }
    return end;
}

/* One layer at a time: what the device takes without it. What a device adds to align weights depends on their
 * neighbours, so that all layers together may save some pages more or less: `saved_bytes`. */
static void measure_layers(const struct halo_device_ops *ops, const struct halo_device *device,
                           struct halo_model *model, uint64_t resident_bytes, uint64_t saved_bytes,
                           struct halo_layer_needs *ret)
{
    bool is_streamed[HALO_MODEL_MAX_LAYERS] = {false};
    uint64_t weights, kv, scratch, sum_bytes = 0;
    uint32_t n = end_of_layers(&model->plan);
    for (uint32_t layer = 0; layer < n; layer++) {
        struct halo_expert_shape shape;
        is_streamed[layer] = true;
        if (halo_model_stream_layers(model, is_streamed) > 0) {
            ops->estimate(device, &model->plan, &weights, &kv, &scratch);
            halo_expert_shape_of(ops, device, &model->plan, &shape);
            ret->matrices[layer].resident_bytes = resident_bytes - weights;
            ret->matrices[layer].buffer_bytes = shape.slot_bytes;
            sum_bytes += resident_bytes - weights;
        }
        is_streamed[layer] = false;
    }
    int64_t more = (int64_t)saved_bytes - (int64_t)sum_bytes, n_left = ret->n_layers;
    for (uint32_t layer = 0; layer < n; layer++)
        if (ret->matrices[layer].buffer_bytes > 0) {
            int64_t part = more / n_left--; /* the last one gets what is left */
            ret->matrices[layer].resident_bytes += (uint64_t)part;
            more -= part;
        }
}

void halo_layer_needs_of(const struct halo_device_ops *ops, const struct halo_device *device, struct halo_model *model,
                         uint64_t free_bytes, uint32_t n_pages, struct halo_layer_needs *ret)
{
    struct halo_plan *plan = &model->plan;
    struct halo_device_info info;
    struct halo_budget budget;
    uint64_t least, weights, kv, scratch, resident_scratch; /* least: bytes of weights with all layers streamed */
    *ret = (struct halo_layer_needs){0};
    make_resident(model);
    ops->describe(device, &info);
    ops->estimate(device, plan, &weights, &kv, &resident_scratch);
    if (info.features & HALO_DEVICE_LAYERS && halo_model_stream_experts(model, true) == 0)
        ret->n_layers = stream_all(model);
    halo_budget_of(ops, device, plan, free_bytes, &budget);
    ops->estimate(device, plan, &least, &kv, &scratch);
    /* Where two buffers are as large as the layers, streaming is of no use. */
    if (ret->n_layers == 0 || budget.weights_bytes + scratch >= weights + resident_scratch) {
        make_resident(model);
        ret->n_layers = 0;
        return;
    }
    uint32_t rows = plan->max_rows,
             wanted = info.batch_rows < HALO_STREAMED_ROWS ? HALO_STREAMED_ROWS : info.batch_rows;
    ret->max_rows = plan->max_rows = halo_budget_rows(ops, device, plan, free_bytes, n_pages, wanted);
    halo_budget_of(ops, device, plan, free_bytes, &budget);
    ret->scratch_bytes = budget.scratch_bytes;
    ret->kv_bytes = halo_budget_pool_bytes(&budget, n_pages, budget.context_pages);
    make_resident(model);
    uint64_t in_file = file_bytes(plan);
    ret->padding_bytes = weights > in_file ? weights - in_file : 0;
    measure_layers(ops, device, model, weights, weights - least, ret);
    make_resident(model);
    plan->max_rows = rows;
}

/* Marks the layers that the placement in free_bytes streams; all of them when there is no placement. */
static uint32_t mark(struct halo_model *model, const struct halo_layer_needs *needs, uint64_t free_bytes,
                     struct halo_placement *placement)
{
    bool is_streamed[HALO_MODEL_MAX_LAYERS] = {false};
    const struct halo_placement_options options = {.kv_bytes = needs->kv_bytes,
                                                   .scratch_bytes = needs->scratch_bytes,
                                                   .padding_bytes = needs->padding_bytes,
                                                   .streamed_scratch_bytes = needs->scratch_bytes,
                                                   .matrices = needs->matrices};
    make_resident(model);
    if (halo_placement_make(&model->plan, NULL, free_bytes, 0, &options, placement, NULL) < 0)
        return stream_all(model);
    for (uint32_t layer = 0; layer < placement->n_layers; layer++)
        is_streamed[layer] = placement->layers[layer].stream_bytes > 0;
    return halo_model_stream_layers(model, is_streamed);
}

uint32_t halo_layers_stream(const struct halo_device_ops *ops, const struct halo_device *device,
                            struct halo_model *model, uint64_t free_bytes, uint32_t n_pages)
{
    struct halo_layer_needs *needs = calloc(1, sizeof(*needs));
    struct halo_placement *placement = malloc(sizeof(*placement));
    struct halo_budget budget;
    uint32_t n = 0;
    if (needs && placement)
        halo_layer_needs_of(ops, device, model, free_bytes, n_pages, needs);
    for (uint64_t bytes = free_bytes; needs && placement && needs->n_layers > 0;) {
        n = mark(model, needs, bytes, placement);
        if (n == 0)
            break;
        model->plan.max_rows = needs->max_rows;
        halo_budget_of(ops, device, &model->plan, free_bytes, &budget);
        uint64_t page_bytes = (uint64_t)HALO_HULL_ALIGN * needs->n_layers;
        if (n == needs->n_layers || budget.max_pages >= n_pages || bytes < page_bytes)
            break;
        bytes -= page_bytes; /* what stays takes some pages more than the layers one by one */
    }
    free(needs);
    free(placement);
    return n;
}
