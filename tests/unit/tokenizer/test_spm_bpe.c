/* test_spm_bpe.c: Gemma 4's kind of vocabulary: merges over characters, space marks, byte tokens; ids by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vocab_build.h"

#define MARK "\342\226\201"
#define E_ACUTE "\303\251"
#define GOOSE "\360\237\252\277"

enum { A = 256, B, C, AB, ABC, SPACE, SPACE_A, SPACE_B, SPACES, NEWLINE, NEWLINES, ACUTE, A_SPACE_B, BOS, TURN, HTML };
static const char *const extra[] = {"a",          "b",      "c",       "ab",   "abc",     MARK,
                                    MARK "a",     MARK "b", MARK MARK, "\n",   "\n\n",    E_ACUTE,
                                    "a" MARK "b", "<bos>",  "<turn|>", "</s>", "<strong>"};
static const int32_t kinds[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 4, 4};
#define N_EXTRA (sizeof extra / sizeof *extra)
static const char *const merges[] = {MARK " " MARK, "a b", "ab c", MARK " a", MARK " b", "a " MARK "b"};

static struct halo_tokenizer *open_vocab(void)
{
    struct vocab_build build;
    build_init(&build);
    build_spm_bpe(&build, extra, kinds, N_EXTRA, merges, sizeof merges / sizeof *merges);
    build_u32(&build, "tokenizer.ggml.bos_token_id", BOS);
    return check_accepted(&build);
}

static void test_ids(void **state)
{
    struct halo_tokenizer *tokenizer = open_vocab();
    check_ids(tokenizer, "abc", false, true, IDS(ABC));
    check_ids(tokenizer, "cab", false, true, IDS(C, AB));
    check_ids(tokenizer, " a", false, true, IDS(SPACE_A)); /* no space is put in front */
    check_ids(tokenizer, "  a", false, true, IDS(SPACES, A));
    check_ids(tokenizer, "a b", false, true, IDS(A_SPACE_B)); /* merges cross the start of a word */
    check_ids(tokenizer, "c " E_ACUTE, false, true, IDS(C, SPACE, ACUTE));
    check_ids(tokenizer, GOOSE, false, true, IDS(0xF0, 0x9F, 0xAA, 0xBF));
    check_ids(tokenizer, "a\377b", false, true, IDS(A, 0xFF, B)); /* not UTF-8 */
    check_ids(tokenizer, "<turn|>a<turn|>", true, true, IDS(TURN, A, TURN));
    halo_tokenizer_destroy(tokenizer);
}

/* A run of line ends is one token where there is one, although no merge makes it. */
static void test_newlines(void **state)
{
    struct halo_tokenizer *tokenizer = open_vocab();
    check_ids(tokenizer, "a\nb", false, true, IDS(A, NEWLINE, B));
    check_ids(tokenizer, "a\n\nb", false, true, IDS(A, NEWLINES, B));
    check_ids(tokenizer, "\n\n\n", false, true, IDS(NEWLINE, NEWLINE, NEWLINE));
    check_ids(tokenizer, "a \n b", false, true, IDS(A, SPACE, NEWLINE, SPACE_B));
    halo_tokenizer_destroy(tokenizer);
}

static void test_pieces_are_the_text(void **state)
{
    static const char text[] = " a  b\n\n" E_ACUTE GOOSE "c\t";
    struct halo_tokenizer *tokenizer = open_vocab();
    struct halo_tokens tokens = {0};
    size_t at = 0;
    assert_int_equal(halo_tokenizer_encode(tokenizer, text, strlen(text), false, true, NULL, &tokens, NULL), 0);
    for (size_t i = 0; i < tokens.n; i++) {
        struct halo_span piece = halo_tokenizer_piece(tokenizer, tokens.ids[i], false);
        assert_true(at + piece.n <= strlen(text));
        assert_memory_equal(piece.bytes, text + at, piece.n);
        at += piece.n;
    }
    assert_int_equal(at, strlen(text));
    assert_true(halo_tokenizer_least_tokens(tokenizer, text, strlen(text)) <= tokens.n);
    halo_tokens_finish(&tokens);
    assert_false(halo_tokenizer_strips_first_space(tokenizer));
    halo_tokenizer_destroy(tokenizer);
}

/* Early files say that BOS is not added, and the model is lost without it. */
static void test_bos(void **state)
{
    struct halo_tokenizer *tokenizer = open_vocab();
    assert_true(halo_tokenizer_adds_bos(tokenizer));
    assert_int_equal(halo_tokenizer_remarks(tokenizer)->n, 0);
    assert_true(halo_tokenizer_is_end(tokenizer, TURN));
    assert_false(halo_tokenizer_is_end(tokenizer, HTML));
    halo_tokenizer_destroy(tokenizer);
    struct vocab_build build;
    build_init(&build);
    build_spm_bpe(&build, extra, kinds, N_EXTRA, merges, 1);
    build_u32(&build, "tokenizer.ggml.bos_token_id", BOS);
    build_bool(&build, "tokenizer.ggml.add_bos_token", false);
    tokenizer = check_accepted(&build);
    assert_true(halo_tokenizer_adds_bos(tokenizer));
    assert_int_equal(halo_tokenizer_remarks(tokenizer)->n, 1);
    assert_non_null(strstr(halo_tokenizer_remarks(tokenizer)->text[0], "tokenizer.ggml.add_bos_token"));
    halo_tokenizer_destroy(tokenizer);
}

static void test_broken(void **state)
{
    struct vocab_build build;
    build_init(&build);
    build_string(&build, "tokenizer.ggml.model", "gemma4");
    build_strings(&build, "tokenizer.ggml.tokens", extra, N_EXTRA);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.token_type");
    build_init(&build);
    build_string(&build, "tokenizer.ggml.model", "gemma4");
    build_strings(&build, "tokenizer.ggml.tokens", extra, N_EXTRA);
    build_i32s(&build, "tokenizer.ggml.token_type", kinds, N_EXTRA);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "no token for 256 of 256 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids), cmocka_unit_test(test_newlines), cmocka_unit_test(test_pieces_are_the_text),
        cmocka_unit_test(test_bos), cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
