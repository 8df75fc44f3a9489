/* queue.c: who waits, who runs, who ends: the queue and the running list of a scheduler.
 *
 * Device thread. Both are sorted by arrival, so "youngest" is the end of the running list. Who comes in is decided in
 * admit.c, who goes in step.c and batch.c.
 */
#include <assert.h>
#include <string.h>

#include <base/clock.h>

#include "device/scheduler_priv.h"

void halo_scheduler_publish(struct halo_scheduler *s, int queued, int running)
{
    s->n_queued += (uint32_t)queued;
    s->n_running += (uint32_t)running;
    atomic_fetch_add(&s->setup.stats->n_queued, (uint32_t)queued);
    atomic_fetch_add(&s->setup.stats->n_running, (uint32_t)running);
}

uint32_t halo_scheduler_forget(struct halo_scheduler *s, bool all, uint64_t user)
{
    for (uint32_t i = 0; i < s->n_running; i++)
        if (all || s->running[i]->user == user)
            s->running[i]->cache_prompt = false;
    return halo_kv_pool_forget(&s->pool, all, user);
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

void halo_scheduler_hand_over(struct halo_scheduler *s, struct halo_sequence *q)
{
    assert(halo_sequence_state_of(q) == HALO_SEQUENCE_DONE && q->table.n == 0);
    halo_note_post(s->setup.port, &q->note, HALO_NOTE_SEQUENCE_DONE);
}

void halo_scheduler_retire(struct halo_scheduler *s, struct halo_sequence *q, enum halo_outcome outcome)
{
    halo_scheduler_end(s, q, outcome);
    halo_scheduler_hand_over(s, q);
}

/* ---- the queue ---- */

void halo_scheduler_enqueue(struct halo_scheduler *s, struct halo_sequence *q)
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

/* ---- leaving the running list ---- */

void halo_scheduler_remove_running(struct halo_scheduler *s, uint32_t at)
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
    halo_scheduler_remove_running(s, find_running(s, q));
    give_pages_back(s, q);
    q->n_filled = 0;
    q->n_preempted++;
    HALO_COUNT(s->setup.stats, preemptions, 1);
    halo_sequence_move(q, HALO_SEQUENCE_QUEUED);
    q->queue_start = q->queue_place = 0;
    halo_scheduler_enqueue(s, q);
}

struct halo_sequence *halo_scheduler_youngest_paused(const struct halo_scheduler *s, const struct halo_sequence *keep)
{
    for (uint32_t i = s->n_running; i-- > 0;)
        if (s->running[i] != keep && halo_sequence_state_of(s->running[i]) == HALO_SEQUENCE_PAUSED)
            return s->running[i];
    return NULL;
}

uint32_t halo_scheduler_running_of(const struct halo_scheduler *s, uint64_t user)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_running; i++)
        n += s->running[i]->user == user;
    return n;
}

/* Of the running sequences from this serial on, the youngest one of the user who has the most running, n_least or more.
 */
static struct halo_sequence *youngest_of_most(const struct halo_scheduler *s, uint64_t from, uint32_t n_least)
{
    struct halo_sequence *best = NULL;
    for (uint32_t i = s->n_running; i-- > 0 && s->running[i]->serial >= from;) {
        uint32_t n = halo_scheduler_running_of(s, s->running[i]->user);
        if (n >= n_least) {
            best = s->running[i];
            n_least = n + 1;
        }
    }
    return best;
}

struct halo_sequence *halo_scheduler_crowding(const struct halo_scheduler *s, uint64_t user)
{
    return youngest_of_most(s, 0, halo_scheduler_running_of(s, user) + 2);
}

bool halo_scheduler_preempt(struct halo_scheduler *s, const struct halo_sequence *keep)
{
    struct halo_sequence *victim = halo_scheduler_youngest_paused(s, keep);
    if (!victim)
        victim = youngest_of_most(s, keep->serial + 1, halo_scheduler_running_of(s, keep->user));
    if (!victim)
        return false;
    halo_scheduler_requeue(s, victim);
    return true;
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
