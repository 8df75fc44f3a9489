/* batch.c: the rows of the next step.
 *
 * Device thread. First one row for each sequence that decodes, in order of arrival; a full page pool sends a younger
 * one back to the queue, which is safe in the middle of building because whoever goes is younger than all that have
 * rows already (or is paused and has none). Then pieces of prompts and scores, within the rows that the pace allows
 * and the outputs that are left: at least half of the rows for the oldest, the others for those that have the least
 * left, so that a short prompt is not held up by a long one, nor a long one for ever by short ones. The first prompt
 * of each user comes before the second one of any. Prompts of one user that begin like the oldest wait for its pages
 * instead of computing them beside it.
 */
#include <assert.h>
#include <string.h>

#include "device/scheduler_priv.h"

static void add_rows(struct halo_scheduler *s, struct halo_sequence *q, uint32_t n_rows, uint32_t output_from)
{
    struct halo_batch *batch = &s->batch;
    struct halo_batch_part *part = &s->parts[s->n_parts];
    assert(s->n_parts < s->max_running && batch->n_rows + n_rows <= s->setup.plan->max_rows);
    *part = (struct halo_batch_part){q, n_rows, batch->n_outputs, 0};
    for (uint32_t i = 0; i < n_rows; i++) {
        uint32_t position = q->n_filled + i, row = batch->n_rows++;
        s->room.token[row] = q->ids[position];
        s->room.pos[row] = (int32_t)position;
        s->room.seq[row] = s->n_parts;
        if (position >= output_from) {
            assert(batch->n_outputs < s->setup.plan->max_outputs);
            s->room.output[batch->n_outputs++] = row;
        }
    }
    part->n_outputs = batch->n_outputs - part->first_output;
    s->room.seqs[s->n_parts] = halo_kv_table_seq(&q->table);
    s->n_parts++;
    batch->n_seqs = s->n_parts;
}

/* Pages for the next positions, if need be somebody else's. False: the sequence itself had to go. */
static bool take_pages(struct halo_scheduler *s, struct halo_sequence *q)
{
    while (halo_kv_table_grow(&q->table, &s->pool, q->n_ids) == HALO_KV_E_FULL)
        if (!halo_scheduler_preempt(s, q)) {
            assert(s->n_running > 1 || s->n_lent > 0); /* alone it fits: submit saw to that */
            halo_scheduler_requeue(s, q);
            return false;
        }
    return true;
}

/* Preempting a paused sequence moves the list: where it goes on behind this one. */
static uint32_t behind(const struct halo_scheduler *s, uint64_t serial)
{
    uint32_t i = 0;
    while (i < s->n_running && s->running[i]->serial <= serial)
        i++;
    return i;
}

static void add_decodes(struct halo_scheduler *s)
{
    for (uint32_t i = 0; i < s->n_running;) {
        struct halo_sequence *q = s->running[i];
        if (halo_sequence_state_of(q) != HALO_SEQUENCE_DECODE) {
            i++;
            continue;
        }
        uint64_t serial = q->serial;
        if (take_pages(s, q))
            add_rows(s, q, 1, q->n_filled);
        i = behind(s, serial);
    }
}

/* Rows that pieces may take in this step. */
static uint32_t piece_budget(const struct halo_scheduler *s)
{
    struct halo_pace_load load = {.n_decodes = s->n_decodes,
                                  .n_left = s->setup.plan->max_rows - s->batch.n_rows,
                                  .any_cut = s->setup.any_cut,
                                  .streams = s->setup.streams,
                                  .others_ns = s->others.decode_ns,
                                  .n_prompts_of = s->others.n_prompts_of > 0 ? s->others.n_prompts_of : 1};
    return halo_pace_rows(&s->pace, &load);
}

static uint32_t at_most(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Rows of a score: those in front of the first wanted position cost no output and no ring. */
static uint32_t score_rows(const struct halo_scheduler *s, const struct halo_sequence *q, uint32_t budget)
{
    uint32_t from = q->score_from + q->n_scored;
    uint32_t silent = from > q->n_filled ? from - q->n_filled : 0;
    uint32_t n_outputs = s->setup.plan->max_outputs - s->batch.n_outputs, fit = 0;
    while (fit < n_outputs && halo_sequence_has_room(q, fit + 1))
        fit++;
    return at_most(at_most(silent + fit, halo_sequence_left(q)), budget);
}

/* Adds at most budget rows; how many it were. */
static uint32_t add_piece(struct halo_scheduler *s, struct halo_sequence *q, uint32_t budget)
{
    budget = at_most(budget, halo_kv_table_reach(&q->table, &s->pool) - q->n_filled);
    budget = at_most(budget, halo_scheduler_next_checkpoint(s, q) - q->n_filled);
    uint32_t n_rows = at_most(halo_sequence_left(q), budget), output_from = q->n_ids - 1;
    if (q->kind == HALO_SEQUENCE_SCORE) {
        n_rows = score_rows(s, q, budget);
        output_from = q->score_from + q->n_scored;
    } else if (s->batch.n_outputs == s->setup.plan->max_outputs && n_rows == halo_sequence_left(q)) {
        n_rows--; /* no output left for its last row: the next step */
    }
    if (n_rows > 0)
        add_rows(s, q, n_rows, output_from);
    return n_rows;
}

/* Takes over whole pages that others have finished since. */
static void catch_up(struct halo_scheduler *s, struct halo_sequence *q)
{
    while (q->cache_prompt && (q->n_kept + 1) * HALO_KV_PAGE_TOKENS <= halo_sequence_reusable(q) &&
           halo_kv_table_swap(&q->table, &s->pool, q->user, q->ids, q->n_kept)) {
        uint32_t n_saved = ++q->n_kept * HALO_KV_PAGE_TOKENS - q->n_filled;
        q->n_filled += n_saved;
        halo_kv_table_slide(&q->table, &s->pool, q->n_filled);
        q->n_cached += q->n_preempted == 0 ? n_saved : 0;
        HALO_COUNT(s->setup.stats, cached_tokens, n_saved);
    }
}

/* Whether its next page is one that the other one, who gets on in every step, is about to fill. */
static bool waits_for(const struct halo_scheduler *s, const struct halo_sequence *q, const struct halo_sequence *other)
{
    uint32_t at = q->n_kept, end = (at + 1) * HALO_KV_PAGE_TOKENS;
    if (halo_scheduler_next_checkpoint(s, q) != UINT32_MAX)
        return false; /* it could not take up the pages without the states */
    if (!q->cache_prompt || !other->cache_prompt || q->user != other->user || other->n_kept != at ||
        end > halo_sequence_reusable(q) || end > other->n_ids)
        return false;
    if (at > 0 && q->table.pages[at - 1] != other->table.pages[at - 1])
        return false; /* they parted before */
    return memcmp(q->ids + end - HALO_KV_PAGE_TOKENS, other->ids + end - HALO_KV_PAGE_TOKENS,
                  HALO_KV_PAGE_TOKENS * sizeof(*q->ids)) == 0;
}

/* Behind the oldest, which stays where it is: each user's first prompt, then each one's second, and so on. */
static void take_turns(struct halo_sequence **picks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        picks[i]->rank = 0;
        for (uint32_t k = 0; k < i; k++)
            picks[i]->rank += picks[k]->user == picks[i]->user;
    }
    for (uint32_t i = 2; i < n; i++) {
        struct halo_sequence *q = picks[i];
        uint32_t at = i;
        for (; at > 1 && picks[at - 1]->rank > q->rank; at--)
            picks[at] = picks[at - 1];
        picks[at] = q;
    }
}

/* Whose prompts may have a piece: the oldest first, then by turns of users and by how little is left. */
static uint32_t pick_prompts(struct halo_scheduler *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct halo_sequence *q = s->running[i];
        if (halo_sequence_state_of(q) != HALO_SEQUENCE_PREFILL)
            continue;
        catch_up(s, q);
        if (n > 0 && waits_for(s, q, s->picks[0]))
            continue;
        uint32_t at = n++;
        for (; at > 1 && halo_sequence_left(s->picks[at - 1]) > halo_sequence_left(q); at--)
            s->picks[at] = s->picks[at - 1];
        s->picks[at] = q;
    }
    take_turns(s->picks, n);
    return n;
}

/* Where groups have windows, prompts take the pages of a step anew. Nobody has rows yet, so anybody may go. */
static void move_windows(struct halo_scheduler *s)
{
    for (uint32_t i = 0; i < s->n_running && s->pool.n_sides > 0;) {
        struct halo_sequence *q = s->running[i];
        uint64_t serial = q->serial;
        if (halo_sequence_state_of(q) == HALO_SEQUENCE_PREFILL) {
            catch_up(s, q);
            take_pages(s, q);
        }
        i = behind(s, serial);
    }
}

static void add_pieces(struct halo_scheduler *s)
{
    uint32_t n_picks = pick_prompts(s), budget = n_picks > 0 ? piece_budget(s) : 0, n_others = 0;
    if (budget == 0)
        return;
    for (uint32_t i = 1; i < n_picks && n_others < budget / 2; i++)
        n_others += at_most(halo_sequence_left(s->picks[i]), budget);
    budget -= add_piece(s, s->picks[0], budget - at_most(n_others, budget / 2));
    for (uint32_t i = 1; i < n_picks && budget > 0; i++)
        budget -= add_piece(s, s->picks[i], budget);
}

/* How many of the largest logits are all that this one wants of a row; 0: the row. */
static uint32_t list_length(const struct halo_scheduler *s, const struct halo_sequence *q)
{
    if (q->kind == HALO_SEQUENCE_SCORE || q->want_logprob)
        return 0;
    uint32_t n = halo_sampler_n_top(&q->sampler, s->setup.plan->n_vocab);
    return n <= HALO_CANDIDATES_MAX ? n : 0;
}

/* Lists where they will do, rows where they will not. All lists are as long as the longest: a shorter one is its front.
 */
static void choose_outputs(struct halo_scheduler *s)
{
    struct halo_batch *batch = &s->batch;
    for (uint32_t i = 0; i < s->n_parts; i++) {
        const struct halo_batch_part *part = &s->parts[i];
        uint32_t n = part->n_outputs > 0 ? list_length(s, part->sequence) : 0;
        for (uint32_t k = 0; k < part->n_outputs; k++)
            s->room.whole[part->first_output + k] = n == 0;
        batch->n_top = n > batch->n_top ? n : batch->n_top;
    }
    batch->whole = s->room.whole;
    batch->top = s->room.top;
}

uint32_t halo_batch_build(struct halo_scheduler *s)
{
    s->n_parts = 0;
    s->batch = halo_batch_room_begin(&s->room);
    move_windows(s);
    add_decodes(s);
    s->n_decodes = s->batch.n_rows;
    add_pieces(s);
    if (s->setup.makes_lists)
        choose_outputs(s);
    return s->batch.n_rows;
}
