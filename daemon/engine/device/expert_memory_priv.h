/* expert_memory_priv.h: the memory of the slots of streamed experts, and where the bytes of a read go.
 *
 *   OWN      slots are the host's, in slabs that can be given back; the device computes from them
 *   SHARED   slots are the device's, and the host can write them: reads go straight there; in slabs that can be given
 *            back, or in one piece
 *   COPIED   slots are the device's, out of the host's reach: a read goes to one of a few buffers of the host, which
 *            belongs to the slot until the device has copied the bytes
 *
 * Where slots are OWN, those of the last slabs can be made purgeable (store/slab.h): the kernel takes them by itself
 * when another process takes memory faster than anybody could give it back. A slot is kept again before it is used.
 *
 * Thread: reserve by the device thread, open by the one that has the load, then the device thread.
 */
#ifndef HALO_ENGINE_EXPERT_MEMORY_PRIV_H
#define HALO_ENGINE_EXPERT_MEMORY_PRIV_H

#include <store/slab.h>

#include <engine/experts.h>

enum halo_expert_memory_kind { HALO_EXPERT_MEMORY_OWN, HALO_EXPERT_MEMORY_SHARED, HALO_EXPERT_MEMORY_COPIED };

struct halo_expert_memory {
    enum halo_expert_memory_kind kind;
    struct halo_slabs *slabs; /* OWN: of slots; COPIED: of buffers */
    uint32_t slab_slots;      /* of these, slots of each but the last */
    uint8_t **shared;         /* of a device: [n_shared] the first slot of each slab; NULL: given back, or COPIED */
    uint32_t n_shared, shared_slots; /* slabs of a device; slots of each but the last */
    const struct halo_device_ops *ops;
    struct halo_device_model *device_model;
    uint64_t slot_bytes;
    uint32_t n_slots, n_buffers;
    uint32_t *buffer_of;   /* COPIED: [n_slots], HALO_EXPERT_NONE: none */
    uint32_t *free_buffer; /* [n_buffers], of which n_free are free */
    uint32_t n_free;
    uint64_t purgeable_bytes; /* of slots that are */
    uint32_t n_purgeable;     /* OWN: of the last slots, that may be */
};

/* Takes the slots of a device that has them; layers: [shape->n_layers]. 0, or negative with the fault. */
int halo_expert_memory_reserve(struct halo_expert_memory *memory, const struct halo_experts_setup *setup,
                               const struct halo_expert_shape *shape, const struct halo_expert_layout *layers,
                               struct halo_fault *fault);
/* Takes the host's memory. 0, or negative with the fault. */
int halo_expert_memory_open(struct halo_expert_memory *memory, struct halo_fault *fault);
/* Slots of one slab, of all but the last; all of them, where none can be given back. After open. */
uint32_t halo_expert_memory_slab_slots(const struct halo_expert_memory *memory);
void halo_expert_memory_finish(struct halo_expert_memory *memory);
/* The same, for memory that reads in flight may still write to: it is lost. */
void halo_expert_memory_abandon(struct halo_expert_memory *memory);

/* Whether what was read can stay where it is until its turn comes: there is a buffer for each slot. */
bool halo_expert_memory_keeps_buffers(const struct halo_expert_memory *memory);
/* Whether one more slot could be read into. */
bool halo_expert_memory_has_buffer(const struct halo_expert_memory *memory);
/* The slot is read into: it gets a buffer, of which there is one. */
void halo_expert_memory_begin(struct halo_expert_memory *memory, uint32_t slot);
/* Nobody needs what was read any more. Nothing happens when the slot has no buffer. */
void halo_expert_memory_end(struct halo_expert_memory *memory, uint32_t slot);

/* Slabs that can be given back; 0: none can. After open. */
uint32_t halo_expert_memory_n_slabs(const struct halo_expert_memory *memory);
/* The first slot of a slab, and how many it has. */
uint32_t halo_expert_memory_slab(const struct halo_expert_memory *memory, uint32_t slab, uint32_t *ret_n);
bool halo_expert_memory_has_slab(const struct halo_expert_memory *memory, uint32_t slab);
/* A slab's memory goes back to the system. 0, or a negative errno: the device cannot do it now, and it stays. */
int halo_expert_memory_give_back(struct halo_expert_memory *memory, uint32_t slab);
/* Takes a slab's memory again: what is the host's (the prefetch thread), then what is the device's. 0, or negative with
 * the fault. */
int halo_expert_memory_take(struct halo_expert_memory *memory, uint32_t slab, struct halo_fault *fault);
int halo_expert_memory_take_from_device(struct halo_expert_memory *memory, uint32_t slab, struct halo_fault *fault);

/* Whether the slot may be made purgeable, and is not. */
bool halo_expert_memory_may_purge(const struct halo_expert_memory *memory, uint32_t slot);
bool halo_expert_memory_is_purgeable(const struct halo_expert_memory *memory, uint32_t slot);
/* Nobody uses the slot. Where the kernel cannot do it, no slot may be made purgeable from then on. */
void halo_expert_memory_make_purgeable(struct halo_expert_memory *memory, uint32_t slot);
/* A purgeable slot of which the kernel took something: all of it goes. False: it seems to be there. */
bool halo_expert_memory_discard_purged(struct halo_expert_memory *memory, uint32_t slot);
/* The slot is going to be used. False: the kernel took it, and what was in it is lost. */
bool halo_expert_memory_keep(struct halo_expert_memory *memory, uint32_t slot);

/* Appends the limits that were met. */
void halo_expert_memory_notices(const struct halo_expert_memory *memory, struct halo_remarks *ret);

/* Where the slot's reads go. */
uint8_t *halo_expert_memory_at(const struct halo_expert_memory *memory, uint32_t slot);

#endif
