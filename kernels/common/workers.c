/* workers.c: worker threads that share one loop at a time (contract in workers.h).
 *
 * The state of the loop is one 64-bit word, the ticket: a round in the upper half, the items nobody has claimed in the
 * lower. A claim is a compare-and-swap that takes one off. As the round is part of the word, a worker that was asleep
 * or interrupted can never claim from another round than the one whose description it has read; and as the caller does
 * not leave a round before all its items are done, a description stays true from a successful claim to its end.
 */
#include <common/workers.h>

#include <assert.h>
#include <errno.h>
#include <immintrin.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Waiting before sleeping, in ticks of the time stamp counter (2 to 4 GHz): 25 to 50 microseconds. Long enough for what
 * runs on one thread between two products of a layer, because waking a sleeper costs as much as a small product;
 * docs/negative-results.md. */
#define SPIN_TICKS 100000
/* The same for workers that are kept awake: 0.75 to 1.5 ms, a read of an expert from an NVMe drive. */
#define AWAKE_TICKS 3000000
#define CACHE_LINE 64
#define STACK_BYTES (1024 * 1024)

struct worker {
    struct halo_workers *workers;
    pthread_t thread;
    uint32_t index;
};

struct halo_workers {
    /* Written by the caller once a round, read by all. */
    _Alignas(CACHE_LINE) _Atomic(halo_workers_fn *) fn;
    _Atomic(void *) arg;
    atomic_uint n_items;
    atomic_bool stop;
    atomic_uint spin_ticks;
    /* Written by everybody for every item. */
    _Alignas(CACHE_LINE) _Atomic uint64_t ticket;
    _Alignas(CACHE_LINE) atomic_uint n_left; /* items of the round that are not done; a futex the caller sleeps on */
    atomic_uint caller_sleeps;
    /* A futex the workers sleep on: the low bits of the round. */
    _Alignas(CACHE_LINE) atomic_uint round;
    atomic_uint n_sleepers;
    _Alignas(CACHE_LINE) uint32_t n_threads, n_processors;
    uint32_t n_started;
    struct worker *threads; /* [n_threads - 1] */
};

static void futex_wait(atomic_uint *word, uint32_t value)
{
    /* EAGAIN (the word has changed), EINTR and a spurious return are all the same to the callers: they look again. */
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, uint32_t n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static uint32_t ticket_round(uint64_t ticket)
{
    return (uint32_t)(ticket >> 32);
}
static uint32_t ticket_unclaimed(uint64_t ticket)
{
    return (uint32_t)ticket;
}

/* Claims and runs items until the open round has none left. */
static void work(struct halo_workers *workers, uint32_t thread)
{
    uint64_t ticket = atomic_load_explicit(&workers->ticket, memory_order_acquire);
    while (ticket_unclaimed(ticket) > 0) {
        if (!atomic_compare_exchange_weak_explicit(&workers->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        halo_workers_fn *fn = atomic_load_explicit(&workers->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&workers->arg, memory_order_relaxed);
        uint32_t n_items = atomic_load_explicit(&workers->n_items, memory_order_relaxed);
        fn(arg, n_items - ticket_unclaimed(ticket), thread);
        if (atomic_fetch_sub(&workers->n_left, 1) == 1 && atomic_load(&workers->caller_sleeps))
            futex_wake(&workers->n_left, 1);
        ticket = atomic_load_explicit(&workers->ticket, memory_order_acquire);
    }
}

/* Returns when a round other than `seen` is open. */
static void wait_for_round(struct halo_workers *workers, uint32_t seen)
{
    uint64_t begin = __rdtsc(), before = begin, now;
    while ((now = __rdtsc()) - begin < atomic_load_explicit(&workers->spin_ticks, memory_order_relaxed)) {
        if (atomic_load_explicit(&workers->round, memory_order_acquire) != seen)
            return;
        if (now - before > SPIN_TICKS) /* something else ran here: it needs the core */
            break;
        before = now;
        _mm_pause();
    }
    atomic_fetch_add(&workers->n_sleepers, 1);
    while (atomic_load(&workers->round) == seen)
        futex_wait(&workers->round, seen);
    atomic_fetch_sub(&workers->n_sleepers, 1);
}

static void *worker_main(void *ud)
{
    struct worker *worker = ud;
    struct halo_workers *workers = worker->workers;
    uint32_t seen = 0;
    for (;;) {
        wait_for_round(workers, seen);
        seen = atomic_load_explicit(&workers->round, memory_order_acquire);
        if (atomic_load_explicit(&workers->stop, memory_order_acquire))
            return NULL;
        work(workers, worker->index);
    }
}

static void open_round(struct halo_workers *workers, uint32_t n_items)
{
    uint32_t round = ticket_round(atomic_load_explicit(&workers->ticket, memory_order_relaxed)) + 1;
    atomic_store_explicit(&workers->n_items, n_items, memory_order_relaxed);
    atomic_store_explicit(&workers->n_left, n_items, memory_order_relaxed);
    atomic_store_explicit(&workers->ticket, (uint64_t)round << 32 | n_items, memory_order_release);
    /* Sequentially consistent, as is the sleepers' side: either the worker sees the new round, or this sees the
     * sleeper. */
    atomic_store(&workers->round, round);
    if (atomic_load(&workers->n_sleepers) > 0)
        futex_wake(&workers->round, n_items - 1);
}

static void wait_for_items(struct halo_workers *workers)
{
    for (uint64_t begin = __rdtsc(); __rdtsc() - begin < SPIN_TICKS;) {
        if (atomic_load_explicit(&workers->n_left, memory_order_acquire) == 0)
            return;
        _mm_pause();
    }
    atomic_store(&workers->caller_sleeps, 1);
    for (uint32_t left; (left = atomic_load(&workers->n_left)) > 0;)
        futex_wait(&workers->n_left, left);
    atomic_store(&workers->caller_sleeps, 0);
}

void halo_workers_run(struct halo_workers *workers, uint32_t n_items, halo_workers_fn *fn, void *arg)
{
    if (workers->n_threads == 1 || n_items <= 1) {
        for (uint32_t i = 0; i < n_items; i++)
            fn(arg, i, 0);
        return;
    }
    assert(ticket_unclaimed(atomic_load(&workers->ticket)) == 0);
    atomic_store_explicit(&workers->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&workers->arg, arg, memory_order_relaxed);
    open_round(workers, n_items);
    work(workers, 0);
    wait_for_items(workers);
}

void halo_workers_keep_awake(struct halo_workers *workers, bool awake)
{
    bool is_alone = workers->n_threads <= workers->n_processors; /* otherwise they would delay whoever reads */
    atomic_store_explicit(&workers->spin_ticks, awake && is_alone ? AWAKE_TICKS : SPIN_TICKS, memory_order_relaxed);
}

uint32_t halo_workers_count(const struct halo_workers *workers)
{
    return workers->n_threads;
}

uint32_t halo_workers_processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (uint32_t)n : 1;
}

/* Starts as many as there can be. They block all signals, which are for the port's thread. Returns the error that ended
 * it, 0: all were started. */
static int start_workers(struct halo_workers *workers, const char *name)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int r = pthread_attr_init(&attributes);
    if (r)
        return -r;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; !r && i < workers->n_threads - 1; i++) {
        struct worker *worker = &workers->threads[i];
        *worker = (struct worker){.workers = workers, .index = i + 1};
        r = pthread_create(&worker->thread, &attributes, worker_main, worker);
        if (!r) {
            pthread_setname_np(worker->thread, name);
            workers->n_started++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -r;
}

int halo_workers_create(struct halo_workers **ret, const char *name, uint32_t n_threads, uint32_t n_least)
{
    assert(n_threads > 0 && n_threads <= HALO_WORKERS_MAX && n_least <= n_threads);
    struct halo_workers *workers = aligned_alloc(CACHE_LINE, sizeof(*workers));
    if (!workers)
        return -ENOMEM;
    *workers = (struct halo_workers){
        .n_threads = n_threads, .n_processors = halo_workers_processors(), .spin_ticks = SPIN_TICKS};
    workers->threads = calloc(n_threads, sizeof(*workers->threads));
    int r = workers->threads ? start_workers(workers, name) : -ENOMEM;
    if (workers->threads && workers->n_started + 1 >= n_least) {
        workers->n_threads = workers->n_started + 1;
        r = 0;
    }
    if (r) {
        halo_workers_destroy(workers);
        return r;
    }
    *ret = workers;
    return 0;
}

void halo_workers_destroy(struct halo_workers *workers)
{
    if (!workers)
        return;
    atomic_store(&workers->stop, true);
    atomic_fetch_add(&workers->round, 1);
    futex_wake(&workers->round, INT_MAX);
    for (uint32_t i = 0; i < workers->n_started; i++)
        pthread_join(workers->threads[i].thread, NULL);
    free(workers->threads);
    free(workers);
}
