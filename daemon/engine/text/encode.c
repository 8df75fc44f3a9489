/* encode.c: text to ids, the same for a prompt, a score and `tokenize`; and whether ids fit into an answer.
 *
 * Text thread. Fails with UNSUPPORTED, OUT_OF_MEMORY in job->fault.
 */
#include <string.h>

#include "port/port_priv.h"

/* BOS in front of what was encoded behind it, unless the text spelled it itself. */
static void settle_bos(const struct halo_tokenizer *tokenizer, struct halo_tokens *tokens)
{
    if (tokens->n > 1 && tokens->ids[0] == halo_tokenizer_bos(tokenizer) && tokens->ids[1] == tokens->ids[0]) {
        memmove(tokens->ids, tokens->ids + 1, (tokens->n - 1) * sizeof(*tokens->ids));
        tokens->n--;
    }
}

int halo_text_encode(struct halo_job *job, struct halo_str text, bool bos, bool special, struct halo_tokens *out)
{
    const struct halo_tokenizer *tokenizer = job->model->texts.tokenizer;
    bos = bos && halo_tokenizer_bos(tokenizer) >= 0;
    if (bos && halo_tokens_push(out, halo_tokenizer_bos(tokenizer)) < 0)
        return halo_fault_set(&job->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to tokenize a text");
    int r = halo_tokenizer_encode(tokenizer, text.at, text.len, special, true, NULL, out, &job->fault);
    if (r == 0 && bos && special)
        settle_bos(tokenizer, out);
    return r;
}

bool halo_text_adds_bos(const struct halo_job *job)
{
    return halo_tokenizer_adds_bos(job->model->texts.tokenizer);
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
