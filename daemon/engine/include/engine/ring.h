/* ring.h: the events of one sequence on their way from the device thread to the port.
 *
 * One writer, one reader, no lock, no allocation after init. Records are whole events, contiguous, in order. When the
 * reader does not read, the ring fills, and the sequence leaves the batch until there is room: a slow reader costs
 * nobody else anything.
 */
#ifndef HALO_ENGINE_RING_H
#define HALO_ENGINE_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum halo_ring_kind {
    HALO_RING_SKIP,      /* the ring's own: the rest of the buffer up to its end is unused */
    HALO_RING_QUEUE,     /* progress: a = places moved up, b = places at the start */
    HALO_RING_STARTED,   /* the sequence got its first pages: a = positions that came out of the cache */
    HALO_RING_PREFILL,   /* progress: a = tokens done, b = tokens in all */
    HALO_RING_COMMITTED, /* a = place in the reply */
    HALO_RING_TEXT,
    HALO_RING_ROW,  /* of a score: a = position */
    HALO_RING_LOOP, /* the reply goes round: sequence.loop says how, a = where it begins */
};

struct halo_ring_top {
    int32_t tok_id;
    double logprob;
};

/* The head of a record. After it: n_top of struct halo_event_top, or n_text bytes. */
struct halo_ring_event {
    uint32_t bytes; /* of the whole record, a multiple of 8 */
    enum halo_ring_kind kind;
    int32_t tok_id;
    uint32_t n_top, n_text;
    int32_t has_logprob; /* 0 or 1 */
    int64_t a, b;
    uint64_t t_ns; /* when, by halo_clock_ns() */
    double logprob;
};

static inline const struct halo_ring_top *halo_ring_tops(const struct halo_ring_event *event)
{
    return (const struct halo_ring_top *)(event + 1);
}

static inline const char *halo_ring_text(const struct halo_ring_event *event)
{
    return (const char *)(event + 1);
}

struct halo_ring {
    uint8_t *buffer;
    uint32_t capacity;     /* a power of two */
    _Atomic uint32_t head; /* bytes ever written, modulo 2^32 */
    _Atomic uint32_t tail; /* bytes ever read */
    uint32_t reserved;     /* writer: bytes of the record being made */
};

/* Bytes of a record with that much behind its head. */
uint32_t halo_ring_bytes(uint32_t n_top, uint32_t n_text);

/* Room for at least `bytes`, rounded up. 0, -ENOMEM, -EOVERFLOW over 2^30. */
int halo_ring_init(struct halo_ring *ring, size_t bytes);
void halo_ring_finish(struct halo_ring *ring);

/* Writer: bytes free. A record may waste up to its own size at the end of the buffer. */
uint32_t halo_ring_room(const struct halo_ring *ring);

/* Writer: a zeroed head with the sizes set, or NULL when there is no room. Fill it, then push. */
struct halo_ring_event *halo_ring_reserve(struct halo_ring *ring, enum halo_ring_kind kind, uint32_t n_top,
                                          uint32_t n_text);
void halo_ring_push(struct halo_ring *ring);

/* Reader: the oldest record, NULL when empty; valid until pop. */
const struct halo_ring_event *halo_ring_peek(struct halo_ring *ring);
void halo_ring_pop(struct halo_ring *ring);

#endif
