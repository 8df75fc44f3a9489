/* commit.c: what becomes of the logits of a step: tokens, text, score rows, ends.
 *
 * Device thread; allocates nothing. A token is committed before its text is released, and nothing of a row whose logits
 * are not finite.
 */
#include <assert.h>

#include "device/scheduler_priv.h"

#define PROGRESS_NS 100000000u
/* Looking for a loop costs about one comparison for each period, once in so many ids. */
#define LOOP_EVERY 16
#define LOOP_PERIOD 1024

/* Fills sequence->tops. */
static uint32_t report_tops(struct halo_scheduler *s, struct halo_sequence *q, const float *logits, double lse)
{
    assert(q->n_top <= HALO_SCHEDULER_TOPS);
    uint32_t n = halo_logits_top(logits, s->setup.plan->n_vocab, q->n_top, s->tops);
    for (uint32_t i = 0; i < n; i++)
        q->tops[i] = (struct halo_ring_top){s->tops[i].id, s->tops[i].logit - lse};
    return n;
}

static bool refuse_logits(struct halo_scheduler *s, struct halo_sequence *q, uint32_t position)
{
    halo_fault_set(&q->fault, HALO_FAULT_DEVICE_FAULT, "the logits after position %u are not finite numbers", position);
    halo_scheduler_end(s, q, HALO_OUTCOME_FAULT);
    return false;
}

static bool usable(struct halo_scheduler *s, struct halo_sequence *q, const float *logits, uint32_t position)
{
    return halo_logits_finite(logits, s->setup.plan->n_vocab) || refuse_logits(s, q, position);
}

static void count_token(struct halo_scheduler *s, struct halo_sequence *q, uint64_t now_ns)
{
    HALO_COUNT(s->setup.stats, committed_tokens, 1);
    if (q->first_token_ns == 0) {
        q->first_token_ns = now_ns;
        halo_stats_observe(s->setup.stats, HALO_HISTOGRAM_ttft_ms, (now_ns - q->arrived_ns) / 1000000);
    } else {
        halo_stats_observe(s->setup.stats, HALO_HISTOGRAM_inter_token_ms, (now_ns - q->last_token_ns) / 1000000);
    }
    q->last_token_ns = now_ns;
}

/* Tells once of a cycle that will not end by itself. After a resume it looks at the first id: what was not told is told
 * now. */
static void look_for_loop(struct halo_sequence *q)
{
    uint32_t n_reply = q->n_ids - q->n_prompt;
    if (!q->detect_loops || n_reply - q->n_loop_looked < LOOP_EVERY)
        return;
    q->n_loop_looked = n_reply;
    struct halo_cycle cycle;
    if (!halo_detect_cycle(q->ids + q->n_prompt, n_reply, LOOP_PERIOD, &cycle) || !halo_cycle_is_hard(&cycle))
        return;
    q->loop = cycle;
    q->detect_loops = false;
    halo_sequence_emit_loop(q);
}

/* The token is in ids: shows its text, and ends the reply when this was its last. */
static void after_token(struct halo_scheduler *s, struct halo_sequence *q, int32_t id)
{
    if (!q->ignore_eos && q->pieces.is_end(q->pieces.ud, id)) {
        q->stop_token = id;
        halo_scheduler_end(s, q, HALO_OUTCOME_STOP_TOKEN);
        return;
    }
    struct halo_span piece = q->pieces.piece(q->pieces.ud, id), text = {0};
    bool stopped = halo_text_stream_feed(&q->text, piece.bytes, piece.n, &text) == HALO_TEXT_STOPPED;
    halo_sequence_emit_text(q, text);
    if (stopped)
        halo_scheduler_end(s, q, HALO_OUTCOME_STOP_STRING);
    else if (q->n_ids - q->n_prompt >= q->max_tokens)
        halo_scheduler_end(s, q, HALO_OUTCOME_LENGTH);
}

/* The next token of output `output` of the step; false: the sequence was ended. */
static bool choose_token(struct halo_scheduler *s, struct halo_sequence *q, uint32_t output, int32_t *ret_id)
{
    if (s->batch.n_top > 0 && !s->room.whole[output]) {
        const struct halo_candidate *top = s->room.top + (size_t)output * s->batch.n_top;
        if (top[0].id < 0)
            return refuse_logits(s, q, q->n_ids - 1);
        *ret_id = halo_sampler_draw_top(&s->sampler, &q->sampler, top, q->n_ids);
        return true;
    }
    const float *logits = s->room.logits + (size_t)output * s->setup.plan->n_vocab;
    if (!usable(s, q, logits, q->n_ids - 1))
        return false;
    *ret_id = halo_sampler_draw(&s->sampler, &q->sampler, logits, q->ids, q->n_ids, q->n_ids);
    return true;
}

static void commit_token(struct halo_scheduler *s, struct halo_sequence *q, uint32_t output, uint64_t now_ns)
{
    const float *logits = s->room.logits + (size_t)output * s->setup.plan->n_vocab;
    int32_t id;
    if (!choose_token(s, q, output, &id))
        return;
    double logprob = 0;
    uint32_t n_top = 0;
    if (q->want_logprob) {
        double lse = halo_logits_lse(logits, s->setup.plan->n_vocab);
        logprob = logits[id] - lse;
        n_top = report_tops(s, q, logits, lse);
    }
    if (q->prefilled_ns == 0)
        q->prefilled_ns = now_ns;
    if (halo_sequence_state_of(q) == HALO_SEQUENCE_PREFILL)
        halo_sequence_move(q, HALO_SEQUENCE_DECODE);
    assert(q->n_ids < q->capacity);
    q->ids[q->n_ids++] = id;
    halo_sequence_emit_committed(q, id, now_ns, logprob, n_top);
    look_for_loop(q);
    count_token(s, q, now_ns);
    after_token(s, q, id);
}

/* The rows of a score that had outputs are consecutive and begin at the first one not reported yet. */
static void commit_rows(struct halo_scheduler *s, struct halo_sequence *q, const struct halo_batch_part *part,
                        uint64_t now_ns)
{
    uint32_t n_vocab = s->setup.plan->n_vocab;
    for (uint32_t i = 0; i < part->n_outputs; i++) {
        const float *logits = s->room.logits + (size_t)(part->first_output + i) * n_vocab;
        uint32_t position = q->score_from + q->n_scored;
        if (!usable(s, q, logits, position))
            return;
        double lse = halo_logits_lse(logits, n_vocab), logprob = 0;
        bool has_next = position + 1 < q->n_prompt;
        if (has_next) {
            logprob = logits[q->ids[position + 1]] - lse;
            q->nll_sum -= logprob;
            q->n_nll++;
        }
        halo_sequence_emit_row(q, position, has_next, logprob, report_tops(s, q, logits, lse));
        q->n_scored++;
    }
    HALO_COUNT(s->setup.stats, score_rows, part->n_outputs);
    if (q->n_filled == q->n_prompt) {
        q->prefilled_ns = now_ns;
        halo_scheduler_end(s, q, HALO_OUTCOME_SCORED);
    }
}

/* Pages that became whole are there for others from now on. */
static void keep_pages(struct halo_scheduler *s, struct halo_sequence *q)
{
    while (q->cache_prompt && (q->n_kept + 1) * HALO_KV_PAGE_TOKENS <= q->n_filled)
        halo_kv_table_keep(&q->table, &s->pool, q->user, q->ids, q->n_kept++);
    halo_scheduler_checkpoint(s, q);
    halo_kv_table_slide(&q->table, &s->pool, q->n_filled);
}

void halo_commit_part(struct halo_scheduler *s, const struct halo_batch_part *part, uint64_t now_ns)
{
    struct halo_sequence *q = part->sequence;
    bool prefill = halo_sequence_state_of(q) == HALO_SEQUENCE_PREFILL;
    q->n_filled += part->n_rows;
    assert(q->n_filled <= q->n_ids);
    keep_pages(s, q);
    if (prefill)
        HALO_COUNT(s->setup.stats, prompt_tokens, part->n_rows);
    if (q->kind == HALO_SEQUENCE_SCORE) {
        commit_rows(s, q, part, now_ns);
    } else if (part->n_outputs > 0) {
        commit_token(s, q, part->first_output, now_ns);
    } else if (now_ns - q->progress_ns >= PROGRESS_NS) {
        q->progress_ns = now_ns;
        halo_sequence_emit_progress(q, HALO_RING_PREFILL, q->n_filled, q->n_ids);
    }
    if (halo_sequence_state_of(q) != HALO_SEQUENCE_DONE)
        halo_sequence_tell(q, s->setup.port);
}
