/* streamed.h: which weights of a plan are streamed from disk while it runs (kernels/experts.h).
 *
 * By whoever has the load, before the device sees the plan.
 */
#ifndef HALO_MODEL_STREAMED_H
#define HALO_MODEL_STREAMED_H

#include <model/model.h>

/* Layers whose routed experts can be streamed; 0: the plan has none, or a layer has more matrices than a slot takes.
 * Pure; any thread. */
uint32_t halo_plan_expert_layers(const struct halo_plan *plan);

/* Marks the routed experts of every layer, or with `streamed` false makes all weights resident again. Returns the
 * number of layers whose experts are streamed; 0: everything is resident. */
uint32_t halo_model_stream_experts(struct halo_model *model, bool streamed);

/* The layer that a matrix of a dense model streams with; HALO_NONE: it stays resident. Pure; any thread. */
uint16_t halo_weight_stream_layer(const struct halo_weight *weight);

/* Marks the matrices of those layers of a dense model that `is_streamed` says, and makes all other weights resident.
 * Returns their number; 0: there are none, or one of them cannot stream (more matrices than a slot takes, a matrix
 * that several products read), and everything is resident. */
uint32_t halo_model_stream_layers(struct halo_model *model, const bool is_streamed[HALO_MODEL_MAX_LAYERS]);

#endif
