/* crew_priv.h: a few threads that share the rows of a weight while a model loads: packing by one thread is slower than
 * a disk.
 *
 * A crew has one job at a time, which its caller waits for and helps with. Any thread; the caller sees to it that jobs
 * do not overlap. The threads sleep between jobs and end with the crew. Where a thread cannot be started, there are
 * fewer of them; the caller alone is enough.
 */
#ifndef HALO_HIP_CREW_PRIV_H
#define HALO_HIP_CREW_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HALO_HIP_CREW_MAX 8 /* hands, the caller's among them */

/* Item `i` of a job; `hand` says who does it: 0 .. HALO_HIP_CREW_MAX - 1, at one time one item each. */
typedef void halo_hip_crew_fn(void *ud, uint64_t i, uint32_t hand);

struct halo_hip_crew;
struct halo_hip_hand {
    struct halo_hip_crew *crew;
    uint32_t index;
};

struct halo_hip_crew {
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    pthread_t threads[HALO_HIP_CREW_MAX - 1];
    struct halo_hip_hand hands[HALO_HIP_CREW_MAX - 1];
    uint32_t n_threads;
    /* Under the lock: */
    uint64_t job; /* counts them */
    uint32_t n_working;
    bool leave;
    /* Of the job; set before it is counted. */
    halo_hip_crew_fn *fn;
    void *ud;
    uint64_t n_items, slice;
    _Atomic uint64_t next;
};

/* At most as many hands as the process may use processors. */
void halo_hip_crew_init(struct halo_hip_crew *crew);
void halo_hip_crew_finish(struct halo_hip_crew *crew);
/* Returns when all items are done. */
void halo_hip_crew_run(struct halo_hip_crew *crew, uint64_t n_items, halo_hip_crew_fn *fn, void *ud);

#endif
