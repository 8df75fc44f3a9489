/* engine_broken.c: the real halod-engine without one of its limits (broken.h): the linker's --wrap puts these functions
 * in front of its own. */
#include <assert.h>
#include <stdint.h>

#include <base/list.h>
#include <engine/bench.h>
#include <engine/scheduler.h>
#include <engine/sequence.h>
#include <protocol/value.h>

#include "broken.h"

#define MOST_RUNNING 64
#define BENCH_RUNS 50

struct halo_job;
struct halo_text_place;
struct halo_text_queue;
struct halo_text_worker;

/* ---- texts ---- */

WRAP(int, halo_text_check_fit, struct halo_job *job, struct halo_str text, size_t n_reply)
{
    return is_broken(BROKEN_fit) ? 0 : __real_halo_text_check_fit(job, text, n_reply);
}

WRAP(int, halo_text_check_counted, struct halo_text_worker *worker, struct halo_job *job)
{
    return is_broken(BROKEN_counted) ? 0 : __real_halo_text_check_counted(worker, job);
}

WRAP(void, halo_text_queue_end_turn, struct halo_text_queue *queue, struct halo_text_place *place)
{
    if (!is_broken(BROKEN_text_turns) && !is_broken(BROKEN_template_turns))
        __real_halo_text_queue_end_turn(queue, place);
}

/* ---- who runs ---- */

WRAP(uint32_t, halo_scheduler_running_of, const struct halo_scheduler *scheduler, uint64_t user)
{
    return is_broken(BROKEN_next_user) ? 0 : __real_halo_scheduler_running_of(scheduler, user);
}

WRAP(struct halo_sequence *, halo_scheduler_crowding, const struct halo_scheduler *scheduler, uint64_t user)
{
    bool full = scheduler->n_running == scheduler->max_running;
    return is_broken(full ? BROKEN_slots : BROKEN_pages) ? NULL : __real_halo_scheduler_crowding(scheduler, user);
}

/* ---- the device ---- */

WRAP(uint32_t, halo_batch_build, struct halo_scheduler *scheduler)
{
    struct halo_sequence *running[MOST_RUNNING];
    uint64_t users[MOST_RUNNING];
    uint32_t n = scheduler->n_running;
    if (!is_broken(BROKEN_prompt_rows))
        return __real_halo_batch_build(scheduler);
    assert(n <= MOST_RUNNING);
    for (uint32_t i = 0; i < n; i++) { /* all are one user's */
        running[i] = scheduler->running[i];
        users[i] = running[i]->user;
        running[i]->user = 0;
    }
    uint32_t n_rows = __real_halo_batch_build(scheduler);
    for (uint32_t i = 0; i < n; i++)
        running[i]->user = users[i];
    return n_rows;
}

WRAP(int, halo_bench_step, struct halo_bench *bench, const struct halo_device_ops *ops, struct halo_device_phase *phase)
{
    int r = __real_halo_bench_step(bench, ops, phase);
    for (int i = 1; i < BENCH_RUNS && r == HALO_BENCH_MORE && is_broken(BROKEN_bench_yields); i++)
        r = __real_halo_bench_step(bench, ops, phase);
    return r;
}
