/* pipeline.c: the device of several stages (contract in pipeline.h): its GPUs, and what fits them. */
#include "pipeline_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <common/reason.h>

/* ---- the device ---- */

static void pipeline_close(struct halo_device *device)
{
    struct halo_pipeline *p = (struct halo_pipeline *)(void *)device;
    if (!p)
        return;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->stage[i])
            p->ops->close(p->stage[i]);
    free(p);
}

static int open_stage(struct halo_pipeline *p, uint32_t i, const struct halo_device_options *options, char *reason)
{
    struct halo_device_options mine = *options;
    struct halo_device_info info;
    char why[HALO_DEVICE_REASON] = "";
    mine.gpu = i + 1;
    int r = p->ops->open(&p->stage[i], &mine, why);
    if (r)
        return halo_reason(reason, r, "GPU %u of %u: %.200s", i + 1, p->n, why);
    p->ops->describe(p->stage[i], &info);
    if (!(info.features & HALO_DEVICE_STAGES))
        return halo_reason(reason, -ENOTSUP, "the %s device cannot run a part of a model", p->ops->name);
    p->memory_bytes[i] = info.memory_bytes > 0 ? info.memory_bytes : 1;
    return 0;
}

static int pipeline_open(struct halo_device **ret, const struct halo_device_options *options, char *reason)
{
    if (options->n_stages < 1 || options->n_stages > HALO_STAGES_MAX)
        return halo_reason(reason, -EINVAL, "a model can be divided over 1 to %d GPUs, not over %u", HALO_STAGES_MAX,
                           options->n_stages);
    struct halo_pipeline *p = calloc(1, sizeof(*p));
    if (!p)
        return halo_reason(reason, -ENOMEM, "no memory for the device");
    p->ops = options->stage;
    p->n = options->n_stages;
    int r = 0;
    for (uint32_t i = 0; i < p->n && !r; i++)
        r = open_stage(p, i, options, reason);
    *ret = (struct halo_device *)(void *)p;
    if (r)
        pipeline_close(*ret);
    return r;
}

static int pipeline_probe(const struct halo_device_options *options, char *reason)
{
    struct halo_device *device = NULL;
    int r = pipeline_open(&device, options, reason);
    if (!r)
        pipeline_close(device);
    return r;
}

/* A device that names no GPU, as one. */
static struct halo_device_gpu gpu_of(const struct halo_device_info *info)
{
    struct halo_device_gpu gpu = {.memory_bytes = info->memory_bytes, .free_bytes = info->free_bytes};
    snprintf(gpu.name, sizeof(gpu.name), "%s", info->name);
    return gpu;
}

/* What models may take is what a plan in these shares may take before one of its stages is full. */
static void pipeline_describe(const struct halo_device *device, struct halo_device_info *ret)
{
    const struct halo_pipeline *p = halo_pipeline_of_device(device);
    char details[sizeof(ret->detail)] = "", layout[HALO_DEVICE_LAYOUT];
    double least = 1, total = 0;
    p->ops->describe(p->stage[0], ret);
    snprintf(layout, sizeof(layout), "%s", ret->kv_layout);
    uint32_t features = ret->features, n_notices = 0;
    char notice[HALO_DEVICE_NOTICE] = "";
    for (uint32_t i = 0, at = 0; i < p->n; i++) {
        struct halo_device_info info;
        p->ops->describe(p->stage[i], &info);
        features &= info.features;
        if (strcmp(info.kv_layout, layout) != 0)
            layout[0] = '\0';
        double part = (double)info.free_bytes / (double)p->memory_bytes[i];
        least = part < least ? part : least;
        total += (double)p->memory_bytes[i];
        ret->gpus[i] = info.n_gpus > 0 ? info.gpus[0] : gpu_of(&info);
        n_notices += info.n_notices;
        if (info.notice[0])
            memcpy(notice, info.notice, sizeof(notice));
        int n = snprintf(details + at, sizeof(details) - at, "%s%.*s", i > 0 ? "; " : "",
                         (int)(sizeof(details) / p->n) - 3, info.detail);
        at += n > 0 ? (uint32_t)n : 0;
    }
    ret->features = features & ~(uint32_t)(HALO_DEVICE_LAYERS | HALO_DEVICE_STAGES);
    ret->miss_traffic = 0;
    ret->memory_bytes = (uint64_t)total;
    ret->free_bytes = (uint64_t)(total * least);
    ret->n_gpus = p->n;
    ret->n_notices = n_notices;
    memcpy(ret->notice, notice, sizeof(notice));
    memcpy(ret->detail, details, sizeof(details));
    ret->kv_layout[0] = '\0';
    /* Ops that share a launch are not those of one device: other roundings. */
    if (layout[0])
        snprintf(ret->kv_layout, sizeof(ret->kv_layout), "%.48s, %u stages", layout, p->n);
}

static int pipeline_supports(const struct halo_device *device, const struct halo_plan *plan, uint32_t index,
                             char *reason)
{
    const struct halo_pipeline *p = halo_pipeline_of_device(device);
    struct halo_cut cut;
    int r = 0;
    for (uint32_t i = 0; i < p->n && !r; i++)
        r = p->ops->supports(p->stage[i], plan, index, reason);
    if (r || index > 0)
        return r;
    r = halo_cut_make(&cut, plan, p->n, p->memory_bytes, reason);
    if (!r)
        halo_cut_finish(&cut);
    return r;
}

static int pipeline_divide(const struct halo_device *device, const struct halo_plan *plan,
                           struct halo_device_share ret[HALO_DEVICE_GPUS_MAX])
{
    const struct halo_pipeline *p = halo_pipeline_of_device(device);
    struct halo_cut cut;
    int r = halo_cut_make(&cut, plan, p->n, p->memory_bytes, NULL);
    if (r)
        return r;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct halo_stage *stage = &cut.stage[i];
        ret[i] = (struct halo_device_share){.first_layer = stage->first_layer, .last_layer = stage->last_layer};
        p->ops->estimate(p->stage[i], &stage->plan, &ret[i].weights_bytes, &ret[i].kv_bytes, &ret[i].scratch_bytes);
    }
    halo_cut_finish(&cut);
    return 0;
}

static void add_bytes(uint64_t *sum, uint64_t bytes)
{
    if (__builtin_add_overflow(*sum, bytes, sum))
        *sum = UINT64_MAX;
}

/* A plan that cannot be cut is refused by supports. */
static void pipeline_estimate(const struct halo_device *device, const struct halo_plan *plan, uint64_t *ret_weights,
                              uint64_t *ret_kv, uint64_t *ret_scratch)
{
    const struct halo_pipeline *p = halo_pipeline_of_device(device);
    struct halo_device_share share[HALO_DEVICE_GPUS_MAX];
    if (pipeline_divide(device, plan, share)) {
        p->ops->estimate(p->stage[0], plan, ret_weights, ret_kv, ret_scratch);
        return;
    }
    *ret_weights = *ret_kv = *ret_scratch = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        add_bytes(ret_weights, share[i].weights_bytes);
        add_bytes(ret_kv, share[i].kv_bytes);
        add_bytes(ret_scratch, share[i].scratch_bytes);
    }
}

/* ---- measurements ---- */

/* Stages take turns: the slowest is the safe answer for all. */
static double pipeline_measure_bandwidth(struct halo_device *device)
{
    const struct halo_pipeline *p = halo_pipeline_of_device(device);
    double least = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        double one = p->ops->measure_bandwidth ? p->ops->measure_bandwidth(p->stage[i]) : 0;
        least = i == 0 || one < least ? one : least;
    }
    return least;
}

static void pipeline_measure_costs(struct halo_device *device, struct halo_device_costs *ret)
{
    const struct halo_pipeline *p = halo_pipeline_of_device(device);
    *ret = (struct halo_device_costs){0};
    for (uint32_t i = 0; i < p->n && p->ops->measure_costs; i++) {
        struct halo_device_costs one = {0};
        p->ops->measure_costs(p->stage[i], &one);
        ret->copy_bytes_s = i == 0 || one.copy_bytes_s < ret->copy_bytes_s ? one.copy_bytes_s : ret->copy_bytes_s;
        ret->launch_s += one.launch_s;
    }
}

const struct halo_device_ops *halo_device_pipeline(void)
{
    static const struct halo_device_ops ops = {
        .abi = HALO_DEVICE_ABI,
        .size = sizeof(struct halo_device_ops),
        .name = "pipeline",
        .probe = pipeline_probe,
        .open = pipeline_open,
        .close = pipeline_close,
        .describe = pipeline_describe,
        .supports = pipeline_supports,
        .estimate = pipeline_estimate,
        .divide = pipeline_divide,
        .model_create = halo_pipeline_model_create,
        .model_destroy = halo_pipeline_model_destroy,
        .weight_slot = halo_pipeline_weight_slot,
        .weight_commit = halo_pipeline_weight_commit,
        .model_seal = halo_pipeline_model_seal,
        .run = halo_pipeline_run,
        .kv_copy = halo_pipeline_kv_copy,
        .kv_page_bytes = halo_pipeline_kv_page_bytes,
        .kv_read = halo_pipeline_kv_read,
        .kv_write = halo_pipeline_kv_write,
        .measure_bandwidth = pipeline_measure_bandwidth,
        .measure_costs = pipeline_measure_costs,
    };
    return &ops;
}
