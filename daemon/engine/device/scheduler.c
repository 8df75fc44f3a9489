/* scheduler.c: who waits, who runs, who ends.
 *
 * Device thread. The running list is sorted by arrival, so "youngest" is its end. Who comes in is decided in admit.c.
 * Fails with: -ENOMEM at init, the device's errno in step.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/guard.h>

#include "scheduler_priv.h"

#define PROGRESS_NS 100000000u /* at most 10 progress events a second for one request */

static void *take(size_t n, size_t size)
{
    return n == 0 ? calloc(1, size) : calloc(n, size);
}

int halo_scheduler_init(struct halo_scheduler *s, const struct halo_scheduler_setup *setup)
{
    const struct halo_plan *plan = setup->plan;
    memset(s, 0, sizeof(*s));
    assert(plan->max_rows > 0 && plan->max_outputs > 0 && plan->n_vocab > 0);
    s->setup = *setup;
    /* A quarter of the outputs is left to scores, so that a full house of replies cannot starve them. */
    s->max_running = plan->max_outputs > 3 ? plan->max_outputs - plan->max_outputs / 4 : plan->max_outputs;
    if (s->max_running > plan->max_rows)
        s->max_running = plan->max_rows;
    s->running = take(s->max_running, sizeof(*s->running));
    s->parts = take(s->max_running, sizeof(*s->parts));
    s->picks = take(s->max_running, sizeof(*s->picks));
    s->seqs = take(s->max_running, sizeof(*s->seqs));
    s->token = take(plan->max_rows, sizeof(*s->token));
    s->pos = take(plan->max_rows, sizeof(*s->pos));
    s->seq = take(plan->max_rows, sizeof(*s->seq));
    s->output = take(plan->max_outputs, sizeof(*s->output));
    s->whole = take(plan->max_outputs, sizeof(*s->whole));
    s->top = take(plan->max_outputs, HALO_CANDIDATES_MAX * sizeof(*s->top));
    s->tops = take(HALO_SCHEDULER_TOPS, sizeof(*s->tops));
    size_t logit_bytes = (size_t)plan->max_outputs * plan->n_vocab * sizeof(float);
    s->logits = aligned_alloc(64, (logit_bytes + 63) & ~(size_t)63);
    bool whole = s->running && s->parts && s->picks && s->seqs && s->token && s->pos && s->seq && s->output &&
                 s->whole && s->top && s->tops && s->logits;
    int r = whole ? halo_pace_init(&s->pace, s->max_running) : -ENOMEM;
    if (r == 0)
        r = halo_sampler_init(&s->sampler, plan->n_vocab);
    if (r == 0)
        r = halo_kv_pool_init(&s->pool, plan->kv.n_pages);
    if (r < 0)
        halo_scheduler_finish(s);
    return r;
}

void halo_scheduler_finish(struct halo_scheduler *s)
{
    assert(s->n_queued == 0 && s->n_running == 0);
    halo_kv_pool_finish(&s->pool);
    halo_sampler_finish(&s->sampler);
    halo_pace_finish(&s->pace);
    free(s->running);
    free(s->parts);
    free(s->picks);
    free(s->seqs);
    free(s->token);
    free(s->pos);
    free(s->seq);
    free(s->output);
    free(s->whole);
    free(s->top);
    free(s->tops);
    free(s->logits);
    memset(s, 0, sizeof(*s));
}

/* ---- ends ---- */

static void count_end(struct halo_stats *stats, const struct halo_sequence *q, enum halo_sequence_state was)
{
    switch (q->outcome) {
    case HALO_OUTCOME_STOP_TOKEN:
    case HALO_OUTCOME_STOP_STRING: HALO_COUNT(stats, ended_stop, 1); break;
    case HALO_OUTCOME_LENGTH: HALO_COUNT(stats, ended_length, 1); break;
    case HALO_OUTCOME_SCORED: HALO_COUNT(stats, ended_scored, 1); break;
    case HALO_OUTCOME_DEADLINE: HALO_COUNT(stats, ended_deadline, 1); break;
    case HALO_OUTCOME_CANCELLED:
        if (was == HALO_SEQUENCE_QUEUED)
            HALO_COUNT(stats, cancelled_queued, 1);
        else if (was == HALO_SEQUENCE_PREFILL)
            HALO_COUNT(stats, cancelled_prefill, 1);
        else if (was == HALO_SEQUENCE_DECODE)
            HALO_COUNT(stats, cancelled_decode, 1);
        else
            HALO_COUNT(stats, cancelled_paused, 1);
        break;
    case HALO_OUTCOME_FAULT:
        if (q->fault.code == HALO_FAULT_DEADLINE)
            HALO_COUNT(stats, ended_deadline, 1);
        else
            HALO_COUNT(stats, ended_fault, 1);
        break;
    case HALO_OUTCOME_NONE: assert(!"a sequence ends with an outcome");
    }
}

/* Whole pages are listed already (commit.c); the last one is now, if it holds anything. */
static void give_pages_back(struct halo_scheduler *s, struct halo_sequence *q)
{
    if (q->cache_prompt)
        halo_kv_table_leave(&q->table, &s->pool, q->user, q->ids, q->n_filled);
    else
        halo_kv_table_clear(&q->table, &s->pool);
    q->n_kept = 0;
}

void halo_scheduler_end(struct halo_scheduler *s, struct halo_sequence *q, enum halo_outcome outcome)
{
    enum halo_sequence_state was = halo_sequence_state_of(q);
    q->outcome = outcome;
    q->ended_ns = halo_clock_ns();
    /* What was held back is part of the reply, unless a stop string ended it (then there is nothing) or it is not to be
     * trusted. */
    if (q->kind == HALO_SEQUENCE_GENERATE && outcome != HALO_OUTCOME_STOP_STRING && outcome != HALO_OUTCOME_FAULT) {
        struct halo_span rest = {0};
        if (halo_text_stream_finish(&q->text, &rest) == HALO_TEXT_STOPPED)
            q->outcome = HALO_OUTCOME_STOP_STRING;
        halo_sequence_emit_text(q, rest);
    }
    if (outcome == HALO_OUTCOME_FAULT && q->fault.code == HALO_FAULT_DEVICE_FAULT)
        halo_scheduler_forget(s, false, q->user); /* what the device computed for this text is not to be trusted */
    give_pages_back(s, q);
    count_end(s->setup.stats, q, was);
    halo_sequence_move(q, HALO_SEQUENCE_DONE);
}

/* The sequence is the port's from here on. */
static void hand_over(struct halo_scheduler *s, struct halo_sequence *q)
{
    assert(halo_sequence_state_of(q) == HALO_SEQUENCE_DONE && q->table.n == 0);
    halo_note_post(s->setup.port, &q->note, HALO_NOTE_SEQUENCE_DONE);
}

static void end_and_hand_over(struct halo_scheduler *s, struct halo_sequence *q, enum halo_outcome outcome)
{
    halo_scheduler_end(s, q, outcome);
    hand_over(s, q);
}

void halo_scheduler_publish(struct halo_scheduler *s, int queued, int running)
{
    s->n_queued += (uint32_t)queued;
    s->n_running += (uint32_t)running;
    atomic_fetch_add(&s->setup.stats->n_queued, (uint32_t)queued);
    atomic_fetch_add(&s->setup.stats->n_running, (uint32_t)running);
}

/* ---- the queue ---- */

static void enqueue(struct halo_scheduler *s, struct halo_sequence *q)
{
    struct halo_sequence **at = &s->queue;
    while (*at && (*at)->serial < q->serial)
        at = &(*at)->next;
    q->next = *at;
    *at = q;
    halo_scheduler_publish(s, 1, 0);
}

void halo_scheduler_unqueue(struct halo_scheduler *s, struct halo_sequence **at)
{
    struct halo_sequence *q = *at;
    *at = q->next;
    q->next = NULL;
    halo_scheduler_publish(s, -1, 0);
}

void halo_scheduler_submit(struct halo_scheduler *s, struct halo_sequence *q)
{
    assert(halo_sequence_state_of(q) == HALO_SEQUENCE_QUEUED && q->table.n == 0);
    HALO_COUNT(s->setup.stats, sequences_submitted, 1);
    q->serial = s->next_serial++;
    if (q->outcome != HALO_OUTCOME_NONE) { /* a resumed reply that was complete */
        end_and_hand_over(s, q, q->outcome);
        return;
    }
    if (halo_kv_pages_for(q->capacity) > s->pool.n_pages) {
        halo_fault_set(
            &q->fault, HALO_FAULT_CONTEXT_OVERFLOW,
            "prompt and reply of %u tokens need %u KV pages, the pool of this model has %u (%u tokens); ask for fewer "
            "max_tokens or load with more kv_tokens",
            q->capacity, halo_kv_pages_for(q->capacity), s->pool.n_pages, s->pool.n_pages * HALO_KV_PAGE_TOKENS);
        halo_fault_number(&q->fault, "tokens", q->capacity);
        halo_fault_number(&q->fault, "kv_tokens", (uint64_t)s->pool.n_pages * HALO_KV_PAGE_TOKENS);
        end_and_hand_over(s, q, HALO_OUTCOME_FAULT);
        return;
    }
    if (s->n_queued >= s->setup.max_queued) {
        halo_fault_set(&q->fault, HALO_FAULT_QUEUE_FULL,
                       "%u requests are waiting and %u running already; try again later", s->n_queued, s->n_running);
        halo_fault_number(&q->fault, "queued", s->n_queued);
        halo_fault_number(&q->fault, "limit", s->setup.max_queued);
        HALO_COUNT(s->setup.stats, refused_queue_full, 1);
        end_and_hand_over(s, q, HALO_OUTCOME_FAULT);
        return;
    }
    q->queue_start = q->queue_place = s->n_queued;
    q->progress_ns = halo_clock_ns();
    enqueue(s, q);
}

/* ---- leaving the running list ---- */

static void remove_running(struct halo_scheduler *s, uint32_t at)
{
    memmove(s->running + at, s->running + at + 1, (s->n_running - at - 1) * sizeof(*s->running));
    halo_scheduler_publish(s, 0, -1);
}

static uint32_t find_running(const struct halo_scheduler *s, const struct halo_sequence *q)
{
    uint32_t at = 0;
    while (at < s->n_running && s->running[at] != q)
        at++;
    assert(at < s->n_running);
    return at;
}

void halo_scheduler_requeue(struct halo_scheduler *s, struct halo_sequence *q)
{
    remove_running(s, find_running(s, q));
    give_pages_back(s, q);
    q->n_filled = 0;
    q->n_preempted++;
    HALO_COUNT(s->setup.stats, preemptions, 1);
    halo_sequence_move(q, HALO_SEQUENCE_QUEUED);
    q->queue_start = q->queue_place = 0;
    enqueue(s, q);
}

struct halo_sequence *halo_scheduler_youngest_paused(const struct halo_scheduler *s, const struct halo_sequence *keep)
{
    for (uint32_t i = s->n_running; i-- > 0;)
        if (s->running[i] != keep && halo_sequence_state_of(s->running[i]) == HALO_SEQUENCE_PAUSED)
            return s->running[i];
    return NULL;
}

bool halo_scheduler_preempt(struct halo_scheduler *s, const struct halo_sequence *keep)
{
    struct halo_sequence *victim = halo_scheduler_youngest_paused(s, keep);
    if (!victim && s->n_running > 0 && s->running[s->n_running - 1]->serial > keep->serial)
        victim = s->running[s->n_running - 1];
    if (!victim)
        return false;
    halo_scheduler_requeue(s, victim);
    return true;
}

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
    return HALO_OUTCOME_FAULT;
}

bool halo_scheduler_reader_behind(struct halo_sequence *q)
{
    if (atomic_load(&q->hold))
        return true;
    if (halo_sequence_has_room(q, 1))
        return false;
    atomic_store(&q->stalled, true);
    return !halo_sequence_has_room(q, 1);
}

static void sweep_queue(struct halo_scheduler *s, uint64_t now_ns)
{
    uint32_t place = 0;
    for (struct halo_sequence **at = &s->queue; *at;) {
        struct halo_sequence *q = *at;
        enum halo_outcome outcome = due(q, now_ns);
        if (outcome != HALO_OUTCOME_NONE) {
            halo_scheduler_unqueue(s, at);
            end_and_hand_over(s, q, outcome);
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
            remove_running(s, i);
            end_and_hand_over(s, q, outcome);
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
            hand_over(s, s->running[i]);
        else
            s->running[kept++] = s->running[i];
    halo_scheduler_publish(s, 0, (int)kept - (int)before);
}

static void count_step(struct halo_scheduler *s, uint64_t elapsed_ns)
{
    struct halo_stats *stats = s->setup.stats;
    uint32_t n_rows = s->batch.n_rows;
    HALO_COUNT(stats, steps, 1);
    HALO_COUNT(stats, rows, n_rows);
    HALO_COUNT(stats, step_us, elapsed_ns / 1000);
    if (s->n_parts >= 8)
        HALO_COUNT(stats, steps_8_or_more, 1);
    halo_stats_observe(stats, HALO_HISTOGRAM_step_rows, n_rows);
    halo_stats_observe(stats, HALO_HISTOGRAM_step_sequences, s->n_parts);
    halo_stats_observe(stats, HALO_HISTOGRAM_step_ms, elapsed_ns / 1000000);
    halo_pace_note(&s->pace, s->n_decodes, n_rows - s->n_decodes, elapsed_ns);
}

static void tell_activity(struct halo_scheduler *s, enum halo_activity activity)
{
    if (s->setup.activity)
        atomic_store(s->setup.activity, (int)activity);
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
    count_step(s, halo_clock_ns() - start_ns);
    if ((r == -EIO || r == -ETIME) && s->setup.lost)
        atomic_store(s->setup.lost, true); /* before a sequence ends by it: whoever hears of that looks here */
    if (r < 0)
        halo_fault_set(fault, r == -ETIME ? HALO_FAULT_DEVICE_HANG : HALO_FAULT_DEVICE_FAULT,
                       "the device failed in a step of %u rows: %s", s->batch.n_rows,
                       reason[0] ? reason : strerror(-r));
    return r;
}

static int step(struct halo_scheduler *s, struct halo_fault *fault)
{
    uint64_t now_ns = halo_clock_ns();
    sweep_queue(s, now_ns);
    sweep_running(s, now_ns);
    if (!s->closed)
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

double halo_scheduler_decode_ns(const struct halo_scheduler *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_running; i++)
        n += halo_sequence_state_of(s->running[i]) == HALO_SEQUENCE_DECODE;
    return n > 0 ? halo_pace_decode_ns(&s->pace, n) : 0;
}

bool halo_scheduler_has_prompts(const struct halo_scheduler *s)
{
    for (uint32_t i = 0; i < s->n_running; i++)
        if (halo_sequence_state_of(s->running[i]) == HALO_SEQUENCE_PREFILL)
            return true;
    return false;
}

bool halo_scheduler_quiet(struct halo_scheduler *s)
{
    struct halo_sequence *paused;
    while ((paused = halo_scheduler_youngest_paused(s, NULL)))
        halo_scheduler_requeue(s, paused);
    return s->n_running == 0;
}

void halo_scheduler_fail_all(struct halo_scheduler *s, const struct halo_fault *fault)
{
    while (s->queue) {
        struct halo_sequence *q = s->queue;
        halo_scheduler_unqueue(s, &s->queue);
        q->fault = *fault;
        end_and_hand_over(s, q, HALO_OUTCOME_FAULT);
    }
    while (s->n_running > 0) {
        struct halo_sequence *q = s->running[s->n_running - 1];
        remove_running(s, s->n_running - 1);
        q->fault = *fault;
        end_and_hand_over(s, q, HALO_OUTCOME_FAULT);
    }
}

uint64_t halo_scheduler_next_deadline_ns(const struct halo_scheduler *s)
{
    uint64_t next = UINT64_MAX;
    for (const struct halo_sequence *q = s->queue; q; q = q->next)
        if (q->deadline_ns > 0 && q->deadline_ns < next)
            next = q->deadline_ns;
    for (uint32_t i = 0; i < s->n_running; i++)
        if (s->running[i]->deadline_ns > 0 && s->running[i]->deadline_ns < next)
            next = s->running[i]->deadline_ns;
    return next;
}
