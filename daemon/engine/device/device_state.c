/* device_state.c: what can be done with the device and what it holds; what its failure means for everything else.
 *
 * Device thread.
 */
#include "device/device_priv.h"

const char *halo_device_thread_name(const struct halo_device_thread *t)
{
    return t->options.stage ? t->options.stage->name : t->ops->name;
}

/* Whether work can be done at all; otherwise the fault says why. */
bool halo_device_usable(struct halo_device_thread *t, struct halo_fault *fault)
{
    if (atomic_load(&t->lost)) {
        halo_fault_set(fault, HALO_FAULT_DEVICE_FAULT, "the %s device is lost until the engine is started again",
                       halo_device_thread_name(t));
        return false;
    }
    if (!t->device)
        *fault = t->open_fault; /* written by this thread: no lock */
    return t->device != NULL;
}

/* The device failed: what it means for everything else. */
void halo_device_on_failure(struct halo_device_thread *t, int error)
{
    if (error != HALO_DEVICE_E_LOST && error != -ETIME)
        return; /* only that step */
    atomic_store(&t->lost, true);
    struct halo_fault fault = {0};
    halo_device_usable(t, &fault);
    if (error == -ETIME)
        fault.code = HALO_FAULT_DEVICE_HANG;
    for (uint32_t i = 0; i < t->n_models; i++)
        halo_scheduler_fail_all(&t->models[i]->scheduler, &fault);
}

void halo_device_on_fault(struct halo_device_thread *t, const struct halo_fault *fault)
{
    if (fault->code == HALO_FAULT_DEVICE_FAULT || fault->code == HALO_FAULT_DEVICE_HANG)
        halo_device_on_failure(t, fault->code == HALO_FAULT_DEVICE_HANG ? -ETIME : HALO_DEVICE_E_LOST);
}

void halo_device_forget_model(struct halo_device_thread *t, struct halo_instance *instance)
{
    for (uint32_t i = 0; i < t->n_models; i++)
        if (t->models[i] == instance) {
            t->models[i] = t->models[--t->n_models];
            break;
        }
    if (!instance->device_model)
        return;
    /* Where a read may still write into the device's slots, its model stays, and the device with it. */
    if (halo_experts_destroy(instance->experts) || !t->ops->take_slots) {
        t->ops->model_destroy(instance->device_model);
        t->n_device_models--;
    }
    instance->experts = NULL;
    instance->device_model = NULL;
}

static void measure_budget(struct halo_device_thread *t, const struct halo_device_info *info)
{
    uint64_t bytes = halo_budget_free_bytes(info);
    for (uint32_t i = 0; i < t->n_models; i++)
        bytes += halo_instance_weights_bytes(t->models[i]);
    if (t->n_device_models == 0 || bytes > t->budget_bytes)
        t->budget_bytes = bytes;
}

void halo_device_refresh_info(struct halo_device_thread *t)
{
    struct halo_device_info info;
    if (!t->device || atomic_load(&t->lost))
        return;
    t->ops->describe(t->device, &info);
    pthread_mutex_lock(&t->info_lock);
    t->info = info;
    if (!t->has_budget)
        measure_budget(t, &info);
    pthread_mutex_unlock(&t->info_lock);
}

/* What a load may take now: what is free, and no more than the models that are there leave of the budget: memory that
 * they have not touched yet looks free. */
struct halo_room halo_device_room(struct halo_device_thread *t)
{
    struct halo_room room = {.budget_bytes = t->has_budget ? t->budget_bytes : 0,
                             .checkpoint_bytes = t->checkpoint_bytes};
    halo_device_refresh_info(t);
    for (uint32_t i = 0; i < t->n_models; i++)
        room.held_bytes += halo_instance_bytes(t->models[i]);
    room.free_bytes = halo_budget_free_bytes(&t->info);
    uint64_t left = t->budget_bytes > room.held_bytes ? t->budget_bytes - room.held_bytes : 0;
    room.bytes = left < room.free_bytes ? left : room.free_bytes;
    return room;
}

void halo_device_page_bytes(const struct halo_device_thread *t, const struct halo_instance *instance,
                            uint64_t ret[HALO_KV_GROUPS_MAX])
{
    for (uint32_t group = 0; group < HALO_KV_GROUPS_MAX; group++)
        ret[group] =
            group < instance->model->plan.n_kv_groups ? t->ops->kv_page_bytes(instance->device_model, group) : 0;
}
