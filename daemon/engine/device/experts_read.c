/* experts_read.c: the reads that fill slots with experts, and what has come of them. Device thread. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>

#include <store/fetch.h>
#include <store/hull.h>

#include "device/experts_priv.h"

uint32_t halo_experts_parts_max(const struct halo_experts *x)
{
    return x->shape.is_dense ? HALO_LAYER_PARTS : HALO_EXPERT_PARTS;
}

uint32_t halo_experts_reads_max(const struct halo_experts *x)
{
    return x->shape.n_expert * halo_experts_parts_max(x);
}

static uint64_t offset_of(const struct halo_expert_part *part, uint32_t id)
{
    return part->offset + id * part->step;
}

uint32_t halo_experts_all_parts(const struct halo_expert_layout *layer)
{
    return (1u << layer->n_parts) - 1;
}

uint8_t *halo_experts_data(const struct halo_experts *x, uint32_t slot, const struct halo_expert_part *part,
                           uint32_t id)
{
    return halo_expert_memory_at(&x->memory, slot) + part->at + part->growth + offset_of(part, id) % HALO_HULL_ALIGN;
}

void halo_experts_expect(struct halo_experts *x, uint32_t slot)
{
    halo_experts_claim(x, slot);
    x->pending[slot] = halo_experts_all_parts(&x->layers[x->cache.slots[slot].layer]);
    x->arrived[slot] = 0;
    x->is_spoiled[slot] = false;
}

void halo_experts_add_reads(struct halo_experts *x, uint32_t slot, uint32_t parts, enum halo_fetch_priority priority)
{
    const struct halo_expert_slot *at = &x->cache.slots[slot];
    const struct halo_expert_layout *layer = &x->layers[at->layer];
    for (uint32_t i = 0; i < layer->n_parts; i++)
        if (parts >> i & 1)
            x->reads[x->n_reads++] = (struct halo_fetch_read){
                .file = x->files[layer->parts[i].file_part].number,
                .priority = priority,
                .offset = offset_of(&layer->parts[i], at->id),
                .n_bytes = layer->parts[i].n_bytes,
                .dest = halo_experts_data(x, slot, &layer->parts[i], at->id),
                .slot = slot,
                .generation = at->generation,
            };
}

/* The queue has room for the reads of all slots. */
void halo_experts_submit(struct halo_experts *x)
{
    int r = x->n_reads > 0 ? halo_fetch_submit(x->fetch, x->reads, x->n_reads) : 0;
    assert(r == 0);
    x->n_reads = 0;
}

static void count_read(struct halo_experts *x, uint64_t n_bytes)
{
    atomic_fetch_add_explicit(&x->read_bytes, n_bytes, memory_order_relaxed);
    if (!x->setup.stats)
        return;
    HALO_COUNT(x->setup.stats, disk_read_bytes, n_bytes);
    if (x->shape.is_dense)
        HALO_COUNT(x->setup.stats, layer_read_bytes, n_bytes);
    else
        HALO_COUNT(x->setup.stats, expert_read_bytes, n_bytes);
}

/* The part that a read brought, as a bit. */
static uint32_t part_of(const struct halo_experts *x, const struct halo_fetch_done *done)
{
    const struct halo_expert_slot *slot = &x->cache.slots[done->slot];
    const struct halo_expert_layout *layer = &x->layers[slot->layer];
    for (uint32_t i = 0; i < layer->n_parts; i++)
        if (offset_of(&layer->parts[i], slot->id) == done->offset &&
            x->files[layer->parts[i].file_part].number == done->file)
            return 1u << i;
    assert(false);
    return 0;
}

static void take_completion(struct halo_experts *x, const struct halo_fetch_done *done)
{
    struct halo_expert_slot *slot = &x->cache.slots[done->slot];
    uint32_t part = part_of(x, done);
    assert(slot->generation == done->generation && (x->pending[done->slot] & part));
    x->pending[done->slot] &= ~part;
    if (done->error == 0) {
        x->arrived[done->slot] |= part;
        count_read(x, done->n_bytes);
    } else {
        x->is_spoiled[done->slot] = true;
        bool is_fault = slot->is_held && done->error != -ECANCELED; /* a guess given up: place() reads it again */
        if (is_fault && x->fault.code == HALO_FAULT_NONE)
            halo_fetch_fault(x->fetch, done, &x->fault);
    }
    if (x->pending[done->slot])
        return;
    /* A buffer is not kept for an expert that nobody waits for any more. */
    bool is_there = !x->is_spoiled[done->slot] && (slot->is_held || halo_expert_memory_keeps_buffers(&x->memory));
    halo_expert_cache_arrive(&x->cache, done->slot, done->generation, is_there);
    if (!is_there)
        halo_expert_memory_end(&x->memory, done->slot);
}

uint32_t halo_experts_reap(struct halo_experts *x, uint64_t timeout_us)
{
    struct halo_fetch_done done[HALO_EXPERTS_REAP];
    uint32_t n = halo_fetch_reap(x->fetch, done, HALO_EXPERTS_REAP, timeout_us);
    for (uint32_t i = 0; i < n; i++)
        take_completion(x, &done[i]);
    return n;
}
