/* tokens.c: the jobs tokenize and detokenize. Text thread; results live in the request's arena. */
#include <stdlib.h>
#include <string.h>

#include "port/port_priv.h"

static int no_memory(struct halo_request *request)
{
    return halo_fault_set(&request->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the answer");
}

/* The text of each id, as valid UTF-8. */
static int list_pieces(struct halo_request *request, const struct halo_tokenizer *tokenizer, const int32_t *ids,
                       size_t n)
{
    struct halo_str *pieces = halo_arena_alloc(&request->arena, n, sizeof(*pieces));
    if (!pieces)
        return no_memory(request);
    for (size_t i = 0; i < n; i++) {
        struct halo_span piece = halo_tokenizer_piece(tokenizer, ids[i], true);
        char *clean = halo_arena_alloc(&request->arena, halo_text_sanitize(piece.bytes, piece.n, NULL) + 1, 1);
        if (!clean)
            return no_memory(request);
        pieces[i] = (struct halo_str){clean, halo_text_sanitize(piece.bytes, piece.n, clean)};
    }
    request->ev.tokens.pieces.at = pieces;
    request->ev.tokens.pieces.n = n;
    return 0;
}

static int tokenize(struct halo_request *request, struct halo_tokens *out)
{
    const struct halo_tokenizer *tokenizer = request->model->model->tokenizer;
    const struct halo_msg_tokenize *msg = &request->msg.tokenize;
    bool bos = msg->has_bos ? msg->bos : halo_tokenizer_adds_bos(tokenizer);
    int32_t bos_id = halo_tokenizer_bos(tokenizer);
    if (bos && bos_id < 0 && msg->has_bos)
        return halo_fault_set(&request->fault, HALO_FAULT_BAD_REQUEST, "this model has no start token to put in front");
    if (bos && bos_id >= 0 && halo_tokens_push(out, bos_id) < 0)
        return no_memory(request);
    int r = halo_tokenizer_encode(tokenizer, msg->text.at, msg->text.len, msg->special, true, out, &request->fault);
    if (r < 0)
        return r;
    int32_t *ids = halo_arena_alloc(&request->arena, out->n, sizeof(*ids));
    if (!ids)
        return no_memory(request);
    if (out->n > 0)
        memcpy(ids, out->ids, out->n * sizeof(*ids));
    halo_ev_init(&request->ev, HALO_EV_TOKENS, &request->msg.id);
    request->ev.tokens.tokens.at = ids;
    request->ev.tokens.tokens.n = out->n;
    return list_pieces(request, tokenizer, ids, out->n);
}

void halo_text_job_tokenize(struct halo_text_thread *text, struct halo_request *request)
{
    struct halo_tokens tokens = {0};
    tokenize(request, &tokens);
    halo_tokens_finish(&tokens);
}

void halo_text_job_detokenize(struct halo_text_thread *text, struct halo_request *request)
{
    const struct halo_token_list *ids = &request->msg.detokenize.tokens;
    struct halo_span span;
    if (halo_text_detokenize(request->model->model->tokenizer, ids->at, ids->n, true, &request->arena, &span,
                             &request->fault) < 0)
        return;
    halo_ev_init(&request->ev, HALO_EV_TEXT, &request->msg.id);
    request->ev.text.text = (struct halo_str){span.bytes ? span.bytes : "", span.n};
}
