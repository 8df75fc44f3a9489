/* reader_populate.c: threads that back the destinations with pages while the disk reads.
 *
 * A read into memory that has no pages yet makes the kernel find and clear them on the thread that submits it, and the
 * disk waits meanwhile. These threads go through the destinations in the order of the reads and skip what the reader
 * has overtaken. They change no byte. Memory that cannot be populated ends them: the reads then do it themselves.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <base/thread.h>

#include "populate_priv.h"
#include "reader_priv.h"

#define POPULATE_STEP ((uint64_t)8 << 20) /* a few huge pages, some milliseconds */

struct reader_populate {
    const struct reader *reader;
    pthread_mutex_t lock; /* of next and at */
    size_t next;          /* place in the order of the reads */
    uint64_t at;          /* bytes of that job that have been handed out */
    atomic_bool stop;
    _Atomic uint64_t n_bytes;
    unsigned n_threads;
    pthread_t threads[HALO_READER_POPULATE_MAX];
};

/* The next range of whole pages. False: the last one has been handed out. */
static bool range_next(struct reader_populate *p, uint8_t **ret_at, uint64_t *ret_bytes)
{
    const struct reader *reader = p->reader;
    bool found = false;
    pthread_mutex_lock(&p->lock);
    size_t overtaken = atomic_load_explicit(&reader->next_shared, memory_order_relaxed);
    if (p->next < overtaken) {
        p->next = overtaken;
        p->at = 0;
    }
    while (!found && p->next < reader->n_jobs) {
        const struct halo_reader_job *job = &reader->jobs[reader->order[p->next]];
        if (job->dest && job->n_bytes >= HALO_READER_DIRECT_MIN && p->at < job->n_bytes) {
            uint8_t *begin = (uint8_t *)job->dest + p->at;
            uint64_t n = POPULATE_STEP - (uintptr_t)begin % POPULATE_STEP, left = job->n_bytes - p->at;
            n = n < left ? n : left;
            *ret_at = begin - (uintptr_t)begin % HALO_HULL_ALIGN;
            *ret_bytes = halo_hull_bytes((uintptr_t)begin, n);
            p->at += n;
            found = true;
        } else {
            p->next++;
            p->at = 0;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return found;
}

static void *populate_main(void *ud)
{
    struct reader_populate *p = ud;
    uint8_t *at;
    uint64_t n_bytes;
    while (!atomic_load_explicit(&p->stop, memory_order_relaxed) && range_next(p, &at, &n_bytes)) {
        if (store_populate(at, n_bytes) < 0)
            atomic_store_explicit(&p->stop, true, memory_order_relaxed);
        else
            atomic_fetch_add_explicit(&p->n_bytes, n_bytes, memory_order_relaxed);
    }
    return NULL;
}

struct reader_populate *reader_populate_start(const struct reader *reader)
{
    unsigned n = reader->options->n_populate;
    struct reader_populate *p = n > 0 ? calloc(1, sizeof(*p)) : NULL;
    if (!p)
        return NULL;
    p->reader = reader;
    pthread_mutex_init(&p->lock, NULL);
    n = n < HALO_READER_POPULATE_MAX ? n : HALO_READER_POPULATE_MAX;
    while (p->n_threads < n && halo_thread_start(&p->threads[p->n_threads], "populate", populate_main, p) == 0)
        p->n_threads++;
    return p;
}

uint64_t reader_populate_stop(struct reader_populate *p)
{
    if (!p)
        return 0;
    atomic_store_explicit(&p->stop, true, memory_order_relaxed);
    for (unsigned i = 0; i < p->n_threads; i++)
        pthread_join(p->threads[i], NULL);
    uint64_t n_bytes = atomic_load_explicit(&p->n_bytes, memory_order_relaxed);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return n_bytes;
}
