/* batch.c: the rows of the next step.
 *
 * Device thread. First one row for each sequence that decodes, in order of arrival; a full page pool sends the youngest
 * back to the queue, which is safe in the middle of building because whoever goes is younger than all that have rows
 * already (or is paused and has none). Then pieces of prompts and scores, oldest first, within the rows and outputs
 * that are left.
 */
#include "scheduler_priv.h"

#include <assert.h>

/* A step with a piece of a prompt should take about this long: it is how long a cancel, a newcomer or the next token of
 * the others waits. Pieces that are too small waste bandwidth: every step reads all weights once. */
#define STEP_ALONE_NS 1000000000.0
#define STEP_SHARED_NS 150000000.0
#define PIECE_ALONE_MIN 64
#define PIECE_SHARED_MIN 16

static void add_rows(struct halo_scheduler *s, struct halo_sequence *q, uint32_t n_rows, uint32_t output_from)
{
    struct halo_batch *batch = &s->batch;
    struct halo_batch_part *part = &s->parts[s->n_parts];
    assert(s->n_parts < s->max_running && batch->n_rows + n_rows <= s->setup.plan->max_rows);
    *part = (struct halo_batch_part){q, n_rows, batch->n_outputs, 0};
    for (uint32_t i = 0; i < n_rows; i++) {
        uint32_t position = q->n_filled + i, row = batch->n_rows++;
        s->token[row] = q->ids[position];
        s->pos[row] = (int32_t)position;
        s->seq[row] = s->n_parts;
        if (position >= output_from) {
            assert(batch->n_outputs < s->setup.plan->max_outputs);
            s->output[batch->n_outputs++] = row;
        }
    }
    part->n_outputs = batch->n_outputs - part->first_output;
    s->seqs[s->n_parts] = (struct halo_batch_seq){q->table.pages, q->table.n};
    s->n_parts++;
    batch->n_seqs = s->n_parts;
}

/* A page for the next position, if need be somebody else's. False: the sequence itself had to go. */
static bool take_page(struct halo_scheduler *s, struct halo_sequence *q)
{
    while (halo_kv_table_grow(&q->table, &s->pool, q->n_ids) == HALO_KV_E_FULL)
        if (!halo_scheduler_preempt(s, q)) {
            assert(s->n_running > 1); /* alone it fits: submit saw to that */
            halo_scheduler_requeue(s, q);
            return false;
        }
    return true;
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
        if (take_page(s, q))
            add_rows(s, q, 1, q->n_filled);
        /* Preempting a paused sequence moves the list: go on behind this one. */
        for (i = 0; i < s->n_running && s->running[i]->serial <= serial;)
            i++;
    }
}

/* Rows that pieces may take in this step. */
static uint32_t piece_budget(const struct halo_scheduler *s)
{
    uint32_t left = s->setup.plan->max_rows - s->batch.n_rows;
    if (!s->setup.batch_invariant)
        return left; /* the cut would change the numbers: always the same cut then */
    bool shared = s->batch.n_rows > 0;
    uint32_t least = shared ? PIECE_SHARED_MIN : PIECE_ALONE_MIN, rows = least;
    if (s->row_ns > 0) {
        double wanted = (shared ? STEP_SHARED_NS : STEP_ALONE_NS) / s->row_ns;
        rows = wanted >= left ? left : (uint32_t)wanted & ~15u;
    }
    if (rows < least)
        rows = least;
    return rows < left ? rows : left;
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

static void add_pieces(struct halo_scheduler *s)
{
    uint32_t budget = piece_budget(s);
    for (uint32_t i = 0; i < s->n_running && budget > 0; i++) {
        struct halo_sequence *q = s->running[i];
        if (halo_sequence_state_of(q) != HALO_SEQUENCE_PREFILL)
            continue;
        uint32_t n_rows = at_most(halo_sequence_left(q), budget), output_from = q->n_ids - 1;
        if (q->kind == HALO_SEQUENCE_SCORE) {
            n_rows = score_rows(s, q, budget);
            output_from = q->score_from + q->n_scored;
        } else if (s->batch.n_outputs == s->setup.plan->max_outputs && n_rows == halo_sequence_left(q)) {
            n_rows--; /* no output left for its last row: the next step */
        }
        if (n_rows == 0)
            continue;
        add_rows(s, q, n_rows, output_from);
        budget -= n_rows;
    }
}

uint32_t halo_batch_build(struct halo_scheduler *s)
{
    s->n_parts = 0;
    s->batch = (struct halo_batch){
        .token = s->token, .pos = s->pos, .seq = s->seq, .seqs = s->seqs, .output = s->output, .logits = s->logits};
    add_decodes(s);
    add_pieces(s);
    return s->batch.n_rows;
}
