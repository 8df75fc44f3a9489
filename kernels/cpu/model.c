/* model.c: a model on the CPU device: three regions of memory and a table of weights. Device thread, apart from the
 * estimate (pure). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <common/check.h>

#include "device_priv.h"

static uint64_t kv_bytes(const struct halo_plan *plan)
{
    uint64_t bytes;
    return __builtin_mul_overflow(halo_kv_page_bytes(&plan->kv), (uint64_t)plan->kv.n_pages, &bytes) ? UINT64_MAX
                                                                                                     : bytes;
}

void halo_cpu_estimate(const struct halo_device *device, const struct halo_plan *plan, uint64_t *ret_weights,
                       uint64_t *ret_kv, uint64_t *ret_scratch)
{
    struct halo_cpu_scratch scratch = {0};
    *ret_weights = halo_cpu_weights_place(plan, NULL, NULL);
    *ret_kv = kv_bytes(plan);
    *ret_scratch = halo_cpu_scratch_carve(plan, device->n_threads, NULL, &scratch);
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
    halo_cpu_weights_place(plan, model->weight_region.base, model->weights);
    halo_cpu_scratch_carve(plan, device->n_threads, model->scratch_region.base, &model->scratch);
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
    for (uint32_t i = 0; i < model->plan->n_weights; i++)
        if (!atomic_load_explicit(&model->weights[i].committed, memory_order_acquire))
            return halo_reason(reason, -EINVAL, "weight %s was never committed", model->plan->weights[i].name);
    /* From here on a stray write is a fault at its own place instead of wrong text. Failing to protect costs only that.
     */
    if (model->weight_region.base)
        mprotect(model->weight_region.base, model->weight_region.n_bytes, PROT_READ);
    model->sealed = true;
    return 0;
}

int halo_cpu_kv_copy(struct halo_device_model *model, uint32_t from_page, uint32_t to_page, char *reason)
{
    const struct halo_kv_shape *kv = &model->plan->kv;
    int r = halo_page_check(model->plan, from_page, reason);
    if (!r)
        r = halo_page_check(model->plan, to_page, reason);
    if (r || from_page == to_page || kv->n_layers == 0)
        return r;
    size_t n_bytes = halo_kv_page_bytes(kv) / kv->n_layers;
    for (uint32_t layer = 0; layer < kv->n_layers; layer++)
        memcpy(halo_cpu_kv_rows(model, layer, to_page, false, 0), halo_cpu_kv_rows(model, layer, from_page, false, 0),
               n_bytes);
    return 0;
}

uint64_t halo_cpu_kv_page_bytes(const struct halo_device_model *model)
{
    return halo_kv_page_bytes(&model->plan->kv);
}

/* Layer after layer; a layer's part of a page is contiguous. */
int halo_cpu_kv_read(struct halo_device_model *model, uint32_t page, void *ret_bytes, char *reason)
{
    const struct halo_kv_shape *kv = &model->plan->kv;
    int r = halo_page_check(model->plan, page, reason);
    if (r)
        return r;
    size_t n_bytes = halo_kv_page_bytes(kv) / (kv->n_layers ? kv->n_layers : 1);
    for (uint32_t layer = 0; layer < kv->n_layers; layer++)
        memcpy((uint8_t *)ret_bytes + layer * n_bytes, halo_cpu_kv_rows(model, layer, page, false, 0), n_bytes);
    return 0;
}

int halo_cpu_kv_write(struct halo_device_model *model, uint32_t page, const void *bytes, char *reason)
{
    const struct halo_kv_shape *kv = &model->plan->kv;
    int r = halo_page_check(model->plan, page, reason);
    if (r)
        return r;
    size_t n_bytes = halo_kv_page_bytes(kv) / (kv->n_layers ? kv->n_layers : 1);
    for (uint32_t layer = 0; layer < kv->n_layers; layer++)
        memcpy(halo_cpu_kv_rows(model, layer, page, false, 0), (const uint8_t *)bytes + layer * n_bytes, n_bytes);
    return 0;
}
