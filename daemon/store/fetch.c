/* fetch.c: creation and end of a halo_fetch, and what the thread that owns its reads calls.
 *
 * Threads: fetch.h. Everything here takes the lock for as long as lists are walked, never while anything is read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/thread.h>

#include "fetch_priv.h"

#define QUEUE_MAX (1u << 20)

static int options_fill(struct halo_fetch_options *o, struct halo_fault *fault)
{
    o->block_bytes = o->block_bytes ? o->block_bytes : HALO_FETCH_BLOCK_DEFAULT;
    o->depth = o->depth ? o->depth : HALO_FETCH_DEPTH_DEFAULT;
    o->ahead_depth = o->ahead_depth ? o->ahead_depth : (o->depth + 1) / 2;
    o->queue = o->queue ? o->queue : HALO_FETCH_QUEUE_DEFAULT;
    if (o->block_bytes % HALO_HULL_ALIGN != 0 || o->block_bytes > HALO_FETCH_BLOCK_MAX)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "blocks of %u bytes cannot be read directly: a multiple of %d up to %u is needed",
                              o->block_bytes, HALO_HULL_ALIGN, HALO_FETCH_BLOCK_MAX);
    if (o->depth > HALO_FETCH_DEPTH_MAX || o->ahead_depth > o->depth || o->queue > QUEUE_MAX)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "a depth of %u with %u ahead and a queue of %u reads is out of range: up to %u, the "
                              "depth and %u are possible",
                              o->depth, o->ahead_depth, o->queue, HALO_FETCH_DEPTH_MAX, QUEUE_MAX);
    return 0;
}

static int locks_init(struct halo_fetch *f)
{
    pthread_condattr_t attr;
    int r = pthread_condattr_init(&attr);
    if (r != 0)
        return -r;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->arrival, &attr);
    pthread_cond_init(&f->work, NULL);
    pthread_condattr_destroy(&attr);
    return 0;
}

static int memory_init(struct halo_fetch *f)
{
    const struct halo_fetch_options *o = &f->options;
    f->reads = calloc(o->queue, sizeof(*f->reads));
    f->blocks = calloc(o->depth, sizeof(*f->blocks));
    size_t bytes = (size_t)o->depth * o->block_bytes;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map != MAP_FAILED) {
        f->bounce = map;
        f->bounce_bytes = bytes;
    }
    return f->reads && f->blocks && f->bounce ? 0 : -ENOMEM;
}

static void lists_init(struct halo_fetch *f)
{
    struct halo_list *lists[] = {
        &f->idle,        &f->queued[HALO_FETCH_DEMAND], &f->queued[HALO_FETCH_AHEAD], &f->issued, &f->arrived,
        &f->blocks_idle, &f->blocks_returned,
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        halo_list_init(lists[i]);
    for (uint32_t i = 0; i < f->options.queue; i++)
        halo_list_append(&f->idle, &f->reads[i].node);
    for (uint32_t i = 0; i < f->options.depth; i++) {
        f->blocks[i].bounce = f->bounce + (size_t)i * f->options.block_bytes;
        halo_list_append(&f->blocks_idle, &f->blocks[i].node);
    }
}

static void *fetch_main(void *ud)
{
    struct halo_fetch *f = ud;
    if (fetch_uring_read(f) < 0) {
        fetch_threads_start(f); /* with fewer, or with this one alone, it still reads */
        fetch_threads_read(f);
    }
    return NULL;
}

static int threads_init(struct halo_fetch *f, struct halo_fault *fault)
{
    int r = f->options.no_uring ? -EOPNOTSUPP : fetch_uring_open(f);
    f->method = r < 0 ? HALO_FETCH_PREAD : HALO_FETCH_URING;
    if (r == 0) {
        r = halo_thread_start(&f->thread, "fetch", fetch_main, f);
        f->has_thread = r == 0;
    } else {
        if (!f->options.no_uring)
            halo_remarks_add(&f->notices, "io_uring is not available (%s): reading with threads", strerror(-r));
        r = fetch_threads_start(f);
        if (r < 0 && f->n_threads > 0)
            halo_remarks_add(&f->notices, "only %u of the threads that read could be started (%s)", f->n_threads,
                             strerror(-r));
    }
    f->running = f->has_thread || f->n_threads > 0;
    return f->running
               ? 0
               : halo_fault_errno(fault, HALO_FAULT_INTERNAL, r, "no thread to read models from disk could be started");
}

int halo_fetch_create(const struct halo_fetch_options *options, struct halo_fetch **ret, struct halo_fault *fault)
{
    struct halo_fetch_options filled = options ? *options : (struct halo_fetch_options){0};
    int r = options_fill(&filled, fault);
    if (r < 0)
        return r;
    struct halo_fetch *f = calloc(1, sizeof(*f));
    if (!f || locks_init(f) < 0) {
        free(f);
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to read models from disk");
    }
    f->options = filled;
    r = memory_init(f);
    if (r < 0) {
        halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a queue of %u reads of %u bytes", filled.queue,
                       filled.block_bytes);
    } else {
        lists_init(f);
        r = threads_init(f, fault);
    }
    if (r < 0) {
        halo_fetch_destroy(f);
        return r;
    }
    *ret = f;
    return 0;
}

/* With the lock held, which it gives back. Whoever reads looks for blocks again. */
static void unlock_and_wake(struct halo_fetch *f)
{
    struct fetch_uring *asleep = f->method == HALO_FETCH_URING && f->asleep ? f->uring : NULL;
    f->asleep = false;
    if (f->method == HALO_FETCH_PREAD)
        pthread_cond_broadcast(&f->work);
    pthread_mutex_unlock(&f->lock);
    if (asleep)
        fetch_uring_wake(asleep);
}

typedef bool (*read_filter)(const struct fetch_read *read, const void *ud);

/* With the lock held. How many there were. */
static uint32_t list_cancel(struct halo_fetch *f, struct halo_list *list, read_filter wanted, const void *ud)
{
    uint32_t n = 0;
    for (struct halo_list_node *node = list->first, *next; node; node = next) {
        struct fetch_read *read = HALO_LIST_ITEM(node, struct fetch_read, node);
        next = node->next;
        if (read->error || !wanted(read, ud))
            continue;
        fetch_read_fail(f, read, -ECANCELED);
        n++;
    }
    return n;
}

/* The issued ones first: those that are queued go there. */
static uint32_t cancel(struct halo_fetch *f, read_filter wanted, const void *ud)
{
    uint32_t n = list_cancel(f, &f->issued, wanted, ud);
    n += list_cancel(f, &f->queued[HALO_FETCH_DEMAND], wanted, ud);
    return n + list_cancel(f, &f->queued[HALO_FETCH_AHEAD], wanted, ud);
}

static bool is_any(const struct fetch_read *read, const void *ud)
{
    (void)read, (void)ud;
    return true;
}

void halo_fetch_destroy(struct halo_fetch *f)
{
    if (!f)
        return;
    if (f->running) {
        pthread_mutex_lock(&f->lock);
        f->stopping = true;
        cancel(f, is_any, NULL);
        f->asleep = true; /* whatever it is doing, it has to see this */
        unlock_and_wake(f);
        if (f->has_thread)
            pthread_join(f->thread, NULL);
        for (uint32_t i = 0; i < f->n_threads; i++)
            pthread_join(f->threads[i], NULL);
    }
    fetch_uring_close(f->uring);
    for (uint32_t i = 0; i < HALO_FETCH_FILES_MAX; i++)
        if (f->files[i].used && f->files[i].fd_direct >= 0)
            close(f->files[i].fd_direct);
    if (f->bounce)
        munmap(f->bounce, f->bounce_bytes);
    free(f->blocks);
    free(f->reads);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->arrival);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* With the lock held. */
static bool is_valid(const struct halo_fetch *f, const struct halo_fetch_read *read)
{
    return read->file < HALO_FETCH_FILES_MAX && f->files[read->file].used && read->n_bytes > 0 &&
           read->n_bytes <= INT64_MAX && read->offset <= (uint64_t)INT64_MAX - read->n_bytes - HALO_HULL_ALIGN &&
           read->priority < HALO_FETCH_PRIORITIES && halo_hull_fits(read->dest, read->offset);
}

int halo_fetch_submit(struct halo_fetch *f, const struct halo_fetch_read *reads, uint32_t n)
{
    int r = 0;
    pthread_mutex_lock(&f->lock);
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = is_valid(f, &reads[i]) ? 0 : -EINVAL;
    if (r == 0 && n > f->idle.n)
        r = -EAGAIN;
    for (uint32_t i = 0; i < n && r == 0; i++)
        fetch_read_submit(f, &reads[i]);
    unlock_and_wake(f);
    return r;
}

static struct timespec time_after(uint64_t timeout_us)
{
    uint64_t year_us = (uint64_t)365 * 24 * 3600 * 1000000;
    uint64_t at_ns = halo_clock_ns() + (timeout_us < year_us ? timeout_us : year_us) * 1000;
    return (struct timespec){.tv_sec = (time_t)(at_ns / 1000000000), .tv_nsec = (long)(at_ns % 1000000000)};
}

uint32_t halo_fetch_reap(struct halo_fetch *f, struct halo_fetch_done *ret, uint32_t max, uint64_t timeout_us)
{
    uint32_t n = 0;
    struct timespec at = time_after(timeout_us);
    pthread_mutex_lock(&f->lock);
    for (int r = 0; r == 0 && f->arrived.n == 0 && f->idle.n < f->options.queue && timeout_us > 0;)
        r = pthread_cond_timedwait(&f->arrival, &f->lock, &at);
    for (; n < max && f->arrived.n > 0; n++)
        fetch_read_reap(f, HALO_LIST_ITEM(f->arrived.first, struct fetch_read, node), &ret[n]);
    pthread_mutex_unlock(&f->lock);
    return n;
}

struct tag {
    uint32_t slot;
    uint64_t generation;
};

static bool has_tag(const struct fetch_read *read, const void *ud)
{
    const struct tag *tag = ud;
    return read->asked.slot == tag->slot && read->asked.generation == tag->generation;
}

uint32_t halo_fetch_cancel(struct halo_fetch *f, uint32_t slot, uint64_t generation)
{
    pthread_mutex_lock(&f->lock);
    uint32_t n = cancel(f, has_tag, &(struct tag){.slot = slot, .generation = generation});
    pthread_mutex_unlock(&f->lock);
    return n;
}

uint32_t halo_fetch_cancel_ahead(struct halo_fetch *f, uint32_t slot, uint64_t generation)
{
    const struct tag tag = {.slot = slot, .generation = generation};
    pthread_mutex_lock(&f->lock);
    uint32_t n = list_cancel(f, &f->queued[HALO_FETCH_AHEAD], has_tag, &tag);
    pthread_mutex_unlock(&f->lock);
    return n;
}

uint32_t halo_fetch_promote(struct halo_fetch *f, uint32_t slot, uint64_t generation)
{
    const struct tag tag = {.slot = slot, .generation = generation};
    struct halo_list *lists[] = {&f->queued[HALO_FETCH_AHEAD], &f->issued};
    uint32_t n = 0;
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (struct halo_list_node *node = lists[i]->first, *next; node; node = next) {
            struct fetch_read *read = HALO_LIST_ITEM(node, struct fetch_read, node);
            next = node->next;
            if (read->error || read->asked.priority != HALO_FETCH_AHEAD || !has_tag(read, &tag))
                continue;
            read->asked.priority = HALO_FETCH_DEMAND;
            n++;
            if (read->state != FETCH_QUEUED)
                continue;
            halo_list_remove(node);
            halo_list_append(&f->queued[HALO_FETCH_DEMAND], node);
        }
    unlock_and_wake(f);
    return n;
}

void halo_fetch_pause_ahead(struct halo_fetch *f, bool paused)
{
    pthread_mutex_lock(&f->lock);
    f->paused = paused;
    unlock_and_wake(f);
}

int halo_fetch_drain(struct halo_fetch *f, uint64_t timeout_us)
{
    int r = 0;
    struct timespec at = time_after(timeout_us);
    pthread_mutex_lock(&f->lock);
    cancel(f, is_any, NULL);
    while (r == 0 && f->issued.n > 0)
        r = pthread_cond_timedwait(&f->arrival, &f->lock, &at);
    r = f->issued.n > 0 ? -ETIMEDOUT : 0;
    pthread_mutex_unlock(&f->lock);
    return r;
}
