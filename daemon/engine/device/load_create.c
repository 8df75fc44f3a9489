/* load_create.c: admission of a load, before any large allocation: what is needed, what is free and which context would
 * fit. Device thread. Fails with UNSUPPORTED, OUT_OF_MEMORY, BAD_REQUEST, DEVICE_HANG, DEVICE_FAULT, LOAD_FAILED in
 * load->fault.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <base/size.h>
#include <model/streamed.h>

#include <engine/layers.h>
#include <engine/load.h>

#define REMEDY_BYTES 128

/* What models hold that are pinned or in use. */
static uint64_t busy_bytes_of(const struct halo_load *load, const struct halo_room *room)
{
    return room->held_bytes > load->evictable_bytes ? room->held_bytes - load->evictable_bytes : 0;
}

/* What would make room for need_bytes, where `bytes` are what there would be with every idle model gone. */
static void find_remedy(const struct halo_load *load, const struct halo_room *room, uint64_t need_bytes, uint64_t bytes,
                        char ret[REMEDY_BYTES])
{
    char size[HALO_SIZE_TEXT];
    uint64_t busy_bytes = busy_bytes_of(load, room);
    if (load->wish.budget_bytes > 0 && bytes == load->wish.budget_bytes)
        snprintf(ret, REMEDY_BYTES, "raise budget_bytes of the load");
    else if (busy_bytes > 0 && need_bytes - bytes <= busy_bytes)
        snprintf(ret, REMEDY_BYTES, "unload another model, those that are pinned or in use hold %s",
                 halo_size_text(busy_bytes, size));
    else if (room->budget_bytes > 0 && room->budget_bytes < room->free_bytes + room->held_bytes)
        snprintf(ret, REMEDY_BYTES, "raise budget_bytes, all models together may take %s",
                 halo_size_text(room->budget_bytes, size));
    else
        snprintf(ret, REMEDY_BYTES, "load a smaller model, or stop what else uses the device's memory");
}

/* bytes: with every idle model gone. */
static int refuse(struct halo_load *load, const struct halo_room *room, const struct halo_budget *budget,
                  uint64_t wanted_pages, uint64_t bytes)
{
    char need[HALO_SIZE_TEXT], weights[HALO_SIZE_TEXT], left[HALO_SIZE_TEXT], remedy[REMEDY_BYTES];
    uint64_t fixed = budget->weights_bytes + budget->scratch_bytes,
             least = fixed + halo_budget_pool_bytes(budget, 1, 1);
    uint32_t most = halo_budget_fit_context(budget, 1, load->instance->model->hparams.n_context_train);
    const char *even = load->evictable_bytes > 0 ? " with every idle model unloaded" : "";
    char parts[96] = "weights, ";
    if (load->streams_layers)
        snprintf(parts, sizeof(parts), "embedding, output, norms, two buffers through which every layer streams, ");
    else if (budget->least_slots > 0)
        snprintf(parts, sizeof(parts), "weights, %u slots of experts, ", budget->least_slots);
    if (least > bytes) {
        find_remedy(load, room, least, bytes, remedy);
        int r = halo_fault_set(&load->fault, HALO_FAULT_OUT_OF_MEMORY,
                               "needs %s for %sscratch and a page of KV cache, %s are free%s; %s",
                               halo_size_text(least, need), parts, halo_size_text(bytes, left), even, remedy);
        halo_fault_number(&load->fault, "needed_bytes", least);
        halo_fault_number(&load->fault, "free_bytes", bytes);
        return r;
    }
    bool pool = load->instance->model->plan.n_context <= most; /* the context would fit: the rest is what does not */
    uint64_t pool_bytes = halo_budget_pool_bytes(budget, wanted_pages, budget->context_pages);
    uint64_t busy_bytes = bytes == load->wish.budget_bytes ? 0 : busy_bytes_of(load, room);
    char other[REMEDY_BYTES] = "";
    if (busy_bytes > 0 && fixed + pool_bytes - bytes <= busy_bytes)
        snprintf(other, sizeof(other), ", or unload another model, those that are pinned or in use hold %s",
                 halo_size_text(busy_bytes, need));
    int r = halo_fault_set(
        &load->fault, HALO_FAULT_OUT_OF_MEMORY,
        "needs %s of KV cache beside %s of weights, %s are left for it%s; load with a %s of at most %u%s",
        halo_size_text(pool_bytes, need), halo_size_text(fixed, weights), halo_size_text(bytes - fixed, left), even,
        pool                       ? "kv_tokens"
        : load->wish.kv_tokens > 0 ? "context and kv_tokens"
                                   : "context",
        pool ? budget->max_pages * HALO_KV_PAGE_TOKENS : most, other);
    halo_fault_number(&load->fault, "needed_bytes", fixed + pool_bytes);
    halo_fault_number(&load->fault, "free_bytes", bytes);
    return r;
}

/* The least pool that does. */
static int64_t least_pages(const struct halo_load *load)
{
    uint64_t wish = load->wish.kv_tokens;
    return halo_kv_pages_for(wish > 0 ? wish : load->instance->model->plan.n_context);
}

/* ---- streamed weights ---- */

static bool is_streamed(const struct halo_load *load)
{
    return load->n_streamed > 0;
}

/* What the load may take of so many bytes. */
static uint64_t within_wish(const struct halo_load *load, uint64_t bytes)
{
    return load->wish.budget_bytes > 0 && load->wish.budget_bytes < bytes ? load->wish.budget_bytes : bytes;
}

/* Makes the experts of a mixture streamed, where the device and the model know how. */
static bool stream_experts(struct halo_load *load, const struct halo_device_ops *ops)
{
    if (!is_streamed(load) && ops->expert_bytes)
        load->n_streamed = halo_model_stream_experts(load->instance->model, true);
    return is_streamed(load) && !load->streams_layers;
}

/* Makes as many layers of a dense model streamed as there is no room for now. */
static bool stream_layers(struct halo_load *load, const struct halo_device_ops *ops, const struct halo_device *device,
                          const struct halo_room *room, int64_t least)
{
    load->n_streamed =
        halo_layers_stream(ops, device, load->instance->model, within_wish(load, room->bytes), (uint32_t)least);
    load->streams_layers = is_streamed(load);
    return load->streams_layers;
}

/* Whether the model, all of it resident, exceeds what it could have without any other. */
static bool is_too_large(const struct halo_load *load, const struct halo_device_ops *ops,
                         const struct halo_device *device, const struct halo_room *room, int64_t least)
{
    struct halo_budget alone;
    halo_budget_of(ops, device, &load->instance->model->plan, within_wish(load, room->bytes + room->held_bytes),
                   &alone);
    return least > alone.max_pages;
}

/* ---- room ---- */

/* There is not enough for the least pool: somebody goes, or that is that. */
static int lack_room(struct halo_load *load, const struct halo_device_ops *ops, struct halo_device *device,
                     const struct halo_room *room, const struct halo_budget *budget, uint64_t n_pages)
{
    const struct halo_plan *plan = &load->instance->model->plan;
    struct halo_budget most;
    if (load->wish.budget_bytes > 0) { /* what nobody's going would help */
        uint64_t evictable_bytes = load->evictable_bytes, bytes = load->wish.budget_bytes;
        halo_budget_of(ops, device, plan, bytes, &most);
        load->evictable_bytes = 0;
        int r = n_pages > most.max_pages ? refuse(load, room, &most, n_pages, bytes) : 0;
        load->evictable_bytes = evictable_bytes;
        if (r < 0)
            return r;
    }
    if (load->evictable_bytes != HALO_LOAD_ASK) {
        uint64_t all = within_wish(load, room->bytes + load->evictable_bytes);
        halo_budget_of(ops, device, plan, all, &most);
        if (n_pages > most.max_pages)
            return refuse(load, room, &most, n_pages, all);
    }
    load->evictable_bytes = HALO_LOAD_ASK;
    if (__builtin_add_overflow(halo_budget_pool_bytes(budget, n_pages, budget->context_pages),
                               budget->weights_bytes + budget->scratch_bytes, &load->need_bytes))
        load->need_bytes = UINT64_MAX;
    return HALO_LOAD_E_ROOM;
}

/* What was settled with less than was wanted, in words. */
static void remark(struct halo_load *load, const struct halo_settled *settled)
{
    const struct halo_budget_checkpoints *checkpoints = &settled->checkpoints;
    uint32_t rows = load->instance->model->plan.max_rows;
    if (rows < settled->batch_rows / 2) /* half of them are nearly as fast */
        halo_remarks_add(&load->changes, "prompts are computed in chunks of %u tokens instead of %u, as memory allows",
                         rows, settled->batch_rows);
    if (settled->n_pages < settled->pages_wanted)
        halo_remarks_add(&load->changes, "kv_tokens: %u instead of %llu, as memory allows",
                         settled->n_pages * HALO_KV_PAGE_TOKENS,
                         (unsigned long long)(settled->pages_wanted * HALO_KV_PAGE_TOKENS));
    if (checkpoints->n < checkpoints->n_wanted)
        halo_remarks_add(&load->changes, "checkpoint_bytes: %llu instead of %llu, as memory allows",
                         (unsigned long long)(checkpoints->n * checkpoints->slot_bytes),
                         (unsigned long long)(checkpoints->n_wanted * checkpoints->slot_bytes));
}

int halo_load_check_ops(const struct halo_plan *plan, const struct halo_device_ops *ops,
                        const struct halo_device *device, struct halo_fault *fault)
{
    char reason[HALO_DEVICE_REASON] = "";
    for (uint32_t i = 0; i < plan->n_ops; i++)
        if (ops->supports(device, plan, i, reason) < 0)
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "the %s device cannot run op %u: %s", ops->name, i,
                                  reason);
    return 0;
}

/* Says what streams, where the wish does not. */
static void remark_streams(struct halo_load *load, const struct halo_expert_shape *shape, uint32_t n_slots)
{
    char size[HALO_SIZE_TEXT], buffers[HALO_SIZE_TEXT];
    if (shape->is_dense)
        halo_remarks_add(&load->changes,
                         "tiers: stream, because not all weights fit: each step reads %u of %u layers (%s) from disk, "
                         "through buffers of %s",
                         shape->n_layers, load->instance->model->hparams.n_layers,
                         halo_size_text(shape->file_bytes, size), halo_size_text(n_slots * shape->slot_bytes, buffers));
    else if (load->wish.tiers == HALO_TIERS_AUTO)
        halo_remarks_add(
            &load->changes,
            "tiers: stream, because not all weights fit: %s of experts stay on disk, %u of %u are in memory",
            halo_size_text(shape->file_bytes, size), n_slots, shape->n_experts);
}

/* The slots for experts that `plan` answers with: what the rest leaves of the budget. */
static int count_slots(struct halo_load *load, const struct halo_budget *budget, uint32_t *ret)
{
    const struct halo_plan *plan = &load->instance->model->plan;
    struct halo_placement_options options = {.tiers = HALO_TIERS_STREAM, .kv_bytes = budget->kv_bytes};
    struct halo_placement *placement = malloc(sizeof(*placement));
    if (!placement)
        return halo_fault_set(&load->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to count the slots of experts");
    halo_budget_streamed(budget, plan, &options);
    int r = halo_placement_make(plan, NULL, budget->free_bytes, 0, &options, placement, &load->fault);
    *ret = placement->n_slots;
    free(placement);
    return r;
}

/* The bookkeeping of streamed weights. Layers take turns in the least number of slots. */
static int create_experts(struct halo_load *load, const struct halo_device_ops *ops, const struct halo_device *device,
                          const struct halo_budget *budget, struct halo_stats *stats)
{
    struct halo_instance *instance = load->instance;
    struct halo_experts_setup setup = {.ops = ops,
                                       .device = device,
                                       .device_model = instance->device_model,
                                       .plan = &instance->model->plan,
                                       .stats = stats};
    struct halo_expert_shape shape;
    struct halo_device_info info;
    halo_expert_shape_of(ops, device, setup.plan, &shape);
    ops->describe(device, &info);
    setup.purge_bytes = info.features & HALO_DEVICE_HOST_MEMORY ? halo_budget_reserve(info.memory_bytes) : 0;
    setup.n_slots = budget->least_slots;
    int r = shape.is_dense ? 0 : count_slots(load, budget, &setup.n_slots);
    if (r < 0)
        return r;
    remark_streams(load, &shape, setup.n_slots);
    instance->n_slots = setup.n_slots;
    instance->n_streamed_layers = shape.is_dense ? shape.n_layers : 0;
    instance->slots_bytes = setup.n_slots * budget->slot_bytes;
    instance->streamed_bytes = shape.file_bytes;
    instance->weights_bytes -= budget->least_slots * budget->slot_bytes;
    return halo_experts_create(&instance->experts, &setup, &load->fault);
}

/* The plan is settled and fits. */
static int create(struct halo_load *load, const struct halo_device_ops *ops, struct halo_device *device,
                  const struct halo_budget *budget, struct halo_stats *stats)
{
    struct halo_instance *instance = load->instance;
    const struct halo_plan *plan = &instance->model->plan;
    char reason[HALO_DEVICE_REASON] = "";
    int r = ops->model_create(device, plan, &instance->device_model, reason);
    if (r < 0) {
        instance->device_model = NULL;
        return halo_fault_set(&load->fault, halo_load_fault_code(r), "%s", reason);
    }
    instance->weights_bytes = budget->weights_bytes;
    instance->kv_bytes = budget->kv_bytes;
    instance->scratch_bytes = budget->scratch_bytes;
    instance->context = plan->n_context;
    instance->kv_tokens = plan->kv[0].n_pages * HALO_KV_PAGE_TOKENS;
    return is_streamed(load) ? create_experts(load, ops, device, budget, stats) : 0;
}

int halo_load_create(struct halo_load *load, const struct halo_device_ops *ops, struct halo_device *device,
                     const struct halo_room *room, struct halo_stats *stats)
{
    const struct halo_plan *plan = &load->instance->model->plan;
    struct halo_budget budget;
    int64_t least = least_pages(load);
    enum halo_tiers tiers = load->wish.tiers;
    bool is_large = !is_streamed(load) && tiers != HALO_TIERS_MEMORY && is_too_large(load, ops, device, room, least);
    if (tiers == HALO_TIERS_STREAM || is_large)
        stream_experts(load, ops);
    if (load->streams_layers || (is_large && !is_streamed(load))) /* with the room that there is now */
        stream_layers(load, ops, device, room, least);
    int r = halo_load_check_ops(plan, ops, device, &load->fault);
    if (r < 0)
        return r;
    load->room_bytes = within_wish(load, room->bytes);
    halo_budget_of(ops, device, plan, load->room_bytes, &budget);
    if (least > budget.max_pages) {
        r = lack_room(load, ops, device, room, &budget, (uint64_t)least);
        if (r >= 0 || tiers == HALO_TIERS_MEMORY || is_streamed(load) ||
            (!stream_experts(load, ops) && !stream_layers(load, ops, device, room, least)))
            return r;
        load->fault = (struct halo_fault){0}; /* not all of it fits beside the others, but a part does */
        return halo_load_create(load, ops, device, room, stats);
    }
    struct halo_settled settled;
    halo_budget_settle(ops, device, &load->instance->model->plan, load->room_bytes, (uint32_t)least,
                       load->wish.kv_tokens > 0, room->checkpoint_bytes, &settled);
    remark(load, &settled);
    load->instance->n_checkpoints = settled.checkpoints.n;
    load->instance->checkpoint_bytes = settled.checkpoints.n * settled.checkpoints.slot_bytes;
    return create(load, ops, device, &settled.budget, stats);
}
