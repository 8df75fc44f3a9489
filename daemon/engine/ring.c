/* ring.c: a byte ring of whole records between two threads.
 *
 * The counters run freely; positions are taken modulo the capacity. A record that would wrap is preceded by a SKIP up
 * to the end.
 */
#include <engine/ring.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t halo_ring_bytes(uint32_t n_top, uint32_t n_text)
{
    size_t bytes = sizeof(struct halo_ring_event) + n_top * sizeof(struct halo_ring_top) + n_text;
    return (uint32_t)((bytes + 7) & ~(size_t)7);
}

int halo_ring_init(struct halo_ring *ring, size_t bytes)
{
    memset(ring, 0, sizeof(*ring));
    if (bytes > (1u << 30))
        return -EOVERFLOW;
    uint32_t capacity = 4096;
    while (capacity < bytes)
        capacity *= 2;
    ring->buffer = malloc(capacity);
    if (!ring->buffer)
        return -ENOMEM;
    ring->capacity = capacity;
    return 0;
}

void halo_ring_finish(struct halo_ring *ring)
{
    free(ring->buffer);
    ring->buffer = NULL;
}

uint32_t halo_ring_room(const struct halo_ring *ring)
{
    uint32_t used = atomic_load(&ring->head) - atomic_load(&ring->tail);
    return ring->capacity - used;
}

struct halo_ring_event *halo_ring_reserve(struct halo_ring *ring, enum halo_ring_kind kind, uint32_t n_top,
                                          uint32_t n_text)
{
    assert(ring->reserved == 0);
    uint32_t bytes = halo_ring_bytes(n_top, n_text);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t at = head & (ring->capacity - 1), to_end = ring->capacity - at;
    uint32_t room = halo_ring_room(ring);
    if (bytes > ring->capacity || room < bytes + (to_end < bytes ? to_end : 0))
        return NULL;
    if (to_end < bytes) {
        struct halo_ring_event skip = {.bytes = to_end, .kind = HALO_RING_SKIP};
        memcpy(ring->buffer + at, &skip, 8); /* size and kind: 8 bytes are always left, records are multiples of 8 */
        atomic_store(&ring->head, head + to_end);
        at = 0;
    }
    struct halo_ring_event *event = (struct halo_ring_event *)(void *)(ring->buffer + at);
    memset(event, 0, sizeof(*event));
    event->bytes = bytes;
    event->kind = kind;
    event->n_top = n_top;
    event->n_text = n_text;
    ring->reserved = bytes;
    return event;
}

void halo_ring_push(struct halo_ring *ring)
{
    assert(ring->reserved > 0);
    atomic_fetch_add(&ring->head, ring->reserved);
    ring->reserved = 0;
}

const struct halo_ring_event *halo_ring_peek(struct halo_ring *ring)
{
    for (;;) {
        uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        if (tail == atomic_load(&ring->head))
            return NULL;
        const struct halo_ring_event *event =
            (const struct halo_ring_event *)(const void *)(ring->buffer + (tail & (ring->capacity - 1)));
        if (event->kind != HALO_RING_SKIP)
            return event;
        atomic_store(&ring->tail, tail + event->bytes);
    }
}

void halo_ring_pop(struct halo_ring *ring)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    const struct halo_ring_event *event =
        (const struct halo_ring_event *)(const void *)(ring->buffer + (tail & (ring->capacity - 1)));
    assert(tail != atomic_load(&ring->head) && event->kind != HALO_RING_SKIP);
    atomic_store(&ring->tail, tail + event->bytes);
}
