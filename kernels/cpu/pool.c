/* pool.c: worker threads that share one loop at a time (contract in pool_priv.h).
 *
 * The state of the loop is one 64-bit word, the ticket: a round in the upper half, the items nobody has claimed in the
 * lower. A claim is a compare-and-swap that takes one off. As the round is part of the word, a worker that was asleep
 * or interrupted can never claim from another round than the one whose description it has read; and as the caller does
 * not leave a round before all its items are done, a description stays true from a successful claim to its end.
 */
#include <assert.h>
#include <errno.h>
#include <immintrin.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool_priv.h"

/* Waiting before sleeping, in ticks of the time stamp counter (2 to 4 GHz): 25 to 50 microseconds. Long enough for what
 * runs on one thread between two products of a layer, because waking a sleeper costs as much as a small product;
 * docs/negative-results.md. */
#define SPIN_TICKS 100000
#define CACHE_LINE 64
#define STACK_BYTES (1024 * 1024)

struct worker {
    struct halo_cpu_pool *pool;
    pthread_t thread;
    uint32_t index;
};

struct halo_cpu_pool {
    /* Written by the caller once a round, read by all. */
    _Alignas(CACHE_LINE) _Atomic(halo_cpu_pool_fn *) fn;
    _Atomic(void *) arg;
    atomic_uint n_items;
    atomic_bool stop;
    /* Written by everybody for every item. */
    _Alignas(CACHE_LINE) _Atomic uint64_t ticket;
    _Alignas(CACHE_LINE) atomic_uint n_left; /* items of the round that are not done; a futex the caller sleeps on */
    atomic_uint caller_sleeps;
    /* A futex the workers sleep on: the low bits of the round. */
    _Alignas(CACHE_LINE) atomic_uint round;
    atomic_uint n_sleepers;
    _Alignas(CACHE_LINE) uint32_t n_threads;
    uint32_t n_started;
    struct worker *workers;
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
static void work(struct halo_cpu_pool *pool, uint32_t thread)
{
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while (ticket_unclaimed(ticket) > 0) {
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        halo_cpu_pool_fn *fn = atomic_load_explicit(&pool->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&pool->arg, memory_order_relaxed);
        uint32_t n_items = atomic_load_explicit(&pool->n_items, memory_order_relaxed);
        fn(arg, n_items - ticket_unclaimed(ticket), thread);
        if (atomic_fetch_sub(&pool->n_left, 1) == 1 && atomic_load(&pool->caller_sleeps))
            futex_wake(&pool->n_left, 1);
        ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    }
}

/* Returns when a round other than `seen` is open. */
static void wait_for_round(struct halo_cpu_pool *pool, uint32_t seen)
{
    for (uint64_t begin = __rdtsc(); __rdtsc() - begin < SPIN_TICKS;) {
        if (atomic_load_explicit(&pool->round, memory_order_acquire) != seen)
            return;
        _mm_pause();
    }
    atomic_fetch_add(&pool->n_sleepers, 1);
    while (atomic_load(&pool->round) == seen)
        futex_wait(&pool->round, seen);
    atomic_fetch_sub(&pool->n_sleepers, 1);
}

static void *worker_main(void *ud)
{
    struct worker *worker = ud;
    struct halo_cpu_pool *pool = worker->pool;
    uint32_t seen = 0;
    for (;;) {
        wait_for_round(pool, seen);
        seen = atomic_load_explicit(&pool->round, memory_order_acquire);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire))
            return NULL;
        work(pool, worker->index);
    }
}

static void open_round(struct halo_cpu_pool *pool, uint32_t n_items)
{
    uint32_t round = ticket_round(atomic_load_explicit(&pool->ticket, memory_order_relaxed)) + 1;
    atomic_store_explicit(&pool->n_items, n_items, memory_order_relaxed);
    atomic_store_explicit(&pool->n_left, n_items, memory_order_relaxed);
    atomic_store_explicit(&pool->ticket, (uint64_t)round << 32 | n_items, memory_order_release);
    /* Sequentially consistent, as is the sleepers' side: either the worker sees the new round, or this sees the
     * sleeper. */
    atomic_store(&pool->round, round);
    if (atomic_load(&pool->n_sleepers) > 0)
        futex_wake(&pool->round, n_items - 1);
}

static void wait_for_items(struct halo_cpu_pool *pool)
{
    for (uint64_t begin = __rdtsc(); __rdtsc() - begin < SPIN_TICKS;) {
        if (atomic_load_explicit(&pool->n_left, memory_order_acquire) == 0)
            return;
        _mm_pause();
    }
    atomic_store(&pool->caller_sleeps, 1);
    for (uint32_t left; (left = atomic_load(&pool->n_left)) > 0;)
        futex_wait(&pool->n_left, left);
    atomic_store(&pool->caller_sleeps, 0);
}

void halo_cpu_pool_run(struct halo_cpu_pool *pool, uint32_t n_items, halo_cpu_pool_fn *fn, void *arg)
{
    if (pool->n_threads == 1 || n_items <= 1) {
        for (uint32_t i = 0; i < n_items; i++)
            fn(arg, i, 0);
        return;
    }
    assert(ticket_unclaimed(atomic_load(&pool->ticket)) == 0);
    atomic_store_explicit(&pool->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&pool->arg, arg, memory_order_relaxed);
    open_round(pool, n_items);
    work(pool, 0);
    wait_for_items(pool);
}

uint32_t halo_cpu_pool_threads(const struct halo_cpu_pool *pool)
{
    return pool->n_threads;
}

/* Signals are the port's business: a worker takes none. */
static int start_workers(struct halo_cpu_pool *pool)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int r = pthread_attr_init(&attributes);
    if (r)
        return -r;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; !r && i < pool->n_threads - 1; i++) {
        struct worker *worker = &pool->workers[i];
        *worker = (struct worker){.pool = pool, .index = i + 1};
        r = pthread_create(&worker->thread, &attributes, worker_main, worker);
        if (!r) {
            pthread_setname_np(worker->thread, "halo-cpu");
            pool->n_started++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -r;
}

int halo_cpu_pool_create(struct halo_cpu_pool **ret, uint32_t n_threads)
{
    assert(n_threads > 0);
    struct halo_cpu_pool *pool = aligned_alloc(CACHE_LINE, sizeof(*pool));
    if (!pool)
        return -ENOMEM;
    *pool = (struct halo_cpu_pool){.n_threads = n_threads};
    pool->workers = calloc(n_threads, sizeof(*pool->workers));
    int r = pool->workers ? start_workers(pool) : -ENOMEM;
    if (r) {
        halo_cpu_pool_destroy(pool);
        return r;
    }
    *ret = pool;
    return 0;
}

void halo_cpu_pool_destroy(struct halo_cpu_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->round, 1);
    futex_wake(&pool->round, INT_MAX);
    for (uint32_t i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    free(pool->workers);
    free(pool);
}
