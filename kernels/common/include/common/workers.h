/* workers.h: worker threads that share one loop at a time.
 *
 * halo_workers_run() cuts a loop into items which the caller and the workers claim one by one, and returns when every
 * item is done. It waits for items, not for threads: a worker that lost its core before it claimed anything delays
 * nobody. Waiting, on both sides, is a few microseconds of spinning and then a futex, so workers without work use no
 * processor time, and a caller that waits for a worker that lost its core yields its own.
 *
 * create, run and destroy belong to one thread at a time; `fn` runs on that thread and the workers at once. Nothing is
 * allocated after create. Failures: create only.
 */
#ifndef HALO_COMMON_WORKERS_H
#define HALO_COMMON_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#define HALO_WORKERS_MAX 64 /* threads, the caller included */

struct halo_workers;

/* `item` is below the n_items of the run; `thread` is below halo_workers_count() and unique among the calls that run
 * at the same time. */
typedef void halo_workers_fn(void *arg, uint32_t item, uint32_t thread);

/* Processors that this process may use, at least 1. */
uint32_t halo_workers_processors(void);

/* As many threads as can be started, up to n_threads, the caller included: 1 has no workers. -EAGAIN when that is fewer
 * than n_least, -ENOMEM. `name` is that of the threads, at most 15 characters. */
int halo_workers_create(struct halo_workers **ret, const char *name, uint32_t n_threads, uint32_t n_least);
void halo_workers_destroy(struct halo_workers *workers);
/* Threads, the caller included. */
uint32_t halo_workers_count(const struct halo_workers *workers);
void halo_workers_run(struct halo_workers *workers, uint32_t n_items, halo_workers_fn *fn, void *arg);
/* While the caller waits for a drive between two loops: workers spin for about a millisecond before they sleep, because
 * waking all of them takes as long as a tenth of a read. A worker whose core something else wants sleeps at once. The
 * caller's thread; false: as usual. Nothing changes where there are more threads than processors. */
void halo_workers_keep_awake(struct halo_workers *workers, bool awake);

#endif
