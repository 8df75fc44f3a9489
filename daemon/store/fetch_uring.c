/* fetch_uring.c: blocks through io_uring.
 *
 * The fetch thread owns the ring. It hands blocks to the kernel while there are any, then sleeps in the ring, where
 * an eventfd is being read too: whoever submits a read writes to it. That read is also the trial of a new ring: where
 * the kernel lacks it or a filter refuses it, there is no ring. When the ring takes no more reads, what the kernel has
 * is waited for and the rest goes back to the queue, for the threads.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "direct_priv.h"
#include "fetch_priv.h"
#include "ring_priv.h"

#define URING_CQES 64
#define URING_WAKE UINT64_MAX /* user data of the eventfd's read; of a block: its number */

static struct ring_prepared prepared[HALO_FETCH_PREPARED_MAX];

struct fetch_uring {
    struct io_uring *ring; /* &own, or that of `prepared` */
    struct io_uring own;
    struct ring_prepared *prepared;
    int event_fd;
    uint64_t wakes; /* what the kernel read from event_fd */
    bool armed;     /* that read is queued or in flight */
    bool pause;     /* a block was tried again and again: rest before the next submission */
};

static int prepare(struct ring_prepared *p)
{
    int r = ring_prepare(p, HALO_FETCH_DEPTH_MAX + 1, IORING_SETUP_COOP_TASKRUN);
    return r == -EINVAL ? ring_prepare(p, HALO_FETCH_DEPTH_MAX + 1, 0) : r; /* the flag is of Linux 5.19 */
}

int halo_fetch_prepare(uint32_t n)
{
    int r = 0;
    for (uint32_t i = 0; i < n && i < HALO_FETCH_PREPARED_MAX && r == 0; i++)
        r = prepare(&prepared[i]);
    return r;
}

/* The prepared ring, or one of its own. */
static int ring_open(struct fetch_uring *u, uint32_t depth)
{
    for (uint32_t i = 0; i < HALO_FETCH_PREPARED_MAX && !u->ring; i++) {
        u->ring = ring_take(&prepared[i]);
        u->prepared = &prepared[i];
    }
    if (u->ring)
        return 0;
    u->prepared = NULL;
    u->ring = &u->own;
    int r = io_uring_queue_init(depth + 1, u->ring, IORING_SETUP_COOP_TASKRUN);
    if (r == -EINVAL)
        r = io_uring_queue_init(depth + 1, u->ring, 0);
    if (r < 0)
        u->ring = NULL;
    return r;
}

static void ring_close(struct fetch_uring *u)
{
    if (u->prepared)
        ring_give_back(u->prepared, io_uring_sq_ready(u->ring) == 0);
    else if (u->ring)
        io_uring_queue_exit(u->ring);
}

static void wake_arm(struct fetch_uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(u->ring);
    assert(sqe); /* one entry for each block and one for this */
    io_uring_prep_read(sqe, u->event_fd, &u->wakes, sizeof(u->wakes), 0);
    io_uring_sqe_set_data64(sqe, URING_WAKE);
    u->armed = true;
}

void fetch_uring_wake(struct fetch_uring *u)
{
    eventfd_write(u->event_fd, 1); /* fails only when it was written 2^64 - 2 times and never read */
}

/* One read through the ring, of the eventfd. */
static int ring_try(struct fetch_uring *u)
{
    struct io_uring_cqe *cqe;
    int r;
    fetch_uring_wake(u);
    wake_arm(u);
    do /* once submitted it reads into *u until it completes */
        r = io_uring_submit_and_wait(u->ring, 1);
    while (io_uring_peek_batch_cqe(u->ring, &cqe, 1) == 0 && (r >= 0 || r == -EINTR));
    if (r < 0)
        return r;
    r = cqe->res;
    io_uring_cq_advance(u->ring, 1);
    u->armed = false;
    return r == sizeof(u->wakes) ? 0 : r < 0 ? r : -EIO;
}

int fetch_uring_open(struct halo_fetch *f)
{
    struct fetch_uring *u = calloc(1, sizeof(*u));
    if (!u)
        return -ENOMEM;
    u->event_fd = eventfd(0, EFD_CLOEXEC); /* blocking: a ring does not wait for a descriptor that says EAGAIN */
    int r = u->event_fd < 0 ? -errno : ring_open(u, f->options.depth);
    if (r >= 0)
        r = ring_try(u);
    if (r < 0)
        fetch_uring_close(u);
    else
        f->uring = u;
    return r < 0 ? r : 0;
}

void fetch_uring_close(struct fetch_uring *u)
{
    if (!u)
        return;
    ring_close(u);
    if (u->event_fd >= 0)
        close(u->event_fd);
    free(u);
}

static void block_prepare(struct halo_fetch *f, struct fetch_block *block)
{
    struct fetch_attempt attempt = fetch_block_attempt(block);
    struct io_uring_sqe *sqe = io_uring_get_sqe(f->uring->ring);
    assert(sqe); /* as many entries as blocks, and each block has at most one */
    io_uring_prep_read(sqe, attempt.fd, attempt.at, attempt.n, attempt.offset);
    io_uring_sqe_set_data64(sqe, (uint64_t)(block - f->blocks));
}

/* Handles what has arrived. Returns how many. */
static unsigned completions(struct halo_fetch *f)
{
    struct fetch_uring *u = f->uring;
    struct io_uring_cqe *cqes[URING_CQES];
    unsigned n = io_uring_peek_batch_cqe(u->ring, cqes, URING_CQES);
    for (unsigned i = 0; i < n; i++)
        if (cqes[i]->user_data != URING_WAKE)
            fetch_block_landed(&f->blocks[cqes[i]->user_data], cqes[i]->res);
    pthread_mutex_lock(&f->lock);
    f->asleep = false;
    for (unsigned i = 0; i < n; i++) {
        if (cqes[i]->user_data == URING_WAKE) {
            u->armed = false;
            continue;
        }
        struct fetch_block *block = &f->blocks[cqes[i]->user_data];
        if (fetch_block_result(f, block, cqes[i]->res)) {
            block_prepare(f, block);
            u->pause = u->pause || block->tries > FETCH_CALM_TRIES;
        }
    }
    pthread_mutex_unlock(&f->lock);
    io_uring_cq_advance(u->ring, n);
    return n;
}

/* Hands out what there is. False when the fetch is stopping and the kernel has nothing left. */
static bool uring_fill(struct halo_fetch *f)
{
    struct fetch_uring *u = f->uring;
    struct fetch_block *block;
    pthread_mutex_lock(&f->lock);
    while ((block = fetch_block_next(f)))
        block_prepare(f, block);
    if (!u->armed && !f->stopping)
        wake_arm(u);
    bool go_on = u->armed || f->n_in_flight > 0;
    f->asleep = true;
    pthread_mutex_unlock(&f->lock);
    return go_on;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = FETCH_PAUSE_NS}, NULL);
}

/* The ring takes no more: waits for what the kernel has, returns the other blocks to the queue. */
static int uring_abandon(struct halo_fetch *f, int error)
{
    struct fetch_uring *u = f->uring;
    fetch_uring_wake(u);
    while (f->n_in_flight + u->armed > io_uring_sq_ready(u->ring))
        if (completions(f) == 0)
            rest();
    pthread_mutex_lock(&f->lock);
    halo_remarks_add(&f->notices, "io_uring takes no more reads (%s): reading with threads", strerror(-error));
    f->method = HALO_FETCH_PREAD;
    for (uint32_t i = 0; i < f->options.depth; i++)
        if (f->blocks[i].read && !halo_list_is_linked(&f->blocks[i].node))
            fetch_block_return(f, &f->blocks[i]);
    pthread_mutex_unlock(&f->lock);
    return error;
}

int fetch_uring_read(struct halo_fetch *f)
{
    struct fetch_uring *u = f->uring;
    unsigned tries = 0;
    while (uring_fill(f)) {
        if (u->pause)
            rest();
        u->pause = false;
        int r = io_uring_submit_and_wait(u->ring, 1);
        unsigned n = completions(f);
        if (r >= 0 || n > 0) {
            tries = 0;
        } else if (r != -EINTR && ((r != -EAGAIN && r != -EBUSY) || ++tries > DIRECT_TRIES)) {
            return uring_abandon(f, r);
        } else if (r != -EINTR) {
            rest();
        }
    }
    return 0;
}
