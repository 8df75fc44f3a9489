/* test_tokenizer_memory.c: each allocation of creating, encoding, rendering and detokenizing fails once. Nothing
 * leaks (the sanitizer build sees to that), the fault says "out of memory", and a list that was being appended to is
 * as it was.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <tokenizer/text.h>

#include "fail_alloc.h"
#include "vocab_build.h"
#include "vocab_files.h"

#define N_MAX 100000

static void check_fault(int r, const struct halo_fault *fault)
{
    assert_int_equal(r, -ENOMEM);
    if (fault->code != HALO_FAULT_OUT_OF_MEMORY)
        fail_msg("code %d: %s", (int)fault->code, fault->text);
}

/* A failure may be survived (the expressions are interpreted when they cannot be compiled to code), but never be
 * silent and wrong. */
static uint64_t check_create(const struct halo_gguf *gguf)
{
    uint64_t n = 0, n_refused = 0;
    for (;; n++) {
        struct halo_tokenizer *tokenizer = NULL;
        struct halo_fault fault = {0};
        halo_fail_alloc_arm(n);
        int r = halo_tokenizer_create(&tokenizer, gguf, &fault);
        bool failed = halo_fail_alloc_disarm();
        halo_tokenizer_destroy(tokenizer);
        if (!failed)
            break;
        assert_true(n < N_MAX);
        n_refused += r < 0;
        if (r < 0) {
            check_fault(r, &fault);
            assert_null(tokenizer);
        }
    }
    assert_true(n > 3);
    assert_true(n_refused > 2);
    return n;
}

static void check_encode(const struct halo_tokenizer *tokenizer)
{
    /* Words, an added token, a long word (the heap), and enough of it that every list grows; in two parts, so that
     * they are joined. */
    static char text[3000];
    memset(text, 'z', sizeof text);
    for (size_t i = 0; i < 2000; i += 2)
        text[i] = ' ';
    memcpy(text + 100, "<|im_end|>", 10);
    const struct halo_tokenizer_part parts[] = {{text, 1000, true}, {text + 1000, sizeof text - 1000, true}};
    struct halo_tokens wanted = {0};
    assert_int_equal(halo_tokenizer_encode_parts(tokenizer, parts, 2, true, NULL, &wanted, NULL), 0);
    uint64_t n = 0;
    for (;; n++) {
        struct halo_tokens tokens = {0};
        struct halo_fault fault = {0};
        assert_int_equal(halo_tokens_push(&tokens, 77), 0);
        halo_fail_alloc_arm(n);
        int r = halo_tokenizer_encode_parts(tokenizer, parts, 2, true, NULL, &tokens, &fault);
        bool failed = halo_fail_alloc_disarm();
        assert_int_equal(tokens.ids[0], 77);
        if (failed) {
            check_fault(r, &fault);
            assert_int_equal(tokens.n, 1);
        } else {
            assert_int_equal(tokens.n, wanted.n + 1);
            assert_memory_equal(tokens.ids + 1, wanted.ids, wanted.n * sizeof *wanted.ids);
        }
        halo_tokens_finish(&tokens);
        if (!failed)
            break;
        assert_true(n < N_MAX);
    }
    assert_true(n > 5);
    halo_tokens_finish(&wanted);
}

static void check_vocabulary(struct vocab_build *build)
{
    struct halo_tokenizer *tokenizer;
    struct halo_fault fault;
    struct halo_gguf *gguf = build_open(build);
    check_create(gguf);
    halo_gguf_close(gguf);
    assert_int_equal(build_tokenizer(build, &tokenizer, &fault), 0);
    check_encode(tokenizer);
    halo_tokenizer_destroy(tokenizer);
    build_finish(build);
}

static void test_bpe(void **state)
{
    (void)state;
    enum { N = 300 };
    static char texts[N][16];
    const char *merges[N];
    for (int i = 0; i < N; i++) { /* merges of texts that are no tokens: the table of symbols grows several times */
        snprintf(texts[i], sizeof texts[i], "z%d z", i);
        merges[i] = texts[i];
    }
    merges[0] = "z z";
    static const char *const extra[] = {"zz", "<|im_end|>"};
    static const int32_t kinds[] = {1, 3};
    struct vocab_build build;
    build_init(&build);
    build_bpe(&build, extra, kinds, 2, merges, N);
    check_vocabulary(&build);
}

static void test_spm(void **state)
{
    (void)state;
    static const struct spm_token extra[] = {
        {"<|im_end|>", 0, 3}, {"z", -2, 1}, {"zz", -1, 1}, {"\xE2\x96\x81", -3, 1}};
    struct vocab_build build;
    build_init(&build);
    build_spm(&build, extra, 4);
    check_vocabulary(&build);
}

static void test_spm_bpe(void **state)
{
    static const char *const extra[] = {"<|im_end|>", "z", "zz", "\xE2\x96\x81"}, *const merges[] = {"z z", "q zz"};
    static const int32_t kinds[] = {3, 1, 1, 1};
    struct vocab_build build;
    build_init(&build);
    build_spm_bpe(&build, extra, kinds, 4, merges, 2);
    check_vocabulary(&build);
}

static void test_file(void **state)
{
    (void)state;
    struct halo_gguf *gguf;
    assert_int_equal(halo_gguf_open(&gguf, fable_path(), NULL), 0);
    uint64_t n = check_create(gguf);
    print_message("creating the fable tokenizer allocates %" PRIu64 " times\n", n);
    halo_gguf_close(gguf);
}

static void test_text(void **state)
{
    (void)state;
    struct halo_tokenizer *tokenizer = tokenizer_open("", fable_path());
    static const int32_t ids[] = {320, 2152, 331, 709, 2018, 13, 4095};
    const struct halo_span stop = {"stop", 4};
    const struct halo_text_params params = {.stops = &stop, .n_stops = 1, .max_piece_bytes = 5000};
    uint64_t n = 0;
    for (bool failed = true; failed; n++) {
        struct halo_arena arena;
        struct halo_text_stream stream;
        struct halo_span text;
        struct halo_fault fault = {0};
        halo_arena_init(&arena, 0);
        halo_fail_alloc_arm(n);
        int r = halo_text_stream_init(&stream, &arena, &params, &fault);
        r = r < 0 ? r : halo_text_detokenize(tokenizer, ids, 7, true, &arena, &text, &fault);
        failed = halo_fail_alloc_disarm();
        if (failed)
            check_fault(r, &fault);
        else
            assert_memory_equal(text.bytes, "The miller had three sons.<|im_end|>", text.n);
        halo_arena_finish(&arena);
    }
    assert_true(n > 1);
    halo_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bpe), cmocka_unit_test(test_spm),
                                       cmocka_unit_test(test_spm_bpe), cmocka_unit_test(test_file),
                                       cmocka_unit_test(test_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
