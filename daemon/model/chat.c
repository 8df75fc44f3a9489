/* chat.c: messages to prompt text, for the templates that are plain ChatML.
 *
 * Created on the text thread with its model, immutable afterwards, any thread may render. Templates are programs in a
 * language that this build does not run; those below are recognised by their full text, byte for byte, and what each
 * prints is known. Roles and contents are the user's text: their spans are content, so that neither can spell a
 * control token. Fails with UNSUPPORTED (render, for any other template) and OUT_OF_MEMORY.
 */
#include <assert.h>
#include <model/chat.h>
#include <stdlib.h>
#include <string.h>

#define FOR_EACH "{% for message in messages %}"
#define MESSAGE "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
#define PROMPT "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
#define NOT_DEFINED "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
#define DEFAULT_SYSTEM(text)                                                                                           \
    "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n" text                            \
    "<|im_end|>\\n' }}{% endif %}"

struct chat_form {
    const char *text;   /* of the template */
    const char *system; /* printed first when the first message is not a system message; NULL: nothing is */
    bool no_prompt;     /* the template knows no generation prompt */
};

static const struct chat_form forms[] = {
    {.text = FOR_EACH MESSAGE PROMPT},
    {.text = NOT_DEFINED FOR_EACH MESSAGE PROMPT},
    {.text = FOR_EACH MESSAGE, .no_prompt = true},
    {.text = FOR_EACH DEFAULT_SYSTEM("You are a helpful assistant") MESSAGE PROMPT,
     .system = "You are a helpful assistant"},
    {.text = FOR_EACH DEFAULT_SYSTEM("You are a helpful assistant.") MESSAGE PROMPT,
     .system = "You are a helpful assistant."},
};

struct halo_chat {
    const struct chat_form *form; /* NULL: not one of these */
    bool present;                 /* the file has a template */
};

int halo_chat_create(struct halo_chat **ret, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    struct halo_span text;
    *ret = NULL;
    int r = halo_gguf_get_string(gguf, "tokenizer.chat_template", &text, fault);
    if (r < 0)
        return r;
    struct halo_chat *chat = calloc(1, sizeof *chat);
    if (!chat)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the chat template");
    chat->present = r != HALO_GGUF_ABSENT;
    for (size_t i = 0; chat->present && i < sizeof forms / sizeof *forms; i++)
        if (strlen(forms[i].text) == text.n && memcmp(forms[i].text, text.bytes, text.n) == 0)
            chat->form = &forms[i];
    *ret = chat;
    return 0;
}

void halo_chat_destroy(struct halo_chat *chat) { free(chat); }

static void add(struct halo_chat_text *text, const char *bytes, size_t n, bool is_template)
{
    text->spans[text->n++] = (struct halo_chat_span){bytes, n, is_template};
}

static void add_template(struct halo_chat_text *text, const char *bytes) { add(text, bytes, strlen(bytes), true); }

#define SPANS_PER_MESSAGE 5

int halo_chat_render(const struct halo_chat *chat, const struct halo_chat_message *messages, size_t n,
                     bool add_generation_prompt, struct halo_arena *arena, struct halo_chat_text *ret,
                     struct halo_fault *fault)
{
    const struct chat_form *form = chat->form;
    if (!form)
        return halo_fault_set(
            fault, HALO_FAULT_UNSUPPORTED,
            chat->present ? "the model's chat template is not plain ChatML, so this version can not render `messages`; "
                            "write the conversation as the model expects it and send it as `prompt`"
                          : "the model has no chat template, so `messages` can not be rendered; send `prompt`");
    size_t n_spans;
    *ret = (struct halo_chat_text){0};
    if (!__builtin_mul_overflow(n, (size_t)SPANS_PER_MESSAGE, &n_spans) && n_spans < SIZE_MAX - 4)
        ret->spans = halo_arena_alloc(arena, n_spans + 4, sizeof *ret->spans);
    if (!ret->spans)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to render %zu messages", n);
    if (form->system && n && strcmp(messages[0].role, "system") != 0) {
        add_template(ret, "<|im_start|>system\n");
        add_template(ret, form->system);
        add_template(ret, "<|im_end|>\n");
    }
    for (size_t i = 0; i < n; i++) {
        add_template(ret, "<|im_start|>");
        add(ret, messages[i].role, strlen(messages[i].role), false);
        add_template(ret, "\n");
        add(ret, messages[i].content, messages[i].n_content, false);
        add_template(ret, "<|im_end|>\n");
    }
    if (add_generation_prompt && !form->no_prompt)
        add_template(ret, "<|im_start|>assistant\n");
    assert(ret->n <= n_spans + 4);
    return 0;
}

/* Puts BOS before the ids from `start` on, unless the text began with it. */
static int put_bos(const struct halo_tokenizer *tokenizer, struct halo_tokens *out)
{
    int32_t bos = halo_tokenizer_bos(tokenizer);
    if (out->n && out->ids[0] == bos)
        return 0;
    if (halo_tokens_push(out, bos) < 0)
        return -1;
    memmove(out->ids + 1, out->ids, (out->n - 1) * sizeof *out->ids);
    out->ids[0] = bos;
    return 0;
}

int halo_chat_encode_text(const struct halo_tokenizer *tokenizer, const struct halo_chat_text *text, bool special,
                          struct halo_tokens *out, struct halo_fault *fault)
{
    bool first = out->n == 0;
    size_t n_before = out->n;
    struct halo_tokenizer_part *parts = calloc(text->n + 1, sizeof *parts);
    if (!parts)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to tokenize %zu spans", text->n);
    for (size_t i = 0; i < text->n; i++)
        parts[i] = (struct halo_tokenizer_part){text->spans[i].bytes, text->spans[i].n,
                                                special || text->spans[i].is_template};
    int r = halo_tokenizer_encode_parts(tokenizer, parts, text->n, first, out, fault);
    free(parts);
    if (r == 0 && first && halo_tokenizer_adds_bos(tokenizer) && put_bos(tokenizer, out) < 0) {
        out->n = n_before;
        r = halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the tokens of a conversation");
    }
    return r;
}

int halo_chat_encode(const struct halo_chat *chat, const struct halo_tokenizer *tokenizer,
                     const struct halo_chat_message *messages, size_t n, bool add_generation_prompt, bool special,
                     struct halo_tokens *out, struct halo_fault *fault)
{
    struct halo_arena arena;
    struct halo_chat_text text;
    halo_arena_init(&arena, 0);
    int r = halo_chat_render(chat, messages, n, add_generation_prompt, &arena, &text, fault);
    if (r == 0)
        r = halo_chat_encode_text(tokenizer, &text, special, out, fault);
    halo_arena_finish(&arena);
    return r;
}
