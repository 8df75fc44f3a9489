/* ring.c: see ring_priv.h. The caller owns each struct ring_prepared; fails with the errno of the kernel. */
#include "ring_priv.h"

#include <assert.h>

int ring_prepare(struct ring_prepared *prepared, unsigned entries, unsigned flags)
{
    struct io_uring_restriction allowed[] = {
        {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_READ},
        {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_READ_FIXED},
        {.opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = IORING_REGISTER_BUFFERS2},
        {.opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = IORING_REGISTER_BUFFERS_UPDATE},
        {.opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = IORING_UNREGISTER_BUFFERS},
    };
    assert(!atomic_load(&prepared->free));
    int r = io_uring_queue_init(entries, &prepared->ring, flags | IORING_SETUP_R_DISABLED);
    if (r < 0)
        return r;
    unsigned fd = (unsigned)prepared->ring.ring_fd; /* liburing 2.3 declares functions for these two, exports none */
    r = io_uring_register(fd, IORING_REGISTER_RESTRICTIONS, allowed, sizeof(allowed) / sizeof(allowed[0]));
    if (r == 0)
        r = io_uring_register(fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    if (r < 0)
        io_uring_queue_exit(&prepared->ring);
    else
        atomic_store(&prepared->free, true);
    return r < 0 ? r : 0;
}

struct io_uring *ring_take(struct ring_prepared *prepared)
{
    bool yes = true;
    return atomic_compare_exchange_strong(&prepared->free, &yes, false) ? &prepared->ring : NULL;
}

void ring_give_back(struct ring_prepared *prepared, bool intact)
{
    if (!intact)
        io_uring_queue_exit(&prepared->ring);
    else
        atomic_store(&prepared->free, true);
}
