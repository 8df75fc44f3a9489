/* tokens.c: the jobs tokenize and detokenize. Text workers; results live in the request's arena. */
#include <stdlib.h>
#include <string.h>

#include "port/job_priv.h"

#define TOKENS_VALUES 5 /* of an answer without tokens: the object, its type and id, two lists */

static int no_memory(struct halo_job *job)
{
    return halo_fault_set(&job->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the answer");
}

static int check_bytes(struct halo_job *job, size_t n_tokens, size_t n_bytes)
{
    if (n_bytes <= HALO_LIMIT_ANSWER_BYTES)
        return 0;
    int r = halo_fault_set(&job->fault, HALO_FAULT_UNSUPPORTED,
                           "the text of %zu tokens has %zu bytes; an answer has at most %u: send the tokens in parts",
                           n_tokens, n_bytes, HALO_LIMIT_ANSWER_BYTES);
    halo_fault_number(&job->fault, "tokens", n_tokens);
    halo_fault_number(&job->fault, "bytes", n_bytes);
    halo_fault_number(&job->fault, "limit_bytes", HALO_LIMIT_ANSWER_BYTES);
    return r;
}

/* The text of each id, as valid UTF-8. */
static int list_pieces(struct halo_text_worker *worker, struct halo_job *job, const struct halo_tokenizer *tokenizer,
                       const int32_t *ids, size_t n)
{
    struct halo_str *pieces = halo_arena_alloc(&job->arena, n, sizeof(*pieces));
    if (!pieces)
        return no_memory(job);
    for (size_t i = 0; i < n; i++) {
        int r = halo_turn_work(&worker->turn, 1);
        if (r < 0)
            return r;
        struct halo_span piece = halo_tokenizer_piece(tokenizer, ids[i], true);
        char *clean = halo_arena_alloc(&job->arena, halo_text_sanitize(piece.bytes, piece.n, NULL) + 1, 1);
        if (!clean)
            return no_memory(job);
        pieces[i] = (struct halo_str){clean, halo_text_sanitize(piece.bytes, piece.n, clean)};
    }
    job->ev.tokens.pieces.at = pieces;
    job->ev.tokens.pieces.n = n;
    return 0;
}

static int tokenize(struct halo_text_worker *worker, struct halo_job *job, struct halo_tokens *out)
{
    const struct halo_tokenizer *tokenizer = job->model->texts.tokenizer;
    const struct halo_msg_tokenize *msg = &job->msg.tokenize;
    bool bos = msg->has_bos ? msg->bos : halo_text_adds_bos(job);
    if (bos && msg->has_bos && halo_tokenizer_bos(tokenizer) < 0)
        return halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST, "this model has no start token to put in front");
    int r = halo_text_encode(worker, job, msg->text, bos, msg->special, out);
    if (r == 0)
        r = halo_text_check_values(job, out->n, TOKENS_VALUES + 2 * out->n);
    if (r < 0)
        return r;
    int32_t *ids = halo_arena_alloc(&job->arena, out->n, sizeof(*ids));
    if (!ids)
        return no_memory(job);
    if (out->n > 0)
        memcpy(ids, out->ids, out->n * sizeof(*ids));
    halo_ev_init(&job->ev, HALO_EV_TOKENS, &job->msg.id);
    job->ev.tokens.tokens.at = ids;
    job->ev.tokens.tokens.n = out->n;
    return list_pieces(worker, job, tokenizer, ids, out->n);
}

void halo_text_job_tokenize(struct halo_text_worker *worker, struct halo_job *job)
{
    struct halo_tokens tokens = {0};
    tokenize(worker, job, &tokens);
    halo_tokens_finish(&tokens);
}

void halo_text_job_detokenize(struct halo_text_worker *worker, struct halo_job *job)
{
    const struct halo_token_list *ids = &job->msg.detokenize.tokens;
    struct halo_span span;
    if (halo_text_detokenize(job->model->texts.tokenizer, ids->at, ids->n, true, &job->arena, &span, &job->fault) < 0 ||
        check_bytes(job, ids->n, span.n) < 0)
        return;
    halo_ev_init(&job->ev, HALO_EV_TEXT, &job->msg.id);
    job->ev.text.text = (struct halo_str){span.bytes ? span.bytes : "", span.n};
}
