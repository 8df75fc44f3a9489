/* test_tokenizer_vocab.c: broken vocabularies, each refused (or borne) in its own way; and small ones whose ids can
 * be worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vocab_build.h"

static void start_bpe(struct vocab_build *build)
{
    build_init(build);
    build_bpe(build, NULL, NULL, 0, NULL, 0);
}

static void start_spm(struct vocab_build *build)
{
    static const struct spm_token extra[] = {{"\xE2\x96\x81", -1, HALO_TOKEN_NORMAL}};
    build_init(build);
    build_spm(build, extra, 1);
}

/* Only the keys of the model, for files that lack something. */
static void start_bare(struct vocab_build *build, const char *model)
{
    build_init(build);
    build_string(build, "tokenizer.ggml.model", model);
}

static const char *const two[] = {"a", "b"};
static const int32_t two_kinds[] = {1, 1};

static void test_missing_keys(void **state)
{
    (void)state;
    struct vocab_build build;
    build_init(&build);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.model");
    start_bare(&build, "gpt2");
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.tokens");
    start_bare(&build, "gpt2");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.merges");
    start_bare(&build, "llama");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.token_type");
    start_bare(&build, "llama");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    build_i32s(&build, "tokenizer.ggml.token_type", two_kinds, 2);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.scores");
}

static void test_unknown_kinds(void **state)
{
    (void)state;
    struct vocab_build build;
    start_bare(&build, "rwkv");
    check_refused(&build, HALO_FAULT_UNSUPPORTED, "\"rwkv\"");
    start_bare(&build, "gpt2");
    build_string(&build, "tokenizer.ggml.pre", "superbpe");
    check_refused(&build, HALO_FAULT_UNSUPPORTED, "\"superbpe\"");
    build_init(&build);
    build_bytes(&build, "tokenizer.ggml.model", "\xFF\0\n\x1B and so on, for more bytes than a message should hold",
                58);
    check_refused(&build, HALO_FAULT_UNSUPPORTED, "\"???? and so on");
    build_init(&build);
    build_u32(&build, "tokenizer.ggml.model", 1);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.model");
}

static void test_tokens(void **state)
{
    (void)state;
    struct vocab_build build;
    static const char *const twice[] = {"a", "b", "a"};
    start_bare(&build, "gpt2");
    build_strings(&build, "tokenizer.ggml.tokens", two, 0);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.tokens has 0");
    start_bare(&build, "gpt2");
    build_i32s(&build, "tokenizer.ggml.tokens", two_kinds, 2);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.tokens");
    start_bare(&build, "gpt2");
    build_strings(&build, "tokenizer.ggml.tokens", twice, 3);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "\"a\" is in the vocabulary twice, as 0 and 2");
    start_bare(&build, "gpt2");
    build_string(&build, "tokenizer.ggml.tokens", "a");
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.tokens");
}

/* Empty texts are no duplicates of each other, have no piece and are never found. */
static void test_empty_tokens(void **state)
{
    (void)state;
    struct vocab_build build;
    static const char *const empty[] = {"", "", "<x>", ""};
    static const int32_t kinds[] = {1, 3, 4, 4};
    build_init(&build);
    build_bpe(&build, empty, kinds, 4, NULL, 0);
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    assert_int_equal(halo_tokenizer_n_vocab(tokenizer), 260);
    assert_int_equal(halo_tokenizer_find(tokenizer, "", 0), -1);
    assert_int_equal(halo_tokenizer_piece(tokenizer, 257, true).n, 0);
    check_ids(tokenizer, "<x>", true, true, IDS(258));
    halo_tokenizer_destroy(tokenizer);
}

/* A table without a single byte still gives pointers that memcpy and memcmp may have. */
static void test_only_empty_tokens(void **state)
{
    (void)state;
    static const char *const empty[] = {"", ""};
    struct vocab_build build;
    start_bare(&build, "gpt2");
    build_strings(&build, "tokenizer.ggml.tokens", empty, 2);
    build_strings(&build, "tokenizer.ggml.merges", NULL, 0);
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    for (int32_t id = 0; id < 2; id++) {
        assert_non_null(halo_tokenizer_text(tokenizer, id).bytes);
        assert_int_equal(halo_tokenizer_text(tokenizer, id).n, 0);
    }
    halo_tokenizer_destroy(tokenizer);
}

static void test_array_lengths(void **state)
{
    (void)state;
    struct vocab_build build;
    start_bare(&build, "gpt2");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    build_i32s(&build, "tokenizer.ggml.token_type", two_kinds, 1);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.token_type has 1 elements for 2 tokens");
    static const float scores[] = {0, 1};
    for (size_t n = 0; n < 2; n++) {
        char words[64];
        snprintf(words, sizeof words, "tokenizer.ggml.scores has %zu elements for 2 tokens", n);
        start_bare(&build, "llama");
        build_strings(&build, "tokenizer.ggml.tokens", two, 2);
        build_i32s(&build, "tokenizer.ggml.token_type", two_kinds, 2);
        build_f32s(&build, "tokenizer.ggml.scores", scores, n);
        check_refused(&build, HALO_FAULT_LOAD_FAILED, words);
    }
}

static void test_element_types(void **state)
{
    (void)state;
    struct vocab_build build;
    static const float kinds[] = {1, 1};
    static const uint8_t small[] = {1, 1};
    static const float not_a_number[] = {0, NAN};
    start_bare(&build, "gpt2");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    build_f32s(&build, "tokenizer.ggml.token_type", kinds, 2);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.token_type must hold integers");
    start_bare(&build, "llama");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    build_i32s(&build, "tokenizer.ggml.token_type", two_kinds, 2);
    build_strings(&build, "tokenizer.ggml.scores", two, 2);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.scores must hold numbers");
    start_bare(&build, "llama");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    build_i32s(&build, "tokenizer.ggml.token_type", two_kinds, 2);
    build_f32s(&build, "tokenizer.ggml.scores", not_a_number, 2);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.scores[1] is not a number");
    /* One byte an element is unusual, not wrong: read as what it is, and not four bytes each. */
    start_bare(&build, "llama");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    build_u8s(&build, "tokenizer.ggml.token_type", small, 2);
    build_u8s(&build, "tokenizer.ggml.scores", small, 2);
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    assert_int_equal(halo_tokenizer_kind(tokenizer, 1), HALO_TOKEN_NORMAL);
    halo_tokenizer_destroy(tokenizer);
}

static void test_byte_tokens(void **state)
{
    (void)state;
    static const char *const bad[] = {"<0xZZ>", "<0x-1>", "<0x1>", "<0x100>", "<0x0A", "0x0A", "<0X0A>", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct vocab_build build;
        const struct spm_token extra = {bad[i], 0, HALO_TOKEN_BYTE};
        char words[64];
        snprintf(words, sizeof words, "token 259 is of the type byte, but its text is \"%s\"", bad[i]);
        build_init(&build);
        build_spm(&build, &extra, 1);
        check_refused(&build, HALO_FAULT_LOAD_FAILED, words);
    }
    /* Without byte tokens there must be an unknown token. */
    struct vocab_build build;
    static const float scores[] = {0, 0};
    start_bare(&build, "llama");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    build_i32s(&build, "tokenizer.ggml.token_type", two_kinds, 2);
    build_f32s(&build, "tokenizer.ggml.scores", scores, 2);
    build_u32(&build, "tokenizer.ggml.unknown_token_id", UINT32_MAX);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "no token for 256 of 256 bytes and no unknown token");
}

static void test_special_ids(void **state)
{
    (void)state;
    static const char *const names[] = {"bos",       "eos",     "unknown", "eot",     "eom",
                                        "seperator", "padding", "cls",     "mask",    "fim_pre",
                                        "fim_suf",   "fim_mid", "fim_pad", "fim_rep", "fim_sep"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct vocab_build build;
        char key[64], words[128];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", names[i]);
        start_bpe(&build);
        build_u32(&build, key, 256);
        snprintf(words, sizeof words, "%s is 256, the vocabulary has ids 0 to 255", key);
        check_refused(&build, HALO_FAULT_LOAD_FAILED, words);
        start_bpe(&build);
        build_i32(&build, key, -2);
        snprintf(words, sizeof words, "%s is -2", key);
        check_refused(&build, HALO_FAULT_LOAD_FAILED, words);
        start_bpe(&build);
        build_string(&build, key, "7");
        check_refused(&build, HALO_FAULT_LOAD_FAILED, key);
        for (int absent = 0; absent < 2; absent++) { /* both ways to say "none" */
            start_bpe(&build);
            if (absent)
                build_i32(&build, key, -1);
            else
                build_u32(&build, key, UINT32_MAX);
            struct halo_tokenizer *tokenizer = check_accepted(&build);
            assert_int_equal(halo_tokenizer_bos(tokenizer), -1);
            assert_int_equal(halo_tokenizer_eos(tokenizer), -1);
            halo_tokenizer_destroy(tokenizer);
        }
    }
}

static void test_flags(void **state)
{
    (void)state;
    struct vocab_build build;
    start_bpe(&build);
    build_bool(&build, "tokenizer.ggml.add_bos_token", true);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.add_bos_token is set, but");
    start_bpe(&build);
    build_bool(&build, "tokenizer.ggml.add_eos_token", true);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.add_eos_token is set, but");
    start_bpe(&build);
    build_u32(&build, "tokenizer.ggml.add_bos_token", 1);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.add_bos_token");
    start_bpe(&build);
    build_u32(&build, "tokenizer.ggml.bos_token_id", 7);
    build_u32(&build, "tokenizer.ggml.eos_token_id", 8);
    build_bool(&build, "tokenizer.ggml.add_eos_token", true);
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    assert_int_equal(halo_tokenizer_bos(tokenizer), 7);
    assert_false(halo_tokenizer_adds_bos(tokenizer)); /* the default of this pre-tokenizer */
    assert_true(halo_tokenizer_adds_eos(tokenizer));
    assert_true(halo_tokenizer_is_end(tokenizer, 8));
    assert_false(halo_tokenizer_is_end(tokenizer, 7));
    assert_false(halo_tokenizer_is_end(tokenizer, -1));
    assert_false(halo_tokenizer_is_end(tokenizer, 1 << 30));
    halo_tokenizer_destroy(tokenizer);
    start_spm(&build);
    build_bool(&build, "tokenizer.ggml.add_bos_token", false);
    tokenizer = check_accepted(&build);
    assert_int_equal(halo_tokenizer_bos(tokenizer), 1); /* SentencePiece's own ids, where the file names none */
    assert_int_equal(halo_tokenizer_eos(tokenizer), 2);
    assert_false(halo_tokenizer_adds_bos(tokenizer));
    halo_tokenizer_destroy(tokenizer);
}

static void test_merges(void **state)
{
    (void)state;
    struct vocab_build build;
    static const char *const bad[] = {"", " ", "ab", "a ", " b", "a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const merges[] = {"a b", bad[i]};
        build_init(&build);
        build_bpe(&build, NULL, NULL, 0, merges, 2);
        check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.merges[1]");
    }
    start_bare(&build, "gpt2");
    build_strings(&build, "tokenizer.ggml.tokens", two, 2);
    build_i32s(&build, "tokenizer.ggml.merges", two_kinds, 2);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.merges");
}

static void test_bpe_by_hand(void **state)
{
    (void)state;
    struct vocab_build build;
    /* "ab" is no token: the merge of it is a step towards "abc" and falls apart into bytes where that is not reached.
     */
    static const char *const extra[] = {"abc", "aa", "aaa", "<|im_end|>", "<|im_end|>>", "<tool>", "</s>", "odd"};
    static const int32_t kinds[] = {1, 1, 1, 1, 3, 4, 1, 17};
    static const char *const merges[] = {"a b", "ab c", "a a", "aa a", "o d", "od d", "a b"};
    build_init(&build);
    build_bpe(&build, extra, kinds, 8, merges, 7);
    build_u32(&build, "tokenizer.ggml.unknown_token_id", 259);
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    int32_t a = build_bpe_byte('a'), b = build_bpe_byte('b'), d = build_bpe_byte('d');
    check_ids(tokenizer, "abc", false, true, IDS(256));
    check_ids(tokenizer, "abab", false, true, IDS(a, b, a, b));
    check_ids(tokenizer, "aaaa", false, true, IDS(257, 257));  /* pairs before triples, from the left */
    check_ids(tokenizer, "aaaaa", false, true, IDS(257, 258)); /* ties go to the left, so the odd one is last */
    check_ids(tokenizer, "oddd", false, true, IDS(263, d));
    assert_int_equal(halo_tokenizer_kind(tokenizer, 263),
                     HALO_TOKEN_UNUSED); /* an unknown type: never parsed, never shown */
    assert_int_equal(halo_tokenizer_piece(tokenizer, 263, true).n, 0);
    /* Marked normal by a careless converter, but nobody means it as text. */
    assert_int_equal(halo_tokenizer_kind(tokenizer, 259), HALO_TOKEN_CONTROL);
    assert_true(halo_tokenizer_is_end(tokenizer, 259));
    assert_int_equal(halo_tokenizer_kind(tokenizer, 262), HALO_TOKEN_NORMAL); /* HTML is text */
    check_ids(tokenizer, "<|im_end|>>a", true, true, IDS(260, a));            /* the longest that fits */
    check_ids(tokenizer, "<|im_end|>a", true, true, IDS(259, a));
    check_ids(tokenizer, "<tool>a", false, true, IDS(261, a)); /* user-defined: always */
    int32_t bar = build_bpe_byte('|'), less = build_bpe_byte('<'), more = build_bpe_byte('>'),
            under = build_bpe_byte('_');
    check_ids(tokenizer, "<|im_end|>", false, true,
              IDS(less, bar, build_bpe_byte('i'), build_bpe_byte('m'), under, build_bpe_byte('e'), build_bpe_byte('n'),
                  d, bar, more));
    halo_tokenizer_destroy(tokenizer);
}

static void test_spm_by_hand(void **state)
{
    (void)state;
    static const struct spm_token extra[] = {
        {"\xE2\x96\x81", -3, 1},
        {"a", -4, 1},
        {"b", -5, 1},
        {"ab", -2, 1},
        {"ba", -2, 1},
        {"\xE2\x96\x81"
         "a",
         -1, 1},
        {"\xE2\x96\x81\xE2\x96\x81", -9, 1},
        {"[x]", 0, 4},
        {"aa", -0.0f, 1},
        {"bb", 0.0f, 1},
    };
    enum { MARK = BUILD_SPM_FIRST, A, B, AB, BA, MARK_A, MARK_MARK, X, AA, BB };
    struct vocab_build build;
    build_init(&build);
    build_spm(&build, extra, sizeof extra / sizeof *extra);
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    check_ids(tokenizer, "a", false, true, IDS(MARK_A));
    check_ids(tokenizer, "a", false, false, IDS(A)); /* a continuation gets no space */
    check_ids(tokenizer, " a", false, true, IDS(MARK, MARK_A));
    check_ids(tokenizer, "aba", false, false, IDS(AB, A)); /* equal scores: the left pair */
    check_ids(tokenizer, "bab", false, false, IDS(BA, B));
    check_ids(tokenizer, "aabb", false, false, IDS(AA, BB)); /* 0 and -0 are equal and above the others */
    check_ids(tokenizer, "\xC3\xA9", false, false, IDS(3 + 0xC3, 3 + 0xA9)); /* not in the vocabulary: its bytes */
    check_ids(tokenizer,
              "\xFF"
              "a",
              false, false, IDS(3 + 0xFF, A));
    check_ids(tokenizer, "\n", false, true, IDS(MARK, 3 + '\n'));
    check_ids(tokenizer, "b[x]a", false, true, IDS(MARK, B, X, MARK_A)); /* after an added token a text begins */
    check_ids(tokenizer, "<s>a</s>", true, false, IDS(1, MARK_A, 2));
    check_ids(tokenizer, "<s>", false, false, IDS(3 + '<', 3 + 's', 3 + '>'));
    assert_int_equal(halo_tokenizer_piece(tokenizer, MARK_A, false).n, 2);
    assert_memory_equal(halo_tokenizer_piece(tokenizer, MARK_A, false).bytes, " a", 2);
    assert_int_equal(halo_tokenizer_piece(tokenizer, 3 + 0xC3, false).bytes[0], (char)0xC3);
    assert_int_equal(halo_tokenizer_piece(tokenizer, 1, false).n, 0);
    assert_int_equal(halo_tokenizer_piece(tokenizer, 1, true).n, 3);
    assert_true(halo_tokenizer_strips_first_space(tokenizer));
    assert_true(halo_tokenizer_adds_bos(tokenizer));
    halo_tokenizer_destroy(tokenizer);
}

static void test_spm_without_prefix(void **state)
{
    (void)state;
    struct vocab_build build;
    static const struct spm_token extra[] = {{"\xE2\x96\x81"
                                              "a",
                                              -1, 1},
                                             {"a", -4, 1},
                                             {"\xE2\x96\x81", -3, 1}};
    build_init(&build);
    build_spm(&build, extra, 3);
    build_bool(&build, "tokenizer.ggml.add_space_prefix", false);
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    check_ids(tokenizer, "a", false, true, IDS(BUILD_SPM_FIRST + 1));
    assert_false(halo_tokenizer_strips_first_space(tokenizer));
    halo_tokenizer_destroy(tokenizer);
}

/* Cutting at the starts of words must change nothing: a token with a space mark inside turns it off. And a long text
 * that cannot be cut must not take longer than n log n; the test has a time limit. */
static void test_spm_words(void **state)
{
    (void)state;
    static const struct spm_token extra[] = {
        {"\xE2\x96\x81", -3, 1},
        {"a", -4, 1},
        {"b", -5, 1},
        {"ab", -2, 1},
        {"aa", -1, 1},
        {"\xE2\x96\x81"
         "a",
         -1.5f, 1},
        {"\xE2\x96\x81\xE2\x96\x81", -0.5f, 1},
        {"\xE2\x96\x81"
         "ab",
         -6, 1},
        {"x\xE2\x96\x81y", -7, 1},
    };
    enum { N = 1 << 19 };
    struct halo_tokenizer *cut, *whole;
    struct vocab_build build;
    build_init(&build);
    build_spm(&build, extra, 8);
    cut = check_accepted(&build);
    build_init(&build);
    build_spm(&build, extra, 9);
    whole = check_accepted(&build);
    char *text = malloc(N);
    uint64_t seed = 5;
    for (int round = 0; round < 2001; round++) {
        size_t n = round == 2000 ? N : (size_t)round % 70;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[i] = " aab c  "[seed >> 61];
        }
        struct halo_tokens a = {0}, b = {0};
        assert_int_equal(halo_tokenizer_encode(cut, text, n, false, round & 1, NULL, &a, NULL), 0);
        assert_int_equal(halo_tokenizer_encode(whole, text, n, false, round & 1, NULL, &b, NULL), 0);
        assert_int_equal(a.n, b.n);
        if (a.n)
            assert_memory_equal(a.ids, b.ids, a.n * sizeof *a.ids);
        halo_tokens_finish(&a);
        halo_tokens_finish(&b);
    }
    free(text);
    check_ids(whole, "x y", false, false, IDS(3 + 'x', BUILD_SPM_FIRST, 3 + 'y')); /* its parts are no tokens */
    halo_tokenizer_destroy(cut);
    halo_tokenizer_destroy(whole);
}

/* A vocabulary without byte tokens spells what it lacks as unknown. */
static void test_spm_unknown(void **state)
{
    (void)state;
    struct vocab_build build;
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "a", "\xE2\x96\x81"};
    static const int32_t kinds[] = {2, 3, 3, 1, 1};
    static const float scores[5];
    start_bare(&build, "llama");
    build_strings(&build, "tokenizer.ggml.tokens", tokens, 5);
    build_i32s(&build, "tokenizer.ggml.token_type", kinds, 5);
    build_f32s(&build, "tokenizer.ggml.scores", scores, 5);
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    check_ids(tokenizer, "aba", false, true, IDS(4, 3, 0, 3));
    halo_tokenizer_destroy(tokenizer);
}

static void test_long_added_token(void **state)
{
    (void)state;
    struct vocab_build build;
    char *text = malloc(1026);
    memset(text, 'x', 1025);
    text[1025] = 0;
    const char *const extra[] = {text};
    static const int32_t kinds[] = {4};
    build_init(&build);
    build_bpe(&build, extra, kinds, 1, NULL, 0);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "added token 256 has 1025 bytes");
    text[1024] = 0;
    build_init(&build);
    build_bpe(&build, extra, kinds, 1, NULL, 0);
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    check_ids(tokenizer, text, false, true, IDS(256));
    assert_int_equal(halo_tokenizer_max_piece_bytes(tokenizer), 1024);
    halo_tokenizer_destroy(tokenizer);
    free(text);
}

/* Phi-3's added tokens swallow the white space to their right, but for three of them. */
static void test_phi3(void **state)
{
    (void)state;
    struct vocab_build build;
    static const struct spm_token extra[] = {
        {"<|user|>", 0, 3}, {"<|endoftext|>", 0, 3}, {"a", -4, 1}, {"\xE2\x96\x81", -3, 1}};
    build_init(&build);
    build_spm(&build, extra, 4);
    build_string(&build, "general.name", "My Phi-3 mini");
    struct halo_tokenizer *tokenizer = check_accepted(&build);
    check_ids(tokenizer, "<|user|> \n\ta", true, true, IDS(BUILD_SPM_FIRST, BUILD_SPM_FIRST + 3, BUILD_SPM_FIRST + 2));
    check_ids(tokenizer, "<|endoftext|>\n", true, true, IDS(BUILD_SPM_FIRST + 1, BUILD_SPM_FIRST + 3, 3 + '\n'));
    halo_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_unknown_kinds),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_empty_tokens),
        cmocka_unit_test(test_only_empty_tokens),
        cmocka_unit_test(test_array_lengths),
        cmocka_unit_test(test_element_types),
        cmocka_unit_test(test_byte_tokens),
        cmocka_unit_test(test_special_ids),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_bpe_by_hand),
        cmocka_unit_test(test_spm_by_hand),
        cmocka_unit_test(test_spm_without_prefix),
        cmocka_unit_test(test_spm_words),
        cmocka_unit_test(test_spm_unknown),
        cmocka_unit_test(test_long_added_token),
        cmocka_unit_test(test_phi3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
