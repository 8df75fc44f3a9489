/* ring_priv.h: rings that can do nothing but read, made before a sandbox forbids new ones.
 *
 * A process that forbids itself io_uring_setup prepares one for each object that reads; the object takes it, gives it
 * back when it ends, and the next one takes it. Prepared by the main thread; taken and given back by any.
 */
#ifndef HALO_STORE_RING_PRIV_H
#define HALO_STORE_RING_PRIV_H

#include <liburing.h>
#include <stdatomic.h>
#include <stdbool.h>

struct ring_prepared {
    struct io_uring ring;
    atomic_bool free; /* made, and nobody has it */
};

/* 0, or a negative errno. */
int ring_prepare(struct ring_prepared *prepared, unsigned entries, unsigned flags);
/* The ring, or NULL when there is none or somebody has it. */
struct io_uring *ring_take(struct ring_prepared *prepared);
/* intact: nothing is in flight, queued or registered. Otherwise the ring is closed and nobody uses it again. */
void ring_give_back(struct ring_prepared *prepared, bool intact);

#endif
