/* experts_purge.c: slots that the kernel may take by itself when memory is short (see experts.h). Device thread, but
 * for halo_experts_let_purge(). */
#include "device/experts_priv.h"

#define COLD_RUNS 2     /* of its layer, in which nobody has used an expert */
#define PURGE_CHECKS 16 /* of purgeable slots, after each layer */
#define PURGE_PART 8    /* at most one of so many slots is purgeable: each use of one costs time */

/* The kernel took the slot, or a part of it: nobody gets it, unless the cache needs it. */
static void close_purged(struct halo_experts *x, uint32_t slot)
{
    if (halo_expert_cache_worth(&x->cache, slot, 1) == HALO_EXPERT_BUSY ||
        !halo_expert_memory_discard_purged(&x->memory, slot))
        return;
    halo_expert_cache_close(&x->cache, slot, 1);
    atomic_store(&x->n_open, x->cache.n_open);
    atomic_fetch_add(&x->n_closed, 1);
    if (x->setup.stats)
        HALO_COUNT(x->setup.stats, expert_purged_bytes, x->shape.slot_bytes);
}

/* Whether one of the next purgeable slots is gone. */
static bool find_purged(struct halo_experts *x)
{
    uint32_t n = x->memory.n_purgeable, first = x->memory.n_slots - n;
    for (uint32_t i = 0, checks = 0; i < n && checks < PURGE_CHECKS; i++) {
        uint32_t slot = first + x->check_at++ % n;
        if (!halo_expert_memory_is_purgeable(&x->memory, slot))
            continue;
        checks++;
        if (halo_slabs_looks_purged(x->memory.slabs, slot))
            return true;
    }
    return false;
}

static void close_all_purged(struct halo_experts *x)
{
    for (uint32_t slot = x->memory.n_slots - x->memory.n_purgeable; slot < x->memory.n_slots; slot++)
        if (halo_expert_memory_is_purgeable(&x->memory, slot))
            close_purged(x, slot);
}

/* The slot stays from now on. What the kernel took it has taken because memory is short: no other slot that is gone
 * comes back with what is read. Returns whether what was in it is there. */
static bool keep(struct halo_experts *x, uint32_t slot)
{
    bool is_there = halo_expert_memory_keep(&x->memory, slot);
    if (!is_there)
        close_all_purged(x);
    return is_there;
}

void halo_experts_claim(struct halo_experts *x, uint32_t slot)
{
    keep(x, slot); /* what was in it does not matter */
    halo_expert_memory_begin(&x->memory, slot);
}

void halo_experts_hold(struct halo_experts *x, uint32_t id)
{
    uint32_t slot = halo_expert_cache_find(&x->cache, x->layer, id);
    if (slot == HALO_EXPERT_NONE)
        return;
    if (keep(x, slot))
        halo_expert_cache_hold(&x->cache, x->layer, id);
    else
        halo_expert_cache_drop(&x->cache, slot);
}

/* Whether the slot is empty, or not in use and its layer has run so often without it; it is not the next layer. */
static bool is_cold(const struct halo_experts *x, uint32_t number, uint64_t runs)
{
    const struct halo_expert_slot *slot = &x->cache.slots[number];
    switch ((enum halo_expert_state)slot->state) {
    case HALO_EXPERT_EMPTY: return true;
    case HALO_EXPERT_ARRIVED:
    case HALO_EXPERT_READY:
        return !slot->is_held && slot->layer != (x->layer + 1) % x->shape.n_layers &&
               x->cache.layers[slot->layer].runs - slot->used >= runs;
    default: return false;
    }
}

void halo_experts_let_purge(struct halo_experts *x, uint64_t bytes)
{
    uint64_t most = x->setup.n_slots * x->shape.slot_bytes / PURGE_PART;
    atomic_store(&x->purge_bytes, x->shape.is_dense ? 0 : bytes < most ? bytes : most);
}

/* Whether more slots should be purgeable. Nobody may need those that the kernel takes. */
static bool wants_purge(const struct halo_experts *x)
{
    uint64_t stride = x->shape.slot_bytes, left = (uint64_t)(x->cache.n_open - x->shape.least_slots) * stride;
    return x->memory.n_purgeable > 0 && x->memory.purgeable_bytes + stride <= left &&
           x->memory.purgeable_bytes < atomic_load(&x->purge_bytes);
}

/* Goes once through the slots that may be purgeable, from where the last search has ended, until enough of them are. */
static void purge_cold(struct halo_experts *x, uint64_t runs)
{
    uint32_t n = x->memory.n_purgeable, first = x->memory.n_slots - n;
    for (uint32_t i = 0; i < n && wants_purge(x); i++) {
        uint32_t slot = first + x->purge_at++ % n;
        if (halo_expert_memory_may_purge(&x->memory, slot) && is_cold(x, slot, runs))
            halo_expert_memory_make_purgeable(&x->memory, slot);
    }
}

void halo_experts_purge(struct halo_experts *x)
{
    purge_cold(x, COLD_RUNS);
    purge_cold(x, 0); /* behind a prompt all slots were used just now */
}

bool halo_experts_drop_purged(struct halo_experts *x)
{
    if (!find_purged(x))
        return false;
    close_all_purged(x);
    return true;
}
