/* texts.h: how a loaded model reads and writes text: its tokenizer and its chat templates.
 *
 * Made from the file's directory on the io thread, immutable afterwards; any thread may use it.
 */
#ifndef HALO_ENGINE_TEXTS_H
#define HALO_ENGINE_TEXTS_H

#include <base/fault.h>
#include <jinja/chat.h>
#include <store/gguf.h>
#include <tokenizer/tokenizer.h>

struct halo_texts {
    struct halo_tokenizer *tokenizer;
    struct halo_chat *chat;
};

/* n_rows: of the model's embedding, which the vocabulary must match (LOAD_FAILED). Other faults are those of the
 * tokenizer, and LOAD_FAILED for a template that is no text. On failure `ret` is empty. */
int halo_texts_create(struct halo_texts *ret, const struct halo_gguf *gguf, uint32_t n_rows, struct halo_fault *fault);
void halo_texts_destroy(struct halo_texts *texts); /* `texts` may be empty */

/* Appends the ids of rendered text to `out`; template spans may hold control tokens, content only when `special` asks
 * for it. `turn`: as in halo_tokenizer_encode(). Adds BOS as halo_tokenizer_encode_prompt() does. */
int halo_texts_encode(const struct halo_texts *texts, const struct halo_chat_text *text, bool special,
                      struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault);

#endif
