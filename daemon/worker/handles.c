/* handles.c: tables of live objects. One thread. */
#include "handles_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "runtime_priv.h"

int halo_handles_init(struct halo_handles *h, enum halo_remote_handle_type type, uint32_t n)
{
    *h = (struct halo_handles){.slots = calloc(n, sizeof(*h->slots)), .type = type, .n = n};
    return h->slots ? 0 : -ENOMEM;
}

void halo_handles_finish(struct halo_handles *h)
{
    free(h->slots);
    *h = (struct halo_handles){0};
}

int halo_handles_check_new(const struct halo_handles *h, uint64_t bits)
{
    struct halo_remote_handle handle = halo_remote_handle_unpack(bits);
    if (handle.type != h->type || handle.generation == 0)
        return HALO_WORKER_INVALID_HANDLE;
    if (handle.index >= h->n)
        return HALO_WORKER_NO_MEMORY;
    const struct halo_handle_slot *slot = &h->slots[handle.index];
    return slot->object || handle.generation <= slot->generation ? HALO_WORKER_INVALID_HANDLE : 0;
}

void halo_handles_put(struct halo_handles *h, uint64_t bits, void *object)
{
    struct halo_remote_handle handle = halo_remote_handle_unpack(bits);
    assert(object && halo_handles_check_new(h, bits) == 0);
    h->slots[handle.index] = (struct halo_handle_slot){object, handle.generation};
    h->n_live++;
    if (handle.index >= h->n_used)
        h->n_used = handle.index + 1;
}

static struct halo_handle_slot *find(const struct halo_handles *h, uint64_t bits)
{
    struct halo_remote_handle handle = halo_remote_handle_unpack(bits);
    if (handle.type != h->type || handle.index >= h->n)
        return NULL;
    struct halo_handle_slot *slot = &h->slots[handle.index];
    return slot->object && slot->generation == handle.generation ? slot : NULL;
}

void *halo_handles_get(const struct halo_handles *h, uint64_t bits)
{
    const struct halo_handle_slot *slot = find(h, bits);
    return slot ? slot->object : NULL;
}

void *halo_handles_take(struct halo_handles *h, uint64_t bits)
{
    struct halo_handle_slot *slot = find(h, bits);
    if (!slot)
        return NULL;
    void *object = slot->object;
    slot->object = NULL;
    h->n_live--;
    return object;
}
