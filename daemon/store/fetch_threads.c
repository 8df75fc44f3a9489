/* fetch_threads.c: blocks through pread(2) in a pool of threads, for when there is no io_uring.
 *
 * Each thread takes a block, reads it to its end and takes the next. Drives want requests in flight, so there are more
 * threads than CPUs; they sleep in the kernel.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <base/thread.h>

#include "fetch_priv.h"

/* Everything that one attempt does without the lock. */
static int64_t attempt_read(const struct fetch_block *block)
{
    struct fetch_attempt attempt = fetch_block_attempt(block);
    if (block->tries > FETCH_CALM_TRIES)
        nanosleep(&(struct timespec){.tv_nsec = FETCH_PAUSE_NS}, NULL);
    ssize_t n = pread(attempt.fd, attempt.at, attempt.n, (off_t)attempt.offset);
    int64_t result = n < 0 ? -errno : n;
    fetch_block_landed(block, result);
    return result;
}

void fetch_threads_read(struct halo_fetch *f)
{
    pthread_mutex_lock(&f->lock);
    for (;;) {
        struct fetch_block *block = fetch_block_next(f);
        if (!block && f->stopping)
            break;
        if (!block) {
            pthread_cond_wait(&f->work, &f->lock);
            continue;
        }
        int64_t result;
        do {
            pthread_mutex_unlock(&f->lock);
            result = attempt_read(block);
            pthread_mutex_lock(&f->lock);
        } while (fetch_block_result(f, block, result));
    }
    pthread_mutex_unlock(&f->lock);
}

static void *thread_main(void *ud)
{
    fetch_threads_read(ud);
    return NULL;
}

int fetch_threads_start(struct halo_fetch *f)
{
    uint32_t n = f->options.depth < FETCH_THREADS_MAX ? f->options.depth : FETCH_THREADS_MAX;
    while (f->n_threads < n) {
        int r = halo_thread_start(&f->threads[f->n_threads], "fetch", thread_main, f);
        if (r < 0)
            return r;
        f->n_threads++;
    }
    return 0;
}
