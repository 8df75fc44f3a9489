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
    uint32_t taken;          /* slab whose memory was taken again, until its slots open */
    atomic_bool may_guess;
    struct halo_expert_trial trial; /* of guesses */
    struct halo_expert_guess guess; /* which of them are worth a read */
    uint64_t token_ns;              /* when the last decoded token came to the first layer; 0: that was none */

    /* the layer under way */
    struct halo_experts_chosen *chosen; /* [n_expert] */
    uint32_t layer, n_chosen, n_taken;  /* n_taken: those of which all parts were */
    struct halo_fault fault;            /* code NONE: every read so far went well */
};

/* Takes completions, at most HALO_EXPERTS_REAP; waits up to timeout_us for the first one. Returns how many. */
#define HALO_EXPERTS_REAP 64
uint32_t halo_experts_reap(struct halo_experts *x, uint64_t timeout_us);

#endif
