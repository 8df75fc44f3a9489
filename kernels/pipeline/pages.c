/* pages.c: pages of the cache: those of a stage's layers, one stage after the other. */
#include "pipeline_priv.h"

static bool has_layers(const struct halo_pipeline_model *m, uint32_t stage, uint32_t group)
{
    return group >= m->plan->n_kv_groups || m->cut.stage[stage].plan.kv[group].n_layers > 0;
}

int halo_pipeline_kv_copy(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page,
                          char *reason)
{
    const struct halo_pipeline_model *m = halo_pipeline_of_model(model);
    int r = 0;
    for (uint32_t i = 0; i < m->cut.n && !r; i++)
        if (has_layers(m, i, group))
            r = m->pipeline->ops->kv_copy(m->stage[i], group, from_page, to_page, reason);
    return r;
}

static uint64_t stage_page_bytes(const struct halo_pipeline_model *m, uint32_t stage, uint32_t group)
{
    return has_layers(m, stage, group) ? m->pipeline->ops->kv_page_bytes(m->stage[stage], group) : 0;
}

uint64_t halo_pipeline_kv_page_bytes(const struct halo_device_model *model, uint32_t group)
{
    const struct halo_pipeline_model *m = halo_pipeline_of_model(model);
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->cut.n; i++)
        n += stage_page_bytes(m, i, group);
    return n;
}

int halo_pipeline_kv_read(struct halo_device_model *model, uint32_t group, uint32_t page, void *ret_bytes, char *reason)
{
    const struct halo_pipeline_model *m = halo_pipeline_of_model(model);
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

int halo_pipeline_kv_write(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes,
                           char *reason)
{
    const struct halo_pipeline_model *m = halo_pipeline_of_model(model);
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
