/* plan_builder_priv.h: the verbs in which a family writes its plan.
 *
 * Each verb appends one op (or the few of a block), takes weights by role and adds them to the plan at their first use,
 * so the order of the weights is the order of loading. A failure sticks to the builder: verbs after it do nothing,
 * halo_builder_finish reports it. Bounds of what may be written are asserted: a family's code is ours, the file was
 * checked before.
 */
#ifndef HALO_MODEL_PLAN_BUILDER_PRIV_H
#define HALO_MODEL_PLAN_BUILDER_PRIV_H

#include "bind_priv.h"

#define HALO_BUILDER_ROPES 4 /* rotations of a plan, at most */

struct halo_builder {
    struct halo_arena *arena;
    const struct halo_hparams *hparams; /* of the layer, or the model's outside the layers */
    const struct halo_hparams *model;
    struct halo_hparams of_layer;
    const struct halo_binding *binding;
    struct halo_fault *fault;
    int error;                  /* first failure, negative */
    uint16_t layer;             /* of the ops that follow; HALO_NONE outside the layers */
    bool layer_norms;           /* the norms that follow take the mean off */
    struct halo_op *ops, spare; /* spare takes the writes after a failure */
    uint32_t n_ops, ops_capacity;
    struct halo_weight *weights;
    uint32_t n_weights;
    uint32_t *weight_of; /* [HALO_TENSOR_COUNT][n_layers]: index + 1, 0 before the first use */
    struct halo_value *values;
    uint32_t n_values;
    struct halo_rope *ropes;
    uint32_t n_ropes;
    /* Groups of the cache with the layers that write to them so far; the first keeps every position. Heads are those of
     * the layers that write. Type and pages are the plan's. */
    struct halo_kv_group kv[HALO_KV_GROUPS_MAX];
    uint32_t n_kv_groups;
    struct halo_state_part state; /* of the layer that was begun last: the part that the next op gets */
};

void halo_builder_init(struct halo_builder *builder, struct halo_arena *arena, const struct halo_hparams *hparams,
                       const struct halo_binding *binding, struct halo_fault *fault);
/* Fills the tables of *ret and makes groups of its cache, whose first one has the shape and the pages already. 0 or the
 * first failure. */
int halo_builder_finish(struct halo_builder *builder, struct halo_plan *ret);

int halo_builder_no_memory(struct halo_builder *builder);              /* OUT_OF_MEMORY, unless it has failed already */
void halo_builder_layer(struct halo_builder *builder, uint32_t layer); /* the ops that follow belong to this layer */
void halo_builder_outside(struct halo_builder *builder);               /* ... to no layer */
/* The value of this name, which is added at its first use. */
uint16_t halo_builder_value(struct halo_builder *builder, const char *name, uint64_t width);
/* A rotation by the hyper-parameters, with the file's factors if it has them. */
uint32_t halo_builder_rotation(struct halo_builder *builder, enum halo_rope_pairing pairing);
/* By rope_base_local alone, without scaling or factors. */
uint32_t halo_builder_rotation_local(struct halo_builder *builder, enum halo_rope_pairing pairing);
/* By other hyper-parameters, without the file's factors. */
uint32_t halo_builder_rotation_by(struct halo_builder *builder, const struct halo_hparams *hparams,
                                  enum halo_rope_pairing pairing);
/* The rotation that undoes another one of scale 1. */
uint32_t halo_builder_rotation_back(struct halo_builder *builder, uint32_t rope);
bool halo_builder_has(const struct halo_builder *builder, enum halo_tensor_id id); /* bound in this layer */

void halo_builder_embed(struct halo_builder *builder, enum halo_tensor_id id, uint16_t out, float scale);
/* With its bias if the file has one; HALO_TENSOR_NONE: without weight. */
void halo_builder_rmsnorm(struct halo_builder *builder, enum halo_tensor_id id, uint16_t x, uint16_t add, uint16_t out);
/* x *= x_scale behind the addition; without one (add is HALO_NONE), x_scale must be 1. */
void halo_builder_rmsnorm_scaled(struct halo_builder *builder, enum halo_tensor_id id, uint16_t x, uint16_t add,
                                 float x_scale, uint16_t out);
void halo_builder_add(struct halo_builder *builder, uint16_t x, uint16_t add);
/* The one number that a tensor of the file holds, which is no weight of the plan. */
float halo_builder_number(struct halo_builder *builder, enum halo_tensor_id id);
/* Multiplies a vector in use by a factor that the file leaves to its reader. */
void halo_builder_factor(struct halo_builder *builder, enum halo_tensor_id id, float factor);
/* Up to HALO_MATMUL_MAX matrices on one input, each with its bias if the file has one. The lists end with
 * HALO_TENSOR_NONE or are full. */
struct halo_builder_pair {
    enum halo_tensor_id id;
    uint16_t out;
};
void halo_builder_matmul(struct halo_builder *builder, uint16_t x, const struct halo_builder_pair *pairs, uint16_t n);
/* k: HALO_NONE where the layer has none; likewise in halo_builder_rope. */
void halo_builder_qk_norm(struct halo_builder *builder, uint16_t q, uint16_t k);
/* Of each of n parts of x, with a weight that they share or one for each; HALO_TENSOR_NONE: without weight. */
void halo_builder_head_norm(struct halo_builder *builder, enum halo_tensor_id id, uint16_t x, uint32_t n, float eps);
void halo_builder_rope(struct halo_builder *builder, uint16_t q, uint16_t k, uint32_t rope);
/* The group of the cache for layers with this window. A window that no sequence fills needs none of its own. */
uint32_t halo_builder_kv_group(struct halo_builder *builder, uint32_t window);
/* One of its own in any case, for layers whose heads differ from those of the first group; window > 0. */
uint32_t halo_builder_kv_group_apart(struct halo_builder *builder, uint32_t window);
/* Other heads than those of the hyper-parameters: n_head, n_head_kv and head_dim of `heads`. */
void halo_builder_rope_heads(struct halo_builder *builder, uint16_t q, uint16_t k, const struct halo_op_rope *heads,
                             uint32_t rope);
void halo_builder_concat(struct halo_builder *builder, const struct halo_op_concat *concat);
/* A matrix for each head: experts that are all in use. */
void halo_builder_head_matmul(struct halo_builder *builder, uint16_t x, enum halo_tensor_id id, uint16_t out);
/* v: HALO_NONE where the group is latent. */
void halo_builder_kv_write(struct halo_builder *builder, uint16_t k, uint16_t v, uint32_t group);
/* `how`: what the family says of scores, mask and temperature, and the group, whose layer was written last; the rest is
 * filled in, sinks if the file has them. */
void halo_builder_attend(struct halo_builder *builder, uint16_t q, uint16_t out, const struct halo_op_attend *how);
/* Begins the state of a recurrent layer, `width` f32; all of a model's layers are in one group and equally wide. The
 * ops that follow take their parts of it one behind the other. */
void halo_builder_state(struct halo_builder *builder, uint64_t width);
void halo_builder_conv1d(struct halo_builder *builder, uint16_t x, enum halo_tensor_id id, bool silu, uint16_t out);
/* `rule`: all but weights, eps and state. */
void halo_builder_delta_rule(struct halo_builder *builder, const struct halo_op_delta_rule *rule);
/* By the hyper-parameters, with the weights of this layer. */
void halo_builder_ssm_scan(struct halo_builder *builder, uint16_t xbc, uint16_t dt, uint16_t out);
void halo_builder_glu(struct halo_builder *builder, uint16_t gate, uint16_t up, uint16_t out, enum halo_glu_act act);
/* limit: of gate and up; 0: none. */
void halo_builder_glu_limited(struct halo_builder *builder, uint16_t gate, uint16_t up, uint16_t out,
                              enum halo_glu_act act, float limit);
/* By the hyper-parameters, with the file's bias of the choice if it has one. */
void halo_builder_moe_route(struct halo_builder *builder, uint16_t logits, uint16_t choice);
void halo_builder_moe_matmul(struct halo_builder *builder, uint16_t x, bool per_slot, uint16_t choice,
                             const struct halo_builder_pair *pairs, uint16_t n);
/* add, add_gate: HALO_NONE where absent. */
void halo_builder_moe_sum(struct halo_builder *builder, uint16_t x, uint16_t choice, uint16_t add, uint16_t add_gate,
                          uint16_t out);
/* The head of its own, else the embedding. */
void halo_builder_logits(struct halo_builder *builder, uint16_t x, float scale);

/* What the verbs are made of: the next op of the plan, its kind and layer set; the index of a bound tensor among the
 * plan's weights, which it joins at its first use; the next n f32 of the layer's state. */
struct halo_op *halo_builder_append(struct halo_builder *builder, enum halo_op_kind kind);
uint32_t halo_builder_weight(struct halo_builder *builder, enum halo_tensor_id id);
uint32_t halo_builder_weight_if(struct halo_builder *builder, enum halo_tensor_id id); /* HALO_WEIGHT_NONE: absent */
struct halo_state_part halo_builder_state_take(struct halo_builder *builder, uint64_t n);

/* plan_builder_blocks.c. A group of the cache of this shape; the one that is added first, in front of every write, is
 * the one that keeps every position. */
uint32_t halo_builder_kv_add(struct halo_builder *builder, const struct halo_kv_group *shape);
/* x, mix, out and back are given, the rest is filled in. */
void halo_builder_streams_mix(struct halo_builder *builder, const struct halo_op_streams_mix *mix,
                              enum halo_tensor_id scale, enum halo_tensor_id base);
void halo_builder_streams_add(struct halo_builder *builder, uint16_t x, uint16_t back, uint16_t add);
/* Writes to a further layer of compress->kv_group, with the next part of the layer's state. */
void halo_builder_compress(struct halo_builder *builder, const struct halo_op_compress *compress,
                           enum halo_tensor_id bias, enum halo_tensor_id norm);
/* Over the layers of their groups that were written last. */
void halo_builder_blocks_choose(struct halo_builder *builder, const struct halo_op_blocks_choose *choose);
void halo_builder_attend_blocks(struct halo_builder *builder, const struct halo_op_attend_blocks *attend);
/* n_groups matrices, which lie in one: rows of the first, then those of the second. x and out have a part for each. */
void halo_builder_group_matmul(struct halo_builder *builder, uint16_t x, enum halo_tensor_id id, uint32_t n_groups,
                               uint16_t out);
/* A table of indices of this layer, in the arena; NULL: the file has none. */
const int32_t *halo_builder_table(struct halo_builder *builder, enum halo_tensor_id id);

#endif
