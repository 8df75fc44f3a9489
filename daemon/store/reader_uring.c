/* reader_uring.c: pieces through io_uring.
 *
 * Caller's thread, which owns the ring. The region to fill is registered window by window just before the first read
 * into it, while earlier reads are under way: registering faults the memory in, and doing that first would leave the
 * disk idle meanwhile. Whatever happens, no read is left under way on return. Steps down to plain reads, to buffered
 * files, and with READER_STEP_DOWN to the threads.
 *
 * A process that forbids itself new rings has one that was prepared; a run takes it if no other run has it.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "direct_priv.h"
#include "reader_priv.h"
#include "ring_priv.h"

#define URING_WINDOW_MIN_BYTES ((size_t)32 << 20)
#define URING_WINDOW_MAX_BYTES ((size_t)1 << 30) /* the kernel's limit for one buffer */
#define URING_WINDOWS_MAX 8192                   /* the kernel allows 16384 */
#define URING_CQES 64

enum window_state { WINDOW_NEW, WINDOW_REGISTERED, WINDOW_REFUSED };

static struct ring_prepared prepared;

struct uring {
    struct reader *reader;
    struct io_uring *ring; /* &own or &prepared.ring */
    struct io_uring own;
    struct reader_piece *pieces; /* queue_depth of them */
    bool *busy;
    unsigned n_busy;
    uint8_t *bounce; /* queue_depth buffers */
    size_t bounce_bytes;
    uint8_t *windows; /* enum window_state each; NULL: nothing is registered */
    unsigned n_windows;
    bool fixed_refused; /* said so already */
    bool refused;       /* reads through the ring do not work; stop */
};

/* Region and size of the windows; the table of buffers is empty at first. */
static void windows_init(struct uring *u)
{
    struct reader *reader = u->reader;
    const struct halo_reader_options *options = reader->options;
    if (options->no_register || !options->pinned || options->pinned_bytes == 0)
        return;
    uint8_t *base = options->pinned;
    size_t window = URING_WINDOW_MIN_BYTES;
    while (window < URING_WINDOW_MAX_BYTES && options->pinned_bytes / window >= URING_WINDOWS_MAX)
        window *= 2;
    size_t n = (options->pinned_bytes + window - 1) / window;
    if ((uintptr_t)base % HALO_HULL_ALIGN || n > URING_WINDOWS_MAX) {
        reader_notice(reader, "the region was not registered: %s",
                      n > URING_WINDOWS_MAX ? "it is too large" : "it does not begin on a page");
        return;
    }
    int r = io_uring_register_buffers_sparse(u->ring, (unsigned)n);
    if (r < 0) {
        reader_notice(reader, "buffers cannot be registered (%s): reading into unregistered memory", strerror(-r));
        return;
    }
    u->windows = calloc(n, 1);
    if (!u->windows) {
        reader_notice(reader, "no memory for the table of registered buffers: reading into unregistered memory");
        return;
    }
    u->n_windows = (unsigned)n;
    reader->window_base = base;
    reader->window_bytes = window;
}

/* The number of the registered buffer that holds [at, at + n), or -1. */
static int window_of(struct uring *u, const struct reader_piece *p)
{
    struct reader *reader = u->reader;
    if (!u->windows || p->bounce || p->at < reader->window_base)
        return -1;
    size_t begin = (size_t)(p->at - reader->window_base), end = begin + p->n;
    size_t i = begin / reader->window_bytes;
    if (end > reader->options->pinned_bytes || (end - 1) / reader->window_bytes != i)
        return -1;
    if (u->windows[i] == WINDOW_NEW) {
        size_t from = i * reader->window_bytes, left = reader->options->pinned_bytes - from;
        struct iovec iov = {reader->window_base + from, left < reader->window_bytes ? left : reader->window_bytes};
        __u64 tag = 0;
        int r = io_uring_register_buffers_update_tag(u->ring, (unsigned)i, &iov, &tag, 1);
        u->windows[i] = r < 0 ? WINDOW_REFUSED : WINDOW_REGISTERED;
        if (r < 0) { /* a limit, most likely: the next one would meet it too */
            reader_notice(reader, "registering stopped after %zu MiB (%s), the rest is read unregistered", from >> 20,
                          strerror(-r));
            memset(u->windows + i, WINDOW_REFUSED, u->n_windows - i);
            reader->report->method = HALO_READER_URING;
        }
    }
    return u->windows[i] == WINDOW_REGISTERED ? (int)i : -1;
}

int halo_reader_prepare(void)
{
    return ring_prepare(&prepared, READER_DEPTH_DEFAULT, 0);
}

/* The prepared ring, or one of its own. */
static int ring_open(struct uring *u)
{
    u->ring = u->reader->queue_depth <= READER_DEPTH_DEFAULT ? ring_take(&prepared) : NULL;
    if (u->ring)
        return 0;
    u->ring = &u->own;
    return io_uring_queue_init(u->reader->queue_depth, u->ring, 0);
}

/* A ring that gave up may hold reads that were never submitted. */
static void ring_close(struct uring *u)
{
    if (u->ring == &u->own)
        io_uring_queue_exit(u->ring);
    else
        ring_give_back(&prepared,
                       io_uring_sq_ready(u->ring) == 0 && (!u->windows || io_uring_unregister_buffers(u->ring) == 0));
}

static int uring_init(struct uring *u)
{
    struct reader *reader = u->reader;
    unsigned depth = reader->queue_depth;
    u->pieces = calloc(depth, sizeof(*u->pieces));
    u->busy = calloc(depth, sizeof(*u->busy));
    size_t bytes = depth * READER_BOUNCE_BYTES;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map != MAP_FAILED) {
        u->bounce = map;
        u->bounce_bytes = bytes;
    }
    if (!u->pieces || !u->busy || !u->bounce)
        return reader->error =
                   halo_fault_set(reader->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %u read buffers", depth);
    int r = ring_open(u);
    if (r < 0) {
        reader_notice(reader, "io_uring is not available (%s), reading with threads", strerror(-r));
        return READER_STEP_DOWN;
    }
    windows_init(u);
    reader->report->method = u->windows ? HALO_READER_URING_FIXED : HALO_READER_URING;
    return 0;
}

static void uring_finish(struct uring *u, bool ring_made)
{
    if (ring_made)
        ring_close(u);
    if (u->bounce)
        munmap(u->bounce, u->bounce_bytes);
    free(u->pieces);
    free(u->busy);
    free(u->windows);
    u->reader->window_base = NULL;
}

static void piece_submit(struct uring *u, unsigned slot)
{
    struct reader_piece *p = &u->pieces[slot];
    const struct reader_file *file = &u->reader->files[p->file];
    struct io_uring_sqe *sqe = io_uring_get_sqe(u->ring);
    assert(sqe); /* as many entries as slots, and each slot has at most one */
    int window = window_of(u, p);
    p->direct = file->direct;
    p->fixed = window >= 0;
    if (p->fixed)
        io_uring_prep_read_fixed(sqe, file->fd, p->at + p->got, p->n - p->got, p->offset + p->got, window);
    else
        io_uring_prep_read(sqe, file->fd, p->at + p->got, p->n - p->got, p->offset + p->got);
    io_uring_sqe_set_data64(sqe, slot);
}

/* Something refused this read: take the next lower step that this piece has not tried. */
static void piece_step_down(struct uring *u, unsigned slot, int error)
{
    struct reader_piece *p = &u->pieces[slot];
    struct reader *reader = u->reader;
    struct reader_file *file = &reader->files[p->file];
    if (p->fixed) {
        if (!u->fixed_refused)
            reader_notice(reader, "reads into registered buffers are refused (%s): reading into unregistered memory",
                          strerror(error));
        memset(u->windows, WINDOW_REFUSED, u->n_windows);
        u->fixed_refused = true;
        reader->report->method = HALO_READER_URING;
        piece_submit(u, slot);
    } else if (p->direct) {
        reader_file_buffered(reader, file, error);
        piece_submit(u, slot);
    } else {
        if (!u->refused)
            reader_notice(reader, "io_uring refuses to read (%s), reading with threads", strerror(error));
        u->refused = true;
        reader_piece_return(reader, p);
        u->busy[slot] = false;
        u->n_busy--;
    }
}

static void completion(struct uring *u, unsigned slot, int result)
{
    struct reader_piece *p = &u->pieces[slot];
    assert(slot < u->reader->queue_depth && u->busy[slot]);
    switch (reader_piece_result(u->reader, p, result)) {
    case READER_COMPLETE:
        u->busy[slot] = false;
        u->n_busy--;
        reader_piece_account(u->reader, p);
        return;
    case READER_FAILED:
        u->busy[slot] = false;
        u->n_busy--;
        return;
    case READER_AGAIN:
        if (u->reader->error || reader_cancelled(u->reader)) { /* nobody waits for the rest */
            u->busy[slot] = false;
            u->n_busy--;
            return;
        }
        piece_submit(u, slot);
        return;
    case READER_REFUSED: piece_step_down(u, slot, -result); return;
    }
}

/* Handles what has arrived. Returns how many. */
static unsigned completions(struct uring *u)
{
    struct io_uring_cqe *cqes[URING_CQES];
    unsigned n = io_uring_peek_batch_cqe(u->ring, cqes, URING_CQES);
    for (unsigned i = 0; i < n; i++) {
        unsigned slot = (unsigned)io_uring_cqe_get_data64(cqes[i]);
        completion(u, slot, cqes[i]->res);
    }
    io_uring_cq_advance(u->ring, n);
    return n;
}

/* The ring takes no more: wait for what the kernel has, give the rest to the next method. */
static void uring_abandon(struct uring *u, int error)
{
    reader_notice(u->reader, "io_uring gave up (%s), reading with threads", strerror(error));
    u->refused = true;
    while (u->n_busy > io_uring_sq_ready(u->ring))
        if (completions(u) == 0)
            reader_pause();
    for (unsigned slot = 0; slot < u->reader->queue_depth; slot++)
        if (u->busy[slot]) {
            reader_piece_return(u->reader, &u->pieces[slot]);
            u->busy[slot] = false;
            u->n_busy--;
        }
}

static void uring_fill(struct uring *u)
{
    for (unsigned slot = 0; slot < u->reader->queue_depth && !u->refused; slot++) {
        if (u->busy[slot])
            continue;
        if (!reader_piece_next(u->reader, u->bounce + slot * READER_BOUNCE_BYTES, &u->pieces[slot]))
            return;
        u->busy[slot] = true;
        u->n_busy++;
        piece_submit(u, slot);
    }
}

static void uring_loop(struct uring *u)
{
    unsigned tries = 0;
    for (;;) {
        uring_fill(u);
        if (u->n_busy == 0 && (!u->reader->starved || u->refused))
            return;
        if (u->n_busy == 0) {
            reader_pause();
            continue;
        }
        int r = io_uring_submit_and_wait(u->ring, 1);
        unsigned n = completions(u);
        if (r >= 0 || n > 0) {
            tries = 0;
        } else if (r != -EINTR && ((r != -EAGAIN && r != -EBUSY) || ++tries > DIRECT_TRIES)) {
            uring_abandon(u, -r);
            return;
        } else if (r != -EINTR) {
            reader_pause();
        }
    }
}

int reader_uring_run(struct reader *reader)
{
    struct uring u = {.reader = reader};
    int r = uring_init(&u);
    if (r == 0)
        uring_loop(&u);
    uring_finish(&u, r == 0);
    if (r == 0 && u.refused)
        r = READER_STEP_DOWN;
    return r == READER_STEP_DOWN && !reader->error ? READER_STEP_DOWN : 0;
}
