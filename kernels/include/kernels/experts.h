/* experts.h: weights that are not resident: where a device gets them from while it runs a plan.
 *
 * The weights of a plan whose `streamed` is set have no memory among the resident ones. Those that a router chooses
 * together, the gate, up and down matrices of one layer, are an *expert layer*, and the same expert of all of them lies
 * in one *slot*. A slot has a part for each weight of its layer, in the order of the plan's weights. The memory of the
 * slots is the source's own, or a device's that has take_slots (device.h). The device asks for the experts that a batch
 * has chosen; it knows nothing of disks.
 *
 * A dense layer whose matrices (HALO_WEIGHT_MATRIX, each used by one MATMUL) are streamed is an expert layer with one
 * expert, number 0, which every batch chooses: a run chooses these layers in the order of their numbers, each from its
 * first product to its last one.
 *
 * Owner: the source's maker, until the model is destroyed. Thread: that of run(). Nothing is allocated. Failures: a
 * negative errno with a sentence in `reason` (HALO_DEVICE_REASON bytes); the run ends with it.
 */
#ifndef HALO_KERNELS_EXPERTS_H
#define HALO_KERNELS_EXPERTS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <kernels/tensor.h>

struct halo_device_phase;

/* What a source fails with when the bytes of an expert cannot be had: the device is not to blame. */
#define HALO_EXPERT_E_UNREADABLE (-EREMOTEIO)
#define HALO_EXPERT_PARTS 3 /* weights of an expert layer of a mixture, at most */
#define HALO_LAYER_PARTS 16 /* matrices of a dense layer, at most */

/* Parts of an expert in its slot. */
struct halo_expert {
    uint32_t id, slot;
    uint32_t parts; /* bit i: part i is there, and nobody has heard of it since choose(); base[] and data[] of no other
                     * part mean anything */
    /* data[] holds the bytes of the file, and this is the first time that somebody hears of them. The device turns
     * them into its own layout from base[] on, and finds that layout there as long as the expert stays in its slot.
     * Where the host cannot write slots, data[] is memory of the source's until the next take() or release(), and the
     * device copies it into the slot; base[] is NULL. */
    bool fresh;
    uint8_t *base[HALO_LAYER_PARTS]; /* 4096-byte aligned */
    uint8_t *data[HALO_LAYER_PARTS]; /* ends no earlier than base + the device's expert_bytes; congruent to the
                                       * file offset modulo 4096 */
};

/* Slots in a device's memory, which the source fills in. They lie in *slabs* of so many slots each, one slot after the
 * other; the last slab may have fewer. */
struct halo_expert_slots {
    uint32_t n;
    uint32_t slab_slots; /* in: what the source would like to give back at a time; out: n where that cannot be done */
    uint64_t slot_bytes; /* from one to the next, a multiple of 4096 */
    const uint64_t *part_at; /* [n_weights of the plan] where an expert's part begins in a slot; for streamed weights */
    uint8_t **slabs;         /* [n / slab_slots, rounded up] out: the first slot of each, 4096-byte aligned; NULL: the
                              * host cannot write them */
};

struct halo_expert_source {
    void *owner;
    /* The batch has chosen the experts ids[0..n) of this layer, ascending, each once: they stay in their slots until
     * release(), and those that are missing are on their way. Does not wait. */
    int (*choose)(void *owner, uint32_t layer, const uint32_t *ids, uint32_t n, char *reason);
    /* What has come of the chosen experts since the last call: at most n > 0 of them, each part once, so that a device
     * can work on one part of an expert while others are read. 0: all parts of all chosen experts were taken. Waits,
     * with a deadline, while there is nothing. An expert of which only some parts were taken before release() is read
     * again. */
    int (*take)(void *owner, struct halo_device_phase *phase, struct halo_expert *ret, uint32_t n, char *reason);
    /* The chosen experts are not needed any more, taken or not. */
    void (*release)(void *owner);
    /* Whether a guess of what this layer will choose is welcome now, and such a guess, the likeliest first. Both come
     * between choose() and release() of the layer in front of it. */
    bool (*wants_guess)(void *owner, uint32_t layer);
    void (*guess)(void *owner, uint32_t layer, const uint32_t *ids, uint32_t n);
};

#endif
