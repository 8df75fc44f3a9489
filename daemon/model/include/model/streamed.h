/* streamed.h: which weights of a plan are streamed from disk while it runs (kernels/experts.h).
 *
 * By whoever has the load, before the device sees the plan.
 */
#ifndef HALO_MODEL_STREAMED_H
#define HALO_MODEL_STREAMED_H

#include <model/model.h>

/* Marks the routed experts of every layer, or with `streamed` false makes all weights resident again. Returns the
 * number of layers whose experts are streamed; 0: the plan has none, or a layer has more matrices than a slot takes,
 * and everything is resident. */
uint32_t halo_model_stream_experts(struct halo_model *model, bool streamed);

#endif
