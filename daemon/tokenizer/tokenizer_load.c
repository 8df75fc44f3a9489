/* tokenizer_load.c: reads a vocabulary from the GGUF directory and refuses broken ones.
 *
 * Runs once per tokenizer, on the thread that creates it. Everything is copied into the tokenizer's arena. A length
 * that does not fit, an id out of range, a byte token that names no byte and a token that is there twice are each
 * LOAD_FAILED with the key and the numbers; element types are those that the directory's cursors accept, whatever
 * their width.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tokenizer_priv.h"

static int no_memory(struct halo_fault *fault)
{
    return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the vocabulary");
}

static int load_model(struct halo_tokenizer *t, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    static const struct {
        const char *name;
        enum halo_tokenizer_model model;
    } models[] = {{"gpt2", HALO_TOKENIZER_BPE}, {"llama", HALO_TOKENIZER_SPM}, {"gemma4", HALO_TOKENIZER_SPM_BPE}};
    struct halo_span name;
    char quote[HALO_TOKENIZER_QUOTE_BYTES];
    int r = halo_gguf_get_string(gguf, "tokenizer.ggml.model", &name, fault);
    if (r < 0)
        return r;
    if (r == HALO_GGUF_ABSENT)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "the file has no tokenizer (no key tokenizer.ggml.model)");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strlen(models[i].name) == name.n && memcmp(name.bytes, models[i].name, name.n) == 0) {
            t->model = models[i].model;
            return 0;
        }
    return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                          "tokenizer model \"%s\" is not supported; supported are byte-level BPE (gpt2), SentencePiece "
                          "(llama) and SentencePiece with merges (gemma4)",
                          halo_tokenizer_quote(name, quote));
}

/* An array that has to be there, with one element per token at least. */
static int get_array(const struct halo_gguf *gguf, const char *key, uint64_t n_wanted, struct halo_gguf_array *ret,
                     struct halo_fault *fault)
{
    int r = halo_gguf_get_array(gguf, key, ret, fault);
    if (r < 0)
        return r;
    if (r == HALO_GGUF_ABSENT)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "the vocabulary is not complete: no key %s", key);
    if (ret->n < n_wanted)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s has %llu elements for %llu tokens", key,
                              (unsigned long long)ret->n, (unsigned long long)n_wanted);
    return 0;
}

static int load_texts(struct halo_tokenizer *t, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    struct halo_gguf_array array, again;
    int r = get_array(gguf, "tokenizer.ggml.tokens", 1, &array, fault);
    if (r < 0)
        return r;
    if (array.kind != HALO_GGUF_STRING || array.n > HALO_TOKENIZER_MAX_VOCAB)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "tokenizer.ggml.tokens has %llu elements of type %d; 1 to %u strings are allowed",
                              (unsigned long long)array.n, (int)array.kind, HALO_TOKENIZER_MAX_VOCAB);
    struct halo_span text;
    uint64_t n_bytes = 0;
    for (again = array; halo_gguf_next_string(&again, &text);)
        n_bytes += text.n;
    if (n_bytes > INT32_MAX)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "the texts of tokenizer.ggml.tokens have %llu bytes, more than 2 GiB",
                              (unsigned long long)n_bytes);
    halo_strings_init(&t->vocab, &t->arena);
    if (halo_strings_reserve(&t->vocab, (uint32_t)array.n, n_bytes) < 0)
        return no_memory(fault);
    while (halo_gguf_next_string(&array, &text)) {
        uint32_t id;
        char quote[HALO_TOKENIZER_QUOTE_BYTES];
        r = halo_strings_add(&t->vocab, text.bytes, text.n, &id);
        if (r < 0)
            return no_memory(fault);
        if (r == HALO_STRINGS_DUPLICATE)
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                                  "token \"%s\" is in the vocabulary twice, as %u and %u",
                                  halo_tokenizer_quote(text, quote), id, t->vocab.n);
    }
    return 0;
}

static int load_kinds(struct halo_tokenizer *t, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    static const char key[] = "tokenizer.ggml.token_type";
    uint32_t n = t->vocab.n;
    t->kinds = halo_arena_alloc(&t->arena, n, sizeof *t->kinds);
    t->flags = halo_arena_alloc(&t->arena, n, sizeof *t->flags);
    if (!t->kinds || !t->flags)
        return no_memory(fault);
    memset(t->kinds, HALO_TOKEN_NORMAL, n);
    if (!halo_gguf_has(gguf, key) && t->model == HALO_TOKENIZER_BPE) {
        halo_remarks_add(
            &t->remarks,
            "%s: the file has none; only well-known markers are control tokens, a text can spell the others", key);
        return 0; /* the others cannot do without: their byte tokens are told by their type */
    }
    struct halo_gguf_array array;
    int r = get_array(gguf, key, n, &array, fault);
    if (r < 0)
        return r;
    for (uint32_t id = 0; id < n; id++) {
        int64_t kind;
        if (!halo_gguf_next_i64(&array, &kind))
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold integers, it has elements of type %d",
                                  key, (int)array.kind);
        /* Types that are not known are shown as nothing and never parsed, like unused ones. */
        t->kinds[id] = kind >= HALO_TOKEN_NORMAL && kind <= HALO_TOKEN_BYTE ? (uint8_t)kind : HALO_TOKEN_UNUSED;
    }
    return 0;
}

/* Orders floats as integers, the highest score as the smallest key. The largest key means "no merge" and belongs to
 * no number. */
static uint32_t score_key(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 and 0 are the same score */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : 0x7FFFFFFFu - bits;
}

static int load_scores(struct halo_tokenizer *t, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    static const char key[] = "tokenizer.ggml.scores";
    struct halo_gguf_array array;
    int r = get_array(gguf, key, t->vocab.n, &array, fault);
    if (r < 0)
        return r;
    t->score_keys = halo_arena_alloc(&t->arena, t->vocab.n, sizeof *t->score_keys);
    if (!t->score_keys)
        return no_memory(fault);
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        double score;
        if (!halo_gguf_next_f64(&array, &score))
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold numbers, it has elements of type %d",
                                  key, (int)array.kind);
        if (isnan(score))
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s[%u] is not a number", key, id);
        t->score_keys[id] = score_key((float)score);
    }
    return 0;
}

/* A special id: what the file says, -1 where it says "none" (0xFFFFFFFF or -1), the default where it says nothing. */
static int load_id(const struct halo_tokenizer *t, const struct halo_gguf *gguf, const char *name, int32_t fallback,
                   int32_t *ret, struct halo_fault *fault)
{
    char key[64];
    int64_t id;
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    *ret = fallback >= 0 && (uint32_t)fallback < t->vocab.n ? fallback : -1;
    int r = halo_gguf_get_i64(gguf, key, &id, fault);
    if (r != 0)
        return r < 0 ? r : 0;
    if (id == -1 || id == UINT32_MAX) {
        *ret = -1;
        return 0;
    }
    if (id < 0 || id >= t->vocab.n)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s is %lld, the vocabulary has ids 0 to %u", key,
                              (long long)id, t->vocab.n - 1);
    *ret = (int32_t)id;
    return 0;
}

/* `id` is the token that the flag wants added; `key` tells the two in a message. */
static int load_flag(const struct halo_gguf *gguf, const char *key, int32_t id, bool fallback, bool *ret,
                     struct halo_fault *fault)
{
    int r = halo_gguf_get_bool(gguf, key, ret, fault);
    if (r < 0)
        return r;
    if (r == HALO_GGUF_ABSENT)
        *ret = fallback && id >= 0;
    else if (*ret && id < 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s is set, but the vocabulary names no such token", key);
    return 0;
}

/* The markers between files of a repository, and the list of all ends where the file has one. */
static int load_ends(struct halo_tokenizer *t, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    static const char *const between_files[] = {"fim_pad", "fim_rep", "fim_sep"};
    static const char key[] = "tokenizer.ggml.eog_token_ids";
    enum { N_BETWEEN = sizeof between_files / sizeof *between_files };
    struct halo_gguf_array array = {0};
    int r = halo_gguf_get_array(gguf, key, &array, fault);
    if (r < 0)
        return r;
    t->lists_ends = r != HALO_GGUF_ABSENT;
    if (array.n > t->vocab.n)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s has %llu elements, the vocabulary has %u tokens", key,
                              (unsigned long long)array.n, t->vocab.n);
    t->stated_ends = halo_arena_alloc(&t->arena, N_BETWEEN + (size_t)array.n, sizeof *t->stated_ends);
    if (!t->stated_ends)
        return no_memory(fault);
    r = 0;
    for (size_t i = 0; r == 0 && i < N_BETWEEN; i++)
        r = load_id(t, gguf, between_files[i], -1, &t->stated_ends[t->n_stated_ends++], fault);
    for (uint64_t left = array.n; r == 0 && left > 0; left--) {
        int64_t id;
        if (!halo_gguf_next_i64(&array, &id) || id < 0 || id >= t->vocab.n)
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold ids from 0 to %u", key, t->vocab.n - 1);
        t->stated_ends[t->n_stated_ends++] = (int32_t)id;
    }
    return r;
}

/* Early files of Gemma 4 say that no BOS is added; the model is lost without one. */
static void keep_bos(struct halo_tokenizer *t, bool wanted)
{
    if (!wanted || t->add_bos || t->bos < 0)
        return;
    t->add_bos = true;
    halo_remarks_add(&t->remarks, "tokenizer.ggml.add_bos_token is false in the file; a BOS token is added anyway, "
                                  "because Gemma 4 needs one");
}

static int load_settings(struct halo_tokenizer *t, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    /* Ids that this room does not use are checked all the same: a file that is wrong there is wrong elsewhere too. */
    static const char *const others[] = {"seperator", "padding", "cls", "mask", "fim_pre", "fim_suf", "fim_mid"};
    bool spm = t->model == HALO_TOKENIZER_SPM;
    int32_t ignored;
    int r = load_id(t, gguf, "bos", spm ? 1 : -1, &t->bos, fault);
    r = r < 0 ? r : load_id(t, gguf, "eos", spm ? 2 : -1, &t->eos, fault);
    r = r < 0 ? r : load_id(t, gguf, "unknown", spm ? 0 : -1, &t->unknown, fault);
    r = r < 0 ? r : load_id(t, gguf, "eot", -1, &t->eot, fault);
    r = r < 0 ? r : load_id(t, gguf, "eom", -1, &t->eom, fault);
    for (size_t i = 0; r >= 0 && i < sizeof others / sizeof *others; i++)
        r = load_id(t, gguf, others[i], -1, &ignored, fault);
    r = r < 0 ? r : load_ends(t, gguf, fault);
    bool add_bos = spm || halo_pretokenizer_kind(t->pre)->add_bos;
    r = r < 0 ? r : load_flag(gguf, "tokenizer.ggml.add_bos_token", t->bos, add_bos, &t->add_bos, fault);
    if (r >= 0 && t->model == HALO_TOKENIZER_SPM_BPE)
        keep_bos(t, add_bos);
    r = r < 0 ? r : load_flag(gguf, "tokenizer.ggml.add_eos_token", t->eos, false, &t->add_eos, fault);
    r = r < 0 ? r : load_flag(gguf, "tokenizer.ggml.add_space_prefix", 0, spm, &t->add_space_prefix, fault);
    return r;
}

/* Bytes of a text that become this token, at most. Its piece may be shorter: a token that is marked unused has none,
 * and SentencePiece's mark of a space has three bytes. */
static size_t span_bytes(const struct halo_tokenizer *t, uint32_t id, struct halo_span text, size_t n_piece)
{
    bool same = t->model == HALO_TOKENIZER_BPE && t->kinds[id] != HALO_TOKEN_UNUSED;
    return same ? n_piece : text.n;
}

/* What each token looks like in a text. */
static int load_pieces(struct halo_tokenizer *t, struct halo_fault *fault)
{
    t->pieces = halo_arena_alloc(&t->arena, t->vocab.n_bytes, 1);
    t->piece_ends = halo_arena_alloc(&t->arena, t->vocab.n, sizeof *t->piece_ends);
    if (!t->pieces || !t->piece_ends)
        return no_memory(fault);
    size_t at = 0;
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        struct halo_span text = halo_strings_get(&t->vocab, id);
        char quote[HALO_TOKENIZER_QUOTE_BYTES];
        int byte = t->kinds[id] == HALO_TOKEN_BYTE ? halo_spm_parse_byte(text) : 0;
        size_t n = 0;
        if (byte < 0)
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                                  "token %u is of the type byte, but its text is \"%s\", not <0x00> to <0xFF>", id,
                                  halo_tokenizer_quote(text, quote));
        if (t->kinds[id] == HALO_TOKEN_BYTE)
            t->pieces[at + n++] = (char)byte;
        else if (t->kinds[id] == HALO_TOKEN_NORMAL)
            n = t->model == HALO_TOKENIZER_BPE ? halo_bpe_decode(text.bytes, text.n, t->pieces + at)
                                               : halo_spm_decode(text.bytes, text.n, t->pieces + at);
        else if (t->kinds[id] != HALO_TOKEN_UNUSED && text.n)
            memcpy(t->pieces + at, text.bytes, n = text.n);
        assert(n <= text.n);
        size_t n_span = span_bytes(t, id, text, n);
        at += n;
        t->piece_ends[id] = (uint32_t)at;
        t->max_piece_bytes = n > t->max_piece_bytes ? n : t->max_piece_bytes;
        t->max_span_bytes = n_span > t->max_span_bytes ? n_span : t->max_span_bytes;
    }
    return 0;
}

static int load_pre(struct halo_tokenizer *t, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    struct halo_span name = {"default", 7};
    if (t->model == HALO_TOKENIZER_SPM)
        return 0;
    if (t->model == HALO_TOKENIZER_SPM_BPE)
        return halo_pretokenizer_create(&t->pre, (struct halo_span){"gemma4", 6}, fault);
    int r = halo_gguf_get_string(gguf, "tokenizer.ggml.pre", &name, fault);
    if (r == HALO_GGUF_ABSENT)
        halo_remarks_add(&t->remarks,
                         "tokenizer.ggml.pre: the file has none; text is cut by default rules, which may not "
                         "be those that the model was trained with");
    r = r < 0 ? r : halo_pretokenizer_create(&t->pre, name, fault);
    if (r >= 0 && halo_pretokenizer_kind(t->pre)->space_marks)
        t->model = HALO_TOKENIZER_SPM_BPE;
    return r;
}

int halo_tokenizer_load(struct halo_tokenizer *t, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    int r = load_model(t, gguf, fault);
    r = r < 0 ? r : load_pre(t, gguf, fault);
    r = r < 0 ? r : load_texts(t, gguf, fault);
    r = r < 0 ? r : load_kinds(t, gguf, fault);
    if (r >= 0 && t->model == HALO_TOKENIZER_SPM)
        r = load_scores(t, gguf, fault);
    r = r < 0 ? r : load_settings(t, gguf, fault);
    if (r < 0)
        return r;
    struct halo_span name = {"", 0};
    r = halo_gguf_get_string(gguf, "general.name", &name, fault);
    if (r < 0)
        return r;
    halo_tokenizer_mark(t, name);
    return load_pieces(t, fault);
}
