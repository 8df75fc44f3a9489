/* device_load.c: the stages of a load that are the device's: memory, the seal, prefixes that come back. Device thread.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device/device_priv.h"

static enum halo_load_stage fail(struct halo_device_thread *t, struct halo_load *load)
{
    assert(load->fault.code != HALO_FAULT_NONE);
    halo_device_forget_model(t, load->instance);
    halo_device_on_fault(t, &load->fault);
    return HALO_LOAD_DONE;
}

/* 0, HALO_LOAD_E_ROOM, or negative with load->fault set. */
static int admit(struct halo_device_thread *t, struct halo_load *load)
{
    if (atomic_load(&load->cancel))
        return halo_fault_set(&load->fault, HALO_FAULT_CANCELLED, "cancelled");
    if (!halo_device_usable(t, &load->fault))
        return -ENODEV;
    load->need_place = t->n_models == t->max_models;
    if (!load->need_place) {
        struct halo_room room = halo_device_room(t);
        return halo_load_create(load, t->ops, t->device, &room, t->stats);
    }
    if (load->evictable_bytes == HALO_LOAD_ASK)
        return HALO_LOAD_E_ROOM;
    int r = halo_fault_set(&load->fault, HALO_FAULT_OUT_OF_MEMORY,
                           "%u models are loaded, which is the limit, and each of them is pinned or in use; unload one",
                           t->n_models);
    halo_fault_number(&load->fault, "limit", t->max_models);
    return r;
}

enum halo_load_stage halo_device_admit(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_device_thread *t = threads->device;
    halo_device_set_phase(t, "taking memory for a model");
    int r = admit(t, load);
    t->n_device_models += load->instance->device_model != NULL;
    if (r < 0)
        return fail(t, load);
    return r == HALO_LOAD_E_ROOM ? HALO_LOAD_ROOM : HALO_LOAD_READ;
}

enum halo_load_stage halo_device_seal(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_device_thread *t = threads->device;
    struct halo_instance *instance = load->instance;
    char reason[HALO_DEVICE_REASON] = "";
    halo_device_set_phase(t, "sealing a model");
    assert(t->n_models < HALO_MAX_LOADED); /* one load at a time, and there was a place when it began */
    if (load->fault.code == HALO_FAULT_NONE && halo_device_usable(t, &load->fault)) {
        uint32_t n_notices = t->info.n_notices;
        if (instance->experts)
            t->ops->set_experts(instance->device_model, halo_experts_source(instance->experts));
        int r = t->ops->model_seal(instance->device_model, reason);
        halo_device_refresh_info(t);
        if (t->info.n_notices != n_notices)
            snprintf(load->device_notice, sizeof(load->device_notice), "%s", t->info.notice);
        if (r < 0)
            halo_fault_set(&load->fault, halo_load_fault_code(r), "%s", reason);
    }
    if (load->fault.code == HALO_FAULT_NONE) {
        halo_stages_of(t->ops, t->device, t->info.n_gpus, &instance->model->plan, &instance->stages);
        struct halo_scheduler_setup setup = {.ops = t->ops,
                                             .device_model = instance->device_model,
                                             .plan = &instance->model->plan,
                                             .makes_lists = t->info.features & HALO_DEVICE_TOP,
                                             .any_cut =
                                                 (t->info.features & HALO_DEVICE_BATCH_INVARIANT) && !instance->experts,
                                             .streams = instance->experts != NULL,
                                             .n_checkpoints = instance->n_checkpoints,
                                             .queues = t->info.features & HALO_DEVICE_QUEUES,
                                             .max_queued = t->max_queued,
                                             .phase = &t->phase,
                                             .stats = t->stats,
                                             .port = t->port,
                                             .lost = &t->lost,
                                             .activity = &t->activity};
        if (halo_scheduler_init(&instance->scheduler, &setup) < 0)
            halo_fault_set(&load->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the batch of %u rows",
                           setup.plan->max_rows);
    }
    if (load->fault.code != HALO_FAULT_NONE)
        return fail(t, load);
    t->models[t->n_models++] = instance;
    if (!t->keeps_prefixes || !t->ops->kv_write)
        return HALO_LOAD_DONE;
    memcpy(load->layout, t->info.kv_layout, sizeof(load->layout));
    halo_device_page_bytes(t, instance, load->page_bytes);
    return HALO_LOAD_PREFIXES;
}

/* Nobody knows of the model yet: a failure costs the prefixes only. */
enum halo_load_stage halo_device_restore(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_device_thread *t = threads->device;
    const struct halo_plan *plan = &load->instance->model->plan;
    struct halo_prefix_key key = {.n_vocab = plan->n_vocab, .n_groups = plan->n_kv_groups};
    memcpy(key.page_bytes, load->page_bytes, sizeof(key.page_bytes));
    halo_device_set_phase(t, "bringing prefixes back");
    if (load->image && halo_device_usable(t, &load->prefix_fault)) {
        int r = halo_keep_restore(load->instance, t->ops, &key, load->image, load->n_records, &load->n_restored,
                                  &load->prefix_fault);
        if (r < 0)
            halo_device_on_failure(t, r);
    }
    return HALO_LOAD_DONE;
}
