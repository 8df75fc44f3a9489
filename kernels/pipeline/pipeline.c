/* pipeline.c: the device of several stages (contract in pipeline.h).
 *
 * To the device of a stage this room is its caller: what comes in as a device or a model is one of this file's structs,
 * what goes out is the stage's.
 */
#include <pipeline/pipeline.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <common/clock.h>
#include <common/reason.h>

#include "cut_priv.h"

#define ROWS_ALIGN 64

struct pipeline {
    const struct halo_device_ops *ops;
    uint32_t n;
    struct halo_device *stage[HALO_STAGES_MAX];
    uint64_t memory_bytes[HALO_STAGES_MAX]; /* when it was opened: the shares of a plan must not change */
};

struct pipeline_model {
    const struct pipeline *pipeline;
    const struct halo_plan *plan;
    struct halo_cut cut;
    struct halo_device_model *stage[HALO_STAGES_MAX];
    float *rows[2]; /* of the hop under way, and of the one before */
};

static const struct pipeline *of_device(const struct halo_device *device)
{
    return (const struct pipeline *)(const void *)device;
}

static struct pipeline_model *of_model(const struct halo_device_model *model)
{
    return (struct pipeline_model *)(uintptr_t)model;
}

/* ---- the device ---- */

static void pipeline_close(struct halo_device *device)
{
    struct pipeline *p = (struct pipeline *)(void *)device;
    if (!p)
        return;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->stage[i])
            p->ops->close(p->stage[i]);
    free(p);
}

static int open_stage(struct pipeline *p, uint32_t i, const struct halo_device_options *options, char *reason)
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
    struct pipeline *p = calloc(1, sizeof(*p));
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
    const struct pipeline *p = of_device(device);
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
    const struct pipeline *p = of_device(device);
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

static uint64_t rows_bytes(const struct halo_plan *plan, const struct halo_hop *hop)
{
    uint64_t n = plan->max_rows * halo_hop_width(plan, hop) * sizeof(float);
    return (n + ROWS_ALIGN - 1) / ROWS_ALIGN * ROWS_ALIGN;
}

static int pipeline_divide(const struct halo_device *device, const struct halo_plan *plan,
                           struct halo_device_share ret[HALO_DEVICE_GPUS_MAX])
{
    const struct pipeline *p = of_device(device);
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
    const struct pipeline *p = of_device(device);
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

/* ---- a model ---- */

static void pipeline_model_destroy(struct halo_device_model *model)
{
    struct pipeline_model *m = of_model(model);
    if (!m)
        return;
    for (uint32_t i = 0; i < m->cut.n; i++)
        if (m->stage[i])
            m->pipeline->ops->model_destroy(m->stage[i]);
    free(m->rows[0]);
    free(m->rows[1]);
    halo_cut_finish(&m->cut);
    free(m);
}

static int take_rows(struct pipeline_model *m, char *reason)
{
    uint64_t most = ROWS_ALIGN;
    for (uint32_t i = 0; i < m->cut.n; i++) {
        uint64_t n = rows_bytes(m->plan, &m->cut.stage[i].plan.leaves);
        most = n > most ? n : most;
    }
    for (int i = 0; i < 2; i++)
        m->rows[i] = aligned_alloc(ROWS_ALIGN, most);
    return m->rows[0] && m->rows[1]
               ? 0
               : halo_reason(reason, -ENOMEM, "no memory for %" PRIu64 " bytes of rows between stages", 2 * most);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1024 * 1024);
}

/* Names the stage, its layers and its numbers in front of why it could not be made. */
static int refuse_stage(const struct pipeline_model *m, uint32_t i, int error, const char *why, char *reason)
{
    const struct halo_stage *stage = &m->cut.stage[i];
    const struct pipeline *p = m->pipeline;
    struct halo_device_info info;
    uint64_t weights, kv, scratch;
    if (error != -ENOMEM)
        return halo_reason(reason, error, "stage %u of %u: %.200s", i + 1, p->n, why);
    p->ops->estimate(p->stage[i], &stage->plan, &weights, &kv, &scratch);
    p->ops->describe(p->stage[i], &info);
    return halo_reason(reason, error,
                       "stage %u of %u (layers %u to %u) needs %.1f MiB of weights, %.1f MiB of KV cache and %.1f MiB "
                       "of scratch, its GPU has %.1f MiB free: %.80s",
                       i + 1, p->n, stage->first_layer, stage->last_layer, mib(weights), mib(kv), mib(scratch),
                       mib(info.free_bytes), why);
}

static int pipeline_model_create(struct halo_device *device, const struct halo_plan *plan,
                                 struct halo_device_model **ret, char *reason)
{
    const struct pipeline *p = of_device(device);
    struct pipeline_model *m = calloc(1, sizeof(*m));
    if (!m)
        return halo_reason(reason, -ENOMEM, "no memory for the model");
    m->pipeline = p;
    m->plan = plan;
    int r = halo_cut_make(&m->cut, plan, p->n, p->memory_bytes, reason);
    if (!r)
        r = take_rows(m, reason);
    for (uint32_t i = 0; i < p->n && !r; i++) {
        char why[HALO_DEVICE_REASON] = "";
        r = p->ops->model_create(p->stage[i], &m->cut.stage[i].plan, &m->stage[i], why);
        if (r) {
            m->stage[i] = NULL;
            refuse_stage(m, i, r, why, reason);
        }
    }
    struct halo_device_model *model = (struct halo_device_model *)(void *)m;
    if (r)
        pipeline_model_destroy(model);
    else
        *ret = model;
    return r;
}

/* The next stage from `*stage` on that uses the weight, with its index there. False: none does. */
static bool next_user(const struct pipeline_model *m, uint32_t index, uint32_t *stage, uint32_t *ret)
{
    for (; *stage < m->cut.n; ++*stage) {
        const struct halo_stage *s = &m->cut.stage[*stage];
        for (*ret = 0; *ret < s->plan.n_weights; ++*ret)
            if (s->weight_of[*ret] == index)
                return true;
    }
    return false;
}

/* The first user's. A plan has no weight without a user. Every user has one then, so that a commit need not wait. */
static int pipeline_weight_slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret)
{
    const struct pipeline_model *m = of_model(model);
    struct halo_device_slot other;
    uint32_t mine;
    int r = 0;
    for (uint32_t stage = 0, n = 0; !r && next_user(m, index, &stage, &mine); stage++, n++)
        r = m->pipeline->ops->weight_slot(m->stage[stage], mine, n == 0 ? ret : &other);
    return r;
}

/* The other users' slots get a copy first: a commit may use up the bytes. */
static int pipeline_weight_commit(struct halo_device_model *model, uint32_t index, char *reason)
{
    const struct pipeline_model *m = of_model(model);
    const struct halo_device_ops *ops = m->pipeline->ops;
    struct halo_device_slot first, other;
    uint32_t mine;
    int r = pipeline_weight_slot(model, index, &first);
    for (uint32_t stage = 0, n = 0; !r && next_user(m, index, &stage, &mine); stage++, n++) {
        if (n == 0)
            continue;
        r = ops->weight_slot(m->stage[stage], mine, &other);
        assert(r == 0); /* it has the slot since it was asked for */
        memcpy(other.data, first.data, m->plan->weights[index].n_bytes);
    }
    for (uint32_t stage = 0; !r && next_user(m, index, &stage, &mine); stage++)
        r = ops->weight_commit(m->stage[stage], mine, reason);
    return r;
}

static int pipeline_model_seal(struct halo_device_model *model, char *reason)
{
    const struct pipeline_model *m = of_model(model);
    int r = 0;
    for (uint32_t i = 0; i < m->cut.n && !r; i++)
        r = m->pipeline->ops->model_seal(m->stage[i], reason);
    return r;
}

/* ---- a run ---- */

/* Whether stage i holds what the one before left, for the same rows. */
static int compare(const struct halo_hop_digests *digests, uint32_t i, char *reason)
{
    if (i > 0 && digests[i].rows != digests[i - 1].rows)
        return halo_reason(reason, HALO_DEVICE_E_LOST,
                           "stage %u ran other tokens, positions or sequences than stage %u (digests %016" PRIx64
                           " and %016" PRIx64 "): memory or the link of a GPU cannot be trusted",
                           i + 1, i, digests[i].rows, digests[i - 1].rows);
    if (i > 0 && digests[i].taken != digests[i - 1].left)
        return halo_reason(reason, HALO_DEVICE_E_LOST,
                           "stage %u holds other activations than stage %u sent (digests %016" PRIx64 " and %016" PRIx64
                           "): memory or the link of a GPU cannot be trusted",
                           i + 1, i, digests[i].taken, digests[i - 1].left);
    return 0;
}

/* One stage of a run; the rows of every other stage lie in the same half of the buffer. */
static int run_stage(const struct pipeline_model *m, uint32_t i, const struct halo_batch *batch,
                     struct halo_hop_digests *digests, struct halo_device_phase *phase, char *reason)
{
    struct halo_batch mine = *batch;
    bool is_last = i + 1 == m->cut.n;
    char why[HALO_DEVICE_REASON] = "";
    mine.taken = i > 0 ? m->rows[(i - 1) % 2] : NULL;
    mine.left = is_last ? NULL : m->rows[i % 2];
    mine.digests = digests;
    if (!is_last)
        mine.n_outputs = mine.n_top = 0;
    int r = m->pipeline->ops->run(m->stage[i], &mine, phase, why);
    return r ? halo_reason(reason, r, "stage %u of %u: %.200s", i + 1, m->cut.n, why) : 0;
}

static int pipeline_run(struct halo_device_model *model, const struct halo_batch *batch,
                        struct halo_device_phase *phase, char *reason)
{
    const struct pipeline_model *m = of_model(model);
    struct halo_hop_digests digests[HALO_STAGES_MAX] = {{0}};
    uint64_t ended_ns[HALO_STAGES_MAX], began_ns = halo_monotonic_ns();
    int r = 0;
    for (uint32_t i = 0; i < m->cut.n && !r; i++) {
        r = run_stage(m, i, batch, &digests[i], phase, reason);
        if (!r && batch->n_rows > 0)
            r = compare(digests, i, reason);
        ended_ns[i] = halo_monotonic_ns();
    }
    if (r || batch->n_rows == 0 || !phase)
        return r;
    for (uint32_t i = 0; i < m->cut.n; i++)
        atomic_fetch_add_explicit(&phase->divided_ns[i], ended_ns[i] - (i > 0 ? ended_ns[i - 1] : began_ns),
                                  memory_order_relaxed);
    atomic_fetch_add_explicit(&phase->n_divided_runs, 1, memory_order_relaxed);
    return 0;
}

/* ---- pages of the cache: those of a stage's layers, one stage after the other ---- */

static bool has_layers(const struct pipeline_model *m, uint32_t stage, uint32_t group)
{
    return group >= m->plan->n_kv_groups || m->cut.stage[stage].plan.kv[group].n_layers > 0;
}

static int pipeline_kv_copy(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page,
                            char *reason)
{
    const struct pipeline_model *m = of_model(model);
    int r = 0;
    for (uint32_t i = 0; i < m->cut.n && !r; i++)
        if (has_layers(m, i, group))
            r = m->pipeline->ops->kv_copy(m->stage[i], group, from_page, to_page, reason);
    return r;
}

static uint64_t stage_page_bytes(const struct pipeline_model *m, uint32_t stage, uint32_t group)
{
    return has_layers(m, stage, group) ? m->pipeline->ops->kv_page_bytes(m->stage[stage], group) : 0;
}

static uint64_t pipeline_kv_page_bytes(const struct halo_device_model *model, uint32_t group)
{
    const struct pipeline_model *m = of_model(model);
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->cut.n; i++)
        n += stage_page_bytes(m, i, group);
    return n;
}

static int pipeline_kv_read(struct halo_device_model *model, uint32_t group, uint32_t page, void *ret_bytes,
                            char *reason)
{
    const struct pipeline_model *m = of_model(model);
    uint8_t *at = ret_bytes;
    int r = 0;
    for (uint32_t i = 0; i < m->cut.n && !r; i++) {
        if (!has_layers(m, i, group))
            continue;
        r = m->pipeline->ops->kv_read(m->stage[i], group, page, at, reason);
        at += r ? 0 : stage_page_bytes(m, i, group);
    }
    return r;
}

static int pipeline_kv_write(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes,
                             char *reason)
{
    const struct pipeline_model *m = of_model(model);
    const uint8_t *at = bytes;
    int r = 0;
    for (uint32_t i = 0; i < m->cut.n && !r; i++) {
        if (!has_layers(m, i, group))
            continue;
        r = m->pipeline->ops->kv_write(m->stage[i], group, page, at, reason);
        at += r ? 0 : stage_page_bytes(m, i, group);
    }
    return r;
}

/* ---- measurements ---- */

/* Stages take turns: the slowest is the safe answer for all. */
static double pipeline_measure_bandwidth(struct halo_device *device)
{
    const struct pipeline *p = of_device(device);
    double least = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        double one = p->ops->measure_bandwidth ? p->ops->measure_bandwidth(p->stage[i]) : 0;
        least = i == 0 || one < least ? one : least;
    }
    return least;
}

static void pipeline_measure_costs(struct halo_device *device, struct halo_device_costs *ret)
{
    const struct pipeline *p = of_device(device);
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
        .model_create = pipeline_model_create,
        .model_destroy = pipeline_model_destroy,
        .weight_slot = pipeline_weight_slot,
        .weight_commit = pipeline_weight_commit,
        .model_seal = pipeline_model_seal,
        .run = pipeline_run,
        .kv_copy = pipeline_kv_copy,
        .kv_page_bytes = pipeline_kv_page_bytes,
        .kv_read = pipeline_kv_read,
        .kv_write = pipeline_kv_write,
        .measure_bandwidth = pipeline_measure_bandwidth,
        .measure_costs = pipeline_measure_costs,
    };
    return &ops;
}
