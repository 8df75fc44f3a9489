/* experts_priv.h: what the files of streamed weights share. Device thread, apart from what experts.h says. */
#ifndef HALO_ENGINE_EXPERTS_PRIV_H
#define HALO_ENGINE_EXPERTS_PRIV_H

#include <stdatomic.h>

#include <store/fetch.h>

#include "device/expert_memory_priv.h"
#include <engine/expert_guess.h>
#include <engine/expert_trial.h>
#include <engine/experts.h>

struct halo_experts_file {
    int fd;
    uint32_t number; /* of the fetch */
    struct halo_file_id id;
    const char *name;
};

struct halo_experts_chosen {
    uint32_t id, slot;    /* slot HALO_EXPERT_NONE: none was free yet */
    uint32_t taken_parts; /* bits */
    bool is_new;          /* its slot was given to it just now */
};

struct halo_experts_guessed {
    uint32_t slot;
    uint64_t generation;
};

struct halo_experts {
    struct halo_experts_setup setup;
    struct halo_expert_shape shape;
    struct halo_expert_cache cache;
    struct halo_expert_layout *layers; /* [n_layers] */
    struct halo_expert_memory memory;
    struct halo_fetch *fetch;
    struct halo_experts_file *files;
    uint32_t n_files;
    uint32_t *pending, *arrived;   /* [n_slots] bits of parts: reads that are not over; bytes that are there */
    bool *is_spoiled;              /* [n_slots] a read failed, or a part was taken and the others were not */
    struct halo_fetch_read *reads; /* room for those of a layer */
    uint32_t n_reads;
    struct halo_expert_source source;
    _Atomic uint64_t hit_bytes, miss_bytes, read_bytes, wait_us;
    _Atomic uint32_t n_open; /* slots, as the cache has it, for other threads */
    uint32_t slab_slots;     /* of every slab but the last */
    uint32_t taken; /* slab whose memory was taken again, until its slots open; NONE: single slots are to open */
    _Atomic uint64_t wanted_bytes; /* to give back as soon as a layer has ended; the port sets it */
    uint64_t owed_bytes;           /* of purgeable slots that the kernel took, to give back without being asked */
    uint64_t given_bytes;          /* within steps, since the last halo_experts_give_back() */
    _Atomic uint64_t purge_bytes;  /* of slots that shall be purgeable; the port sets it */
    uint32_t purge_at, check_at;   /* slots at which the next searches begin: for cold ones, for those that are gone */
    _Atomic uint32_t n_closed;     /* single slots that the kernel took, in slabs that are there */
    atomic_bool may_guess;
    struct halo_expert_trial trial;                              /* of guesses */
    struct halo_expert_guess guess;                              /* which of them are worth a read */
    struct halo_experts_guessed guessed[HALO_EXPERT_GUESS_READ]; /* whose reads were submitted for the next layer */
    uint32_t n_guessed;
    uint64_t token_ns; /* when the last decoded token came to the first layer; 0: that was none */

    /* the layer under way */
    struct halo_experts_chosen *chosen; /* [n_expert] */
    uint32_t layer, n_chosen, n_taken;  /* n_taken: those of which all parts were */
    struct halo_fault fault;            /* code NONE: every read so far went well */
};

/* ---- experts_read.c ---- */

/* Parts of an expert, and reads of all experts of a layer, at most. */
uint32_t halo_experts_parts_max(const struct halo_experts *x);
uint32_t halo_experts_reads_max(const struct halo_experts *x);
/* As bits. */
uint32_t halo_experts_all_parts(const struct halo_expert_layout *layer);
/* Where the file's bytes of a part go. */
uint8_t *halo_experts_data(const struct halo_experts *x, uint32_t slot, const struct halo_expert_part *part,
                           uint32_t id);
/* The slot has just been given to an expert: none of its parts is there. */
void halo_experts_expect(struct halo_experts *x, uint32_t slot);
/* Adds reads of these parts of it, which halo_experts_submit() submits; x->reads has room for halo_experts_reads_max().
 */
void halo_experts_add_reads(struct halo_experts *x, uint32_t slot, uint32_t parts, enum halo_fetch_priority priority);
void halo_experts_submit(struct halo_experts *x);
/* Takes completions, at most HALO_EXPERTS_REAP; waits up to timeout_us for the first one. Returns how many. */
#define HALO_EXPERTS_REAP 64
uint32_t halo_experts_reap(struct halo_experts *x, uint64_t timeout_us);

/* ---- experts_source.c ---- */

/* Sets x->source. */
void halo_experts_make_source(struct halo_experts *x);

/* ---- experts_shrink.c ---- */

/* Takes the memory of all slots; 0, or negative with the fault. */
int halo_experts_open_memory(struct halo_experts *x, struct halo_fault *fault);
/* A layer has ended, and nothing is held: gives back what is wanted, and does without slots that the kernel took, so
 * that what is read does not bring their memory back. */
void halo_experts_end_layer(struct halo_experts *x);

/* ---- experts_purge.c ---- */

/* The slot is going to be read into. */
void halo_experts_claim(struct halo_experts *x, uint32_t slot);
/* The expert of the layer under way stays, where it is in memory: what the kernel has taken of it is a miss. */
void halo_experts_hold(struct halo_experts *x, uint32_t id);
/* Lets the kernel take slots that are least likely to be used soon. */
void halo_experts_purge(struct halo_experts *x);
/* A layer has ended: what the kernel took of these is done without. Whether it took any. */
bool halo_experts_drop_purged(struct halo_experts *x);

#endif
