/* model.c: a model on the CPU device: three regions of memory and a table of weights. Device thread, apart from the
 * estimate (pure). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <common/check.h>

#include "device_priv.h"

#define SCRATCH_ALIGN 64

/* The groups one after the other, each on a line of the processor's caches of its own. Returns the bytes of all, or
 * UINT64_MAX when that overflows. */
static uint64_t place_groups(const struct halo_plan *plan, uint64_t first[HALO_KV_GROUPS_MAX])
{
    uint64_t end = 0;
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        uint64_t bytes;
        first[group] = end = (end + 63) / 64 * 64;
        if (__builtin_mul_overflow(halo_kv_page_bytes(&plan->kv[group]), (uint64_t)plan->kv[group].n_pages, &bytes) ||
            __builtin_add_overflow(end, bytes, &end) || end > UINT64_MAX - 64)
            return UINT64_MAX;
    }
    return end;
}

void halo_cpu_estimate(const struct halo_device *device, const struct halo_plan *plan, uint64_t *ret_weights,
                       uint64_t *ret_kv, uint64_t *ret_scratch)
{
    struct halo_cpu_scratch scratch = {0};
    struct halo_cpu_experts experts = {0};
    uint64_t first[HALO_KV_GROUPS_MAX];
    *ret_weights = halo_cpu_weights_place(plan, NULL, NULL);
    *ret_kv = place_groups(plan, first);
    *ret_scratch = halo_cpu_scratch_carve(plan, device->n_threads, NULL, &scratch);
    uint64_t more = halo_cpu_experts_carve(plan, device->n_threads, NULL, &experts);
    *ret_scratch = *ret_scratch > UINT64_MAX - SCRATCH_ALIGN - more
                       ? UINT64_MAX
                       : (*ret_scratch + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN + more;
}

static int map_regions(struct halo_device_model *model, char *reason)
{
    uint64_t weights, kv, scratch;
    halo_cpu_estimate(model->device, model->plan, &weights, &kv, &scratch);
    int r = halo_cpu_region_map(&model->weight_region, weights, "weights", reason);
    if (!r)
        r = halo_cpu_region_map(&model->kv_region, kv, "pages of the KV cache", reason);
    if (!r)
        r = halo_cpu_region_map(&model->scratch_region, scratch, "activations", reason);
    return r;
}

int halo_cpu_model_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                          char *reason)
{
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        int r = halo_cpu_supports(device, plan, i, reason);
        if (r)
            return r;
    }
    struct halo_device_model *model = calloc(1, sizeof(*model));
    if (!model)
        return halo_reason(reason, -ENOMEM, "no memory for the model");
    model->device = device;
    model->plan = plan;
    model->next = device->models;
    device->models = model;
    model->weights = calloc(plan->n_weights, sizeof(*model->weights));
    int r = model->weights ? map_regions(model, reason)
                           : halo_reason(reason, -ENOMEM, "no memory for the table of %u weights", plan->n_weights);
    if (r) {
        halo_cpu_model_destroy(model);
        return r;
    }
    place_groups(plan, model->kv_first);
    halo_cpu_weights_place(plan, model->weight_region.base, model->weights);
    uint64_t n_scratch = halo_cpu_scratch_carve(plan, device->n_threads, model->scratch_region.base, &model->scratch);
    halo_cpu_experts_carve(plan, device->n_threads,
                           model->scratch_region.base + (n_scratch + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN,
                           &model->experts);
    halo_cpu_experts_number(model);
    *ret = model;
    return 0;
}

void halo_cpu_model_destroy(struct halo_device_model *model)
{
    if (!model)
        return;
    struct halo_device_model **link = &model->device->models;
    while (*link != model)
        link = &(*link)->next;
    *link = model->next;
    halo_cpu_region_unmap(&model->weight_region);
    halo_cpu_region_unmap(&model->kv_region);
    halo_cpu_region_unmap(&model->scratch_region);
    free(model->weights);
    free(model);
}

int halo_cpu_model_seal(struct halo_device_model *model, char *reason)
{
    for (uint32_t i = 0; i < model->plan->n_weights; i++) {
        const struct halo_weight *info = &model->plan->weights[i];
        if (info->streamed > 0 ? !model->experts.source.choose
                               : !atomic_load_explicit(&model->weights[i].committed, memory_order_acquire))
            return halo_reason(reason, -EINVAL,
                               info->streamed > 0 ? "no source of experts for weight %s"
                                                  : "weight %s was never committed",
                               info->name);
    }
    /* From here on a stray write is a fault at its own place instead of wrong text. Failing to protect costs only that.
     */
    if (model->weight_region.base)
        mprotect(model->weight_region.base, model->weight_region.n_bytes, PROT_READ);
    model->sealed = true;
    return 0;
}

/* A layer's part of a page is contiguous. */
static size_t layer_bytes(const struct halo_kv_group *kv)
{
    return halo_kv_page_bytes(kv) / (kv->n_layers ? kv->n_layers : 1);
}

int halo_cpu_kv_copy(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page,
                     char *reason)
{
    int r = halo_page_check(model->plan, group, from_page, reason);
    if (!r)
        r = halo_page_check(model->plan, group, to_page, reason);
    if (r || from_page == to_page)
        return r;
    const struct halo_kv_group *kv = &model->plan->kv[group];
    for (uint32_t layer = 0; layer < kv->n_layers; layer++)
        memcpy(halo_cpu_kv_page(model, group, layer, to_page), halo_cpu_kv_page(model, group, layer, from_page),
               layer_bytes(kv));
    return 0;
}

uint64_t halo_cpu_kv_page_bytes(const struct halo_device_model *model, uint32_t group)
{
    return halo_kv_page_bytes(&model->plan->kv[group]);
}

/* Layer after layer. */
int halo_cpu_kv_read(struct halo_device_model *model, uint32_t group, uint32_t page, void *ret_bytes, char *reason)
{
    int r = halo_page_check(model->plan, group, page, reason);
    if (r)
        return r;
    const struct halo_kv_group *kv = &model->plan->kv[group];
    for (uint32_t layer = 0; layer < kv->n_layers; layer++)
        memcpy((uint8_t *)ret_bytes + layer * layer_bytes(kv), halo_cpu_kv_page(model, group, layer, page),
               layer_bytes(kv));
    return 0;
}

int halo_cpu_kv_write(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes, char *reason)
{
    int r = halo_page_check(model->plan, group, page, reason);
    if (r)
        return r;
    const struct halo_kv_group *kv = &model->plan->kv[group];
    for (uint32_t layer = 0; layer < kv->n_layers; layer++)
        memcpy(halo_cpu_kv_page(model, group, layer, page), (const uint8_t *)bytes + layer * layer_bytes(kv),
               layer_bytes(kv));
    return 0;
}
