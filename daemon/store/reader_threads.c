/* reader_threads.c: pieces through pread(2) in a few threads, for when there is no io_uring.
 *
 * Workers take pieces, read and copy them; the caller's thread waits, accounts and calls back. One lock guards the
 * cursor, the files and the list of finished pieces. When no thread can be started the caller reads alone. Nothing is
 * refused here: a failure is final.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <base/thread.h>

#include "reader_priv.h"

#define THREADS_MAX 8

struct pool {
    struct reader *reader;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct reader_piece *finished; /* queue_depth of room; a worker waits while it is full */
    unsigned n_finished;
    pthread_cond_t room;
    unsigned n_running;
    uint8_t *bounce;
    unsigned n_started;
};

struct worker {
    struct pool *pool;
    uint8_t *bounce;
    pthread_t thread;
};

static int64_t piece_pread(int fd, const struct reader_piece *p)
{
    ssize_t n = pread(fd, p->at + p->got, p->n - p->got, (off_t)(p->offset + p->got));
    return n < 0 ? -errno : n;
}

/* With the lock held, dropped while reading. True when the piece is complete. */
static bool piece_read(struct pool *pool, struct reader_piece *p)
{
    struct reader *reader = pool->reader;
    struct reader_file *file = &reader->files[p->file];
    while (!reader->error && !reader_cancelled(reader)) {
        p->direct = file->direct;
        p->fixed = false;
        int fd = file->fd;
        pthread_mutex_unlock(&pool->lock);
        int64_t result = piece_pread(fd, p);
        pthread_mutex_lock(&pool->lock);
        switch (reader_piece_result(reader, p, result)) {
        case READER_COMPLETE: return true;
        case READER_FAILED: return false;
        case READER_AGAIN: break;
        case READER_REFUSED:
            if (p->direct)
                reader_file_buffered(reader, file, (int)-result);
            else
                reader_piece_fail(reader, p, (int)result);
            break;
        }
    }
    return false;
}

/* With the lock held, dropped while there is no memory for the next piece. */
static bool piece_take(struct pool *pool, uint8_t *bounce, struct reader_piece *ret)
{
    while (!reader_piece_next(pool->reader, bounce, ret)) {
        if (!pool->reader->starved)
            return false;
        pthread_mutex_unlock(&pool->lock);
        reader_pause();
        pthread_mutex_lock(&pool->lock);
    }
    return true;
}

static void *worker_main(void *ud)
{
    struct worker *worker = ud;
    struct pool *pool = worker->pool;
    struct reader_piece piece;
    pthread_mutex_lock(&pool->lock);
    while (piece_take(pool, worker->bounce, &piece)) {
        if (!piece_read(pool, &piece))
            break;
        while (pool->n_finished == pool->reader->queue_depth)
            pthread_cond_wait(&pool->room, &pool->lock);
        pool->finished[pool->n_finished++] = piece;
        pthread_cond_signal(&pool->wake);
    }
    pool->n_running--;
    pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* With the lock held; dropped during the callbacks. */
static void pool_account(struct pool *pool)
{
    while (pool->n_finished > 0) {
        struct reader_piece piece = pool->finished[--pool->n_finished];
        pthread_cond_signal(&pool->room);
        pthread_mutex_unlock(&pool->lock);
        reader_piece_account(pool->reader, &piece);
        pthread_mutex_lock(&pool->lock);
    }
}

static void pool_run(struct pool *pool, struct worker *workers, unsigned n_workers)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < n_workers; i++) {
        workers[i] = (struct worker){.pool = pool, .bounce = pool->bounce + i * READER_BOUNCE_BYTES};
        int r = halo_thread_start(&workers[i].thread, "read", worker_main, &workers[i]);
        if (r < 0) {
            reader_notice(pool->reader, "only %u of %u reading threads could be started (%s)", i, n_workers,
                          strerror(-r));
            break;
        }
        pool->n_started++;
        pool->n_running++;
    }
    struct reader_piece piece;
    while (pool->n_started == 0 && piece_take(pool, pool->bounce, &piece))
        if (piece_read(pool, &piece))
            reader_piece_account(pool->reader, &piece);
    for (;;) {
        pool_account(pool);
        if (pool->n_running == 0)
            break;
        pthread_cond_wait(&pool->wake, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->n_started; i++)
        pthread_join(workers[i].thread, NULL);
}

int reader_threads_run(struct reader *reader)
{
    struct worker workers[THREADS_MAX];
    unsigned n_workers = reader->queue_depth < THREADS_MAX ? reader->queue_depth : THREADS_MAX;
    size_t bounce_bytes = n_workers * READER_BOUNCE_BYTES;
    struct pool pool = {.reader = reader,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .wake = PTHREAD_COND_INITIALIZER,
                        .room = PTHREAD_COND_INITIALIZER};
    void *map = mmap(NULL, bounce_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pool.finished = calloc(reader->queue_depth, sizeof(*pool.finished));
    if (map == MAP_FAILED || !pool.finished) {
        reader->error =
            halo_fault_set(reader->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %u reading threads", n_workers);
    } else {
        pool.bounce = map;
        reader->report->method = HALO_READER_PREAD;
        pool_run(&pool, workers, n_workers);
    }
    if (map != MAP_FAILED)
        munmap(map, bounce_bytes);
    free(pool.finished);
    pthread_cond_destroy(&pool.wake);
    pthread_cond_destroy(&pool.room);
    pthread_mutex_destroy(&pool.lock);
    return 0;
}
