/* chat.h: messages to prompt text. Here: plain ChatML, recognised exactly; any other template is UNSUPPORTED.
 *
 * The rendering is a list of spans marked template or content: template text may hold special tokens, content may not
 * unless the request asks for it, so that nobody can type <|im_end|> into a conversation.
 */
#ifndef HALO_MODEL_CHAT_H
#define HALO_MODEL_CHAT_H

#include <base/arena.h>
#include <base/fault.h>
#include <model/tokenizer.h>

struct halo_chat; /* the compiled template of a model */

/* From the directory's tokenizer.chat_template. Never fails for a template that is unknown: render() then says so. */
int halo_chat_create(struct halo_chat **ret, const struct halo_gguf *gguf, struct halo_fault *fault);
void halo_chat_destroy(struct halo_chat *chat);

struct halo_chat_message { const char *role; const char *content; size_t n_content; };
struct halo_chat_span { const char *bytes; size_t n; bool is_template; };
struct halo_chat_text { struct halo_chat_span *spans; size_t n; };

/* Spans point into the messages, static text and the arena. */
int halo_chat_render(const struct halo_chat *chat, const struct halo_chat_message *messages, size_t n,
                     bool add_generation_prompt, struct halo_arena *arena, struct halo_chat_text *ret,
                     struct halo_fault *fault);

/* The whole way: renders and appends the ids to `out`. Template spans may hold control tokens; content may when
 * `special` asks for it. The ids are those of the rendered text as one string (see halo_tokenizer_encode_parts). Puts
 * BOS in front when the tokenizer adds one, the rendered text does not begin with it and `out` is empty. UNSUPPORTED
 * as render. */
int halo_chat_encode(const struct halo_chat *chat, const struct halo_tokenizer *tokenizer,
                     const struct halo_chat_message *messages, size_t n, bool add_generation_prompt, bool special,
                     struct halo_tokens *out, struct halo_fault *fault);

/* The same for spans that were rendered before (the caller has hashed or normalized them in between). */
int halo_chat_encode_text(const struct halo_tokenizer *tokenizer, const struct halo_chat_text *text, bool special,
                          struct halo_tokens *out, struct halo_fault *fault);

#endif
