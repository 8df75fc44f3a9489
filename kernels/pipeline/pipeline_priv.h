/* pipeline_priv.h: what the files of the device of several stages share.
 *
 * To the device of a stage this room is its caller: what comes in as a device or a model is one of the structs here,
 * what goes out is the stage's. Threads as kernels/device.h says of each operation.
 */
#ifndef HALO_PIPELINE_PRIV_H
#define HALO_PIPELINE_PRIV_H

#include <pipeline/pipeline.h>

#include "cut_priv.h"

struct halo_pipeline {
    const struct halo_device_ops *ops;
    uint32_t n;
    struct halo_device *stage[HALO_STAGES_MAX];
    uint64_t memory_bytes[HALO_STAGES_MAX]; /* when it was opened: the shares of a plan must not change */
};

struct halo_pipeline_model {
    const struct halo_pipeline *pipeline;
    const struct halo_plan *plan;
    struct halo_cut cut;
    struct halo_device_model *stage[HALO_STAGES_MAX];
    float *rows[2]; /* of the hop under way, and of the one before */
};

static inline const struct halo_pipeline *halo_pipeline_of_device(const struct halo_device *device)
{
    return (const struct halo_pipeline *)(const void *)device;
}

static inline struct halo_pipeline_model *halo_pipeline_of_model(const struct halo_device_model *model)
{
    return (struct halo_pipeline_model *)(uintptr_t)model;
}

/* Operations of the device (kernels/device.h): of a model (model.c), of a run (run.c), of pages of the cache
 * (pages.c). */
int halo_pipeline_model_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                               char *reason);
void halo_pipeline_model_destroy(struct halo_device_model *model);
int halo_pipeline_weight_slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret);
int halo_pipeline_weight_commit(struct halo_device_model *model, uint32_t index, char *reason);
int halo_pipeline_model_seal(struct halo_device_model *model, char *reason);
int halo_pipeline_run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
                      char *reason);
int halo_pipeline_kv_copy(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page,
                          char *reason);
uint64_t halo_pipeline_kv_page_bytes(const struct halo_device_model *model, uint32_t group);
int halo_pipeline_kv_read(struct halo_device_model *model, uint32_t group, uint32_t page, void *ret_bytes,
                          char *reason);
int halo_pipeline_kv_write(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes,
                           char *reason);

#endif
