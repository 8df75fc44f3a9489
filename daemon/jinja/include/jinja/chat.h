/* chat.h: messages to prompt text, by the model's own chat template (jinja.h runs it; docs/TEMPLATES.md).
 *
 * The rendering is a list of spans marked template or content: template text may hold special tokens, content may not
 * unless the request asks for it, so that nobody can type <|im_end|> into a conversation.
 */
#ifndef HALO_JINJA_CHAT_H
#define HALO_JINJA_CHAT_H

#include <base/arena.h>
#include <base/fault.h>
#include <base/remarks.h>
#include <base/span.h>

#include <jinja/jinja.h>

struct halo_chat; /* the compiled templates of a model */

/* What a model file says about conversations; bytes NULL: it does not. */
struct halo_chat_source {
    struct halo_span template;      /* tokenizer.chat_template */
    struct halo_span tool_template; /* tokenizer.chat_template.tool_use: for conversations with tools */
    struct halo_span bos, eos;      /* texts of these tokens, the variables bos_token and eos_token */
};

/* The texts are copied. OUT_OF_MEMORY only: a template that does not parse is reported by problem() and render(). */
int halo_chat_create(struct halo_chat **ret, const struct halo_chat_source *source, struct halo_fault *fault);
void halo_chat_destroy(struct halo_chat *chat);

/* Why a template of the file cannot be used, with line and column; NULL: it can, or there is none. The chat's. */
const char *halo_chat_problem(const struct halo_chat *chat);

/* What is odd about the templates. The chat's. */
const struct halo_remarks *halo_chat_remarks(const struct halo_chat *chat);

struct halo_chat_message {
    const char *role;
    const char *content;
    size_t n_content;
};

/* All that a conversation may bring along. JSON is text of the request as it was received; empty: not given. */
struct halo_chat_input {
    const struct halo_chat_message *messages; /* plain ones, unless messages_json is given */
    size_t n_messages;
    struct halo_span messages_json; /* a list: contents of parts, tool calls, reasoning ... */
    struct halo_span tools_json;    /* a list; without it `tools` is None */
    struct halo_span vars_json;     /* an object: a variable each */
    bool add_generation_prompt;
    const struct tm *now;         /* for templates that ask for the date; NULL: the local time */
    struct halo_arena *scratch;   /* as in halo_jinja_params */
    struct halo_turn *turn;       /* as in halo_jinja_params */
    struct halo_remarks *changes; /* out: what of the conversation is not as it was given; NULL: nobody asks */
};

/* Texts and arguments of tool calls are put into the form that the template takes: a string or text parts, an object or
 * JSON text. Spans live in the arena. UNSUPPORTED: no template that can be used. BAD_REQUEST: the template refuses the
 * conversation (the sentence is the template's own), fails on it or passes a limit; or the JSON is not what it should
 * be. What the turn's check returned, without a fault. */
int halo_chat_render(const struct halo_chat *chat, const struct halo_chat_input *input, struct halo_arena *arena,
                     struct halo_chat_text *ret, struct halo_fault *fault);

#endif
