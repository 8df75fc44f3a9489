/* scheduler.c: the life of a scheduler, and what comes to it from outside the step.
 *
 * Device thread. Who waits and who runs is queue.c; the step is step.c. Fails with: -ENOMEM at init.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

#include "device/scheduler_priv.h"

static int make_pool(struct halo_kv_pool *pool, const struct halo_plan *plan, uint32_t n_checkpoints)
{
    int r = halo_kv_pool_init(pool, plan->kv[0].n_pages);
    for (uint32_t group = 1; group < plan->n_kv_groups && r == 0; group++) {
        const struct halo_kv_group *kv = &plan->kv[group];
        uint32_t span = halo_kv_group_span(kv, plan->max_rows), window = kv->window;
        if (kv->state_width == 0 && window == 0) /* it keeps every position as the first group does */
            window = plan->n_context;
        r = halo_kv_pool_add_side(pool, kv->n_pages, window, span < kv->n_pages ? span : kv->n_pages);
        if (r == 0 && kv->state_width > 0)
            halo_kv_side_reserve(&pool->sides[pool->n_sides - 1], n_checkpoints);
    }
    return r;
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
    s->running = calloc(s->max_running, sizeof(*s->running));
    s->parts = calloc(s->max_running, sizeof(*s->parts));
    s->picks = calloc(s->max_running, sizeof(*s->picks));
    s->tops = calloc(HALO_SCHEDULER_TOPS, sizeof(*s->tops));
    bool whole = s->running && s->parts && s->picks && s->tops;
    int r = whole ? halo_pace_init(&s->pace, s->max_running) : -ENOMEM;
    if (r == 0)
        r = halo_batch_room_init(&s->room, plan->max_rows, s->max_running, plan->max_outputs, plan->n_vocab);
    if (r == 0)
        r = halo_sampler_init(&s->sampler, plan->n_vocab);
    if (r == 0)
        r = make_pool(&s->pool, plan, setup->n_checkpoints);
    if (r < 0)
        halo_scheduler_finish(s);
    return r;
}

void halo_scheduler_finish(struct halo_scheduler *s)
{
    assert(s->n_queued == 0 && s->n_running == 0 && s->n_lent == 0);
    halo_kv_pool_finish(&s->pool);
    halo_sampler_finish(&s->sampler);
    halo_pace_finish(&s->pace);
    free(s->running);
    free(s->parts);
    free(s->picks);
    free(s->tops);
    halo_batch_room_finish(&s->room);
    memset(s, 0, sizeof(*s));
}

void halo_scheduler_submit(struct halo_scheduler *s, struct halo_sequence *q)
{
    assert(halo_sequence_state_of(q) == HALO_SEQUENCE_QUEUED && q->table.n == 0);
    HALO_COUNT(s->setup.stats, sequences_submitted, 1);
    q->serial = s->next_serial++;
    if (q->outcome != HALO_OUTCOME_NONE) { /* a resumed reply that was complete */
        halo_scheduler_retire(s, q, q->outcome);
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
        halo_scheduler_retire(s, q, HALO_OUTCOME_FAULT);
        return;
    }
    if (s->n_queued >= s->setup.max_queued) {
        halo_fault_set(&q->fault, HALO_FAULT_QUEUE_FULL,
                       "%u requests are waiting and %u running already; try again later", s->n_queued, s->n_running);
        halo_fault_number(&q->fault, "queued", s->n_queued);
        halo_fault_number(&q->fault, "limit", s->setup.max_queued);
        HALO_COUNT(s->setup.stats, refused_queue_full, 1);
        halo_scheduler_retire(s, q, HALO_OUTCOME_FAULT);
        return;
    }
    q->queue_start = q->queue_place = s->n_queued;
    q->progress_ns = halo_clock_ns();
    halo_scheduler_enqueue(s, q);
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

void halo_scheduler_share(struct halo_scheduler *s, const struct halo_scheduler_others *others)
{
    s->others = *others;
}

uint32_t halo_scheduler_count_pages(struct halo_scheduler *s)
{
    HALO_COUNT(s->setup.stats, prefix_evictions, s->pool.prefix.n_evicted - s->n_evicted_told);
    s->n_evicted_told = s->pool.prefix.n_evicted;
    return s->pool.n_pages - halo_kv_pool_available(&s->pool);
}

static bool lends(struct halo_scheduler *s, struct halo_kv_table *tables, uint32_t n_tables, uint32_t n_positions)
{
    for (uint32_t i = 0; i < n_tables; i++)
        if (halo_kv_table_grow(&tables[i], &s->pool, n_positions) == HALO_KV_E_FULL) {
            while (i > 0)
                halo_kv_table_clear(&tables[--i], &s->pool);
            return false;
        }
    s->n_lent += n_tables * halo_kv_pages_for(n_positions);
    return true;
}

bool halo_scheduler_lend(struct halo_scheduler *s, struct halo_kv_table *tables, uint32_t n_tables,
                         uint32_t n_positions)
{
    struct halo_sequence *paused;
    while (!lends(s, tables, n_tables, n_positions)) {
        if (!(paused = halo_scheduler_youngest_paused(s, NULL)))
            return false;
        halo_scheduler_requeue(s, paused);
    }
    return true;
}

void halo_scheduler_take_back(struct halo_scheduler *s, struct halo_kv_table *tables, uint32_t n_tables)
{
    for (uint32_t i = 0; i < n_tables; i++) {
        assert(s->n_lent >= tables[i].n);
        s->n_lent -= tables[i].n;
        halo_kv_table_clear(&tables[i], &s->pool);
    }
}

void halo_scheduler_fail_all(struct halo_scheduler *s, const struct halo_fault *fault)
{
    while (s->queue) {
        struct halo_sequence *q = s->queue;
        halo_scheduler_unqueue(s, &s->queue);
        q->fault = *fault;
        halo_scheduler_retire(s, q, HALO_OUTCOME_FAULT);
    }
    while (s->n_running > 0) {
        struct halo_sequence *q = s->running[s->n_running - 1];
        halo_scheduler_remove_running(s, s->n_running - 1);
        q->fault = *fault;
        halo_scheduler_retire(s, q, HALO_OUTCOME_FAULT);
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
