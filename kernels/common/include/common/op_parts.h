/* op_parts.h: what an op names: values, weights, layers of the cache.
 *
 * One list for all who walk a plan without knowing its ops: what a device may fuse, where a plan may be cut. Pure; any
 * thread.
 */
#ifndef HALO_COMMON_OP_PARTS_H
#define HALO_COMMON_OP_PARTS_H

#include <kernels/plan.h>

#define HALO_OP_VALUES 4
#define HALO_OP_WEIGHTS (2 * HALO_MATMUL_MAX)
#define HALO_OP_LAYERS 2

/* HALO_NONE where there is none. */
struct halo_op_values {
    uint16_t value[HALO_OP_VALUES];
};

/* A value that an op changes in place is an input and an output. */
struct halo_op_values halo_op_inputs(const struct halo_op *op);
struct halo_op_values halo_op_outputs(const struct halo_op *op);
bool halo_op_reads(const struct halo_op *op, uint16_t value);
bool halo_op_writes(const struct halo_op *op, uint16_t value);

/* Where the op names its weights, HALO_WEIGHT_NONE among them; returns how many. */
uint32_t halo_op_weights(struct halo_op *op, uint32_t *ret[HALO_OP_WEIGHTS]);

/* Where the op names layers of the cache; returns how many. */
struct halo_op_layer {
    uint32_t *group, *layer;
};
uint32_t halo_op_layers(struct halo_op *op, struct halo_op_layer ret[HALO_OP_LAYERS]);

#endif
