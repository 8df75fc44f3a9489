/* bpe.c: byte-level byte-pair encoding.
 *
 * The vocabulary spells each byte as one visible character (GPT-2's map: the printable characters of Latin-1 stand
 * for themselves, the others for U+0100 and up in order). Here a word stays bytes: each begins as the symbol of its
 * token, and a merge is looked up by the pair of symbols, so no text is built or compared while encoding. Texts that
 * only merges mention get symbols above the vocabulary. The tables are built at load, in the tokenizer's arena;
 * encoding is the scratch of one call.
 */
#include <assert.h>
#include <string.h>

#include <base/utf8.h>

#include "tokenizer_priv.h"

#define N_SPELLINGS 324 /* code points below that may stand for a byte */

static bool stands_for_itself(unsigned byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/* spelling[b]: the code point of byte b. */
static void byte_spellings(uint16_t spelling[256])
{
    uint16_t next = 256;
    for (unsigned byte = 0; byte < 256; byte++)
        spelling[byte] = stands_for_itself(byte) ? (uint16_t)byte : next++;
    assert(next == N_SPELLINGS);
}

/* Every spelling is below U+0800: one or two bytes. */
static size_t spell(uint16_t point, char out[2])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    out[0] = (char)(0xC0 | point >> 6);
    out[1] = (char)(0x80 | (point & 0x3F));
    return 2;
}

static int byte_of(uint32_t point)
{
    if (point < 256)
        return stands_for_itself(point) ? (int)point : -1;
    if (point >= N_SPELLINGS)
        return -1;
    if (point < 256 + 33)
        return (int)point - 256;                                   /* 0 to 32 */
    return point < 256 + 67 ? (int)point - (256 + 33) + 127 : 173; /* 127 to 160, then the soft hyphen */
}

size_t halo_bpe_decode(const char *text, size_t n, char *out)
{
    size_t n_out = 0;
    for (size_t at = 0, length; at < n; at += length) {
        bool valid = halo_utf8_scan(text + at, n - at, &length) == HALO_UTF8_VALID;
        int byte = valid ? byte_of(halo_utf8_decode(text + at, length)) : -1;
        if (byte >= 0)
            out[n_out++] = (char)byte;
        else
            for (size_t i = 0; i < length; i++)
                out[n_out++] = text[at + i]; /* not in the map: shown as it is */
    }
    return n_out;
}

void halo_bpe_find_bytes(struct halo_tokenizer *t)
{
    uint16_t spelling[256];
    byte_spellings(spelling);
    for (int byte = 0; byte < 256; byte++) {
        char text[2];
        int32_t id = halo_strings_find(&t->vocab, text, spell(spelling[byte], text));
        /* An added token may be spelled like a byte and mean that very character. */
        t->byte_ids[byte] = id >= 0 && t->kinds[id] == HALO_TOKEN_NORMAL ? id : -1;
    }
}

/* ---- merges ---- */

static struct halo_merge_slot *merge_slot(const struct halo_bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t hash = (((uint64_t)left << 32 | right) ^ bpe->seed) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
    for (uint32_t at = (uint32_t)(hash >> 32) & (bpe->n_slots - 1);; at = (at + 1) & (bpe->n_slots - 1)) {
        struct halo_merge_slot *slot = &bpe->slots[at];
        if (slot->rank_1 == 0 || (slot->left == left && slot->right == right))
            return slot;
    }
}

static int symbol_of(struct halo_tokenizer *t, const char *text, size_t n, uint32_t *ret)
{
    int32_t id = halo_strings_find(&t->vocab, text, n);
    if (id >= 0) {
        *ret = (uint32_t)id;
        return 0;
    }
    int r = halo_strings_add(&t->bpe.extra, text, n, ret);
    *ret += t->vocab.n;
    return r < 0 ? r : 0;
}

int32_t halo_bpe_symbol(const struct halo_tokenizer *t, const char *text, size_t n)
{
    int32_t id = halo_strings_find(&t->vocab, text, n);
    if (id < 0 && (id = halo_strings_find(&t->bpe.extra, text, n)) >= 0)
        id += (int32_t)t->vocab.n;
    return id;
}

static bool is_token(const struct halo_tokenizer *t, uint32_t id, const char *text, size_t n)
{
    if (id >= t->vocab.n)
        return false;
    struct halo_span token = halo_strings_get(&t->vocab, id);
    return token.n == n && memcmp(token.bytes, text, n) == 0;
}

/* `text` is "left right" in a buffer that may be written. */
static int merge_add(struct halo_tokenizer *t, char *text, size_t n, uint32_t rank, struct halo_fault *fault)
{
    char quote[HALO_TOKENIZER_QUOTE_BYTES];
    char *space = n > 2 ? memchr(text + 1, ' ', n - 2) : NULL;
    if (!space)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "tokenizer.ggml.merges[%u] is \"%s\", not two texts with a space between", rank,
                              halo_tokenizer_quote((struct halo_span){text, n}, quote));
    size_t n_left = (size_t)(space - text);
    uint32_t left = 0, right = 0, result = 0;
    int r = symbol_of(t, text, n_left, &left);
    r = r < 0 ? r : symbol_of(t, space + 1, n - n_left - 1, &right);
    memmove(space, space + 1, n - n_left - 1);
    /* Vocabularies list their tokens in the order in which merges make them, some with several merges for one. Looking
     * there first saves most searches, which is a good part of the time that loading takes. */
    result = t->bpe.last_result;
    if (r == 0 && !is_token(t, result, text, n - 1) && !is_token(t, ++result, text, n - 1))
        r = symbol_of(t, text, n - 1, &result);
    t->bpe.last_result = result;
    if (r < 0)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the merges");
    struct halo_merge_slot *slot = merge_slot(&t->bpe, left, right);
    if (slot->rank_1 == 0) /* of equal merges the first counts */
        *slot = (struct halo_merge_slot){left, right, rank + 1, result};
    return 0;
}

static int merges_reserve(struct halo_tokenizer *t, struct halo_gguf_array array, char **ret_buffer,
                          struct halo_fault *fault)
{
    size_t longest = 0;
    for (struct halo_span text; halo_gguf_next_string(&array, &text);)
        longest = text.n > longest ? text.n : longest;
    t->bpe.n_slots = 16;
    while (t->bpe.n_slots / 4 * 3 < array.n)
        t->bpe.n_slots *= 2;
    halo_strings_init(&t->bpe.extra, &t->arena);
    t->bpe.seed = t->bpe.extra.seed;
    t->bpe.slots = halo_arena_alloc(&t->arena, t->bpe.n_slots, sizeof *t->bpe.slots);
    *ret_buffer = halo_arena_alloc(&t->arena, longest + 1, 1);
    if (!t->bpe.slots || !*ret_buffer)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %llu merges",
                              (unsigned long long)array.n);
    return 0;
}

int halo_bpe_load(struct halo_tokenizer *t, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    struct halo_gguf_array array;
    char *buffer;
    int r = halo_gguf_get_array(gguf, "tokenizer.ggml.merges", &array, fault);
    if (r < 0)
        return r;
    if (r == HALO_GGUF_ABSENT)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "the vocabulary is not complete: no key tokenizer.ggml.merges");
    if (array.kind != HALO_GGUF_STRING || array.n > HALO_TOKENIZER_MAX_MERGES)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "tokenizer.ggml.merges has %llu elements of type %d; at most %u strings are allowed",
                              (unsigned long long)array.n, (int)array.kind, HALO_TOKENIZER_MAX_MERGES);
    r = merges_reserve(t, array, &buffer, fault);
    struct halo_span text;
    for (uint32_t rank = 0; r == 0 && halo_gguf_next_string(&array, &text); rank++) {
        memcpy(buffer, text.bytes, text.n);
        r = merge_add(t, buffer, text.n, rank, fault);
    }
    return r;
}

/* ---- encoding ---- */

void halo_bpe_pair(const struct halo_encoder *encoder, struct halo_merge_symbol *left,
                   const struct halo_merge_symbol *right)
{
    if (left->id < 0 || right->id < 0)
        return;
    const struct halo_merge_slot *slot = merge_slot(&encoder->tokenizer->bpe, (uint32_t)left->id, (uint32_t)right->id);
    if (slot->rank_1 == 0)
        return;
    left->key = slot->rank_1;
    left->result = (int32_t)slot->result;
}

/* The token whose text is this word, or -1. */
static int32_t whole_word(const struct halo_tokenizer *t, const char *word, size_t n)
{
    char text[2 * 256];
    uint16_t spelling[256];
    size_t n_text = 0;
    if (n > 256 || n > t->vocab.max_bytes)
        return -1;
    byte_spellings(spelling);
    for (size_t i = 0; i < n; i++)
        n_text += spell(spelling[(uint8_t)word[i]], text + n_text);
    return halo_strings_find(&t->vocab, text, n_text);
}

static int encode_word(struct halo_encoder *encoder, const char *word, size_t n)
{
    const struct halo_tokenizer *t = encoder->tokenizer;
    if (halo_pretokenizer_kind(t->pre)->ignore_merges) {
        int32_t id = whole_word(t, word, n);
        if (id >= 0)
            return halo_tokens_push(encoder->out, id) < 0 ? halo_encoder_no_memory(encoder) : 0;
    }
    if (halo_merger_reserve(&encoder->merger, n) < 0)
        return halo_encoder_no_memory(encoder);
    struct halo_merge_symbol *symbols = encoder->merger.symbols;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        symbols[i] = (struct halo_merge_symbol){.start = (uint32_t)i, .n = 1, .id = t->byte_ids[(uint8_t)word[i]]};
        r = halo_turn_work(encoder->turn, 1);
    }
    encoder->merge_text = word;
    if (r == 0)
        r = halo_merger_run(encoder, n, halo_bpe_pair);
    return r < 0 ? r : halo_encoder_push_merged(encoder);
}

int halo_bpe_encode(struct halo_encoder *encoder, const char *text, size_t n)
{
    return halo_bpe_words(encoder, text, n, encode_word);
}

/* Text that is not UTF-8 cannot be cut by expressions: its well-formed stretches are, and what lies between them are
 * words of bytes. */
int halo_bpe_words(struct halo_encoder *encoder, const char *text, size_t n, halo_bpe_word_fn *encode)
{
    int r = 0;
    for (size_t at = 0; r == 0 && at < n;) {
        size_t n_run = halo_utf8_valid_run(text + at, n - at);
        if ((r = halo_turn_work(encoder->turn, n_run / HALO_BYTES_PER_WORK)) < 0)
            return r;
        if (n_run) {
            r = halo_pretokenizer_split(encoder->tokenizer->pre, text + at, n_run, encoder->turn, &encoder->words,
                                        encoder->fault);
            for (size_t i = 0, start = 0; r == 0 && i < encoder->words.n; start = encoder->words.ends[i++])
                if ((r = halo_turn_work(encoder->turn, 1)) == 0)
                    r = encode(encoder, text + at + start, encoder->words.ends[i] - start);
            at += n_run;
            continue;
        }
        size_t n_bad = 0, length;
        while (r == 0 && at + n_bad < n &&
               halo_utf8_scan(text + at + n_bad, n - at - n_bad, &length) != HALO_UTF8_VALID) {
            n_bad += length;
            r = halo_turn_work(encoder->turn, 1);
        }
        if (r == 0)
            r = encode(encoder, text + at, n_bad);
        at += n_bad;
    }
    return r;
}
