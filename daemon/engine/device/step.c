/* step.c: one step: ends that are due, newcomers, rows, a run of the device, what became of it.
 *
 * Device thread; allocates nothing. Fails with the device's errno.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include <base/clock.h>
#include <base/guard.h>

#include "device/scheduler_priv.h"

#define PROGRESS_NS 100000000u /* at most 10 progress events a second for one request */

/* ---- before each step ---- */

/* HALO_OUTCOME_NONE, or how this sequence ends now. */
static enum halo_outcome due(struct halo_sequence *q, uint64_t now_ns)
{
    if (atomic_load(&q->cancel))
        return HALO_OUTCOME_CANCELLED;
    if (q->deadline_ns == 0 || now_ns < q->deadline_ns)
        return HALO_OUTCOME_NONE;
    if (q->n_ids > q->n_prompt)
        return HALO_OUTCOME_DEADLINE;
    halo_fault_set(&q->fault, HALO_FAULT_DEADLINE, "the deadline of %llu ms passed before the first token (%s)",
                   (unsigned long long)((q->deadline_ns - q->arrived_ns) / 1000000),
                   halo_sequence_state_name(halo_sequence_state_of(q)));
    halo_fault_number(&q->fault, "deadline_ms", (q->deadline_ns - q->arrived_ns) / 1000000);
    return HALO_OUTCOME_FAULT;
}

static void sweep_queue(struct halo_scheduler *s, uint64_t now_ns)
{
    uint32_t place = 0;
    for (struct halo_sequence **at = &s->queue; *at;) {
        struct halo_sequence *q = *at;
        enum halo_outcome outcome = due(q, now_ns);
        if (outcome != HALO_OUTCOME_NONE) {
            halo_scheduler_unqueue(s, at);
            halo_scheduler_retire(s, q, outcome);
            continue;
        }
        if (q->kind == HALO_SEQUENCE_GENERATE && place < q->queue_place && now_ns - q->progress_ns >= PROGRESS_NS) {
            q->queue_place = place;
            q->progress_ns = now_ns;
            halo_sequence_emit_progress(q, HALO_RING_QUEUE, q->queue_start - place, q->queue_start);
            halo_sequence_tell(q, s->setup.port);
        }
        place++;
        at = &q->next;
    }
}

static void sweep_running(struct halo_scheduler *s, uint64_t now_ns)
{
    for (uint32_t i = 0; i < s->n_running;) {
        struct halo_sequence *q = s->running[i];
        enum halo_outcome outcome = due(q, now_ns);
        if (outcome != HALO_OUTCOME_NONE) {
            halo_scheduler_remove_running(s, i);
            halo_scheduler_retire(s, q, outcome);
            continue;
        }
        bool paused = halo_sequence_state_of(q) == HALO_SEQUENCE_PAUSED, behind = halo_scheduler_reader_behind(q);
        if (behind && !paused)
            halo_sequence_move(q, HALO_SEQUENCE_PAUSED);
        else if (!behind && paused)
            halo_sequence_move(q, q->kind == HALO_SEQUENCE_GENERATE && halo_sequence_left(q) == 1
                                      ? HALO_SEQUENCE_DECODE
                                      : HALO_SEQUENCE_PREFILL);
        i++;
    }
}

/* ---- the step ---- */

static void drop_ended(struct halo_scheduler *s)
{
    uint32_t kept = 0, before = s->n_running;
    for (uint32_t i = 0; i < before; i++)
        if (halo_sequence_state_of(s->running[i]) == HALO_SEQUENCE_DONE)
            halo_scheduler_hand_over(s, s->running[i]);
        else
            s->running[kept++] = s->running[i];
    halo_scheduler_publish(s, 0, (int)kept - (int)before);
}

static void count_step(struct halo_scheduler *s, uint64_t start_ns, uint64_t end_ns)
{
    uint64_t elapsed_ns = end_ns - start_ns;
    struct halo_stats *stats = s->setup.stats;
    uint32_t n_rows = s->batch.n_rows;
    HALO_COUNT(stats, steps, 1);
    HALO_COUNT(stats, rows, n_rows);
    if (s->setup.streams)
        HALO_COUNT(stats, streamed_rows, n_rows);
    HALO_COUNT(stats, step_us, elapsed_ns / 1000);
    if (s->n_parts >= 8)
        HALO_COUNT(stats, steps_8_or_more, 1);
    halo_stats_observe(stats, HALO_HISTOGRAM_step_rows, n_rows);
    halo_stats_observe(stats, HALO_HISTOGRAM_step_sequences, s->n_parts);
    halo_stats_observe(stats, HALO_HISTOGRAM_step_ms, elapsed_ns / 1000000);
    if (s->n_decodes > 0)
        halo_pace_note(&s->pace, s->n_decodes, n_rows - s->n_decodes, elapsed_ns);
    else
        halo_pace_note_chunk(&s->pace, n_rows, !s->setup.queues || s->batch.n_outputs > 0, start_ns, end_ns);
}

static void tell_activity(struct halo_scheduler *s, enum halo_activity activity)
{
    if (s->setup.activity)
        atomic_store(s->setup.activity, (int)activity);
}

static void set_fault(const struct halo_scheduler *s, int error, const char *reason, struct halo_fault *fault)
{
    if (error == HALO_EXPERT_E_UNREADABLE)
        halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s", reason);
    else
        halo_fault_set(fault, error == -ETIME ? HALO_FAULT_DEVICE_HANG : HALO_FAULT_DEVICE_FAULT,
                       "the device failed in a step of %u rows: %s", s->batch.n_rows,
                       reason[0] ? reason : strerror(-error));
}

static int run_device(struct halo_scheduler *s, struct halo_fault *fault)
{
    char reason[HALO_DEVICE_REASON] = "";
    uint64_t start_ns = halo_clock_ns();
    tell_activity(s, !s->has_run                    ? HALO_ACTIVITY_FIRST
                     : s->batch.n_rows > s->n_parts ? HALO_ACTIVITY_PREFILL
                                                    : HALO_ACTIVITY_DECODE);
    int r = s->setup.ops->run(s->setup.device_model, &s->batch, s->setup.phase, reason);
    tell_activity(s, HALO_ACTIVITY_STEP);
    s->has_run = true;
    count_step(s, start_ns, halo_clock_ns());
    if ((r == HALO_DEVICE_E_LOST || r == -ETIME) && s->setup.lost)
        atomic_store(s->setup.lost, true); /* before a sequence ends by it: whoever hears of that looks here */
    if (r < 0)
        set_fault(s, r, reason, fault);
    return r;
}

static int step(struct halo_scheduler *s, struct halo_fault *fault)
{
    uint64_t now_ns = halo_clock_ns();
    sweep_queue(s, now_ns);
    sweep_running(s, now_ns);
    halo_scheduler_admit(s, now_ns);
    if (halo_batch_build(s) == 0)
        return HALO_SCHEDULER_IDLE;
    struct halo_fault own = {0};
    int r = run_device(s, &own);
    now_ns = halo_clock_ns();
    for (uint32_t i = 0; i < s->n_parts; i++) {
        struct halo_sequence *q = s->parts[i].sequence;
        if (r < 0) {
            q->fault = own;
            halo_scheduler_end(s, q, HALO_OUTCOME_FAULT);
            continue;
        }
        halo_commit_part(s, &s->parts[i], now_ns);
    }
    drop_ended(s);
    if (r < 0 && fault)
        *fault = own;
    return r;
}

int halo_scheduler_step(struct halo_scheduler *s, struct halo_fault *fault)
{
    halo_guard_enter();
    int r = step(s, fault);
    halo_guard_leave();
    return r;
}
