/* experts_priv.h: the streamed experts, or layers, of a model on a GPU (kernels/experts.h).
 *
 * A table for each layer says at which place an expert is (slots_priv.h): the kernels find it there (gfx/args.h,
 * `place`), so no address of a launch changes. A step stops twice in a layer: behind the router, where the copy of its
 * choice to the host is queued, and in front of the first product of experts, where the host waits for that copy, has
 * the experts brought and writes the table. What lies between the two runs meanwhile.
 *
 * An integrated GPU reads the slots where the drive wrote them; they are packed in place. For a discrete one the source
 * keeps the file's bytes, which are packed into two pinned buffers in turn and copied behind everything that was queued
 * before: a slot is never written while a kernel reads it. Experts are let go when the next layer has chosen, or the
 * step has ended: then no kernel reads them any more.
 *
 * A streamed layer of a dense model is a layer with one expert (layers.c). Nobody has to choose it, so a step stops in
 * front of its first product only; where its matrices are is filled in when its products are launched. Behind the last
 * one an event is recorded, and waited for before the layer is let go; or, where slots are written by copies behind
 * what is queued, it is let go at once.
 *
 * Device thread. A run allocates nothing.
 */
#ifndef HALO_HIP_EXPERTS_PRIV_H
#define HALO_HIP_EXPERTS_PRIV_H

#include <kernels/experts.h>
#include <kernels/plan.h>

#include "slots_priv.h"

struct halo_device;
struct halo_device_model;
struct halo_hip_run;

struct halo_hip_expert_layer {
    uint32_t n_parts, weight[HALO_LAYER_PARTS]; /* in the order of the plan's weights */
    bool moved;                                 /* the GPU's table does not have the last places yet */
};

struct halo_hip_experts {
    bool is_dense;               /* whole layers of a model without experts */
    uint32_t n_layers, n_expert; /* n_expert: of the layer that has the most; 0: nothing is streamed */
    struct halo_hip_slots slots;
    struct halo_expert_source source;
    struct halo_hip_expert_layer *layers; /* [n_layers] */
    uint32_t *place_host, *place_device;  /* [n_layers][n_expert] of each expert; pinned; where the GPU reads it */
    uint32_t *choice;          /* pinned: [rows][2 * n_used] of the layer under way, the bits of its floats */
    void *event;               /* recorded behind the copy of the choice, or behind a layer's last product */
    bool *is_chosen;           /* [n_expert] */
    uint32_t *ids;             /* [n_expert] the chosen ones, ascending */
    struct halo_expert *taken; /* [n_expert] */
    uint8_t *copy;             /* integrated: rows that are packed over themselves */
    uint32_t layer;            /* under way, from 1; 0: none */
};

/* Bytes of pinned memory that the steps of a plan need for streamed experts; of the GPU's own. Pure. */
uint64_t halo_hip_experts_pinned_bytes(const struct halo_plan *plan);
uint64_t halo_hip_experts_table_bytes(const struct halo_plan *plan);

/* Nothing happens for a plan without streamed weights. `pinned` and `table` are where those bytes are. */
int halo_hip_experts_create(struct halo_device_model *model, uint8_t *pinned, uint32_t *table, char *reason);
void halo_hip_experts_destroy(struct halo_device_model *model);

/* Ops of the device. */
uint64_t halo_hip_expert_size(const struct halo_device *device, const struct halo_weight *weight);
void halo_hip_set_experts(struct halo_device_model *model, const struct halo_expert_source *source);

/* The two stops of a layer, and the end of a step, whether it went well or not. */
int halo_hip_experts_copy_choice(struct halo_hip_run *run, const struct halo_op_moe_route *route);
int halo_hip_experts_bring(struct halo_hip_run *run, const struct halo_op_moe_matmul *product);
void halo_hip_experts_release(struct halo_device_model *model);
/* Takes the n chosen experts of the layer under way, part by part as they arrive. */
int halo_hip_experts_take(struct halo_hip_run *run, uint32_t n);

/* layers.c, of a streamed layer of a dense model: the stops in front of its first product and behind its last one. */
int halo_hip_layer_bring(struct halo_hip_run *run, const struct halo_op_matmul *product);
int halo_hip_layer_leave(struct halo_hip_run *run);
/* Waits until no kernel reads the layer under way, if there is one, and lets it go. */
int halo_hip_layer_release(struct halo_hip_run *run);
/* Where the GPU reads a matrix of the layer under way. */
uint8_t *halo_hip_layer_matrix(const struct halo_device_model *model, uint32_t weight);

#endif
