/* pretokenize.c: cutting a text into the words that byte-level BPE merges within.
 *
 * Any thread; the compiled expressions are only read. Owns them. Matching runs in PCRE2's compiled code where the
 * system allows to map memory as executable, else, and when that code runs out of its small stack, in the
 * interpreter. The text must be valid UTF-8: PCRE2 is told not to check again, or each match would look at the whole
 * text. Fails with OUT_OF_MEMORY, or INTERNAL when an expression can not be compiled or gives up, with PCRE2's words.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_priv.h"

struct halo_pretokenizer {
    const struct halo_pretokenizer_kind *kind;
    pcre2_general_context *memory; /* PCRE2's allocations go through this room's malloc, so that tests can fail them */
    pcre2_compile_context *compile;
    pcre2_match_context *match;
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
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE, &r, &where, pre->compile);
    if (!code)
        return set_pcre_fault(fault, "compile a pre-tokenizer expression",
                              r == PCRE2_ERROR_HEAP_FAILED ? PCRE2_ERROR_NOMEMORY : r);
    pre->passes[pre->n_passes++] = code;
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where this fails, matching interprets */
    return 0;
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
    for (size_t i = 0; r == 0 && kind->expressions[i]; i++)
        r = compile(pre, kind->expressions[i], fault);
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

void halo_words_finish(struct halo_words *words)
{
    free(words->ends);
    free(words->spare);
    pcre2_match_data_free(words->match);
    *words = (struct halo_words){0};
}

static int match(const struct halo_pretokenizer *pre, size_t pass, const char *text, size_t n, size_t from,
                 pcre2_match_data *data)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int r = pcre2_match(pre->passes[pass], subject, n, from, PCRE2_NO_UTF_CHECK, data, pre->match);
    if (r == PCRE2_ERROR_JIT_STACKLIMIT)
        r = pcre2_match(pre->passes[pass], subject, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, pre->match);
    return r;
}

/* Cuts text[start, end) by one expression; each match and each gap becomes a word. */
static int split_word(const struct halo_pretokenizer *pre, size_t pass, const char *text, size_t start, size_t end,
                      struct halo_words *words, struct halo_fault *fault)
{
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(words->match);
    size_t n = end - start, at = 0;
    while (at < n) {
        int r = match(pre, pass, text + start, n, at, words->match);
        if (r == PCRE2_ERROR_NOMATCH)
            break;
        if (r < 0)
            return set_pcre_fault(fault, "cut a text into words", r);
        assert(bounds[1] > bounds[0] && bounds[0] >= at); /* no expression matches nothing */
        bool failed = bounds[0] > at && words_push(words, start + bounds[0]) < 0;
        if (failed || words_push(words, start + bounds[1]) < 0)
            return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the words of a text of %zu bytes", n);
        at = bounds[1];
    }
    if (at < n && words_push(words, end) < 0)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the words of a text of %zu bytes", n);
    return 0;
}

int halo_pretokenizer_split(const struct halo_pretokenizer *pre, const char *text, size_t n, struct halo_words *words,
                            struct halo_fault *fault)
{
    assert(n <= UINT32_MAX);
    if (!words->match)
        words->match = pcre2_match_data_create(1, pre->memory);
    words->n = 0;
    if (!words->match)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for matching");
    int r = n ? split_word(pre, 0, text, 0, n, words, fault) : 0;
    for (size_t pass = 1; r == 0 && pass < pre->n_passes; pass++) {
        uint32_t *before = words->ends;
        size_t n_before = words->n;
        words->ends = words->spare;
        words->spare = before;
        words->n = 0;
        for (size_t i = 0, start = 0; r == 0 && i < n_before; start = words->spare[i++])
            r = split_word(pre, pass, text, start, words->spare[i], words, fault);
    }
    return r;
}
