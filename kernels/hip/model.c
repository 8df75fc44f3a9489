/* model.c: a model on the HIP device: its regions of memory, taken once, and the table of its weights. Device thread,
 * apart from the estimate (pure). */
#include <errno.h>
#include <stdlib.h>

#include "run_priv.h"

static uint64_t set_bytes(const struct halo_plan *plan)
{
    return (halo_hip_input_bytes(plan) + HALO_HIP_ALIGN - 1) / HALO_HIP_ALIGN * HALO_HIP_ALIGN;
}

static uint64_t logit_bytes(const struct halo_plan *plan)
{
    return ((uint64_t)plan->max_outputs * plan->n_vocab * sizeof(float) + HALO_HIP_ALIGN - 1) / HALO_HIP_ALIGN *
           HALO_HIP_ALIGN;
}

static uint64_t top_bytes(const struct halo_plan *plan)
{
    uint64_t n_bytes = (uint64_t)plan->max_outputs * HALO_CANDIDATES_MAX * sizeof(struct halo_candidate);
    return (n_bytes + HALO_HIP_ALIGN - 1) / HALO_HIP_ALIGN * HALO_HIP_ALIGN;
}

/* Two sets of inputs, then the logits, then the lists of the largest, then what a stage takes and leaves, then what
 * streamed experts need. */
static uint64_t pinned_bytes(const struct halo_plan *plan)
{
    return 2 * set_bytes(plan) + logit_bytes(plan) + top_bytes(plan) + halo_hip_hop_bytes(plan) +
           halo_hip_experts_pinned_bytes(plan);
}

void halo_hip_estimate(const struct halo_device *device, const struct halo_plan *plan, uint64_t *ret_weights,
                       uint64_t *ret_kv, uint64_t *ret_scratch)
{
    struct halo_hip_scratch scratch = {0};
    uint64_t first[HALO_KV_GROUPS_MAX];
    bool integrated = device->properties.integrated;
    uint64_t carved = halo_hip_scratch_carve(plan, integrated, NULL, &scratch), pinned = pinned_bytes(plan);
    *ret_weights = halo_hip_weights_place(plan, integrated, NULL);
    *ret_kv = halo_hip_groups_place(plan, first);
    *ret_scratch = carved > UINT64_MAX - pinned ? UINT64_MAX : carved + pinned;
}

static int take_regions(struct halo_device_model *model, char *reason)
{
    struct halo_device *device = model->device;
    const struct halo_plan *plan = model->plan;
    bool integrated = device->properties.integrated;
    struct halo_hip_scratch scratch = {0};
    uint64_t weights = halo_hip_weights_place(plan, integrated, NULL);
    uint64_t carved = halo_hip_scratch_carve(plan, integrated, NULL, &scratch);
    int error =
        halo_hip_region_take(device, &model->weight_region,
                             integrated ? HALO_HIP_MEMORY_WEIGHTS : HALO_HIP_MEMORY_DEVICE, weights, "weights", reason);
    if (!error)
        error = halo_hip_region_take(device, &model->kv_region, HALO_HIP_MEMORY_DEVICE,
                                     halo_hip_groups_place(plan, model->kv_first), "pages of the KV cache", reason);
    if (!error)
        error =
            halo_hip_region_take(device, &model->scratch_region, HALO_HIP_MEMORY_DEVICE, carved, "activations", reason);
    if (!error)
        error = halo_hip_region_take(device, &model->pinned_region, HALO_HIP_MEMORY_PINNED, pinned_bytes(plan),
                                     "inputs and logits", reason);
    if (!error && !integrated)
        error = halo_hip_region_take(device, &model->file_region, HALO_HIP_MEMORY_PAGED, model->pool.n_bytes,
                                     "buffers of the files", reason);
    if (!error && !integrated)
        error = halo_hip_region_take(device, &model->staging_region, HALO_HIP_MEMORY_PINNED, 2 * HALO_HIP_STAGING_BYTES,
                                     "buffers of the upload", reason);
    return error;
}

static int make_events(struct halo_device_model *model, char *reason)
{
    struct halo_device *device = model->device;
    int r = 0;
    for (uint32_t i = 0; i < 2 && !r; i++) {
        r = halo_hip_check(device, device->api.EventCreateWithFlags(&model->input[i].event, HIP_EVENT_NO_TIMING),
                           "an event", reason);
        if (!r)
            r = halo_hip_check(device, device->api.EventCreateWithFlags(&model->staging_event[i], HIP_EVENT_NO_TIMING),
                               "an event", reason);
    }
    return r;
}

/* The factors of weights to where the kernels find them. */
static int upload_scales(struct halo_device_model *model, char *reason)
{
    const struct halo_plan *plan = model->plan;
    int r = 0;
    for (uint32_t i = 0; i < plan->n_weights && !r; i++) {
        const struct halo_weight *w = &plan->weights[i];
        if (halo_hip_scaled(w))
            r = halo_hip_check(model->device,
                               model->device->api.MemcpyAsync(model->scratch.scales + halo_hip_scales_before(plan, i),
                                                              w->scales, w->n_experts * sizeof(float),
                                                              HIP_COPY_TO_DEVICE, model->device->stream),
                               "copying the scales of weights", reason);
    }
    return r;
}

/* The experts of each token, likewise. */
static int upload_tables(struct halo_device_model *model, char *reason)
{
    const struct halo_plan *plan = model->plan;
    int r = 0;
    for (uint32_t i = 0; i < plan->n_ops && !r; i++)
        if (halo_hip_table_size(plan, i) > 0)
            r = halo_hip_check(model->device,
                               model->device->api.MemcpyAsync(
                                   model->scratch.expert_tables + halo_hip_tables_before(plan, i),
                                   plan->ops[i].u.moe_route.table, halo_hip_table_size(plan, i) * sizeof(int32_t),
                                   HIP_COPY_TO_DEVICE, model->device->stream),
                               "copying the experts of tokens", reason);
    return r;
}

/* Pages start as zeros: a masked position must not multiply a NaN that the memory's previous user left. */
static int clear(struct halo_device_model *model, char *reason)
{
    struct halo_device *device = model->device;
    const struct halo_hip_region *kv = &model->kv_region;
    const struct halo_hip_scratch *scratch = &model->scratch;
    int r = 0;
    if (kv->n_bytes > 0)
        r = halo_hip_check(device, device->api.MemsetAsync(kv->device, 0, kv->n_bytes, device->stream),
                           "clearing the KV cache", reason);
    if (!r && scratch->n_counters > 0)
        r = halo_hip_check(device,
                           device->api.MemsetAsync(scratch->counters, 0,
                                                   scratch->n_counters * sizeof(*scratch->counters), device->stream),
                           "clearing the counters", reason);
    r = r ? r : upload_scales(model, reason);
    r = r ? r : upload_tables(model, reason);
    return r ? r : halo_hip_drain(device, "clearing the KV cache", reason);
}

static void point_into_regions(struct halo_device_model *model)
{
    const struct halo_plan *plan = model->plan;
    bool integrated = model->device->properties.integrated;
    const struct halo_hip_region *pinned = &model->pinned_region;
    uint64_t set = set_bytes(plan), top = 2 * set + logit_bytes(plan);
    halo_hip_weights_place(plan, integrated, model->weights);
    halo_hip_scratch_carve(plan, integrated, model->scratch_region.device, &model->scratch);
    for (uint32_t i = 0; i < 2; i++) {
        model->input[i].host = pinned->host + i * set;
        model->input[i].device = integrated ? pinned->device + i * set : model->scratch.input;
    }
    model->logits_host = (float *)(void *)(pinned->host + 2 * set);
    model->top_host = (struct halo_candidate *)(void *)(pinned->host + top);
    model->top_device = integrated ? (struct halo_candidate *)(void *)(pinned->device + top) : model->scratch.top;
    halo_hip_hop_place(model, pinned->host + top + top_bytes(plan));
    model->logits_device = integrated ? (float *)(void *)(pinned->device + 2 * set) : model->scratch.logits;
}

static int create_experts(struct halo_device_model *model, char *reason)
{
    const struct halo_hip_region *pinned = &model->pinned_region;
    uint64_t at = pinned->n_bytes - halo_hip_experts_pinned_bytes(model->plan);
    uint32_t *table =
        model->device->properties.integrated ? (uint32_t *)(void *)(pinned->device + at) : model->scratch.places;
    return halo_hip_experts_create(model, pinned->host + at, table, reason);
}

/* Fewer threads than processors are enough; packing is slower then. */
static int start_packers(struct halo_device_model *model, char *reason)
{
    uint32_t n = halo_workers_processors();
    int r = halo_workers_create(&model->packers, "halo-pack", n < HALO_HIP_PACKERS_MAX ? n : HALO_HIP_PACKERS_MAX, 1);
    return r ? halo_reason(reason, r, "no memory for the threads that pack weights") : 0;
}

static void stop_packers(struct halo_device_model *model)
{
    halo_workers_destroy(model->packers);
    model->packers = NULL;
}

int halo_hip_model_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                          char *reason)
{
    int r = halo_hip_usable(device, reason);
    for (uint32_t i = 0; i < plan->n_ops && !r; i++)
        r = halo_hip_supports(device, plan, i, reason);
    r = r ? r : halo_hip_hop_check(device, plan, reason);
    if (r)
        return r;
    struct halo_device_model *model = calloc(1, sizeof(*model));
    if (!model)
        return halo_reason(reason, -ENOMEM, "no memory for the model");
    model->device = device;
    model->plan = plan;
    model->tables = halo_hip_tables_of(plan);
    model->next = device->models;
    device->models = model;
    pthread_mutex_init(&model->commit_lock, NULL);
    model->weights = calloc(plan->n_weights, sizeof(*model->weights));
    model->pool_order = calloc(plan->n_weights, sizeof(*model->pool_order));
    model->scratch.values = calloc(plan->n_values, sizeof(*model->scratch.values));
    halo_hip_pool_init(&model->pool, model->weights, model->pool_order, plan->n_weights,
                       device->properties.integrated ? 0 : halo_hip_pool_bytes(plan, HALO_HIP_POOL_AHEAD));
    if (!model->weights || !model->pool_order || !model->scratch.values)
        r = halo_reason(reason, -ENOMEM, "no memory for the table of %u weights", plan->n_weights);
    if (!r)
        r = halo_hip_check(device, device->api.SetDevice(device->index), "choosing the GPU", reason);
    if (!r)
        r = take_regions(model, reason);
    if (!r)
        r = make_events(model, reason);
    if (!r) {
        point_into_regions(model);
        r = create_experts(model, reason);
    }
    if (!r)
        r = clear(model, reason);
    if (!r)
        r = start_packers(model, reason);
    if (r) {
        halo_hip_model_destroy(model);
        return r;
    }
    *ret = model;
    return 0;
}

void halo_hip_model_destroy(struct halo_device_model *model)
{
    if (!model)
        return;
    struct halo_device *device = model->device;
    struct halo_device_model **link = &device->models;
    while (*link != model)
        link = &(*link)->next;
    *link = model->next;
    stop_packers(model);
    halo_hip_choose(device, NULL);
    /* Queued work still reads this memory. If it does not end, the device is lost and nothing is freed. */
    if (!atomic_load(&device->lost))
        halo_hip_drain(device, "the last work of a model", NULL);
    halo_hip_graphs_drop(model);
    halo_hip_program_finish(&model->program);
    for (uint32_t i = 0; i < 2 && !atomic_load(&device->lost); i++) {
        if (model->input[i].event)
            device->api.EventDestroy(model->input[i].event);
        if (model->staging_event[i])
            device->api.EventDestroy(model->staging_event[i]);
    }
    halo_hip_experts_destroy(model);
    halo_hip_region_release(device, &model->weight_region);
    halo_hip_region_release(device, &model->file_region);
    halo_hip_region_release(device, &model->kv_region);
    halo_hip_region_release(device, &model->scratch_region);
    halo_hip_region_release(device, &model->pinned_region);
    halo_hip_region_release(device, &model->staging_region);
    halo_hip_pool_finish(&model->pool);
    pthread_mutex_destroy(&model->commit_lock);
    free(model->pool_order);
    free(model->scratch.values);
    free(model->weights);
    free(model);
}

int halo_hip_model_seal(struct halo_device_model *model, char *reason)
{
    struct halo_device *device = model->device;
    int r = halo_hip_usable(device, reason);
    if (r)
        return r;
    for (uint32_t i = 0; i < model->plan->n_weights; i++) {
        if (model->plan->weights[i].streamed > 0)
            continue;
        if (!atomic_load_explicit(&model->weights[i].committed, memory_order_acquire))
            return halo_reason(reason, -EINVAL, "weight %s was never committed", model->plan->weights[i].name);
    }
    bool streams = model->experts.n_layers > 0;
    if (streams && (!model->experts.source.choose || model->experts.slots.n == 0))
        return halo_reason(reason, -EINVAL, "no %s of experts", model->experts.slots.n == 0 ? "slots" : "source");
    r = halo_hip_drain(device, "the end of the upload", reason);
    if (r)
        return r;
    halo_hip_region_release(device, &model->file_region);
    if (!streams) {
        stop_packers(model);
        halo_hip_region_release(device, &model->staging_region);
    }
    r = halo_hip_program_compile(&model->program, model, reason);
    if (!r && !streams) /* a step that stops for experts is no graph */
        r = halo_hip_graphs_record(model, reason);
    model->sealed = !r;
    return r;
}
