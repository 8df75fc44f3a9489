/* expert_shape_priv.h: the layout of one expert layer in a slot, for experts.c. */
#ifndef HALO_ENGINE_EXPERT_SHAPE_PRIV_H
#define HALO_ENGINE_EXPERT_SHAPE_PRIV_H

#include <engine/experts.h>

/* Returns the bytes that it takes of a slot. */
uint64_t halo_expert_layout_of(const struct halo_device_ops *ops, const struct halo_device *device,
                               const struct halo_plan *plan, uint32_t layer, struct halo_expert_layout *ret);

#endif
