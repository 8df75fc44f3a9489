/* texts.c: the tokenizer and the chat templates of one model file, and what needs both. See texts.h. */
#include <engine/texts.h>

#include <inttypes.h>
#include <stdlib.h>

/* The text of the token whose id stands under `key`; empty when the file names none. */
static struct halo_span token_text(const struct halo_gguf *gguf, const struct halo_tokenizer *tokenizer,
                                   const char *key)
{
    uint64_t id;
    if (halo_gguf_get_u64(gguf, key, &id, NULL) != 0 || id >= halo_tokenizer_n_vocab(tokenizer))
        return (struct halo_span){0};
    return halo_tokenizer_text(tokenizer, (int32_t)id);
}

/* 0, or negative when the key holds no text. */
static int template_text(const struct halo_gguf *gguf, const char *key, struct halo_span *ret, struct halo_fault *fault)
{
    *ret = (struct halo_span){0};
    int r = halo_gguf_get_string(gguf, key, ret, fault);
    return r < 0 ? r : 0;
}

static int chat_create(struct halo_texts *texts, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    struct halo_chat_source source = {.bos = token_text(gguf, texts->tokenizer, "tokenizer.ggml.bos_token_id"),
                                      .eos = token_text(gguf, texts->tokenizer, "tokenizer.ggml.eos_token_id")};
    int r = template_text(gguf, "tokenizer.chat_template", &source.template, fault);
    if (r == 0)
        r = template_text(gguf, "tokenizer.chat_template.tool_use", &source.tool_template, fault);
    return r < 0 ? r : halo_chat_create(&texts->chat, &source, fault);
}

int halo_texts_create(struct halo_texts *ret, const struct halo_gguf *gguf, uint32_t n_rows, struct halo_fault *fault)
{
    *ret = (struct halo_texts){0};
    int r = halo_tokenizer_create(&ret->tokenizer, gguf, fault);
    uint32_t n_tokens = r < 0 ? 0 : halo_tokenizer_n_vocab(ret->tokenizer);
    if (r == 0 && n_tokens != n_rows)
        r = halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                           "the vocabulary has %" PRIu32 " tokens, token_embd.weight has %" PRIu32 " rows", n_tokens,
                           n_rows);
    if (r == 0)
        r = chat_create(ret, gguf, fault);
    if (r < 0) {
        halo_gguf_name_fault(gguf, fault);
        halo_texts_destroy(ret);
    }
    return r;
}

void halo_texts_destroy(struct halo_texts *texts)
{
    halo_chat_destroy(texts->chat);
    halo_tokenizer_destroy(texts->tokenizer);
    *texts = (struct halo_texts){0};
}

int halo_texts_encode(const struct halo_texts *texts, const struct halo_chat_text *text, bool special,
                      struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault)
{
    struct halo_tokenizer_part *parts = calloc(text->n + 1, sizeof(*parts));
    if (!parts)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to tokenize %zu spans", text->n);
    for (size_t i = 0; i < text->n; i++)
        parts[i] =
            (struct halo_tokenizer_part){text->spans[i].bytes, text->spans[i].n, special || text->spans[i].is_template};
    int r = halo_tokenizer_encode_prompt(texts->tokenizer, parts, text->n, turn, out, fault);
    free(parts);
    return r;
}
