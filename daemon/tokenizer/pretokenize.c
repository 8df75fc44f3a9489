/* pretokenize.c: cutting a text into the words that byte-level BPE merges within.
 *
 * Any thread; the compiled expressions are only read. Owns them. Matching runs in PCRE2's compiled code where the
 * system allows memory to be mapped as executable; otherwise, and when that code runs out of its small stack, in the
 * interpreter. The text must be valid UTF-8; PCRE2 sees its characters as bytes (pretokenize_alphabet.c). Fails with
 * OUT_OF_MEMORY, or INTERNAL when an expression cannot be compiled or PCRE2 gives up, with PCRE2's reason.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_priv.h"

#define MAP_BYTES ((size_t)65536) /* of a text, between two checks of the turn */

struct halo_pretokenizer {
    const struct halo_pretokenizer_kind *kind;
    pcre2_general_context *memory; /* PCRE2's allocations go through this room's malloc, so that tests can fail them */
    pcre2_compile_context *compile;
    pcre2_match_context *match;
    struct halo_alphabet alphabet;
    size_t n_passes;
    pcre2_code *passes[HALO_PRETOKENIZE_MAX_PASSES];
};

static void *memory_alloc(size_t n, void *ud)
{
    (void)ud;
    return malloc(n);
}

static void memory_free(void *memory, void *ud)
{
    (void)ud;
    free(memory);
}

static int set_pcre_fault(struct halo_fault *fault, const char *what, int error)
{
    PCRE2_UCHAR text[128] = "";
    pcre2_get_error_message(error, text, sizeof text);
    if (error == PCRE2_ERROR_NOMEMORY || error == PCRE2_ERROR_HEAPLIMIT)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to %s: %s", what, (const char *)text);
    return halo_fault_set(fault, HALO_FAULT_INTERNAL, "could not %s: %s", what, (const char *)text);
}

static int compile(struct halo_pretokenizer *pre, const char *expression, struct halo_fault *fault)
{
    int r = 0;
    PCRE2_SIZE where = 0;
    assert(pre->n_passes < HALO_PRETOKENIZE_MAX_PASSES);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                                     PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE, &r, &where, pre->compile);
    if (!code)
        return set_pcre_fault(fault, "compile a pre-tokenizer expression",
                              r == PCRE2_ERROR_HEAP_FAILED ? PCRE2_ERROR_NOMEMORY : r);
    pre->passes[pre->n_passes++] = code;
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where this fails, matching interprets */
    return 0;
}

static int compile_all(struct halo_pretokenizer *pre, struct halo_fault *fault)
{
    char *expressions[HALO_PRETOKENIZE_MAX_PASSES];
    int r = halo_alphabet_init(&pre->alphabet, pre->kind->expressions, expressions);
    if (r < 0)
        halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the pre-tokenizer");
    for (size_t i = 0; i < HALO_PRETOKENIZE_MAX_PASSES; i++) {
        if (r == 0 && expressions[i])
            r = compile(pre, expressions[i], fault);
        free(expressions[i]);
    }
    return r;
}

int halo_pretokenizer_create(struct halo_pretokenizer **ret, struct halo_span name, struct halo_fault *fault)
{
    *ret = NULL;
    const struct halo_pretokenizer_kind *kind = halo_pretokenizer_find(name.bytes, name.n);
    char quote[HALO_TOKENIZER_QUOTE_BYTES];
    if (!kind)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "pre-tokenizer \"%s\" (tokenizer.ggml.pre) is not known",
                              halo_tokenizer_quote(name, quote));
    struct halo_pretokenizer *pre = calloc(1, sizeof *pre);
    if (!pre)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the pre-tokenizer");
    pre->kind = kind;
    pre->memory = pcre2_general_context_create(memory_alloc, memory_free, NULL);
    pre->compile = pre->memory ? pcre2_compile_context_create(pre->memory) : NULL;
    pre->match = pre->compile ? pcre2_match_context_create(pre->memory) : NULL;
    int r = pre->match ? 0 : halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the pre-tokenizer");
    if (r == 0)
        r = compile_all(pre, fault);
    if (r < 0) {
        halo_pretokenizer_destroy(pre);
        return r;
    }
    /* No expression repeats a repetition, so the steps of one match are linear in the text, and texts are bounded. */
    pcre2_set_match_limit(pre->match, UINT32_MAX);
    *ret = pre;
    return 0;
}

void halo_pretokenizer_destroy(struct halo_pretokenizer *pre)
{
    if (!pre)
        return;
    for (size_t i = 0; i < pre->n_passes; i++)
        pcre2_code_free(pre->passes[i]);
    halo_alphabet_finish(&pre->alphabet);
    pcre2_match_context_free(pre->match);
    pcre2_compile_context_free(pre->compile);
    pcre2_general_context_free(pre->memory);
    free(pre);
}

const struct halo_pretokenizer_kind *halo_pretokenizer_kind(const struct halo_pretokenizer *pre)
{
    return pre->kind;
}

static int words_push(struct halo_words *words, size_t end)
{
    if (words->n == words->capacity) {
        size_t capacity = words->capacity ? words->capacity * 2 : 256;
        uint32_t *ends = reallocarray(words->ends, capacity, sizeof *ends);
        if (!ends)
            return -ENOMEM;
        words->ends = ends;
        uint32_t *spare = reallocarray(words->spare, capacity, sizeof *spare);
        if (!spare)
            return -ENOMEM;
        words->spare = spare;
        words->capacity = capacity;
    }
    words->ends[words->n++] = (uint32_t)end;
    return 0;
}

static int words_no_memory(struct halo_fault *fault, size_t n)
{
    return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the words of a text of %zu bytes", n);
}

void halo_words_finish(struct halo_words *words)
{
    free(words->ends);
    free(words->spare);
    free(words->bytes);
    pcre2_match_data_free(words->match);
    *words = (struct halo_words){0};
}

static int match(const struct halo_pretokenizer *pre, size_t pass, const uint8_t *bytes, size_t n, size_t from,
                 pcre2_match_data *data)
{
    int r = pcre2_match(pre->passes[pass], bytes, n, from, 0, data, pre->match);
    if (r == PCRE2_ERROR_JIT_STACKLIMIT)
        r = pcre2_match(pre->passes[pass], bytes, n, from, PCRE2_NO_JIT, data, pre->match);
    return r;
}

/* Cuts words->bytes[start, end) by one expression; each match and each gap becomes a word. */
static int split_word(const struct halo_pretokenizer *pre, size_t pass, size_t start, size_t end,
                      struct halo_turn *turn, struct halo_words *words, struct halo_fault *fault)
{
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(words->match);
    size_t n = end - start, at = 0;
    while (at < n) {
        int r = match(pre, pass, words->bytes + start, n, at, words->match);
        if (r == PCRE2_ERROR_NOMATCH)
            break;
        if (r < 0)
            return set_pcre_fault(fault, "cut a text into words", r);
        assert(bounds[1] > bounds[0] && bounds[0] >= at); /* no expression matches nothing */
        bool failed = bounds[0] > at && words_push(words, start + bounds[0]) < 0;
        if (failed || words_push(words, start + bounds[1]) < 0)
            return words_no_memory(fault, n);
        at = bounds[1];
        if ((r = halo_turn_work(turn, 1)) < 0)
            return r;
    }
    if (at < n && words_push(words, end) < 0)
        return words_no_memory(fault, n);
    return 0;
}

/* Room for n characters as bytes, and for a match. */
static int words_prepare(const struct halo_pretokenizer *pre, struct halo_words *words, size_t n,
                         struct halo_fault *fault)
{
    if (!words->match)
        words->match = pcre2_match_data_create(1, pre->memory);
    if (!words->match)
        return words_no_memory(fault, n);
    if (n <= words->n_held)
        return 0;
    free(words->bytes);
    words->bytes = malloc(n);
    words->n_held = words->bytes ? n : 0;
    return words->bytes ? 0 : words_no_memory(fault, n);
}

/* The text as bytes of the alphabet. */
static int words_map(const struct halo_pretokenizer *pre, const char *text, size_t n, struct halo_turn *turn,
                     struct halo_words *words, size_t *ret_n)
{
    int r = 0;
    *ret_n = 0;
    for (size_t at = 0, end; r == 0 && at < n; at = end) {
        end = n - at > MAP_BYTES ? at + MAP_BYTES : n;
        while (end < n && ((uint8_t)text[end] & 0xC0) == 0x80) /* not in the middle of a character */
            end--;
        *ret_n += halo_alphabet_map(&pre->alphabet, text + at, end - at, words->bytes + *ret_n);
        r = halo_turn_work(turn, (end - at) / HALO_BYTES_PER_WORK);
    }
    return r;
}

/* Turns ends counted in characters into ends counted in bytes of the text. */
static int words_to_text(struct halo_words *words, const char *text, struct halo_turn *turn)
{
    size_t at = 0, n_characters = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < words->n; i++) {
        size_t start = n_characters;
        for (; n_characters < words->ends[i]; n_characters++)
            at += halo_alphabet_length((uint8_t)text[at]);
        words->ends[i] = (uint32_t)at;
        r = halo_turn_work(turn, 1 + (n_characters - start) / HALO_BYTES_PER_WORK);
    }
    return r;
}

int halo_pretokenizer_split(const struct halo_pretokenizer *pre, const char *text, size_t n, struct halo_turn *turn,
                            struct halo_words *words, struct halo_fault *fault)
{
    assert(n <= UINT32_MAX);
    words->n = 0;
    int r = words_prepare(pre, words, n, fault);
    if (r < 0 || n == 0)
        return r;
    size_t n_characters;
    r = words_map(pre, text, n, turn, words, &n_characters);
    if (r == 0)
        r = split_word(pre, 0, 0, n_characters, turn, words, fault);
    for (size_t pass = 1; r == 0 && pass < pre->n_passes; pass++) {
        uint32_t *before = words->ends;
        size_t n_before = words->n;
        words->ends = words->spare;
        words->spare = before;
        words->n = 0;
        for (size_t i = 0, start = 0; r == 0 && i < n_before; start = words->spare[i++])
            r = split_word(pre, pass, start, words->spare[i], turn, words, fault);
    }
    return r < 0 ? r : words_to_text(words, text, turn);
}
