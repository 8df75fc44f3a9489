/* check.h: checks that every device makes of a plan and of a batch.
 *
 * Pure; any thread. What a device cannot do beyond them (types and sizes without a kernel) it checks itself.
 */
#ifndef HALO_COMMON_CHECK_H
#define HALO_COMMON_CHECK_H

#include <kernels/device.h>

/* Where devices differ. */
struct halo_plan_limits {
    uint32_t experts_max;
    /* Whether a weight of this role, type and row length can be stored for the kernels. For a vector n_cols counts all
     * its elements. */
    bool (*weight_fits)(enum halo_weight_role role, enum halo_type type, uint64_t n_cols);
    bool streams;        /* whether experts may be streamed */
    bool streams_layers; /* whether the matrices of dense layers may */
};

/* Whether the values, weights and shapes of op `index` fit each other: 0, or -ENOTSUP with a reason that begins with
 * the name of the op. */
int halo_plan_check(const struct halo_plan *plan, uint32_t index, const struct halo_plan_limits *limits, char *reason);

/* Whether the batch fits the plan: 0, or -EINVAL with the row and the numbers. The lists of largest logits are the
 * device's to check. */
int halo_batch_check(const struct halo_plan *plan, const struct halo_batch *batch, char *reason);

/* Whether the group of the KV cache has the page: 0 or -EINVAL. */
int halo_page_check(const struct halo_plan *plan, uint32_t group, uint32_t page, char *reason);

#endif
