/* expert_memory.c: see expert_memory_priv.h. */
#include "device/expert_memory_priv.h"

#include <assert.h>
#include <stdlib.h>

#include <engine/load.h>

#define BUFFERS_PER_EXPERT 2 /* of those that a token uses: one is read while another is copied */
#define PURGEABLE_PART 4     /* one of so many slabs may have purgeable slots, and at least one slab */

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int refuse_memory(const struct halo_expert_memory *m, struct halo_fault *fault)
{
    return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the table of %u slots of experts",
                          m->n_slots);
}

static int take_slots(struct halo_expert_memory *m, const struct halo_experts_setup *setup,
                      const struct halo_expert_shape *shape, const struct halo_expert_layout *layers,
                      struct halo_fault *fault)
{
    uint64_t *part_at = calloc(setup->plan->n_weights, sizeof(*part_at));
    char reason[HALO_DEVICE_REASON] = "";
    m->shared = calloc((m->n_slots + m->slab_slots - 1) / m->slab_slots, sizeof(*m->shared));
    if (!part_at || !m->shared) {
        free(part_at);
        return refuse_memory(m, fault);
    }
    for (uint32_t layer = 0; layer < shape->n_layers; layer++)
        for (uint32_t i = 0; i < layers[layer].n_parts; i++)
            part_at[layers[layer].parts[i].weight] = layers[layer].parts[i].at;
    struct halo_expert_slots slots = {
        .n = m->n_slots,
        .slab_slots = setup->ops->give_slab && !shape->is_dense ? m->slab_slots : m->n_slots,
        .slot_bytes = m->slot_bytes,
        .part_at = part_at,
        .slabs = m->shared,
    };
    int r = setup->ops->take_slots(setup->device_model, &slots, reason);
    free(part_at);
    if (r < 0)
        return halo_fault_set(fault, halo_load_fault_code(r), "%s", reason);
    m->shared_slots = slots.slab_slots;
    m->n_shared = (m->n_slots + slots.slab_slots - 1) / slots.slab_slots;
    m->kind = m->shared[0] ? HALO_EXPERT_MEMORY_SHARED : HALO_EXPERT_MEMORY_COPIED;
    return 0;
}

static int make_buffers(struct halo_expert_memory *m, uint32_t n, struct halo_fault *fault)
{
    m->n_buffers = m->n_free = n;
    m->buffer_of = calloc(m->n_slots, sizeof(*m->buffer_of));
    m->free_buffer = calloc(n, sizeof(*m->free_buffer));
    if (!m->buffer_of || !m->free_buffer)
        return refuse_memory(m, fault);
    for (uint32_t i = 0; i < m->n_slots; i++)
        m->buffer_of[i] = HALO_EXPERT_NONE;
    for (uint32_t i = 0; i < n; i++)
        m->free_buffer[i] = i;
    return 0;
}

int halo_expert_memory_reserve(struct halo_expert_memory *m, const struct halo_experts_setup *setup,
                               const struct halo_expert_shape *shape, const struct halo_expert_layout *layers,
                               struct halo_fault *fault)
{
    *m = (struct halo_expert_memory){.slot_bytes = shape->slot_bytes,
                                     .n_slots = setup->n_slots,
                                     .slab_slots = halo_expert_slab_slots(shape, setup->n_slots),
                                     .ops = setup->ops,
                                     .device_model = setup->device_model};
    int r = setup->ops->take_slots ? take_slots(m, setup, shape, layers, fault) : 0;
    return r < 0 || m->kind != HALO_EXPERT_MEMORY_COPIED
               ? r
               : make_buffers(m, min_u32(BUFFERS_PER_EXPERT * shape->n_used, m->n_slots), fault);
}

/* Slots of the last slabs. */
static uint32_t count_purgeable(const struct halo_expert_memory *m, uint64_t slab_bytes)
{
    uint64_t each = slab_bytes / m->slot_bytes, n_slabs = (m->n_slots + each - 1) / each;
    uint64_t n = n_slabs / PURGEABLE_PART > 0 ? n_slabs / PURGEABLE_PART : 1;
    return m->kind == HALO_EXPERT_MEMORY_OWN ? m->n_slots - (uint32_t)((n_slabs - n) * each) : 0;
}

int halo_expert_memory_open(struct halo_expert_memory *m, struct halo_fault *fault)
{
    if (m->kind == HALO_EXPERT_MEMORY_SHARED)
        return 0;
    /* A slot has an address congruent to any offset: what slab.h adds to each is part of the slot. */
    struct halo_slabs_options options = {.slot_bytes = m->slot_bytes - HALO_HULL_ALIGN,
                                         .n_slots = m->n_buffers > 0 ? m->n_buffers : m->n_slots,
                                         .slab_bytes = m->slab_slots * m->slot_bytes};
    options.n_purgeable = m->n_purgeable = count_purgeable(m, options.slab_bytes);
    int r = halo_slabs_create(&options, &m->slabs, fault);
    for (uint32_t slab = 0; r == 0 && slab < halo_slabs_n(m->slabs); slab++)
        r = halo_slabs_take(m->slabs, slab, fault);
    return r;
}

uint32_t halo_expert_memory_n_slabs(const struct halo_expert_memory *m)
{
    switch (m->kind) {
    case HALO_EXPERT_MEMORY_OWN: return halo_slabs_n(m->slabs);
    case HALO_EXPERT_MEMORY_SHARED: return m->n_shared > 1 ? m->n_shared : 0;
    case HALO_EXPERT_MEMORY_COPIED: return 0;
    }
    return 0;
}

uint32_t halo_expert_memory_slab(const struct halo_expert_memory *m, uint32_t slab, uint32_t *ret_n)
{
    uint64_t bytes;
    uint32_t first = slab * m->shared_slots;
    if (m->kind == HALO_EXPERT_MEMORY_OWN)
        halo_slabs_base(m->slabs, slab, &bytes, &first, ret_n);
    else
        *ret_n = min_u32(m->shared_slots, m->n_slots - first);
    return first;
}

bool halo_expert_memory_has_slab(const struct halo_expert_memory *m, uint32_t slab)
{
    return m->kind == HALO_EXPERT_MEMORY_OWN ? halo_slabs_is_taken(m->slabs, slab) : m->shared[slab] != NULL;
}

uint32_t halo_expert_memory_slab_slots(const struct halo_expert_memory *m)
{
    uint32_t n = m->n_slots;
    if (halo_expert_memory_n_slabs(m) > 0)
        halo_expert_memory_slab(m, 0, &n);
    return n;
}

void halo_expert_memory_finish(struct halo_expert_memory *m)
{
    halo_slabs_destroy(m->slabs);
    halo_expert_memory_abandon(m);
}

void halo_expert_memory_abandon(struct halo_expert_memory *m)
{
    free(m->shared);
    free(m->buffer_of);
    free(m->free_buffer);
    *m = (struct halo_expert_memory){0};
}

void halo_expert_memory_notices(const struct halo_expert_memory *m, struct halo_remarks *ret)
{
    struct halo_remarks notices = {0};
    if (m->slabs)
        halo_slabs_notices(m->slabs, &notices);
    halo_remarks_append(ret, &notices);
}

bool halo_expert_memory_keeps_buffers(const struct halo_expert_memory *m)
{
    return m->kind != HALO_EXPERT_MEMORY_COPIED || m->n_buffers == m->n_slots;
}

bool halo_expert_memory_has_buffer(const struct halo_expert_memory *m)
{
    return m->kind != HALO_EXPERT_MEMORY_COPIED || m->n_free > 0 || halo_expert_memory_keeps_buffers(m);
}

int halo_expert_memory_give_back(struct halo_expert_memory *m, uint32_t slab)
{
    char reason[HALO_DEVICE_REASON] = "";
    uint32_t n, first = halo_expert_memory_slab(m, slab, &n);
    if (m->kind == HALO_EXPERT_MEMORY_SHARED) {
        int r = m->ops->give_slab(m->device_model, slab, reason);
        m->shared[slab] = r < 0 ? m->shared[slab] : NULL;
        return r;
    }
    for (uint32_t slot = first; slot < first + n; slot++)
        if (halo_slabs_is_purgeable(m->slabs, slot))
            m->purgeable_bytes -= m->slot_bytes;
    halo_slabs_give_back(m->slabs, slab);
    return 0;
}

int halo_expert_memory_take(struct halo_expert_memory *m, uint32_t slab, struct halo_fault *fault)
{
    return m->kind == HALO_EXPERT_MEMORY_OWN ? halo_slabs_take(m->slabs, slab, fault) : 0;
}

int halo_expert_memory_take_from_device(struct halo_expert_memory *m, uint32_t slab, struct halo_fault *fault)
{
    char reason[HALO_DEVICE_REASON] = "";
    int r =
        m->kind == HALO_EXPERT_MEMORY_SHARED ? m->ops->take_slab(m->device_model, slab, &m->shared[slab], reason) : 0;
    return r < 0 ? halo_fault_set(fault, halo_load_fault_code(r), "%s", reason) : 0;
}

bool halo_expert_memory_may_purge(const struct halo_expert_memory *m, uint32_t slot)
{
    return slot >= m->n_slots - m->n_purgeable && halo_slabs_slot(m->slabs, slot) &&
           !halo_slabs_is_purgeable(m->slabs, slot);
}

bool halo_expert_memory_is_purgeable(const struct halo_expert_memory *m, uint32_t slot)
{
    return m->kind == HALO_EXPERT_MEMORY_OWN && halo_slabs_is_purgeable(m->slabs, slot);
}

void halo_expert_memory_make_purgeable(struct halo_expert_memory *m, uint32_t slot)
{
    if (halo_slabs_make_purgeable(m->slabs, slot) < 0)
        m->n_purgeable = 0;
    else
        m->purgeable_bytes += m->slot_bytes;
}

bool halo_expert_memory_discard_purged(struct halo_expert_memory *m, uint32_t slot)
{
    if (!halo_slabs_looks_purged(m->slabs, slot))
        return false;
    halo_slabs_discard(m->slabs, slot);
    m->purgeable_bytes -= m->slot_bytes;
    return true;
}

bool halo_expert_memory_keep(struct halo_expert_memory *m, uint32_t slot)
{
    if (!halo_expert_memory_is_purgeable(m, slot))
        return true;
    m->purgeable_bytes -= m->slot_bytes;
    return halo_slabs_keep(m->slabs, slot);
}

void halo_expert_memory_begin(struct halo_expert_memory *m, uint32_t slot)
{
    if (m->kind != HALO_EXPERT_MEMORY_COPIED)
        return;
    halo_expert_memory_end(m, slot); /* what nobody took of the expert before */
    assert(m->n_free > 0);
    m->buffer_of[slot] = m->free_buffer[--m->n_free];
}

void halo_expert_memory_end(struct halo_expert_memory *m, uint32_t slot)
{
    if (m->kind != HALO_EXPERT_MEMORY_COPIED || m->buffer_of[slot] == HALO_EXPERT_NONE)
        return;
    m->free_buffer[m->n_free++] = m->buffer_of[slot];
    m->buffer_of[slot] = HALO_EXPERT_NONE;
}

uint8_t *halo_expert_memory_at(const struct halo_expert_memory *m, uint32_t slot)
{
    switch (m->kind) {
    case HALO_EXPERT_MEMORY_OWN: return halo_slabs_slot(m->slabs, slot);
    case HALO_EXPERT_MEMORY_SHARED: return m->shared[slot / m->shared_slots] + slot % m->shared_slots * m->slot_bytes;
    case HALO_EXPERT_MEMORY_COPIED: return halo_slabs_slot(m->slabs, m->buffer_of[slot]);
    }
    return NULL;
}
