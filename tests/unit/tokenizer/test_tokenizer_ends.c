/* test_tokenizer_ends.c: which tokens end a generation: those that the file names, and the markers of published models
 * where it names none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "vocab_build.h"

enum { END_OF_TURN = 256, IM_END, EOM, END_OF_TEXT, CALL, OTHER, HTML, STRONG, N_MARKERS = STRONG - END_OF_TURN + 1 };
static const char *const markers[] = {"<|eot_id|>", "<|im_end|>", "<|eom_id|>", "<|end_of_text|>",
                                      "<|call|>",   "<|user|>",   "</s>",       "<strong>"};
static const int32_t marker_kinds[] = {3, 3, 3, 3, 3, 3, 4, 4};

static void start(struct vocab_build *build)
{
    build_init(build);
    build_bpe(build, markers, marker_kinds, N_MARKERS, NULL, 0);
}

/* `ids` are all that end a generation. */
static void check_ends(struct vocab_build *build, const int32_t *ids, size_t n)
{
    struct halo_tokenizer *tokenizer = check_accepted(build);
    for (int32_t id = 0; id < END_OF_TURN + N_MARKERS; id++) {
        bool wanted = false;
        for (size_t i = 0; i < n; i++)
            wanted |= ids[i] == id;
        if (halo_tokenizer_is_end(tokenizer, id) != wanted)
            fail_msg("token %d %s a generation", id, wanted ? "does not end" : "ends");
    }
    halo_tokenizer_destroy(tokenizer);
}

static void test_texts_decide_what_the_file_leaves_open(void **state)
{
    struct vocab_build build;
    start(&build);
    check_ends(&build, IDS(END_OF_TURN, IM_END, EOM, END_OF_TEXT, CALL));
    start(&build);
    build_u32(&build, "tokenizer.ggml.eos_token_id", OTHER);
    check_ends(&build, IDS(END_OF_TURN, IM_END, EOM, END_OF_TEXT, CALL, OTHER));
}

static void test_stated_ids_replace_texts(void **state)
{
    struct vocab_build build;
    start(&build);
    build_u32(&build, "tokenizer.ggml.eot_token_id", OTHER); /* GLM ends its turn where the user's begins */
    check_ends(&build, IDS(EOM, END_OF_TEXT, CALL, OTHER));
    start(&build);
    build_u32(&build, "tokenizer.ggml.eom_token_id", OTHER);
    check_ends(&build, IDS(END_OF_TURN, IM_END, END_OF_TEXT, CALL, OTHER));
    start(&build);
    build_u32(&build, "tokenizer.ggml.eot_token_id", UINT32_MAX); /* none */
    check_ends(&build, IDS(END_OF_TURN, IM_END, EOM, END_OF_TEXT, CALL));
    static const char *const between_files[] = {"fim_pad", "fim_rep", "fim_sep"};
    for (size_t i = 0; i < sizeof between_files / sizeof *between_files; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", between_files[i]);
        start(&build);
        build_u32(&build, key, 65);
        check_ends(&build, IDS(65, END_OF_TURN, IM_END, EOM, END_OF_TEXT, CALL));
    }
}

static void test_a_list_is_complete(void **state)
{
    static const int32_t listed[] = {OTHER, 7}, too_high[] = {OTHER, END_OF_TURN + N_MARKERS}, negative[] = {-1};
    struct vocab_build build;
    start(&build);
    build_i32s(&build, "tokenizer.ggml.eog_token_ids", listed, 2);
    check_ends(&build, IDS(OTHER, 7));
    start(&build);
    build_i32s(&build, "tokenizer.ggml.eog_token_ids", listed, 2);
    build_u32(&build, "tokenizer.ggml.eos_token_id", END_OF_TEXT);
    check_ends(&build, IDS(OTHER, 7, END_OF_TEXT));
    start(&build);
    build_i32s(&build, "tokenizer.ggml.eog_token_ids", too_high, 2);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.eog_token_ids must hold ids from 0 to 263");
    start(&build);
    build_i32s(&build, "tokenizer.ggml.eog_token_ids", negative, 1);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.eog_token_ids must hold ids");
    start(&build);
    build_u32(&build, "tokenizer.ggml.eog_token_ids", 3);
    check_refused(&build, HALO_FAULT_LOAD_FAILED, "tokenizer.ggml.eog_token_ids");
}

/* <|end|> closes a message in the Harmony format, where the reply goes on, and the reply elsewhere. What the file
 * says counts more. */
static void test_harmony(void **state)
{
    (void)state;
    static const char *const extra[] = {"<|end|>", "<|return|>", "<|call|>"};
    static const int32_t kinds[] = {3, 3, 3};
    for (size_t n = 1; n <= 3; n++) {
        struct vocab_build build;
        build_init(&build);
        build_bpe(&build, extra, kinds, n, NULL, 0);
        struct halo_tokenizer *tokenizer = check_accepted(&build);
        assert_int_equal(halo_tokenizer_is_end(tokenizer, 256), n < 3);
        assert_int_equal(halo_tokenizer_is_end(tokenizer, 257), n >= 2);
        halo_tokenizer_destroy(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_decide_what_the_file_leaves_open),
        cmocka_unit_test(test_stated_ids_replace_texts),
        cmocka_unit_test(test_a_list_is_complete),
        cmocka_unit_test(test_harmony),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
