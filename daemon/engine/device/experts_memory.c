/* experts_memory.c: slabs of experts that are given back and taken again: see experts.h. */
#include <assert.h>
#include <errno.h>

#include <base/clock.h>

#include "device/experts_priv.h"

#define GIVE_BACK_WAIT_NS 200000000u /* for reads into slabs that could go */
#define GIVE_BACK_REAP_US 10000

/* Whether slots lie in slabs that can be given back. */
static bool has_slabs(const struct halo_experts *x)
{
    return x->memory.kind == HALO_EXPERT_MEMORY_OWN;
}

/* Returns the first slot of a slab. */
static uint32_t slots_of(const struct halo_experts *x, uint32_t slab, uint32_t *ret_n)
{
    uint64_t bytes;
    uint32_t first;
    halo_slabs_base(x->memory.slabs, slab, &bytes, &first, ret_n);
    return first;
}

/* The slab whose experts are worth least; HALO_EXPERT_NONE: none can go now. */
static uint32_t least_worth(const struct halo_experts *x)
{
    uint64_t least = HALO_EXPERT_BUSY;
    uint32_t found = HALO_EXPERT_NONE;
    for (uint32_t slab = 0; slab < halo_slabs_n(x->memory.slabs); slab++) {
        uint32_t n, first = slots_of(x, slab, &n);
        uint64_t worth = halo_expert_cache_worth(&x->cache, first, n);
        if (worth < least) {
            least = worth;
            found = slab;
        }
    }
    return found;
}

void halo_experts_memory(const struct halo_experts *x, struct halo_experts_memory *ret)
{
    uint32_t n_open = atomic_load(&x->n_open);
    uint64_t stride = x->shape.slot_bytes;
    *ret = (struct halo_experts_memory){
        .n_slots = n_open,
        .slots_bytes = n_open * stride,
        .slab_bytes = x->slab_slots * stride,
        .spare_bytes = !has_slabs(x) ? 0 : (n_open - x->shape.least_slots) / x->slab_slots * x->slab_slots * stride,
        .absent_bytes = (x->setup.n_slots - n_open) * stride,
    };
}

uint64_t halo_experts_give_back(struct halo_experts *x, uint64_t bytes)
{
    uint64_t given = 0, start_ns = halo_clock_ns();
    assert(x->n_chosen == 0); /* no step is under way */
    while (halo_experts_reap(x, 0) == HALO_EXPERTS_REAP)
        ;
    while (given < bytes && has_slabs(x)) {
        uint32_t n, slab = least_worth(x);
        struct halo_experts_memory memory;
        if (slab != HALO_EXPERT_NONE) {
            uint32_t first = slots_of(x, slab, &n);
            halo_expert_cache_close(&x->cache, first, n);
            atomic_store(&x->n_open, x->cache.n_open);
            halo_slabs_give_back(x->memory.slabs, slab);
            given += n * x->shape.slot_bytes;
            continue;
        }
        halo_experts_memory(x, &memory);
        if (memory.spare_bytes == 0 || halo_clock_ns() - start_ns >= GIVE_BACK_WAIT_NS)
            break;
        halo_experts_reap(x, GIVE_BACK_REAP_US);
    }
    return given;
}

int halo_experts_take(struct halo_experts *x, struct halo_fault *fault)
{
    for (uint32_t slab = 0; has_slabs(x) && slab < halo_slabs_n(x->memory.slabs); slab++)
        if (!halo_slabs_is_taken(x->memory.slabs, slab)) {
            x->taken = slab;
            return halo_slabs_take(x->memory.slabs, slab, fault);
        }
    return -ENOENT;
}

uint64_t halo_experts_open_taken(struct halo_experts *x)
{
    uint32_t n, first = slots_of(x, x->taken, &n);
    halo_expert_cache_open(&x->cache, first, n);
    atomic_store(&x->n_open, x->cache.n_open);
    return n * x->shape.slot_bytes;
}

void halo_experts_allow_guesses(struct halo_experts *x, bool may_guess)
{
    atomic_store(&x->may_guess, may_guess);
}
