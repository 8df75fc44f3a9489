/* model.c: a model of several stages: the stages' models, the rows between them, weights. */
#include "pipeline_priv.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <common/reason.h>

#define ROWS_ALIGN 64

static uint64_t rows_bytes(const struct halo_plan *plan, const struct halo_hop *hop)
{
    uint64_t n = plan->max_rows * halo_hop_width(plan, hop) * sizeof(float);
    return (n + ROWS_ALIGN - 1) / ROWS_ALIGN * ROWS_ALIGN;
}

void halo_pipeline_model_destroy(struct halo_device_model *model)
{
    struct halo_pipeline_model *m = halo_pipeline_of_model(model);
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

static int take_rows(struct halo_pipeline_model *m, char *reason)
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
static int refuse_stage(const struct halo_pipeline_model *m, uint32_t i, int error, const char *why, char *reason)
{
    const struct halo_stage *stage = &m->cut.stage[i];
    const struct halo_pipeline *p = m->pipeline;
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

int halo_pipeline_model_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                               char *reason)
{
    const struct halo_pipeline *p = halo_pipeline_of_device(device);
    struct halo_pipeline_model *m = calloc(1, sizeof(*m));
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
        halo_pipeline_model_destroy(model);
    else
        *ret = model;
    return r;
}

/* The next stage from `*stage` on that uses the weight, with its index there. False: none does. */
static bool next_user(const struct halo_pipeline_model *m, uint32_t index, uint32_t *stage, uint32_t *ret)
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
int halo_pipeline_weight_slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret)
{
    const struct halo_pipeline_model *m = halo_pipeline_of_model(model);
    struct halo_device_slot other;
    uint32_t mine;
    int r = 0;
    for (uint32_t stage = 0, n = 0; !r && next_user(m, index, &stage, &mine); stage++, n++)
        r = m->pipeline->ops->weight_slot(m->stage[stage], mine, n == 0 ? ret : &other);
    return r;
}

/* The other users' slots get a copy first: a commit may use up the bytes. */
int halo_pipeline_weight_commit(struct halo_device_model *model, uint32_t index, char *reason)
{
    const struct halo_pipeline_model *m = halo_pipeline_of_model(model);
    const struct halo_device_ops *ops = m->pipeline->ops;
    struct halo_device_slot first, other;
    uint32_t mine;
    int r = halo_pipeline_weight_slot(model, index, &first);
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

int halo_pipeline_model_seal(struct halo_device_model *model, char *reason)
{
    const struct halo_pipeline_model *m = halo_pipeline_of_model(model);
    int r = 0;
    for (uint32_t i = 0; i < m->cut.n && !r; i++)
        r = m->pipeline->ops->model_seal(m->stage[i], reason);
    return r;
}
