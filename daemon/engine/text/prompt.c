/* prompt.c: from the prompt of a request to a sequence: normalize, tokenize, check against the context.
 *
 * Text thread. Everything that would be wrong later is refused here, with the numbers, before the device hears of it.
 * Fails with BAD_REQUEST, CONTEXT_OVERFLOW, UNSUPPORTED (template), OUT_OF_MEMORY in request->fault.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <base/hash.h>

#include "port/port_priv.h"

static int no_memory(struct halo_request *request)
{
    return halo_fault_set(&request->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to prepare the prompt");
}

__attribute__((format(printf, 2, 3))) static int add_change(struct halo_request *request, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct halo_str *changes = halo_arena_alloc(&request->arena, request->n_changes + 1, sizeof(*changes));
    char *copy = halo_arena_strndup(&request->arena, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
    if (!changes || !copy)
        return no_memory(request);
    if (request->n_changes > 0)
        memcpy(changes, request->changes, request->n_changes * sizeof(*changes));
    changes[request->n_changes++] = halo_str_of(copy);
    request->changes = changes;
    return 0;
}

/* BOS in front of what was encoded behind it, unless the text spelled it itself. */
static void settle_bos(const struct halo_tokenizer *tokenizer, struct halo_tokens *tokens)
{
    if (tokens->n > 1 && tokens->ids[0] == halo_tokenizer_bos(tokenizer) && tokens->ids[1] == tokens->ids[0]) {
        memmove(tokens->ids, tokens->ids + 1, (tokens->n - 1) * sizeof(*tokens->ids));
        tokens->n--;
    }
}

static int encode_text(struct halo_request *request, const char *text, size_t n, bool special, struct halo_tokens *out)
{
    const struct halo_tokenizer *tokenizer = request->model->model->tokenizer;
    bool bos = halo_tokenizer_adds_bos(tokenizer) && halo_tokenizer_bos(tokenizer) >= 0;
    if (bos && halo_tokens_push(out, halo_tokenizer_bos(tokenizer)) < 0)
        return no_memory(request);
    int r = halo_tokenizer_encode(tokenizer, text, n, special, true, out, &request->fault);
    if (r == 0 && bos && special)
        settle_bos(tokenizer, out);
    return r;
}

static int check_ids(struct halo_request *request, const struct halo_token_list *ids, const char *field)
{
    uint32_t n_vocab = request->model->model->plan.n_vocab;
    for (size_t i = 0; i < ids->n; i++)
        if (ids->at[i] < 0 || (uint32_t)ids->at[i] >= n_vocab)
            return halo_fault_set(&request->fault, HALO_FAULT_BAD_REQUEST,
                                  "%s[%zu] is %d, the vocabulary has %u tokens", field, i, ids->at[i], n_vocab);
    return 0;
}

static int take_ids(struct halo_request *request, const struct halo_token_list *ids, const char *field,
                    struct halo_tokens *out)
{
    int r = check_ids(request, ids, field);
    for (size_t i = 0; r == 0 && i < ids->n; i++)
        if (halo_tokens_push(out, ids->at[i]) < 0)
            r = no_memory(request);
    return r;
}

/* ---- the three kinds of prompt ---- */

static bool normalizes(const struct halo_request *request)
{
    return !request->msg.generate.has_normalize || request->msg.generate.normalize;
}

static int from_prompt(struct halo_request *request, struct halo_tokens *out)
{
    struct halo_str prompt = request->msg.generate.prompt;
    const char *text = prompt.at;
    size_t n = prompt.len;
    halo_md5_hex(text, n, request->prompt_md5);
    if (normalizes(request)) {
        char *copy = halo_arena_alloc(&request->arena, n + 1, 1);
        if (!copy)
            return no_memory(request);
        request->newline_runs = halo_text_normalize(text, n, copy, &n);
        text = copy;
    }
    halo_md5_hex(text, n, request->effective_md5);
    return encode_text(request, text, n, request->msg.generate.special, out);
}

/* The MD5 of ids is that of their little-endian 32-bit numbers. */
static int from_tokens(struct halo_request *request, struct halo_tokens *out)
{
    const struct halo_token_list *ids = &request->msg.generate.tokens;
    halo_md5_hex(ids->at ? (const void *)ids->at : "", ids->n * sizeof(*ids->at), request->prompt_md5);
    memcpy(request->effective_md5, request->prompt_md5, sizeof(request->effective_md5));
    return take_ids(request, ids, "tokens", out);
}

static int encode_prompt(struct halo_text_thread *text, struct halo_request *request, struct halo_tokens *out)
{
    const struct halo_msg_generate *msg = &request->msg.generate;
    if (msg->has_prompt + msg->has_messages + msg->has_tokens != 1)
        return halo_fault_set(&request->fault, HALO_FAULT_BAD_REQUEST,
                              "give exactly one of `prompt`, `messages` and `tokens`, not %d",
                              msg->has_prompt + msg->has_messages + msg->has_tokens);
    int r = msg->has_prompt     ? from_prompt(request, out)
            : msg->has_messages ? halo_text_encode_messages(text, request, out)
                                : from_tokens(request, out);
    if (r == 0 && out->n == 0)
        r = halo_fault_set(&request->fault, HALO_FAULT_BAD_REQUEST,
                           "the prompt is empty: this model has no start token to begin with");
    return r;
}

/* ---- generate ---- */

static int fit(struct halo_request *request, size_t n_prompt, uint32_t *ret_max_tokens)
{
    const struct halo_msg_generate *msg = &request->msg.generate;
    uint32_t context = request->model->context;
    if (n_prompt >= context)
        return halo_fault_set(
            &request->fault, HALO_FAULT_CONTEXT_OVERFLOW,
            "the prompt has %zu tokens, the context holds %u with at least one of the reply; shorten it by %zu or load "
            "the model with a larger context",
            n_prompt, context, n_prompt + 1 - context);
    uint32_t left = context - (uint32_t)n_prompt;
    *ret_max_tokens = left;
    if (msg->has_max_tokens && msg->max_tokens <= left)
        *ret_max_tokens = (uint32_t)msg->max_tokens;
    else if (msg->has_max_tokens)
        return add_change(request, "max_tokens: %u instead of %lld, the end of the context", left,
                          (long long)msg->max_tokens);
    return 0;
}

static int draw_seed(struct halo_request *request)
{
    const struct halo_msg_generate *msg = &request->msg.generate;
    if (msg->has_resume)
        request->seed = (uint64_t)msg->resume.seed;
    else if (msg->has_seed)
        request->seed = (uint64_t)msg->seed;
    else if (getrandom(&request->seed, sizeof(request->seed), 0) != sizeof(request->seed))
        return halo_fault_errno(&request->fault, HALO_FAULT_INTERNAL, -errno, "no random seed; give one");
    request->seed &= INT64_MAX;
    return 0;
}

static int fill_sampler(struct halo_request *request, struct halo_sampler_params *ret)
{
    const struct halo_msg_generate *msg = &request->msg.generate;
    uint32_t n_vocab = request->model->model->plan.n_vocab;
    struct halo_logit_bias *biases = halo_arena_alloc(&request->arena, msg->logit_bias.n, sizeof(*biases));
    if (!biases)
        return no_memory(request);
    for (size_t i = 0; i < msg->logit_bias.n; i++) {
        if ((uint32_t)msg->logit_bias.at[i].tok_id >= n_vocab)
            return halo_fault_set(&request->fault, HALO_FAULT_BAD_REQUEST,
                                  "logit_bias names token %d, the vocabulary has %u", msg->logit_bias.at[i].tok_id,
                                  n_vocab);
        biases[i] = (struct halo_logit_bias){msg->logit_bias.at[i].tok_id, (float)msg->logit_bias.at[i].bias};
    }
    int r = draw_seed(request);
    *ret = (struct halo_sampler_params){.temperature = msg->temperature,
                                        .top_k = (uint32_t)msg->top_k,
                                        .top_p = msg->top_p,
                                        .min_p = msg->min_p,
                                        .repeat_penalty = msg->repeat_penalty,
                                        .repeat_window = (uint32_t)msg->repeat_window,
                                        .presence_penalty = msg->presence_penalty,
                                        .frequency_penalty = msg->frequency_penalty,
                                        .biases = biases,
                                        .n_biases = (uint32_t)msg->logit_bias.n,
                                        .seed = request->seed};
    return r;
}

static int add_resumed(struct halo_request *request, struct halo_sequence_setup *setup, struct halo_tokens *ids)
{
    const struct halo_part_resume *resume = &request->msg.generate.resume;
    if (!request->msg.generate.has_resume)
        return 0;
    if (resume->tokens.n > setup->max_tokens)
        return halo_fault_set(&request->fault, HALO_FAULT_BAD_REQUEST, "resume has %zu tokens, the reply at most %u",
                              resume->tokens.n, setup->max_tokens);
    setup->n_committed = (uint32_t)resume->tokens.n;
    setup->bytes_sent = (uint64_t)resume->bytes_sent;
    setup->elapsed_ns = (uint64_t)(resume->elapsed_ms * 1e6);
    setup->detect_loops = setup->detect_loops && !resume->loop_told;
    return take_ids(request, &resume->tokens, "resume.tokens", ids);
}

/* The ids that were committed follow the prompt that they followed, or nothing does. */
static int check_prompt(struct halo_request *request)
{
    const struct halo_msg_generate *msg = &request->msg.generate;
    if (!msg->has_resume || !msg->resume.has_effective_md5 ||
        halo_str_is(msg->resume.effective_md5, request->effective_md5))
        return 0;
    request->other_prompt = true;
    return halo_fault_set(&request->fault, HALO_FAULT_INTERNAL,
                          "the prompt is not the one that the reply began with (MD5 %s, was %.64s), so the reply "
                          "cannot go on",
                          request->effective_md5, msg->resume.effective_md5.at);
}

static int make_generate(struct halo_text_thread *text, struct halo_request *request, struct halo_tokens *ids)
{
    const struct halo_msg_generate *msg = &request->msg.generate;
    struct halo_sequence_setup setup = {.kind = HALO_SEQUENCE_GENERATE, .detect_loops = msg->detect_loops};
    int r = encode_prompt(text, request, ids);
    if (r == 0)
        r = check_prompt(request);
    if (r == 0)
        r = fit(request, ids->n, &setup.max_tokens);
    if (r == 0)
        r = fill_sampler(request, &setup.sampler);
    setup.n_prompt = (uint32_t)ids->n;
    if (r == 0)
        r = add_resumed(request, &setup, ids);
    struct halo_span *stops = halo_arena_alloc(&request->arena, msg->stop.n, sizeof(*stops));
    if (r == 0 && !stops)
        r = no_memory(request);
    if (r < 0)
        return r;
    for (size_t i = 0; i < msg->stop.n; i++)
        stops[i] = (struct halo_span){msg->stop.at[i].at, msg->stop.at[i].len};
    setup.stops = stops;
    setup.n_stops = (uint32_t)msg->stop.n;
    setup.ids = ids->ids;
    setup.cache_prompt = msg->cache_prompt;
    setup.user = msg->has_user ? (uint64_t)msg->user : HALO_SEQUENCE_NOBODY;
    setup.ignore_eos = msg->ignore_eos;
    setup.want_logprob = msg->logprobs > 0;
    setup.n_top = (uint32_t)msg->logprobs;
    setup.arrived_ns = request->arrived_ns;
    if (msg->has_deadline_ms && (uint64_t)msg->deadline_ms < UINT64_MAX / 2000000)
        setup.deadline_ns = request->arrived_ns + (uint64_t)msg->deadline_ms * 1000000;
    return halo_sequence_create(&request->sequence, &setup, &request->model->pieces, &request->fault);
}

/* A failure that left no reason is a defect, but its request must end all the same. */
static void settle(struct halo_request *request, int r)
{
    if (r < 0 && request->fault.code == HALO_FAULT_NONE)
        halo_fault_errno(&request->fault, HALO_FAULT_INTERNAL, r, "the prompt could not be prepared");
}

void halo_text_job_generate(struct halo_text_thread *text, struct halo_request *request)
{
    struct halo_tokens ids = {0};
    settle(request, make_generate(text, request, &ids));
    halo_tokens_finish(&ids);
}

/* ---- score ---- */

static int make_score(struct halo_request *request, struct halo_tokens *ids)
{
    const struct halo_msg_score *msg = &request->msg.score;
    if (msg->has_tokens + msg->has_text != 1)
        return halo_fault_set(&request->fault, HALO_FAULT_BAD_REQUEST, "give exactly one of `tokens` and `text`");
    int r = msg->has_tokens ? take_ids(request, &msg->tokens, "tokens", ids)
                            : encode_text(request, msg->text.at, msg->text.len, false, ids);
    if (r < 0)
        return r;
    if (ids->n == 0)
        return halo_fault_set(&request->fault, HALO_FAULT_BAD_REQUEST, "there is no token to score");
    if (ids->n > request->model->context)
        return halo_fault_set(&request->fault, HALO_FAULT_CONTEXT_OVERFLOW,
                              "the text has %zu tokens, the context holds %u", ids->n, request->model->context);
    if ((uint64_t)msg->from >= ids->n)
        return halo_fault_set(&request->fault, HALO_FAULT_BAD_REQUEST, "from is %lld, the text has %zu tokens",
                              (long long)msg->from, ids->n);
    struct halo_sequence_setup setup = {.kind = HALO_SEQUENCE_SCORE,
                                        .ids = ids->ids,
                                        .n_prompt = (uint32_t)ids->n,
                                        .n_top = (uint32_t)msg->top,
                                        .score_from = (uint32_t)msg->from,
                                        .cache_prompt = true,
                                        .user = msg->has_user ? (uint64_t)msg->user : HALO_SEQUENCE_NOBODY,
                                        .arrived_ns = request->arrived_ns};
    return halo_sequence_create(&request->sequence, &setup, &request->model->pieces, &request->fault);
}

void halo_text_job_score(struct halo_text_thread *text, struct halo_request *request)
{
    struct halo_tokens ids = {0};
    settle(request, make_score(request, &ids));
    halo_tokens_finish(&ids);
}
