/* prompt.c: from the prompt of a request to a sequence: normalize, tokenize, check against the context.
 *
 * Text workers. Everything that would be wrong later is refused here, with the numbers, before the device hears of it.
 * Fails with BAD_REQUEST, CONTEXT_OVERFLOW, UNSUPPORTED (template), OUT_OF_MEMORY in job->fault.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <base/hash.h>

#include "port/job_priv.h"

static int no_memory(struct halo_job *job)
{
    return halo_fault_set(&job->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to prepare the prompt");
}

static int check_ids(struct halo_job *job, const struct halo_token_list *ids, const char *field)
{
    uint32_t n_vocab = job->model->model->plan.n_vocab;
    for (size_t i = 0; i < ids->n; i++)
        if (ids->at[i] < 0 || (uint32_t)ids->at[i] >= n_vocab)
            return halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST, "%s[%zu] is %d, the vocabulary has ids 0 to %u",
                                  field, i, ids->at[i], n_vocab - 1);
    return 0;
}

static int take_ids(struct halo_job *job, const struct halo_token_list *ids, const char *field, struct halo_tokens *out)
{
    int r = check_ids(job, ids, field);
    for (size_t i = 0; r == 0 && i < ids->n; i++)
        if (halo_tokens_push(out, ids->at[i]) < 0)
            r = no_memory(job);
    return r;
}

/* ---- the three kinds of prompt ---- */

static bool normalizes(const struct halo_job *job)
{
    return !job->msg.generate.has_normalize || job->msg.generate.normalize;
}

static int from_prompt(struct halo_text_worker *worker, struct halo_job *job, struct halo_tokens *out)
{
    struct halo_str prompt = job->msg.generate.prompt;
    const char *text = prompt.at;
    size_t n = prompt.len;
    halo_md5_hex(text, n, job->prompt_md5);
    if (normalizes(job)) {
        char *copy = halo_arena_alloc(&job->arena, n + 1, 1);
        if (!copy)
            return no_memory(job);
        job->newline_runs = halo_text_normalize(text, n, copy, &n);
        text = copy;
    }
    halo_md5_hex(text, n, job->effective_md5);
    int r = halo_text_check_fit(job, (struct halo_str){text, n}, 1);
    if (r < 0)
        return r;
    return halo_text_encode(worker, job, (struct halo_str){text, n}, halo_text_adds_bos(job), job->msg.generate.special,
                            out);
}

/* The MD5 of ids is that of their little-endian 32-bit numbers. */
static int from_tokens(struct halo_job *job, struct halo_tokens *out)
{
    const struct halo_token_list *ids = &job->msg.generate.tokens;
    halo_md5_hex(ids->at ? (const void *)ids->at : "", ids->n * sizeof(*ids->at), job->prompt_md5);
    memcpy(job->effective_md5, job->prompt_md5, sizeof(job->effective_md5));
    return take_ids(job, ids, "tokens", out);
}

static int encode_prompt(struct halo_text_worker *worker, struct halo_job *job, struct halo_tokens *out)
{
    const struct halo_msg_generate *msg = &job->msg.generate;
    if (msg->has_prompt + msg->has_messages + msg->has_tokens != 1)
        return halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST,
                              "give exactly one of `prompt`, `messages` and `tokens`, not %d",
                              msg->has_prompt + msg->has_messages + msg->has_tokens);
    int r = msg->has_prompt     ? from_prompt(worker, job, out)
            : msg->has_messages ? halo_text_encode_messages(worker, job, out)
                                : from_tokens(job, out);
    if (r == 0 && out->n == 0)
        r = halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST,
                           "the prompt is empty: this model has no start token to begin with");
    return r;
}

/* ---- generate ---- */

static int fit(struct halo_job *job, size_t n_prompt, uint32_t *ret_max_tokens)
{
    const struct halo_msg_generate *msg = &job->msg.generate;
    uint32_t context = job->model->context;
    if (n_prompt >= context)
        return halo_text_overflow(job, n_prompt, 1);
    uint32_t left = context - (uint32_t)n_prompt;
    *ret_max_tokens = left;
    if (msg->has_max_tokens && msg->max_tokens <= left)
        *ret_max_tokens = (uint32_t)msg->max_tokens;
    else if (msg->has_max_tokens)
        return halo_text_add_change(job, "max_tokens: %u instead of %lld, the end of the context", left,
                                    (long long)msg->max_tokens);
    return 0;
}

static int draw_seed(struct halo_job *job)
{
    const struct halo_msg_generate *msg = &job->msg.generate;
    if (msg->has_resume)
        job->seed = (uint64_t)msg->resume.seed;
    else if (msg->has_seed)
        job->seed = (uint64_t)msg->seed;
    else if (getrandom(&job->seed, sizeof(job->seed), 0) != sizeof(job->seed))
        return halo_fault_errno(&job->fault, HALO_FAULT_INTERNAL, -errno, "no random seed; give one");
    if (!msg->has_resume && !msg->has_seed)
        job->seed &= HALO_LIMIT_DRAWN_SEED;
    return 0;
}

static int fill_sampler(struct halo_job *job, struct halo_sampler_params *ret)
{
    const struct halo_msg_generate *msg = &job->msg.generate;
    uint32_t n_vocab = job->model->model->plan.n_vocab;
    struct halo_logit_bias *biases = halo_arena_alloc(&job->arena, msg->logit_bias.n, sizeof(*biases));
    if (!biases)
        return no_memory(job);
    for (size_t i = 0; i < msg->logit_bias.n; i++) {
        if ((uint32_t)msg->logit_bias.at[i].tok_id >= n_vocab)
            return halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST,
                                  "logit_bias names token %d, the vocabulary has ids 0 to %u",
                                  msg->logit_bias.at[i].tok_id, n_vocab - 1);
        biases[i] = (struct halo_logit_bias){msg->logit_bias.at[i].tok_id, (float)msg->logit_bias.at[i].bias};
    }
    int r = draw_seed(job);
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
                                        .seed = job->seed};
    return r;
}

static int add_resumed(struct halo_job *job, struct halo_sequence_setup *setup, struct halo_tokens *ids)
{
    const struct halo_part_resume *resume = &job->msg.generate.resume;
    if (!job->msg.generate.has_resume)
        return 0;
    if (resume->tokens.n > setup->max_tokens)
        return halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST, "resume has %zu tokens, the reply at most %u",
                              resume->tokens.n, setup->max_tokens);
    setup->n_committed = (uint32_t)resume->tokens.n;
    setup->bytes_sent = (uint64_t)resume->bytes_sent;
    setup->elapsed_ns = (uint64_t)(resume->elapsed_ms * 1e6);
    setup->detect_loops = setup->detect_loops && !resume->loop_told;
    return take_ids(job, &resume->tokens, "resume.tokens", ids);
}

/* The ids that were committed follow the prompt that they followed, or nothing does. */
static int check_prompt(struct halo_job *job)
{
    const struct halo_msg_generate *msg = &job->msg.generate;
    if (!msg->has_resume || !msg->resume.has_effective_md5 ||
        halo_str_is(msg->resume.effective_md5, job->effective_md5))
        return 0;
    job->other_prompt = true;
    return halo_fault_set(&job->fault, HALO_FAULT_INTERNAL,
                          "the prompt is not the one that the reply began with (MD5 %s, was %.64s), so the reply "
                          "cannot go on",
                          job->effective_md5, msg->resume.effective_md5.at);
}

static int make_generate(struct halo_text_worker *worker, struct halo_job *job, struct halo_tokens *ids)
{
    const struct halo_msg_generate *msg = &job->msg.generate;
    struct halo_sequence_setup setup = {.kind = HALO_SEQUENCE_GENERATE, .detect_loops = msg->detect_loops};
    int r = encode_prompt(worker, job, ids);
    if (r == 0)
        r = check_prompt(job);
    if (r == 0)
        r = fit(job, ids->n, &setup.max_tokens);
    if (r == 0)
        r = fill_sampler(job, &setup.sampler);
    setup.n_prompt = (uint32_t)ids->n;
    setup.n_stable = job->n_stable;
    if (r == 0)
        r = add_resumed(job, &setup, ids);
    struct halo_span *stops = halo_arena_alloc(&job->arena, msg->stop.n, sizeof(*stops));
    if (r == 0 && !stops)
        r = no_memory(job);
    if (r < 0)
        return r;
    for (size_t i = 0; i < msg->stop.n; i++)
        stops[i] = (struct halo_span){msg->stop.at[i].at, msg->stop.at[i].len};
    setup.stops = stops;
    setup.n_stops = (uint32_t)msg->stop.n;
    setup.ids = ids->ids;
    setup.cache_prompt = msg->cache_prompt;
    setup.user = job->text_place.user;
    setup.ignore_eos = msg->ignore_eos;
    setup.want_logprob = msg->logprobs > 0;
    setup.n_top = (uint32_t)msg->logprobs;
    setup.arrived_ns = job->arrived_ns;
    if (msg->has_deadline_ms && (uint64_t)msg->deadline_ms < UINT64_MAX / 2000000)
        setup.deadline_ns = job->arrived_ns + (uint64_t)msg->deadline_ms * 1000000;
    return halo_sequence_create(&job->sequence, &setup, &job->model->pieces, &job->fault);
}

/* A failure that left no reason is a defect, but its request must end all the same. */
static void settle(struct halo_job *job, int r)
{
    if (r < 0 && job->fault.code == HALO_FAULT_NONE)
        halo_fault_errno(&job->fault, HALO_FAULT_INTERNAL, r, "the prompt could not be prepared");
}

void halo_text_job_generate(struct halo_text_worker *worker, struct halo_job *job)
{
    struct halo_tokens ids = {0};
    halo_text_count_to(worker, job, &ids);
    settle(job, make_generate(worker, job, &ids));
    halo_tokens_finish(&ids);
}

/* ---- score ---- */

static int make_score(struct halo_text_worker *worker, struct halo_job *job, struct halo_tokens *ids)
{
    const struct halo_msg_score *msg = &job->msg.score;
    if (msg->has_tokens + msg->has_text != 1)
        return halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST, "give exactly one of `tokens` and `text`");
    int r = msg->has_tokens ? take_ids(job, &msg->tokens, "tokens", ids) : halo_text_check_fit(job, msg->text, 0);
    if (r == 0 && msg->has_text)
        r = halo_text_encode(worker, job, msg->text, halo_text_adds_bos(job), false, ids);
    if (r < 0)
        return r;
    if (ids->n == 0)
        return halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST, "the text has no tokens to score");
    if (ids->n > job->model->context)
        return halo_text_overflow(job, ids->n, 0);
    if ((uint64_t)msg->from >= ids->n)
        return halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST, "from is %lld, the last position of the text is %zu",
                              (long long)msg->from, ids->n - 1);
    struct halo_sequence_setup setup = {.kind = HALO_SEQUENCE_SCORE,
                                        .ids = ids->ids,
                                        .n_prompt = (uint32_t)ids->n,
                                        .n_top = (uint32_t)msg->top,
                                        .score_from = (uint32_t)msg->from,
                                        .cache_prompt = true,
                                        .user = job->text_place.user,
                                        .arrived_ns = job->arrived_ns};
    return halo_sequence_create(&job->sequence, &setup, &job->model->pieces, &job->fault);
}

void halo_text_job_score(struct halo_text_worker *worker, struct halo_job *job)
{
    struct halo_tokens ids = {0};
    halo_text_count_to(worker, job, &ids);
    settle(job, make_score(worker, job, &ids));
    halo_tokens_finish(&ids);
}
