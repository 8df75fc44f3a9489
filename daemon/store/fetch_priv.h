/* fetch_priv.h: the inside of a halo_fetch: its reads, the blocks they are cut into, and its files.
 *
 * One lock guards everything but the memory that a block in flight reads into and the block itself: those belong to
 * whoever the block was handed to, until fetch_block_result() is called for it. Nothing is allocated after creation.
 */
#ifndef HALO_STORE_FETCH_PRIV_H
#define HALO_STORE_FETCH_PRIV_H

#include <pthread.h>

#include <store/fetch.h>

#include <base/list.h>

#define FETCH_NAME_BYTES 128
#define FETCH_THREADS_MAX 16 /* reading with pread; more bring nothing on one drive */
#define FETCH_CALM_TRIES 8   /* a block is tried again at once so often, then with pauses */
#define FETCH_PAUSE_NS 500000

enum fetch_state {
    FETCH_IDLE,    /* in halo_fetch.idle */
    FETCH_QUEUED,  /* in halo_fetch.queued: has bytes that nobody has asked the kernel for */
    FETCH_ISSUED,  /* in halo_fetch.issued: waits for its blocks in flight */
    FETCH_ARRIVED, /* in halo_fetch.arrived: waits for halo_fetch_reap */
};

struct fetch_read {
    struct halo_list_node node;
    enum fetch_state state;
    struct halo_fetch_read asked;
    uint64_t next, end; /* file offsets: where the next block begins, end of the hull */
    uint32_t n_blocks;  /* in flight */
    int error;          /* the first one, negative; -ECANCELED */
    uint64_t failed_at, file_bytes;
};

struct fetch_block {
    struct halo_list_node node; /* in halo_fetch.blocks_idle or .blocks_returned; in flight: in neither */
    struct fetch_read *read;    /* NULL: idle */
    uint64_t offset;            /* in the file */
    uint32_t n;                 /* bytes to ask for */
    uint32_t need;              /* bytes that must come: less where the hull reaches over the end of the range */
    uint32_t got;
    uint32_t tries;    /* without progress */
    uint8_t *dest;     /* of the byte at `offset` */
    uint8_t *bounce;   /* n bytes at least, this block's for ever */
    bool ahead;        /* counted in n_ahead_in_flight */
    bool bounced;      /* reads into `bounce` */
    bool direct;       /* the last attempt was direct */
    bool retried;      /* after EIO */
    int fd;            /* of the last attempt */
    uint64_t begun_ns; /* first handed to the kernel */
};

struct fetch_file {
    bool used;
    bool direct;       /* fd_direct is read */
    int fd, fd_direct; /* the caller's; ours, or -1 */
    uint32_t n_reads;  /* not reaped */
    char name[FETCH_NAME_BYTES];
};

struct fetch_uring;

struct halo_fetch {
    pthread_mutex_t lock;
    pthread_cond_t arrival;            /* a read has arrived */
    pthread_cond_t work;               /* for the threads: there may be a block to read */
    struct halo_fetch_options options; /* no zeros */
    enum halo_fetch_method method;
    bool running; /* there are threads; set at creation */
    bool stopping, paused;

    struct fetch_read *reads; /* options.queue of them */
    struct halo_list idle, queued[HALO_FETCH_PRIORITIES], issued, arrived;

    struct fetch_block *blocks; /* options.depth of them */
    struct halo_list blocks_idle, blocks_returned;
    uint32_t n_in_flight, n_ahead_in_flight;
    uint8_t *bounce; /* address space; pages come when a block bounces */
    size_t bounce_bytes;

    struct fetch_file files[HALO_FETCH_FILES_MAX];
    struct halo_fetch_stats stats; /* busy_ns without the time since busy_since_ns */
    uint64_t busy_since_ns;
    struct halo_remarks notices;
    bool bounce_told, buffered_told;

    struct fetch_uring *uring; /* NULL: threads from the start */
    bool asleep;               /* the fetch thread found no block to hand out and waits for the ring */
    pthread_t thread;          /* with a ring: its thread */
    bool has_thread;
    pthread_t threads[FETCH_THREADS_MAX]; /* those that use pread */
    uint32_t n_threads;                   /* after creation only the fetch thread changes it, when its ring gives up */
};

/* fetch_file.c; with the lock held. */
/* Direct reads of the file are refused: reads it through the page cache from now on. */
void fetch_file_buffered(struct halo_fetch *f, struct fetch_file *file, int error);

/* fetch_read.c: the life of a read; with the lock held. */
void fetch_read_submit(struct halo_fetch *f, const struct halo_fetch_read *asked);
/* Nothing more of it is asked for; it arrives when none of its blocks is in flight. The first error is kept. */
void fetch_read_fail(struct halo_fetch *f, struct fetch_read *read, int error);
void fetch_read_cut(struct halo_fetch *f, struct fetch_read *read, struct fetch_block *block);
void fetch_read_block_ended(struct halo_fetch *f, struct fetch_read *read);
void fetch_read_reap(struct halo_fetch *f, struct fetch_read *read, struct halo_fetch_done *ret);

/* fetch_block.c */
/* The next block to hand to the kernel, aimed; NULL when there is none or `depth` are in flight. With the lock held. */
struct fetch_block *fetch_block_next(struct halo_fetch *f);
/* Where the next attempt reads: fd, memory, bytes and offset. */
struct fetch_attempt {
    int fd;
    uint8_t *at;
    uint32_t n;
    uint64_t offset;
};
struct fetch_attempt fetch_block_attempt(const struct fetch_block *block);
/* What an attempt brought (bytes or a negative errno) goes to its place. Without the lock, before fetch_block_result.
 */
void fetch_block_landed(const struct fetch_block *block, int64_t result);
/* True: the block is to be tried again, and aimed for it. False: it has ended and is idle. With the lock held. */
bool fetch_block_result(struct halo_fetch *f, struct fetch_block *block, int64_t result);
/* Takes back a block that the kernel does not have: it is the next one. With the lock held. */
void fetch_block_return(struct halo_fetch *f, struct fetch_block *block);

/* fetch_threads.c */
/* Starts threads that read until there are as many as FETCH_THREADS_MAX and the depth allow. 0, or a negative errno:
 * fewer were started. */
int fetch_threads_start(struct halo_fetch *f);
/* Reads until the fetch is stopping. */
void fetch_threads_read(struct halo_fetch *f);

/* fetch_uring.c */
/* Makes f->uring. 0, or a negative errno: there is no ring that works. */
int fetch_uring_open(struct halo_fetch *f);
void fetch_uring_close(struct fetch_uring *u);
/* The fetch thread looks for blocks again. Without the lock. */
void fetch_uring_wake(struct fetch_uring *u);
/* Until the fetch is stopping (0), or the ring takes no more reads (a negative errno; no block is in flight then). */
int fetch_uring_read(struct halo_fetch *f);

#endif
