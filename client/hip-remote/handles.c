/* handles.c: a table of slots with a list of free ones. */
#include "handles_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int halo_remote_handles_init(struct halo_remote_handles *h, enum halo_remote_handle_type type, uint32_t n,
                             uint32_t generation)
{
    *h = (struct halo_remote_handles){
        .type = type, .slots = calloc(n, sizeof(*h->slots)), .n = n, .generation = generation};
    return h->slots ? 0 : -ENOMEM;
}

void halo_remote_handles_finish(struct halo_remote_handles *h)
{
    free(h->slots);
    *h = (struct halo_remote_handles){0};
}

struct halo_remote_slot *halo_remote_handles_take(struct halo_remote_handles *h, uint64_t *ret_bits)
{
    uint32_t index;
    if (h->free) {
        index = h->free - 1;
        h->free = h->slots[index].next_free;
    } else if (h->n_used < h->n) {
        index = h->n_used++;
        h->slots[index].generation = h->generation;
    } else {
        return NULL;
    }
    struct halo_remote_slot *slot = &h->slots[index];
    *slot = (struct halo_remote_slot){.generation = slot->generation + 1, .is_live = true};
    *ret_bits = halo_remote_handles_bits(h, slot);
    return slot;
}

uint64_t halo_remote_handles_bits(const struct halo_remote_handles *h, const struct halo_remote_slot *slot)
{
    return halo_remote_handle_pack((struct halo_remote_handle){
        .type = h->type, .index = (uint32_t)(slot - h->slots), .generation = slot->generation});
}

struct halo_remote_slot *halo_remote_handles_get(const struct halo_remote_handles *h, uint64_t bits)
{
    struct halo_remote_handle handle = halo_remote_handle_unpack(bits);
    if (handle.type != h->type || handle.index >= h->n_used)
        return NULL;
    struct halo_remote_slot *slot = &h->slots[handle.index];
    return slot->is_live && slot->generation == handle.generation ? slot : NULL;
}

void halo_remote_handles_drop(struct halo_remote_handles *h, struct halo_remote_slot *slot)
{
    slot->is_live = false;
    if (slot->generation == h->generation + HALO_REMOTE_GENERATIONS - 1)
        return; /* never again: the worker would take it for its predecessor */
    slot->next_free = h->free;
    h->free = (uint32_t)(slot - h->slots) + 1;
}
