/* chat.c: conversations: normalized, put through the model's chat template, tokenized; and the job `template`.
 *
 * Text workers. What a rendering needs on its way (the template's values, the text) lives in two arenas that the first
 * worker keeps from one conversation to the next: fresh memory costs more than the template does.
 * Fails with BAD_REQUEST (the template refuses the conversation), UNSUPPORTED (no template, or one that cannot be
 * used), OUT_OF_MEMORY in job->fault.
 */
#include <assert.h>
#include <string.h>

#include <base/hash.h>
#include <jinja/jinja.h>

#include "port/job_priv.h"

#define TEMPLATE_VALUES 6            /* of an answer without tokens: the object, its type, id and text, two lists */
#define KEPT_BYTES ((size_t)8 << 20) /* what a worker's arena may hold between two conversations */

static int no_memory(struct halo_job *job)
{
    return halo_fault_set(&job->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to render a conversation");
}

/* ---- normalize ---- */

static int normalize_str(struct halo_arena *arena, struct halo_str *str, uint64_t *n_runs)
{
    char *copy = halo_arena_alloc(arena, str->len + 1, 1);
    if (!copy)
        return -1;
    *n_runs += halo_text_normalize(str->at, str->len, copy, &str->len);
    str->at = copy;
    return 0;
}

static int normalize_content(struct halo_arena *arena, struct halo_content *content, uint64_t *n_runs)
{
    int r = content->kind == HALO_CONTENT_TEXT ? normalize_str(arena, &content->text, n_runs) : 0;
    if (content->kind != HALO_CONTENT_PARTS)
        return r;
    struct halo_str *parts = halo_arena_alloc(arena, content->parts.n, sizeof(*parts));
    if (!parts)
        return -1;
    for (size_t i = 0; r == 0 && i < content->parts.n; i++) {
        parts[i] = content->parts.at[i];
        r = normalize_str(arena, &parts[i], n_runs);
    }
    content->parts.at = parts;
    return r;
}

/* What is said, and only that: tool calls, thoughts and tools keep their newlines. */
static int normalize(struct halo_job *job, struct halo_arena *arena, const struct halo_part_chat_list *from,
                     struct halo_part_chat_list *ret)
{
    struct halo_part_chat *messages = halo_arena_alloc(arena, from->n, sizeof(*messages));
    if (!messages)
        return no_memory(job);
    for (size_t i = 0; i < from->n; i++) {
        messages[i] = from->at[i];
        if (normalize_content(arena, &messages[i].content, &job->newline_runs) < 0)
            return no_memory(job);
    }
    *ret = (struct halo_part_chat_list){messages, from->n};
    return 0;
}

/* ---- rendering ---- */

struct conversation {
    struct halo_part_chat_list messages;
    struct halo_raw tools, vars; /* at NULL: not given */
    bool add_generation_prompt;
    bool has_now; /* a reply that goes on elsewhere has the date that it began with */
    time_t now;
};

static_assert(HALO_LIMIT_JSON_DEPTH == HALO_JINJA_JSON_MAX_DEPTH && HALO_LIMIT_DEPTH == HALO_LIMIT_JSON_DEPTH + 1,
              "what a line may hold, a template may get");

/* `changes` may be NULL: they are those of an earlier rendering. */
static int render(struct halo_text_worker *worker, struct halo_job *job, const struct conversation *talk,
                  struct halo_remarks *changes, struct halo_chat_text *ret)
{
    struct halo_json json;
    struct tm now;
    bool has_now = talk->has_now && localtime_r(&talk->now, &now);
    halo_json_init(&json);
    halo_chat_write(&json, &talk->messages);
    const struct halo_chat_input input = {.messages_json = {json.at, json.len},
                                          .tools_json = {talk->tools.at, talk->tools.len},
                                          .vars_json = {talk->vars.at, talk->vars.len},
                                          .add_generation_prompt = talk->add_generation_prompt,
                                          .now = has_now ? &now : NULL,
                                          .scratch = &worker->scratch,
                                          .turn = &worker->turn,
                                          .changes = changes};
    int r = json.error ? no_memory(job)
                       : halo_chat_render(job->model->texts.chat, &input, &worker->arena, ret, &job->fault);
    halo_json_finish(&json);
    return r;
}

static void forget(struct halo_text_worker *worker)
{
    halo_arena_reset(&worker->arena, worker->keeps_memory ? KEPT_BYTES : 0);
    if (!worker->keeps_memory)
        halo_arena_reset(&worker->scratch, 0);
}

/* All spans as one text. */
static int join(struct halo_job *job, struct halo_arena *arena, const struct halo_chat_text *text, struct halo_str *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++)
        n += text->spans[i].n;
    char *whole = halo_arena_alloc(arena, n + 1, 1);
    if (!whole)
        return no_memory(job);
    *ret = (struct halo_str){whole, n};
    for (size_t i = 0; i < text->n; whole += text->spans[i++].n)
        memcpy(whole, text->spans[i].bytes, text->spans[i].n);
    return 0;
}

static int hash(struct halo_job *job, struct halo_arena *arena, const struct halo_chat_text *text,
                struct halo_str *ret_whole, char ret_md5[HALO_MD5_HEX])
{
    int r = join(job, arena, text, ret_whole);
    if (r == 0)
        halo_md5_hex(ret_whole->at, ret_whole->len, ret_md5);
    return r;
}

/* Renders as asked, and once more when normalizing changes something. ret_whole: the spans as one text, in the worker's
 * arena. */
static int render_both(struct halo_text_worker *worker, struct halo_job *job, struct conversation *talk,
                       bool normalizes, struct halo_chat_text *ret, struct halo_str *ret_whole)
{
    struct halo_arena *arena = &worker->arena;
    struct halo_remarks changes = {0};
    int r = render(worker, job, talk, &changes, ret);
    for (uint32_t i = 0; r == 0 && i < changes.n; i++)
        r = halo_text_add_change(job, "%s", changes.text[i]);
    if (r == 0)
        r = hash(job, arena, ret, ret_whole, job->prompt_md5);
    if (r == 0 && normalizes)
        r = normalize(job, arena, &talk->messages, &talk->messages);
    memcpy(job->effective_md5, job->prompt_md5, sizeof(job->effective_md5));
    if (r < 0 || job->newline_runs == 0)
        return r;
    r = render(worker, job, talk, NULL, ret);
    return r < 0 ? r : hash(job, arena, ret, ret_whole, job->effective_md5);
}

/* ---- what the next turn repeats ---- */

/* How many ids stand in front of the last n_bytes of the text. */
static size_t ids_before(const struct halo_tokenizer *tokenizer, const struct halo_tokens *ids, size_t n_bytes)
{
    size_t n = ids->n;
    while (n > 0 && n_bytes > 0) {
        size_t piece = halo_tokenizer_piece(tokenizer, ids->ids[--n], true).n;
        n_bytes -= piece < n_bytes ? piece : n_bytes;
    }
    return n;
}

/* The next turn of the conversation repeats the text without the generation prompt, and what comes behind that, like
 * thoughts, maybe not. Only caches that cannot be cut anywhere need to know where that is. The last id is always
 * computed, so the place is in front of it. A template that refuses leaves it unknown. */
static int find_stable(struct halo_text_worker *worker, struct halo_job *job, const struct conversation *talk,
                       struct halo_str whole, const struct halo_tokens *ids)
{
    struct conversation without = *talk;
    struct halo_chat_text spans;
    struct halo_str text = {0};
    size_t n = 0;
    if (job->model->model->plan.n_kv_groups == 1 || !job->msg.generate.cache_prompt || ids->n < 2)
        return 0;
    without.add_generation_prompt = false;
    int r = render(worker, job, &without, NULL, &spans);
    if (r == 0)
        r = join(job, &worker->arena, &spans, &text);
    if (r < 0 && job->fault.code == HALO_FAULT_CANCELLED)
        return r;
    if (r < 0) {
        job->fault = (struct halo_fault){0};
        return 0;
    }
    while (n < text.len && n < whole.len && text.at[n] == whole.at[n])
        n++;
    n = ids_before(job->model->texts.tokenizer, ids, whole.len - n);
    job->n_stable = (uint32_t)(n < ids->n ? n : ids->n - 1);
    return 0;
}

int halo_text_encode_messages(struct halo_text_worker *worker, struct halo_job *job, struct halo_tokens *out)
{
    const struct halo_msg_generate *msg = &job->msg.generate;
    struct conversation talk = {.messages = msg->messages,
                                .tools = msg->tools,
                                .vars = msg->template_vars,
                                .add_generation_prompt = true,
                                .has_now = msg->has_now_s,
                                .now = (time_t)msg->now_s};
    struct halo_chat_text spans;
    struct halo_str whole;
    int r = render_both(worker, job, &talk, !msg->has_normalize || msg->normalize, &spans, &whole);
    if (r == 0)
        r = halo_text_check_fit(job, whole, 1);
    if (r == 0)
        r = halo_texts_encode(&job->model->texts, &spans, msg->special, &worker->turn, out, &job->fault);
    if (r == 0)
        r = find_stable(worker, job, &talk, whole, out);
    forget(worker);
    return r;
}

/* ---- template ---- */

static int show(struct halo_text_worker *worker, struct halo_job *job, const struct halo_chat_text *spans)
{
    struct halo_tokens tokens = {0};
    struct halo_str whole;
    int32_t *ids = NULL;
    int r = join(job, &job->arena, spans, &whole);
    if (r == 0)
        r = halo_texts_encode(&job->model->texts, spans, job->msg.template.special, &worker->turn, &tokens,
                              &job->fault);
    if (r == 0)
        r = halo_text_check_values(job, tokens.n, TEMPLATE_VALUES + tokens.n + job->n_changes);
    if (r == 0)
        ids = halo_arena_alloc(&job->arena, tokens.n, sizeof(*ids));
    if (r == 0 && !ids)
        r = no_memory(job);
    if (r == 0) {
        if (tokens.n > 0)
            memcpy(ids, tokens.ids, tokens.n * sizeof(*ids));
        halo_ev_init(&job->ev, HALO_EV_TEMPLATE, &job->msg.id);
        job->ev.template.text = whole;
        job->ev.template.tokens = (struct halo_token_list){ids, tokens.n};
        job->ev.template.changes = (struct halo_str_list){job->changes, job->n_changes};
    }
    halo_tokens_finish(&tokens);
    return r;
}

void halo_text_job_template(struct halo_text_worker *worker, struct halo_job *job)
{
    const struct halo_msg_template *msg = &job->msg.template;
    struct conversation talk = {.messages = msg->messages,
                                .tools = msg->tools,
                                .vars = msg->template_vars,
                                .add_generation_prompt = msg->add_generation_prompt};
    struct halo_chat_text spans;
    struct halo_str whole;
    int r = render_both(worker, job, &talk, !msg->has_normalize || msg->normalize, &spans, &whole);
    if (r == 0)
        r = show(worker, job, &spans);
    if (r < 0 && job->fault.code == HALO_FAULT_NONE)
        no_memory(job);
    forget(worker);
}
