/* test_turn.c: long texts: the turn is asked again and again whatever they hold, and its check ends the encoding; and
 * the number of ids that a text has at least. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vocab_build.h"
#include "vocab_files.h"

#define TEXT_BYTES ((size_t)1 << 18)

static struct halo_tokenizer *fable;

struct counter {
    struct halo_turn turn;
    size_t n_checks, most; /* the check that says stop; 0: none does */
};

static int count(struct halo_turn *turn)
{
    struct counter *counter = (struct counter *)turn;
    return ++counter->n_checks == counter->most ? -ECANCELED : 0;
}

/* TEXT_BYTES of this, again and again. */
static char *repeat(const char *what, size_t n)
{
    char *text = malloc(TEXT_BYTES);
    assert_non_null(text);
    for (size_t i = 0; i < TEXT_BYTES; i++)
        text[i] = what[i % n];
    return text;
}

static struct halo_tokenizer *build_words(void)
{
    static const struct spm_token tokens[] = {{"\xE2\x96\x81", -1, 1},
                                              {"a", -2, 1},
                                              {"\xE2\x96\x81"
                                               "a",
                                               -3, 1},
                                              {"aa", -4, 1}};
    struct halo_tokenizer *tokenizer;
    struct halo_fault fault = {0};
    struct vocab_build build;
    build_init(&build);
    build_spm(&build, tokens, sizeof(tokens) / sizeof(tokens[0]));
    if (build_tokenizer(&build, &tokenizer, &fault) < 0)
        fail_msg("%s", fault.text);
    build_finish(&build);
    return tokenizer;
}

static const struct {
    const char *what;
    size_t n;
} kinds[] = {{"Once upon a time there was a king. ", 35},
             {"a", 1},        /* one word */
             {" ", 1},        /* one word of spaces */
             {"\x80\xff", 2}, /* no UTF-8 at all */
             {"<|im_", 5},    /* the beginning of a control token */
             {"\xE6\x98\x94", 3}};

static void every_text_is_interrupted(void **state)
{
    struct halo_tokenizer *words = build_words();
    const struct halo_tokenizer *tokenizers[] = {fable, words};
    for (size_t k = 0; k < 2 * sizeof(kinds) / sizeof(kinds[0]); k++) {
        const struct halo_tokenizer *tokenizer = tokenizers[k % 2];
        char *text = repeat(kinds[k / 2].what, kinds[k / 2].n);
        struct halo_tokens tokens = {0};
        struct counter all = {.turn.check = count}, some = {.turn.check = count, .most = 3};
        assert_int_equal(halo_tokenizer_encode(tokenizer, text, TEXT_BYTES, true, true, &all.turn, &tokens, NULL), 0);
        if (all.n_checks < TEXT_BYTES / 16 / HALO_TURN_WORK)
            fail_msg("text %zu: %zu checks in %zu bytes", k, all.n_checks, TEXT_BYTES);
        size_t least = halo_tokenizer_least_tokens(tokenizer, text, TEXT_BYTES);
        if (tokens.n < least)
            fail_msg("text %zu: %zu tokens, not %zu or more", k, tokens.n, least);
        size_t n = tokens.n;
        int r = halo_tokenizer_encode(tokenizer, text, TEXT_BYTES, true, true, &some.turn, &tokens, NULL);
        assert_int_equal(r, -ECANCELED);
        assert_int_equal(some.n_checks, 3); /* nothing is done after it */
        assert_int_equal(tokens.n, n);
        halo_tokens_finish(&tokens);
        free(text);
    }
    halo_tokenizer_destroy(words);
}

/* The bound is reached, never passed: by the longest token, by bytes without one, by tokens that swallow spaces. */
static void no_text_has_fewer_ids(void **state)
{
    static const char *const extra[] = {"aaaaaaaa", "<sep>"};
    static const int32_t extra_kinds[] = {HALO_TOKEN_UNUSED, HALO_TOKEN_CONTROL};
    static const char *const merges[] = {"a a", "aa aa", "aaaa aaaa"};
    struct vocab_build build;
    struct halo_tokenizer *tokenizer;
    struct halo_fault fault = {0};
    for (int phi = 0; phi < 2; phi++) {
        struct halo_tokens tokens = {0};
        build_init(&build);
        build_bpe(&build, extra, extra_kinds, 2, merges, 3);
        build_string(&build, "general.name", phi ? "phi-3" : "other");
        if (build_tokenizer(&build, &tokenizer, &fault) < 0)
            fail_msg("%s", fault.text);
        char text[64] = "aaaaaaaaaaaaaaaa<sep>          ";
        assert_int_equal(halo_tokenizer_encode(tokenizer, text, strlen(text), true, true, NULL, &tokens, NULL), 0);
        size_t least = halo_tokenizer_least_tokens(tokenizer, text, strlen(text));
        assert_int_equal(halo_tokenizer_least_tokens(tokenizer, text, 16), 2);
        assert_int_equal(least, phi ? 3 : 4);
        assert_in_range(least, 1, tokens.n);
        assert_int_equal(halo_tokenizer_least_tokens(tokenizer, text, 0), 0);
        halo_tokens_finish(&tokens);
        halo_tokenizer_destroy(tokenizer);
        build_finish(&build);
    }
}

static int open_fable(void **state)
{
    fable = tokenizer_open("", fable_path());
    return 0;
}

static int close_fable(void **state)
{
    halo_tokenizer_destroy(fable);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_is_interrupted),
        cmocka_unit_test(no_text_has_fewer_ids),
    };
    return cmocka_run_group_tests(tests, open_fable, close_fable);
}
