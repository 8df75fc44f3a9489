/* experts_shrink.c: slabs of experts that are given back and taken again: see experts.h. */
#include <assert.h>
#include <errno.h>

#include <base/clock.h>

#include "device/experts_priv.h"

#define GIVE_BACK_WAIT_NS 200000000u /* for reads into slabs that could go */
#define GIVE_BACK_REAP_US 10000

/* The slab whose experts are worth least, and only then one of purgeable slots, which help as they are;
 * HALO_EXPERT_NONE: none can go now. */
static uint32_t least_worth(const struct halo_experts *x)
{
    uint64_t least = HALO_EXPERT_BUSY;
    uint32_t found = HALO_EXPERT_NONE, first_purgeable = x->memory.n_slots - x->memory.n_purgeable;
    bool is_purgeable = false;
    for (uint32_t slab = 0; slab < halo_expert_memory_n_slabs(&x->memory); slab++) {
        uint32_t n, first = halo_expert_memory_slab(&x->memory, slab, &n);
        uint64_t worth = halo_expert_cache_worth(&x->cache, first, n);
        if (worth == HALO_EXPERT_BUSY || (found != HALO_EXPERT_NONE && !is_purgeable && first >= first_purgeable))
            continue;
        if (worth < least) {
            least = worth;
            found = slab;
            is_purgeable = first >= first_purgeable;
        }
    }
    return found;
}

void halo_experts_memory(const struct halo_experts *x, struct halo_experts_memory *ret)
{
    uint32_t n_open = atomic_load(&x->n_open);
    uint64_t stride = x->shape.slot_bytes;
    bool has_slabs = halo_expert_memory_n_slabs(&x->memory) > 0;
    *ret = (struct halo_experts_memory){
        .n_slots = n_open,
        .slots_bytes = n_open * stride,
        .slab_bytes = x->slab_slots * stride,
        .spare_bytes = !has_slabs ? 0 : (n_open - x->shape.least_slots) / x->slab_slots * x->slab_slots * stride,
        .absent_bytes = (x->setup.n_slots - n_open) * stride,
    };
}

/* ---- giving back ---- */

void halo_experts_want(struct halo_experts *x, uint64_t bytes)
{
    atomic_store(&x->wanted_bytes, bytes);
}

/* So many bytes fewer are wanted, unless somebody has just asked for another number. */
static void settle_wanted(struct halo_experts *x, uint64_t wanted, uint64_t given)
{
    atomic_compare_exchange_strong(&x->wanted_bytes, &wanted, given < wanted ? wanted - given : 0);
}

/* Slabs that can go now, until so many bytes are free. Returns how many are. */
static uint64_t give_slabs(struct halo_experts *x, uint64_t bytes)
{
    uint64_t given = 0;
    uint32_t n, slab;
    while (given < bytes && (slab = least_worth(x)) != HALO_EXPERT_NONE &&
           halo_expert_memory_give_back(&x->memory, slab) == 0) {
        uint32_t first = halo_expert_memory_slab(&x->memory, slab, &n);
        uint32_t n_open = halo_expert_cache_close(&x->cache, first, n);
        atomic_store(&x->n_open, x->cache.n_open);
        atomic_fetch_sub(&x->n_closed, n - n_open);
        given += n_open * x->shape.slot_bytes;
    }
    x->given_bytes += given;
    if (x->setup.stats)
        HALO_COUNT(x->setup.stats, expert_given_bytes, given);
    return given;
}

static void reap_all(struct halo_experts *x)
{
    while (halo_experts_reap(x, 0) == HALO_EXPERTS_REAP)
        ;
}

uint64_t halo_experts_give_back(struct halo_experts *x)
{
    uint64_t start_ns = halo_clock_ns(), wanted, bytes;
    assert(x->n_chosen == 0); /* no step is under way */
    reap_all(x);
    while ((wanted = atomic_load(&x->wanted_bytes)) > 0) {
        struct halo_experts_memory memory;
        settle_wanted(x, wanted, give_slabs(x, wanted));
        halo_experts_memory(x, &memory);
        if (memory.spare_bytes == 0 || halo_clock_ns() - start_ns >= GIVE_BACK_WAIT_NS)
            break;
        if (atomic_load(&x->wanted_bytes) > 0)
            halo_experts_reap(x, GIVE_BACK_REAP_US);
    }
    atomic_store(&x->wanted_bytes, 0);
    x->owed_bytes = 0;
    bytes = x->given_bytes;
    x->given_bytes = 0;
    return bytes;
}

void halo_experts_end_layer(struct halo_experts *x)
{
    uint64_t wanted = atomic_load(&x->wanted_bytes);
    if (halo_experts_drop_purged(x)) /* nobody needs to look at the kernel's figures to know that memory is short */
        x->owed_bytes = atomic_load(&x->purge_bytes);
    uint64_t bytes = wanted > x->owed_bytes ? wanted : x->owed_bytes;
    if (bytes == 0)
        return;
    reap_all(x);
    uint64_t given = give_slabs(x, bytes);
    settle_wanted(x, wanted, given);
    bool has_spare = x->cache.n_open >= x->shape.least_slots + x->slab_slots;
    x->owed_bytes = has_spare && given < x->owed_bytes ? x->owed_bytes - given : 0;
}

int halo_experts_open_memory(struct halo_experts *x, struct halo_fault *fault)
{
    int r = halo_expert_memory_open(&x->memory, fault);
    if (r < 0)
        return r;
    x->slab_slots = halo_expert_memory_slab_slots(&x->memory);
    atomic_store(&x->n_open, x->setup.n_slots);
    halo_experts_let_purge(x, x->setup.purge_bytes);
    halo_experts_purge(x);
    return 0;
}

/* ---- taking again ---- */

int halo_experts_take(struct halo_experts *x, struct halo_fault *fault)
{
    for (uint32_t slab = 0; slab < halo_expert_memory_n_slabs(&x->memory); slab++)
        if (!halo_expert_memory_has_slab(&x->memory, slab)) {
            x->taken = slab;
            return halo_expert_memory_take(&x->memory, slab, fault);
        }
    x->taken = HALO_EXPERT_NONE;
    return atomic_load(&x->n_closed) > 0 ? 0 : -ENOENT;
}

/* As many single slots as a slab has. Their pages come when they are read into. Returns how many. */
static uint32_t open_closed(struct halo_experts *x)
{
    uint32_t n_opened = 0;
    for (uint32_t slot = 0; slot < x->memory.n_slots && n_opened < x->slab_slots; slot++)
        if (halo_slabs_slot(x->memory.slabs, slot))
            n_opened += halo_expert_cache_open(&x->cache, slot, 1);
    atomic_fetch_sub(&x->n_closed, n_opened);
    return n_opened;
}

uint64_t halo_experts_open_taken(struct halo_experts *x, struct halo_fault *fault)
{
    uint32_t n, first, n_opened;
    if (x->taken == HALO_EXPERT_NONE) {
        n_opened = open_closed(x);
    } else if (halo_expert_memory_take_from_device(&x->memory, x->taken, fault) < 0) {
        return 0;
    } else {
        first = halo_expert_memory_slab(&x->memory, x->taken, &n);
        n_opened = halo_expert_cache_open(&x->cache, first, n);
    }
    atomic_store(&x->n_open, x->cache.n_open);
    return n_opened * x->shape.slot_bytes;
}

void halo_experts_allow_guesses(struct halo_experts *x, bool may_guess)
{
    atomic_store(&x->may_guess, may_guess);
}
