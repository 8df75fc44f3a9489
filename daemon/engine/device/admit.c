/* admit.c: who comes in from the queue, and with which pages.
 *
 * Device thread. A user's sequences come in strictly in order of arrival: a small one does not overtake a large one
 * for ever. Between users the one with the fewest running is next, and then waits for room before all others; who has
 * at least two more running than that user makes room for it, the youngest first. So a user who fills the queue, or
 * runs as much as can run, holds nobody else up. Pages for all ids are taken here (a decoding sequence takes one more
 * at a time, batch.c); those that somebody of the same user filled before are shared, and a page that begins alike is
 * copied. A copy that fails costs nothing but computing.
 */
#include <assert.h>

#include "device/scheduler_priv.h"

/* Whether there are pages for what it does not share, and one for each of those that run: else it would be thrown out
 * again at the next page border. */
static bool has_pages(const struct halo_scheduler *s, const struct halo_sequence *q)
{
    return halo_kv_table_fits(&q->table, &s->pool, q->n_ids, s->n_running > 0 ? s->n_running + 1 : 0);
}

/* Who goes for this one: the youngest paused one, or the youngest of the user who has the most running. */
static struct halo_sequence *who_goes(const struct halo_scheduler *s, const struct halo_sequence *q)
{
    struct halo_sequence *paused = halo_scheduler_youngest_paused(s, q);
    return paused ? paused : halo_scheduler_crowding(s, q->user);
}

/* Takes the pages that it shares, and frees what it lacks. False: it stays in the queue and holds nothing. */
static bool make_room(struct halo_scheduler *s, struct halo_sequence *q)
{
    struct halo_sequence *victim;
    while (s->n_running == s->max_running) {
        if (!(victim = who_goes(s, q)))
            return false;
        halo_scheduler_requeue(s, victim);
    }
    if (q->cache_prompt)
        halo_kv_table_take(&q->table, &s->pool, q->user, q->ids, halo_sequence_reusable(q));
    while (!has_pages(s, q)) {
        if (!(victim = who_goes(s, q))) {
            assert(s->n_running > 0 || s->n_lent > 0); /* alone it fits: submit saw to that */
            halo_kv_table_clear(&q->table, &s->pool);
            return false;
        }
        halo_scheduler_requeue(s, victim);
    }
    return true;
}

/* Settled once: who makes room for others and comes back continues what it left itself. */
static void note_resumed(struct halo_scheduler *s, struct halo_sequence *q, const uint32_t *from, uint32_t n_tail)
{
    if (q->started_ns == 0)
        halo_kv_table_set_resumed(&q->table, &s->pool, n_tail > 0 ? from : NULL,
                                  q->table.n * HALO_KV_PAGE_TOKENS + n_tail);
}

/* The first page that is not shared, if some page begins like it. Returns the positions that it then holds. */
static uint32_t copy_tail(struct halo_scheduler *s, struct halo_sequence *q)
{
    uint32_t limit = halo_sequence_reusable(q), at = q->table.n, from[HALO_KV_GROUPS_MAX];
    uint32_t n = halo_kv_table_find_tail(&q->table, &s->pool, q->user, q->ids, limit, from);
    note_resumed(s, q, from, n);
    if (n == 0)
        return 0;
    int r = halo_kv_table_grow(&q->table, &s->pool, at * HALO_KV_PAGE_TOKENS + n);
    assert(r == 0);
    if (!halo_scheduler_copy(s, q, at, from))
        return 0; /* a device that is lost says so in the run that follows */
    HALO_COUNT(s->setup.stats, prefix_copies, 1);
    return n;
}

/* What the sequence goes on from beside its whole pages: the begin of the next one, else the states behind them. Where
 * these cannot be copied it begins anew. */
static void take_more(struct halo_scheduler *s, struct halo_sequence *q)
{
    uint32_t n = copy_tail(s, q), from[HALO_KV_GROUPS_MAX];
    q->n_filled += n;
    if (n > 0 || q->table.n == 0)
        return;
    bool found = halo_kv_table_find_states(&q->table, &s->pool, from);
    int r = halo_kv_table_grow(&q->table, &s->pool, q->n_filled);
    assert(r == 0);
    if (found && halo_scheduler_copy(s, q, 0, from))
        return;
    halo_kv_table_clear(&q->table, &s->pool);
    q->n_kept = q->n_filled = 0;
}

/* Pages for all ids. */
static void take_pages(struct halo_scheduler *s, struct halo_sequence *q)
{
    q->n_kept = q->table.n;
    q->n_filled = q->table.n * HALO_KV_PAGE_TOKENS;
    if (q->cache_prompt)
        take_more(s, q);
    halo_kv_table_slide(&q->table, &s->pool, q->n_filled);
    int r = halo_kv_table_grow(&q->table, &s->pool, q->n_ids);
    assert(r == 0);
    if (q->n_filled > 0) {
        HALO_COUNT(s->setup.stats, prefix_hits, 1);
        HALO_COUNT(s->setup.stats, cached_tokens, q->n_filled);
    }
    if (q->started_ns == 0)
        q->n_cached = q->n_filled;
}

static void run(struct halo_scheduler *s, struct halo_sequence *q, uint64_t now_ns)
{
    uint32_t place = s->n_running;
    while (place > 0 && s->running[place - 1]->serial > q->serial) {
        s->running[place] = s->running[place - 1];
        place--;
    }
    s->running[place] = q;
    halo_scheduler_publish(s, 0, 1);
    halo_sequence_move(q, HALO_SEQUENCE_PREFILL);
    if (q->started_ns > 0)
        return;
    q->started_ns = now_ns;
    halo_stats_observe(s->setup.stats, HALO_HISTOGRAM_queue_ms, (now_ns - q->arrived_ns) / 1000000);
    halo_sequence_emit_started(q, now_ns);
    halo_sequence_tell(q, s->setup.port);
}

/* Who comes in next: the oldest of the user who has the fewest running; NULL: nobody can. */
static struct halo_sequence *next_in_line(const struct halo_scheduler *s)
{
    struct halo_sequence *best = NULL;
    uint32_t fewest = UINT32_MAX;
    for (struct halo_sequence *q = s->queue; q && fewest > 0; q = q->next) {
        if ((best && q->user == best->user) || halo_scheduler_reader_behind(q))
            continue;
        uint32_t n = halo_scheduler_running_of(s, q->user);
        if (n >= fewest)
            continue;
        fewest = n;
        best = q;
    }
    return best;
}

void halo_scheduler_admit(struct halo_scheduler *s, uint64_t now_ns)
{
    struct halo_sequence *q;
    while ((q = next_in_line(s)) && make_room(s, q)) {
        struct halo_sequence **at = &s->queue; /* make_room may have put others in front */
        while (*at != q)
            at = &(*at)->next;
        halo_scheduler_unqueue(s, at);
        take_pages(s, q);
        run(s, q, now_ns);
    }
}
