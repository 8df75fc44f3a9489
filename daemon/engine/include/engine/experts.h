/* experts.h: the streamed weights of one model, experts or whole layers: what a slot holds, the memory of the slots,
 * the reads that fill them, and the source that the device takes them from (kernels/experts.h). The slots are the
 * host's memory or a device's.
 *
 * A slot has room for one expert of any layer: gate, up and down one after the other, each at an address congruent to
 * its file offset modulo 4096, with room in front for the device's layout where that is larger. Which experts stay is
 * decided by expert_cache.h; the disk is reached through store/fetch.h.
 *
 * A streamed layer of a dense model is the only expert of its layer, so a slot holds all of its matrices. Every step
 * takes these layers in turn: as soon as one is given up, its slot is for the next one that is not there yet. With two
 * slots one layer is read while the device computes the one before it.
 *
 * The model's files stay open as long as the object lives, and are looked at again after each read: bytes of a file
 * that was written to are never used. A read that fails, or a drive that does not answer for HALO_EXPERTS_STALL_MS,
 * ends the step with HALO_EXPERT_E_UNREADABLE and a sentence that names file and offset. Memory that a read still
 * belongs to is not used again before the read is over.
 *
 * Threads: create and open by the thread that has the load; then the device thread, but for the functions that say
 * otherwise. Nothing is allocated in a step.
 */
#ifndef HALO_ENGINE_EXPERTS_H
#define HALO_ENGINE_EXPERTS_H

#include <base/fault.h>
#include <base/remarks.h>
#include <kernels/device.h>
#include <store/gguf.h>

#include <engine/expert_cache.h>
#include <engine/stats.h>

#define HALO_EXPERTS_MARGIN 2 /* slots that every layer keeps beside those that one token uses */
#define HALO_EXPERTS_STALL_MS 30000
#define HALO_LAYER_BUFFERS 2 /* slots of streamed layers: one is read while the device computes another */

/* One weight of an expert layer in a slot. */
struct halo_expert_part {
    uint32_t weight;    /* index in the plan */
    uint64_t at;        /* from the start of the slot to base */
    uint64_t growth;    /* from base to the page that data begins in */
    uint64_t n_bytes;   /* of one expert in the file */
    uint64_t step;      /* from one expert to the next in the file */
    uint64_t offset;    /* of expert 0 */
    uint32_t file_part; /* of the model */
};

struct halo_expert_layout {
    uint32_t n_parts, n_expert;
    uint32_t number;  /* of the layer in the model */
    uint64_t n_bytes; /* of one expert in the file */
    struct halo_expert_part parts[HALO_LAYER_PARTS];
};

/* What streaming the marked weights of a plan takes. */
struct halo_expert_shape {
    bool is_dense;                       /* whole layers of a model without experts */
    uint32_t n_layers, n_expert, n_used; /* n_expert and n_used: of the layer that has the most */
    uint32_t n_experts;                  /* of all layers together: more slots are of no use */
    uint32_t min_slots;                  /* that a layer keeps */
    uint32_t least_slots;                /* that the cache can do with */
    uint64_t slot_bytes;                 /* of memory, from one slot to the next */
    uint64_t file_bytes;                 /* of all experts */
};

/* Pure; any thread. All zero when no weight of the plan is streamed. */
void halo_expert_shape_of(const struct halo_device_ops *ops, const struct halo_device *device,
                          const struct halo_plan *plan, struct halo_expert_shape *ret);

/* Slots of a slab, in a cache of so many: one of HALO_EXPERTS_SLABS parts of them, 1 GiB or one slot at most. A device
 * may take up to one slot's memory more for each slab of its own. Pure; any thread. */
#define HALO_EXPERTS_SLABS 16
uint32_t halo_expert_slab_slots(const struct halo_expert_shape *shape, uint32_t n_slots);

struct halo_experts;

struct halo_experts_setup {
    const struct halo_device_ops *ops;
    const struct halo_device *device;
    struct halo_device_model *device_model; /* gives the slots, where the device has them; outlives the object */
    const struct halo_plan *plan;           /* outlives the object */
    uint32_t n_slots;
    uint64_t purge_bytes;     /* what halo_experts_let_purge() would say at first */
    struct halo_stats *stats; /* may be NULL */
};

/* Bookkeeping, and the slots that are a device's memory. Device thread. 0, or negative with the fault: OUT_OF_MEMORY,
 * or what the device says. */
int halo_experts_create(struct halo_experts **ret, const struct halo_experts_setup *setup, struct halo_fault *fault);
/* Takes the memory of slots or buffers that are the host's, about 0.2 s a GiB, and opens the model's files, whose
 * descriptors are gguf's and stay open. block_bytes and depth: of reads, as fetch.h has them; 0: its defaults. 0, or
 * negative with the fault. */
int halo_experts_open(struct halo_experts *experts, const struct halo_gguf *gguf, uint32_t block_bytes, uint32_t depth,
                      struct halo_fault *fault);
/* NULL is accepted. Waits for the reads in flight, but not for a drive that does not answer: then their memory is lost,
 * and so is the device's model with its slots. False: so it is. */
bool halo_experts_destroy(struct halo_experts *experts);

/* Since it was created; what the oldest read in flight is ("": none). */
struct halo_experts_report {
    uint64_t hit_bytes, miss_bytes; /* of the experts that steps used: found in memory, and read for them */
    uint64_t read_bytes;            /* from disk, whether a step waited for them or not */
    uint64_t wait_us;               /* that steps waited for the disk */
    char reading[160];
};
/* Any thread, while the object lives. */
void halo_experts_report(struct halo_experts *experts, struct halo_experts_report *ret);

/* ---- memory given back and taken again, in whole slabs ----
 *
 * One is a small part of a model's cache. What was in it is read again when it is chosen again: no id changes. Slabs
 * are the host's, or a device's (kernels/device.h, give_slab).
 *
 * Memory goes when a layer has ended, in the middle of a step too. What another process takes faster than that, the
 * kernel takes from purgeable slots: as many of the last slabs' as halo_experts_let_purge() says, those not used
 * lately. The cache does without what the kernel took, and makes more slots purgeable, at the end of each layer. A
 * device's slots are never purgeable: they are pinned. */

/* Any thread, after open: slots and their bytes in memory now; what could be given back, and what was. */
struct halo_experts_memory {
    uint32_t n_slots;
    uint64_t slots_bytes, slab_bytes, spare_bytes, absent_bytes;
};
void halo_experts_memory(const struct halo_experts *experts, struct halo_experts_memory *ret);

/* Any thread, after open: so many bytes are missing now, whatever was asked for before. A step that is under way gives
 * them back when its layer has ended. The device thread is told to call give_back(), too. */
void halo_experts_want(struct halo_experts *experts, uint64_t bytes);
/* The device thread, between steps: gives slabs back, those that are worth least first, until what is wanted is free,
 * the cache needs the rest or the device fails. Waits up to 0.2 s for reads into slabs that could go. Returns the bytes
 * that were given back since the last call, within steps or now; nothing is wanted any more. */
uint64_t halo_experts_give_back(struct halo_experts *experts);
/* The prefetch thread: takes the memory of one slab again, or as many slots that the kernel took, about 0.2 s a GiB.
 * Steps may run meanwhile. A device's slab is only chosen. 0, -ENOENT: all are there; or negative with the fault:
 * OUT_OF_MEMORY. */
int halo_experts_take(struct halo_experts *experts, struct halo_fault *fault);
/* The device thread, after take, between steps: takes the memory of a device's slab, which no step does without
 * meanwhile, and has the slots used. Returns their bytes; 0 with the fault: what the device says. */
uint64_t halo_experts_open_taken(struct halo_experts *experts, struct halo_fault *fault);
/* Any thread: so many bytes of slots shall be purgeable, at most an eighth of them. Each use of such a
 * slot costs up to 0.1 ms a MiB: it is for a machine that has little memory left. */
void halo_experts_let_purge(struct halo_experts *experts, uint64_t bytes);
/* Any thread: whether experts may be read on a guess; at first they may. */
void halo_experts_allow_guesses(struct halo_experts *experts, bool may_guess);

const struct halo_expert_source *halo_experts_source(const struct halo_experts *experts);
/* How they are read, and what had to be done without: for people. */
void halo_experts_notices(struct halo_experts *experts, struct halo_remarks *ret);
const char *halo_experts_method(const struct halo_experts *experts);

#endif
