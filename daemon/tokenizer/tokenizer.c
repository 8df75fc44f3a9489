/* tokenizer.c: text to token ids and back: the public face.
 *
 * A tokenizer is built once and then only read, by any thread. Encoding cuts the text at added tokens and hands the
 * stretches between them to bpe.c, spm.c or spm_bpe.c; its scratch lives as long as the call. See tokenizer_priv.h for
 * the parts. Fails with LOAD_FAILED, UNSUPPORTED, OUT_OF_MEMORY in create; OUT_OF_MEMORY and BAD_REQUEST (too long) in
 * encode.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_priv.h"

int halo_tokenizer_create(struct halo_tokenizer **ret, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    *ret = NULL;
    struct halo_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a tokenizer");
    halo_arena_init(&t->arena, 0);
    int r = halo_tokenizer_load(t, gguf, fault);
    if (r >= 0 && t->model == HALO_TOKENIZER_BPE)
        halo_bpe_find_bytes(t);
    else if (r >= 0)
        r = halo_spm_find_bytes(t, fault);
    if (r >= 0 && t->model == HALO_TOKENIZER_SPM)
        halo_spm_find_words(t);
    else if (r >= 0)
        r = halo_bpe_load(t, gguf, fault);
    r = r < 0 ? r : halo_special_init(&t->special, t, fault);
    if (r < 0) {
        halo_tokenizer_destroy(t);
        return r;
    }
    halo_arena_seal(&t->arena);
    *ret = t;
    return 0;
}

void halo_tokenizer_destroy(struct halo_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    halo_pretokenizer_destroy(tokenizer->pre);
    halo_arena_finish(&tokenizer->arena);
    free(tokenizer);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int encode_stretch(struct halo_encoder *encoder, const char *text, size_t n, bool prefix)
{
    const struct halo_tokenizer *t = encoder->tokenizer;
    switch (t->model) {
    case HALO_TOKENIZER_BPE: return halo_bpe_encode(encoder, text, n);
    case HALO_TOKENIZER_SPM: return halo_spm_encode(encoder, text, n, prefix && t->add_space_prefix);
    case HALO_TOKENIZER_SPM_BPE: return halo_spm_bpe_encode(encoder, text, n);
    }
    abort();
}

static int encode(struct halo_encoder *encoder, bool first)
{
    const struct halo_tokenizer *t = encoder->tokenizer;
    bool prefix = first;
    for (size_t at = 0; at < encoder->n;) {
        struct halo_special_match match;
        int r = halo_special_next(encoder, at, &match);
        if (r < 0)
            return r;
        bool found = r == HALO_SPECIAL_FOUND;
        size_t end = found ? match.at : encoder->n;
        r = end > at ? encode_stretch(encoder, encoder->text + at, end - at, prefix) : 0;
        if (r < 0 || !found)
            return r;
        if (halo_tokens_push(encoder->out, match.id) < 0)
            return halo_encoder_no_memory(encoder);
        prefix = true;
        at = match.at + match.n;
        if (t->flags[match.id] & HALO_TOKEN_FLAG_RSTRIP)
            while (at < encoder->n && is_space(encoder->text[at]))
                at++;
    }
    return 0;
}

static void encoder_finish(struct halo_encoder *encoder)
{
    halo_merger_finish(&encoder->merger);
    halo_words_finish(&encoder->words);
    free(encoder->buffer);
}

int halo_tokenizer_encode_parts(const struct halo_tokenizer *tokenizer, const struct halo_tokenizer_part *parts,
                                size_t n_parts, bool first, struct halo_turn *turn, struct halo_tokens *out,
                                struct halo_fault *fault)
{
    struct halo_encoder encoder = {
        .tokenizer = tokenizer, .out = out, .fault = fault, .turn = turn, .parts = parts, .n_parts = n_parts};
    size_t n_before = out->n;
    char *joined = NULL;
    for (size_t i = 0; i < n_parts; i++)
        if (__builtin_add_overflow(encoder.n, parts[i].n, &encoder.n) || encoder.n > HALO_TOKENIZER_MAX_TEXT_BYTES)
            return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "the text has more than %d bytes",
                                  HALO_TOKENIZER_MAX_TEXT_BYTES);
    if (encoder.n == 0)
        return 0;
    encoder.text = parts[0].bytes;
    if (n_parts > 1) {
        joined = malloc(encoder.n);
        if (!joined)
            return halo_encoder_no_memory(&encoder);
        for (size_t i = 0, at = 0; i < n_parts; at += parts[i++].n)
            if (parts[i].n)
                memcpy(joined + at, parts[i].bytes, parts[i].n);
        encoder.text = joined;
    }
    int r = encode(&encoder, first);
    encoder_finish(&encoder);
    free(joined);
    if (r < 0)
        out->n = n_before;
    return r;
}

int halo_tokenizer_encode(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special, bool first,
                          struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault)
{
    struct halo_tokenizer_part part = {text, n, special};
    return halo_tokenizer_encode_parts(tokenizer, &part, 1, first, turn, out, fault);
}

/* Puts BOS in front, unless the text began with it. 0 or -ENOMEM. */
static int put_bos(const struct halo_tokenizer *tokenizer, struct halo_tokens *out)
{
    int32_t bos = halo_tokenizer_bos(tokenizer);
    if (out->n && out->ids[0] == bos)
        return 0;
    int r = halo_tokens_push(out, bos);
    if (r < 0)
        return r;
    memmove(out->ids + 1, out->ids, (out->n - 1) * sizeof(*out->ids));
    out->ids[0] = bos;
    return 0;
}

int halo_tokenizer_encode_prompt(const struct halo_tokenizer *tokenizer, const struct halo_tokenizer_part *parts,
                                 size_t n_parts, struct halo_turn *turn, struct halo_tokens *out,
                                 struct halo_fault *fault)
{
    bool first = out->n == 0;
    int r = halo_tokenizer_encode_parts(tokenizer, parts, n_parts, first, turn, out, fault);
    if (r == 0 && first && halo_tokenizer_adds_bos(tokenizer) && put_bos(tokenizer, out) < 0) {
        out->n = 0;
        r = halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the tokens of a prompt");
    }
    return r;
}

/* A byte that is in no token by itself can vanish, and so can white space behind a token that swallows it. */
static bool may_vanish(const struct halo_tokenizer *t, uint8_t byte)
{
    return (t->model == HALO_TOKENIZER_BPE && t->byte_ids[byte] < 0) || (t->swallows_space && is_space((char)byte));
}

size_t halo_tokenizer_least_tokens(const struct halo_tokenizer *t, const char *text, size_t n)
{
    size_t longest = t->max_span_bytes;
    bool vanishes[256], any = false;
    size_t n_lasting = n;
    for (int byte = 0; byte < 256; byte++)
        any |= vanishes[byte] = may_vanish(t, (uint8_t)byte);
    for (size_t i = 0; any && i < n; i++)
        n_lasting -= vanishes[(uint8_t)text[i]];
    return longest > 0 ? (n_lasting + longest - 1) / longest : 0;
}

static bool in_range(const struct halo_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n;
}

struct halo_span halo_tokenizer_piece(const struct halo_tokenizer *t, int32_t id, bool special)
{
    if (!in_range(t, id) || (!special && (t->kinds[id] == HALO_TOKEN_CONTROL || t->kinds[id] == HALO_TOKEN_UNKNOWN)))
        return (struct halo_span){"", 0};
    uint32_t start = id ? t->piece_ends[id - 1] : 0;
    return (struct halo_span){t->pieces + start, t->piece_ends[id] - start};
}

size_t halo_tokenizer_max_piece_bytes(const struct halo_tokenizer *t)
{
    return t->max_piece_bytes;
}

const struct halo_remarks *halo_tokenizer_remarks(const struct halo_tokenizer *t)
{
    return &t->remarks;
}

uint32_t halo_tokenizer_n_vocab(const struct halo_tokenizer *t)
{
    return t->vocab.n;
}

enum halo_token_kind halo_tokenizer_kind(const struct halo_tokenizer *t, int32_t id)
{
    return in_range(t, id) ? (enum halo_token_kind)t->kinds[id] : HALO_TOKEN_UNUSED;
}

struct halo_span halo_tokenizer_text(const struct halo_tokenizer *t, int32_t id)
{
    return in_range(t, id) ? halo_strings_get(&t->vocab, (uint32_t)id) : (struct halo_span){"", 0};
}

int32_t halo_tokenizer_find(const struct halo_tokenizer *t, const char *text, size_t n)
{
    return halo_strings_find(&t->vocab, text, n);
}

int32_t halo_tokenizer_bos(const struct halo_tokenizer *t)
{
    return t->bos;
}

int32_t halo_tokenizer_eos(const struct halo_tokenizer *t)
{
    return t->eos;
}

bool halo_tokenizer_adds_bos(const struct halo_tokenizer *t)
{
    return t->add_bos;
}

bool halo_tokenizer_adds_eos(const struct halo_tokenizer *t)
{
    return t->add_eos;
}

bool halo_tokenizer_strips_first_space(const struct halo_tokenizer *t)
{
    return t->model == HALO_TOKENIZER_SPM && t->add_space_prefix;
}

bool halo_tokenizer_is_end(const struct halo_tokenizer *t, int32_t id)
{
    return in_range(t, id) && t->flags[id] & HALO_TOKEN_FLAG_END;
}
