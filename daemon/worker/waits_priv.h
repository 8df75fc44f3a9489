/* waits_priv.h: what a session waits for on the GPU: copies in flight, and the answers that follow them.
 *
 * A ring in order of the requests. Each wait has an event, and may hold a piece of the staging buffer, which is freed
 * in the same order. Answers of waits that have ended are sent in the order of their requests, and an answer is never
 * sent while an earlier one that it covers is still to come: events are asked from the last wait to the first, so when
 * a wait has ended, all that precedes it on the GPU is seen to have ended too. One thread.
 */
#ifndef HALO_WORKER_WAITS_PRIV_H
#define HALO_WORKER_WAITS_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include <hip_remote/codec.h>

#include "runtime_priv.h"

struct halo_wait {
    void *event;     /* the runtime's; NULL with `is_barrier` */
    bool owns_event; /* goes back to the pool */
    bool is_barrier; /* ends when all waits before it have ended */
    bool has_answer; /* a reply is owed */
    bool has_ended;
    bool holds_staging;
    int error;                    /* HIP's, when it has ended */
    struct halo_remote_header h;  /* of the request */
    uint32_t data_at, data_bytes; /* in the staging buffer: what the answer carries */
    uint32_t staging_end;         /* of its piece: the buffer is free up to here when it is retired */
    uint64_t began_ms;
};

struct halo_waits {
    struct halo_wait *ring; /* [n_max] */
    uint32_t first, n, n_max, n_answers;
    uint8_t *staging;                                    /* pinned, made with the first copy */
    uint32_t staging_bytes, staging_first, staging_next; /* in use: from first up to next, around the end */
    bool staging_is_full, is_staged;                     /* is_staged: the last piece belongs to no wait yet */
    uint32_t staged_from;                                /* staging_next before it */
    int silent_error;                                    /* first error of a wait that owed no answer */
    struct halo_remote_header silent_h;
    void **events; /* [n_max], spare */
    uint32_t n_events;
};

int halo_waits_init(struct halo_waits *w, uint32_t n_max, uint32_t staging_bytes); /* 0 or -ENOMEM */
void halo_waits_finish(struct halo_waits *w, const struct halo_worker_runtime *rt);

/* A piece of the staging buffer for the next wait that is added. 0 and its offset; HALO_WAITS_E_FULL: not now; else a
 * HIP error, positive. */
#define HALO_WAITS_E_FULL (-1)
int halo_waits_stage(struct halo_waits *w, const struct halo_worker_runtime *rt, uint32_t bytes, uint32_t *ret_at);
/* Gives the last piece back: its copy was not started. */
void halo_waits_unstage(struct halo_waits *w);

/* Records an event behind what was queued on the stream, and adds the wait for it. 0 or a HIP error; the caller has
 * seen to it that the ring is not full. `has_answer`: with data_bytes of the staging buffer at data_at. */
int halo_waits_add(struct halo_waits *w, const struct halo_worker_runtime *rt, void *stream, struct halo_wait wait);
/* A wait for an event of the client, or for all waits before it. */
void halo_waits_add_event(struct halo_waits *w, struct halo_wait wait);

/* Asks the events; the waits that ended are marked. Without `all`, those that hold staging bytes alone are asked when
 * they are the first: until then their bytes cannot be freed. */
void halo_waits_ask(struct halo_waits *w, const struct halo_worker_runtime *rt, bool all);
/* Whether a copy between the staging buffer and the device has not ended. */
bool halo_waits_has_copies(struct halo_waits *w);
/* Frees the waits at the front that have ended and owe nothing. */
void halo_waits_retire(struct halo_waits *w);

struct halo_wait *halo_waits_at(struct halo_waits *w, uint32_t i); /* i < w->n, in order */
/* Ends the waits for this event: it is about to be destroyed. */
void halo_waits_drop_event(struct halo_waits *w, const void *event);

#endif
