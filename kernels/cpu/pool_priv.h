/* pool_priv.h: worker threads that share one loop at a time.
 *
 * halo_cpu_pool_run() cuts a loop into items which the caller and the workers claim one by one, and returns when every
 * item is done. It waits for items, not for threads: a worker that lost its core before it claimed anything holds up
 * nobody. Waiting, on both sides, is a few microseconds of spinning and then a futex, so a pool without work uses no
 * processor time, and a caller that waits for a worker that lost its core gives its own core away.
 *
 * Owner: the device. create, run and destroy belong to one thread at a time; `fn` runs on that thread and the workers
 * at once. Nothing is allocated after create. Failures: create only.
 */
#ifndef HALO_CPU_POOL_PRIV_H
#define HALO_CPU_POOL_PRIV_H

#include <stdint.h>

struct halo_cpu_pool;

/* `item` is below the n_items of the run; `thread` is below n_threads and unique among the calls that run at the same
 * time. */
typedef void halo_cpu_pool_fn(void *arg, uint32_t item, uint32_t thread);

/* n_threads counts the caller: 1 has no workers. -EAGAIN or -ENOMEM when a thread cannot be had. */
int halo_cpu_pool_create(struct halo_cpu_pool **ret, uint32_t n_threads);
void halo_cpu_pool_destroy(struct halo_cpu_pool *pool);
uint32_t halo_cpu_pool_threads(const struct halo_cpu_pool *pool);
void halo_cpu_pool_run(struct halo_cpu_pool *pool, uint32_t n_items, halo_cpu_pool_fn *fn, void *arg);

#endif
