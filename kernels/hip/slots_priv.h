/* slots_priv.h: the memory of the slots of streamed experts.
 *
 * Kernels find an expert at base + place * slot_bytes, with places below HALO_MOE_PLACES_MAX. Where the slots are one
 * piece of memory, a slot's place is its number. The slots of an integrated GPU lie in slabs, each of them pinned
 * memory of its own, so that one can be given back. The runtime chooses where a slab is: base lies half of the places
 * below the first one, and each slab has the room of one slot more, so that its first slot can begin at a multiple of
 * slot_bytes from base. A slab that the runtime puts too far away for that is refused; if that happens when the slots
 * are taken first, they are one piece.
 *
 * Device thread. A run allocates nothing, but may give a slab back.
 */
#ifndef HALO_HIP_SLOTS_PRIV_H
#define HALO_HIP_SLOTS_PRIV_H

#include "region_priv.h"

struct halo_device_model;
struct halo_expert_slots;

struct halo_hip_slab {
    struct halo_hip_region region; /* no addresses: given back */
    uint32_t first_place;          /* of its first slot */
};

struct halo_hip_slots {
    uint32_t n, slab_slots; /* slots; those of every slab but the last */
    uint32_t n_slabs;
    uint64_t slot_bytes;
    uint8_t *base; /* device address of place 0; no memory may be there */
    struct halo_hip_slab *slabs;
};

static inline uint64_t halo_hip_slot_place(const struct halo_hip_slots *slots, uint32_t slot)
{
    return slots->slabs[slot / slots->slab_slots].first_place + slot % slots->slab_slots;
}

/* Ops of the device. */
int halo_hip_take_slots(struct halo_device_model *model, struct halo_expert_slots *slots, char *reason);
int halo_hip_give_slab(struct halo_device_model *model, uint32_t slab, char *reason);
int halo_hip_take_slab(struct halo_device_model *model, uint32_t slab, uint8_t **ret_host, char *reason);

void halo_hip_slots_release(struct halo_device_model *model);

#endif
