/* golden_host.h: the smallest program around a device that can evaluate a model: for gates that must not depend on the
 * engine.
 *
 * Loads a file through the model room and the device ABI, feeds ids of one sequence, hands out logits. One sequence,
 * one thread.
 */
#ifndef HALO_GOLDEN_HOST_H
#define HALO_GOLDEN_HOST_H

#include <base/fault.h>
#include <kernels/device.h>
#include <model/model.h>

#define HALO_GOLDEN_ROWS 128 /* of a batch */

struct halo_golden_host {
    const struct halo_device_ops *table;
    struct halo_device *device;
    struct halo_model *model;
    struct halo_plan plan; /* what the device runs: the model's, with copies of its tables that a mutation may change */
    struct halo_op *ops;
    struct halo_weight *weights;
    struct halo_rope *ropes;
    double *freqs; /* [n_rot / 2 of the first rope] for a mutation's own frequencies */
    struct halo_device_model *device_model;
    float *logits; /* [HALO_GOLDEN_ROWS][n_vocab] */
    uint32_t *pages;
};

struct halo_golden_settings {
    enum halo_kv_type kv;
    const char *variant;     /* of the kernels; NULL: the device's choice */
    uint32_t n_threads;      /* 0: the device's choice */
    const char *hip_library; /* not NULL: the HIP device over this runtime; else the CPU device */
    uint32_t n_stages;       /* 0: one device; else the layers are divided over so many of them (pipeline/pipeline.h) */
    uint32_t context;        /* 0: 1024 */
    uint32_t n_layers;       /* 0: all; else the plan ends after so many, with the model's own norm and head */
    bool oracle;             /* faults that HALO_INJECT names do not reach it */
    /* Changes plan, ops, weights or ropes of the host before the device sees them; false when there is nothing to
     * change. May be NULL. */
    bool (*mutate)(struct halo_golden_host *host);
};

/* 0; UNSUPPORTED when the machine has not the variant. */
int halo_golden_host_open(struct halo_golden_host *ret, const char *path, const struct halo_golden_settings *settings,
                          struct halo_fault *fault);
void halo_golden_host_close(struct halo_golden_host *host);

/* Called for each wanted row, by rising position. Logits are valid during the call. */
typedef void halo_golden_row(void *ud, uint32_t pos, const float *logits);

/* Feeds tokens[0..n) at positions first.. in batches of at most `chunk` rows (<= HALO_GOLDEN_ROWS); rows at or after
 * `wanted_from` give their logits. Earlier positions must have been fed. */
int halo_golden_host_feed(struct halo_golden_host *host, const int32_t *tokens, uint32_t first, uint32_t n,
                          uint32_t chunk, uint32_t wanted_from, halo_golden_row *row, void *ud,
                          struct halo_fault *fault);

#endif
