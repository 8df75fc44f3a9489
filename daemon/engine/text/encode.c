/* encode.c: text to ids, the same for a prompt, a score and `tokenize`; and what fits into a context or an answer.
 *
 * Text workers. Fails with CONTEXT_OVERFLOW, UNSUPPORTED, OUT_OF_MEMORY in job->fault.
 */
#include <string.h>

#include "port/job_priv.h"

/* BOS in front of what was encoded behind it, unless the text spelled it itself. */
static void settle_bos(const struct halo_tokenizer *tokenizer, struct halo_tokens *tokens)
{
    if (tokens->n > 1 && tokens->ids[0] == halo_tokenizer_bos(tokenizer) && tokens->ids[1] == tokens->ids[0]) {
        memmove(tokens->ids, tokens->ids + 1, (tokens->n - 1) * sizeof(*tokens->ids));
        tokens->n--;
    }
}

int halo_text_encode(struct halo_text_worker *worker, struct halo_job *job, struct halo_str text, bool bos,
                     bool special, struct halo_tokens *out)
{
    const struct halo_tokenizer *tokenizer = job->model->texts.tokenizer;
    bos = bos && halo_tokenizer_bos(tokenizer) >= 0;
    if (bos && halo_tokens_push(out, halo_tokenizer_bos(tokenizer)) < 0)
        return halo_fault_set(&job->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to tokenize a text");
    int r = halo_tokenizer_encode(tokenizer, text.at, text.len, special, true, &worker->turn, out, &job->fault);
    if (r == 0 && bos && special)
        settle_bos(tokenizer, out);
    return r;
}

bool halo_text_adds_bos(const struct halo_job *job)
{
    return halo_tokenizer_adds_bos(job->model->texts.tokenizer);
}

/* ---- what fits ---- */

int halo_text_overflow(struct halo_job *job, size_t n_prompt, size_t n_reply)
{
    uint32_t context = job->model->context;
    bool can_grow = context < job->model->model->hparams.n_context_train;
    int r = halo_fault_set(&job->fault, HALO_FAULT_CONTEXT_OVERFLOW,
                           "the prompt has %zu tokens and the context holds %u%s; shorten it by %zu%s", n_prompt,
                           context, n_reply > 0 ? ", with at least one of the reply" : "", n_prompt + n_reply - context,
                           can_grow ? " or load the model with a larger context" : "");
    halo_fault_number(&job->fault, "prompt_tokens", n_prompt);
    halo_fault_number(&job->fault, "context", context);
    return r;
}

/* More ids than these end the encoding of a prompt. Up to here they are counted, so that whoever sent a little too much
 * reads how much. */
#define COUNTED_CONTEXTS 4

void halo_text_count_to(struct halo_text_worker *worker, const struct halo_job *job, const struct halo_tokens *ids)
{
    worker->ids = ids;
    worker->most_ids = (size_t)COUNTED_CONTEXTS * job->model->context;
}

static void add_numbers(struct halo_job *job, size_t n_least)
{
    halo_fault_number(&job->fault, "least_prompt_tokens", n_least);
    halo_fault_number(&job->fault, "context", job->model->context);
}

int halo_text_check_counted(struct halo_text_worker *worker, struct halo_job *job)
{
    if (!worker->ids || worker->ids->n <= worker->most_ids)
        return 0;
    int r = halo_fault_set(&job->fault, HALO_FAULT_CONTEXT_OVERFLOW,
                           "the prompt has more than %zu tokens and the context holds %u; shorten it", worker->most_ids,
                           job->model->context);
    add_numbers(job, worker->most_ids + 1);
    return r;
}

int halo_text_check_fit(struct halo_job *job, struct halo_str text, size_t n_reply)
{
    size_t n_least = halo_tokenizer_least_tokens(job->model->texts.tokenizer, text.at, text.len);
    if (n_least + n_reply <= job->model->context)
        return 0;
    int r = halo_fault_set(&job->fault, HALO_FAULT_CONTEXT_OVERFLOW,
                           "the prompt has %zu bytes, which are at least %zu tokens, and the context holds %u; "
                           "shorten it",
                           text.len, n_least, job->model->context);
    halo_fault_number(&job->fault, "bytes", text.len);
    add_numbers(job, n_least);
    return r;
}

int halo_text_check_values(struct halo_job *job, size_t n_tokens, size_t n_values)
{
    if (n_values <= HALO_LIMIT_ANSWER_VALUES)
        return 0;
    int r = halo_fault_set(&job->fault, HALO_FAULT_UNSUPPORTED,
                           "the text has %zu tokens, so the answer would hold %zu JSON values; at most %d are allowed: "
                           "send the text in parts",
                           n_tokens, n_values, HALO_LIMIT_ANSWER_VALUES);
    halo_fault_number(&job->fault, "tokens", n_tokens);
    halo_fault_number(&job->fault, "values", n_values);
    halo_fault_number(&job->fault, "limit_values", HALO_LIMIT_ANSWER_VALUES);
    return r;
}
