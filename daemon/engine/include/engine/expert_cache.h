/* expert_cache.h: which experts of a streamed mixture are in memory: slots, what is in them, and who has to go.
 *
 * Pure bookkeeping: no memory of experts, no disk, no clock. The engine runs it for a model (experts.h), tests and
 * tests/bench/tier_sim run it over traces.
 *
 * A slot holds one expert of one layer. Time is counted by layer: the age of a slot is how many times its layer has run
 * since the expert was chosen last, so that a layer whose turn comes later is not older than one whose turn has
 * passed. Victims: a slot that is empty; else the one with the greatest age / 2^class, where the class grows with how
 * often the expert was chosen, which decays with its age (least recently and least frequently used). Between equals it
 * is one of the layer whose turn comes last: what a plain least-recently-used order does to layers that run round and
 * round, evicting just what is needed next, cannot happen. While a prompt sweeps through the layers, whatever is in
 * them is sure to be used when their turn comes: then the victim is of the layer whose turn comes last, and of these
 * the one of the least class. No layer is pushed below min_slots by another one, and a slot that is chosen for the
 * layer under way, or read into, is nobody's victim.
 *
 * A hit costs O(1), a miss O(layers). Nothing is allocated after init. One thread at a time.
 */
#ifndef HALO_ENGINE_EXPERT_CACHE_H
#define HALO_ENGINE_EXPERT_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <base/list.h>

#define HALO_EXPERT_NONE UINT32_MAX
#define HALO_EXPERT_CLASSES 4

enum halo_expert_state {
    HALO_EXPERT_EMPTY,
    HALO_EXPERT_READING, /* on its way: the memory belongs to the reader, even when nobody wants the expert any more */
    HALO_EXPERT_ARRIVED, /* as the file has it: nobody has used it yet */
    HALO_EXPERT_READY,
    HALO_EXPERT_CLOSED, /* its memory was given back: nobody gets it */
    HALO_EXPERT_STATES
};

struct halo_expert_slot {
    struct halo_list_node node; /* in a list of its layer, or of empty slots; in none while held or read into */
    uint32_t layer, id;
    uint64_t generation; /* counts what has been in this slot: a read of an older one means nothing */
    uint64_t used;       /* the time of its layer when it was chosen last */
    uint32_t score;      /* decayed number of choices, in 1/16 */
    uint8_t class;
    uint8_t state; /* enum halo_expert_state */
    bool is_held;  /* chosen for the layer under way */
};

struct halo_expert_layer {
    struct halo_list idle[HALO_EXPERT_CLASSES]; /* by class, the longest unused first */
    uint32_t n_slots;                           /* all that hold an expert of the layer or wait for one */
    uint64_t runs;
};

struct halo_expert_cache {
    uint32_t n_layers, n_expert, n_slots, min_slots;
    uint32_t n_open;                  /* of n_slots: not CLOSED; never fewer than halo_expert_cache_least() */
    struct halo_expert_slot *slots;   /* [n_slots] */
    struct halo_expert_layer *layers; /* [n_layers] */
    uint32_t *slot_of;                /* [n_layers][n_expert]; HALO_EXPERT_NONE: in none */
    bool is_sweep;                    /* of the layer under way */
    struct halo_list empty;
};

/* n_expert: of the layer that has the most. min_slots: that a layer keeps when others look for room. 0, -ENOMEM, or
 * -EINVAL: n_slots are fewer than n_expert, so that a prompt's layer would not fit, or than all layers keep. */
int halo_expert_cache_init(struct halo_expert_cache *cache, uint32_t n_layers, uint32_t n_expert, uint32_t n_slots,
                           uint32_t min_slots);
void halo_expert_cache_finish(struct halo_expert_cache *cache);
/* The fewest slots that init takes. */
uint32_t halo_expert_cache_least(uint32_t n_layers, uint32_t n_expert, uint32_t min_slots);

/* The layer runs: its slots grow older by one. is_sweep: it uses nearly all of its experts, and the layers behind it
 * will too: until another layer runs, what goes is what has its turn last. */
void halo_expert_cache_run(struct halo_expert_cache *cache, uint32_t layer, bool is_sweep);

/* The expert is chosen: its slot, held until release. READING, when it was not there: the caller reads it into the
 * slot, with this generation, and says when it has arrived. NONE: every slot is held or read into; nothing changes. */
uint32_t halo_expert_cache_choose(struct halo_expert_cache *cache, uint32_t layer, uint32_t id);
/* Where the expert is or comes to; NONE: nowhere. Changes nothing. */
uint32_t halo_expert_cache_find(const struct halo_expert_cache *cache, uint32_t layer, uint32_t id);
/* Holds what is there, so that no miss of the same layer takes it. True: it is there. Released when it was chosen, too,
 * or by unhold, whether it is there or not. */
bool halo_expert_cache_hold(struct halo_expert_cache *cache, uint32_t layer, uint32_t id);
void halo_expert_cache_unhold(struct halo_expert_cache *cache, uint32_t layer, uint32_t id);
/* A guess that the expert will be chosen: a slot to read it into, not held. NONE: it is there or coming, or the slot
 * that would have to go was of use a short while ago. */
uint32_t halo_expert_cache_guess(struct halo_expert_cache *cache, uint32_t layer, uint32_t id);
/* The expert is sure to be chosen when its layer runs, and it is now the turn of `now`: a slot to read it into, not
 * held. Only what has its turn later goes for it, the latest first, and of each layer all but min_slots. NONE: it is
 * there or coming, or nothing can go. */
uint32_t halo_expert_cache_ahead(struct halo_expert_cache *cache, uint32_t now, uint32_t layer, uint32_t id);

/* The read of this generation is over. Not there: the slot becomes empty. Nothing happens for another generation. */
void halo_expert_cache_arrive(struct halo_expert_cache *cache, uint32_t slot, uint64_t generation, bool is_there);
/* Somebody has used what arrived. */
void halo_expert_cache_ready(struct halo_expert_cache *cache, uint32_t slot);
/* What is ARRIVED or READY is lost: the slot becomes empty. */
void halo_expert_cache_drop(struct halo_expert_cache *cache, uint32_t slot);
void halo_expert_cache_release(struct halo_expert_cache *cache, uint32_t slot);

/* The slots [first, first + n) have their memory given back and taken again together; single ones may close before. */
/* How much is lost when they close, by the measure that chooses victims: 0 for empty ones, more for what was chosen
 * often and lately. HALO_EXPERT_BUSY: one of them is held or read into, all are closed, or the cache needs them.
 * O(n). */
#define HALO_EXPERT_BUSY UINT64_MAX
uint64_t halo_expert_cache_worth(const struct halo_expert_cache *cache, uint32_t first, uint32_t n);
/* They close, and what is in them is forgotten. They are not busy. Returns how many were open. */
uint32_t halo_expert_cache_close(struct halo_expert_cache *cache, uint32_t first, uint32_t n);
/* Those that are closed become empty. Returns how many were. */
uint32_t halo_expert_cache_open(struct halo_expert_cache *cache, uint32_t first, uint32_t n);

#endif
