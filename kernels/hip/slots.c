/* slots.c: see slots_priv.h. */
#include "slots_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "device_priv.h"

static bool is_divided(const struct halo_hip_slots *s)
{
    return s->n_slabs > 1;
}

static const char *what_of(const struct halo_device_model *model)
{
    return model->experts.is_dense ? "buffers of streamed layers" : "slots of experts";
}

static uint32_t slots_of(const struct halo_hip_slots *s, uint32_t slab)
{
    uint32_t first = slab * s->slab_slots, left = s->n - first;
    return left < s->slab_slots ? left : s->slab_slots;
}

/* Gives the slab its places. Returns how many bytes of its memory lie in front of its first slot, or -ERANGE. */
static int64_t find_place(struct halo_hip_slots *s, struct halo_hip_slab *slab, uint32_t n)
{
    uint64_t at = (uintptr_t)slab->region.device, half = HALO_MOE_PLACES_MAX / 2;
    if (!s->base)
        s->base = slab->region.device - (half < at / s->slot_bytes ? half : at / s->slot_bytes) * s->slot_bytes;
    uint64_t base = (uintptr_t)s->base;
    if (at < base || (at - base) / s->slot_bytes + 1 + n > HALO_MOE_PLACES_MAX)
        return -ERANGE;
    slab->first_place = (uint32_t)((at - base + s->slot_bytes - 1) / s->slot_bytes);
    return (int64_t)(base + slab->first_place * s->slot_bytes - at);
}

static int take_slab(struct halo_device_model *model, uint32_t number, uint8_t **ret_host, char *reason)
{
    struct halo_hip_slots *s = &model->experts.slots;
    struct halo_hip_slab *slab = &s->slabs[number];
    uint32_t n = slots_of(s, number);
    int r = halo_hip_region_take(model->device, &slab->region, HALO_HIP_MEMORY_WEIGHTS,
                                 (n + 1) * s->slot_bytes - HALO_HIP_PAGE_BYTES, "slots of experts", reason);
    if (r)
        return r;
    int64_t skipped = find_place(s, slab, n);
    if (skipped < 0) {
        halo_hip_region_release(model->device, &slab->region);
        return halo_reason(reason, (int)skipped,
                           "the runtime put some slots of experts more than %llu MiB away from the others",
                           (unsigned long long)(HALO_MOE_PLACES_MAX / 2 * s->slot_bytes >> 20));
    }
    *ret_host = slab->region.host + skipped;
    return 0;
}

static int take_slabs(struct halo_device_model *model, struct halo_expert_slots *slots, char *reason)
{
    struct halo_hip_slots *s = &model->experts.slots;
    int r = 0;
    for (uint32_t i = 0; i < s->n_slabs && !r; i++)
        r = take_slab(model, i, &slots->slabs[i], reason);
    for (uint32_t i = 0; i < s->n_slabs && r; i++)
        halo_hip_region_release(model->device, &s->slabs[i].region);
    return r;
}

static int take_piece(struct halo_device_model *model, struct halo_expert_slots *slots, char *reason)
{
    struct halo_hip_slots *s = &model->experts.slots;
    struct halo_device *device = model->device;
    enum halo_hip_memory kind = device->properties.integrated ? HALO_HIP_MEMORY_WEIGHTS : HALO_HIP_MEMORY_DEVICE;
    uint64_t n_bytes;
    if (__builtin_mul_overflow(s->slot_bytes, s->n, &n_bytes))
        n_bytes = UINT64_MAX;
    slots->slab_slots = s->slab_slots = s->n;
    s->n_slabs = 1;
    int r = halo_hip_region_take(device, &s->slabs[0].region, kind, n_bytes, what_of(model), reason);
    s->base = s->slabs[0].region.device;
    s->slabs[0].first_place = 0;
    slots->slabs[0] = s->slabs[0].region.host;
    return r;
}

static int take_memory(struct halo_device_model *model, struct halo_expert_slots *slots, char *reason)
{
    struct halo_hip_slots *s = &model->experts.slots;
    if (!is_divided(s) || !model->device->properties.integrated)
        return take_piece(model, slots, reason);
    int r = take_slabs(model, slots, reason);
    if (r != -ERANGE)
        return r;
    halo_hip_notice(model->device, "%s; all slots are one piece instead, which is not given back when memory is short",
                    reason);
    return take_piece(model, slots, reason);
}

int halo_hip_take_slots(struct halo_device_model *model, struct halo_expert_slots *slots, char *reason)
{
    struct halo_hip_slots *s = &model->experts.slots;
    struct halo_device *device = model->device;
    assert(!model->sealed && model->experts.n_layers > 0 && slots->n > 0 && slots->slab_slots > 0 &&
           slots->slot_bytes % HALO_HIP_PAGE_BYTES == 0);
    if (slots->n > HALO_MOE_PLACES_MAX)
        return halo_reason(reason, -ENOTSUP, "%u slots of experts, the hip device takes at most %d", slots->n,
                           HALO_MOE_PLACES_MAX);
    *s = (struct halo_hip_slots){.slab_slots = slots->slab_slots, .slot_bytes = slots->slot_bytes};
    s->n_slabs = (slots->n + s->slab_slots - 1) / s->slab_slots;
    s->slabs = calloc(s->n_slabs, sizeof(*s->slabs));
    if (!s->slabs)
        return halo_reason(reason, -ENOMEM, "no memory for a table of slots");
    s->n = slots->n;
    int r = halo_hip_check(device, device->api.SetDevice(device->index), "choosing the GPU", reason);
    r = r ? r : take_memory(model, slots, reason);
    if (r)
        return r;
    for (uint32_t i = 0; i < model->plan->n_weights; i++)
        if (model->plan->weights[i].streamed > 0) {
            assert(slots->part_at[i] % HALO_HIP_ALIGN == 0);
            model->weights[i].at = slots->part_at[i];
            model->weights[i].expert_bytes = slots->slot_bytes;
        }
    return 0;
}

int halo_hip_give_slab(struct halo_device_model *model, uint32_t slab, char *reason)
{
    struct halo_hip_slots *s = &model->experts.slots;
    assert(is_divided(s) && slab < s->n_slabs && s->slabs[slab].region.host);
    int r = halo_hip_usable(model->device, reason);
    r = r ? r : halo_hip_drain(model->device, "the work before slots of experts are given back", reason);
    if (!r)
        halo_hip_region_release(model->device, &s->slabs[slab].region);
    return r;
}

int halo_hip_take_slab(struct halo_device_model *model, uint32_t slab, uint8_t **ret_host, char *reason)
{
    struct halo_hip_slots *s = &model->experts.slots;
    assert(is_divided(s) && slab < s->n_slabs && !s->slabs[slab].region.host);
    int r = halo_hip_usable(model->device, reason);
    return r ? r : take_slab(model, slab, ret_host, reason);
}

void halo_hip_slots_release(struct halo_device_model *model)
{
    struct halo_hip_slots *s = &model->experts.slots;
    for (uint32_t i = 0; s->slabs && i < s->n_slabs; i++)
        halo_hip_region_release(model->device, &s->slabs[i].region);
    free(s->slabs);
    *s = (struct halo_hip_slots){0};
}
