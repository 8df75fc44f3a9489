/* test_text.c: streamed text: characters and stop strings across tokens, resuming, and the whole-text helpers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <tokenizer/text.h>

#include "vocab_build.h"

#define MAX_PIECE 64

struct run { /* a stream and what it has released */
    struct halo_arena arena;
    struct halo_text_stream stream;
    char text[4096];
    size_t n;
    int stopped;
};

static void run_start(struct run *run, const char *const *stops, size_t n_stops)
{
    struct halo_span spans[HALO_TEXT_MAX_STOPS];
    for (size_t i = 0; i < n_stops; i++)
        spans[i] = (struct halo_span){stops[i], strlen(stops[i])};
    struct halo_text_params params = {.stops = spans, .n_stops = n_stops, .max_piece_bytes = MAX_PIECE};
    *run = (struct run){0};
    halo_arena_init(&run->arena, 0);
    assert_int_equal(halo_text_stream_init(&run->stream, &run->arena, &params, NULL), 0);
    halo_arena_seal(&run->arena); /* any allocation from here on aborts */
}

static void run_take(struct run *run, struct halo_span span, int outcome)
{
    assert_true(run->n + span.n < sizeof run->text);
    memcpy(run->text + run->n, span.bytes, span.n);
    run->n += span.n;
    run->text[run->n] = 0;
    run->stopped = outcome;
}

static void take_feed(struct run *run, const char *bytes, size_t n)
{
    struct halo_span span;
    int outcome = halo_text_stream_feed(&run->stream, bytes, n, &span);
    run_take(run, span, outcome);
}

static void take_finish(struct run *run)
{
    struct halo_span span;
    int outcome = halo_text_stream_finish(&run->stream, &span);
    run_take(run, span, outcome);
}

/* Feeds and compares what this one call released. */
static void feed(struct run *run, const char *bytes, const char *released)
{
    struct halo_span span;
    int outcome = halo_text_stream_feed(&run->stream, bytes, strlen(bytes), &span);
    if (span.n != strlen(released) || memcmp(span.bytes, released, span.n) != 0)
        fail_msg("\"%s\" released \"%.*s\", wanted \"%s\"", bytes, (int)span.n, span.bytes, released);
    run_take(run, span, outcome);
}

static void finish(struct run *run, const char *released)
{
    struct halo_span span;
    int outcome = halo_text_stream_finish(&run->stream, &span);
    assert_int_equal(span.n, strlen(released));
    assert_memory_equal(span.bytes, released, span.n);
    run_take(run, span, outcome);
    halo_arena_finish(&run->arena);
}

static void test_plain(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, NULL, 0);
    feed(&run, "Once", "Once");
    feed(&run, "", "");
    feed(&run, " upon", " upon");
    assert_int_equal(run.stopped, 0);
    assert_int_equal(run.stream.released_bytes, 9);
    finish(&run, "");
    assert_int_equal(run.stopped, 0);
    assert_int_equal(run.stream.stopped_by, -1);
}

static void test_characters(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, NULL, 0);
    feed(&run, "\xC3", "");
    feed(&run, "\xA9", "\xC3\xA9");
    feed(&run, "\xF0", "");
    feed(&run, "\x9F\x98", "");
    feed(&run, "\x80x\xE2", "\xF0\x9F\x98\x80x");
    feed(&run, "\x82\xAC", "\xE2\x82\xAC");
    finish(&run, "");
    /* Each maximal ill-formed part becomes one U+FFFD: a lone continuation, a broken start, an overlong form, a
     * surrogate. */
    run_start(&run, NULL, 0);
    feed(&run,
         "a\x80"
         "b",
         "a\xEF\xBF\xBD"
         "b");
    feed(&run, "\xE2\x82", "");
    feed(&run, "A",
         "\xEF\xBF\xBD"
         "A");
    feed(&run, "\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD");
    feed(&run, "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    feed(&run, "\xF0\x9F", "");
    feed(&run, "\xF0\x9F\x98\x80", "\xEF\xBF\xBD\xF0\x9F\x98\x80");
    feed(&run, "\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    feed(&run, "\xF0\x9F\x98", "");
    finish(&run, "\xEF\xBF\xBD"); /* what never became a character is one */
}

static void test_stop_across_tokens(void **state)
{
    (void)state;
    static const char *const stops[] = {"\n\nUser:"};
    struct run run;
    run_start(&run, stops, 1);
    feed(&run, "fine.\n", "fine.");
    feed(&run, "\n", "");
    feed(&run, "Us", "");
    feed(&run, "e", "");
    feed(&run, "r: what", "");
    assert_int_equal(run.stopped, HALO_TEXT_STOPPED);
    assert_int_equal(run.stream.stopped_by, 0);
    assert_string_equal(run.text, "fine.");
    feed(&run, "more", ""); /* nothing after a stop */
    assert_int_equal(run.stopped, HALO_TEXT_STOPPED);
    finish(&run, "");
    assert_int_equal(run.stopped, HALO_TEXT_STOPPED);
    /* Nearly a stop: everything comes out, and only what may still become one is held. */
    run_start(&run, stops, 1);
    feed(&run, "a\n\nUse", "a");
    feed(&run, "\n", "\n\nUse");
    feed(&run, "\n\n", "\n"); /* three newlines: the last two may begin it */
    feed(&run, "User", "");
    finish(&run, "\n\nUser");
    assert_string_equal(run.text, "a\n\nUse\n\n\nUser");
    assert_int_equal(run.stopped, 0);
}

static void test_stop_choice(void **state)
{
    (void)state;
    static const char *const stops[] = {"bc", "abcd", "abc", "c"};
    struct run run;
    run_start(&run, stops, 4);
    feed(&run, "xabcd",
         "x"); /* three are complete at the c; the longest counts, and the one that needs the d is too late */
    assert_int_equal(run.stopped, HALO_TEXT_STOPPED);
    assert_int_equal(run.stream.stopped_by, 2);
    finish(&run, "");
    static const char *const overlapping[] = {"aab"};
    run_start(&run, overlapping, 1);
    feed(&run, "aa", "");
    feed(&run, "a", "a");
    feed(&run, "a", "a");
    feed(&run, "b", "");
    assert_int_equal(run.stopped, HALO_TEXT_STOPPED);
    assert_string_equal(run.text, "aa");
    finish(&run, "");
    static const char *const replacement[] = {"\xEF\xBF\xBD"}; /* stops see the text that is shown */
    run_start(&run, replacement, 1);
    feed(&run, "a\xE2\x82", "a");
    finish(&run, "");
    assert_int_equal(run.stopped, HALO_TEXT_STOPPED);
    static const char *const split[] = {"\xC3\xA9t\xC3\xA9"}; /* a stop whose characters are split, too */
    run_start(&run, split, 1);
    feed(&run, "l'\xC3", "l'");
    feed(&run, "\xA9t", "");
    feed(&run, "\xC3", "");
    feed(&run, "\xA9", "");
    assert_int_equal(run.stopped, HALO_TEXT_STOPPED);
    finish(&run, "");
}

static void test_limits(void **state)
{
    (void)state;
    char longest[HALO_TEXT_MAX_STOP_BYTES + 2];
    struct halo_span spans[HALO_TEXT_MAX_STOPS + 1];
    struct halo_text_params params = {.stops = spans, .max_piece_bytes = MAX_PIECE};
    struct halo_text_stream stream;
    struct halo_arena arena;
    struct halo_fault fault;
    memset(longest, 'x', sizeof longest);
    halo_arena_init(&arena, 0);
    for (size_t i = 0; i <= HALO_TEXT_MAX_STOPS; i++)
        spans[i] = (struct halo_span){longest, HALO_TEXT_MAX_STOP_BYTES};
    static const struct {
        struct halo_span span;
        const char *words;
    } bad[] = {{{"", 0}, "stop string 1 has 0 bytes"}, {{"\xC3", 1}, "stop string 1 is not valid UTF-8"}};
    params.n_stops = HALO_TEXT_MAX_STOPS;
    assert_int_equal(halo_text_stream_init(&stream, &arena, &params, &fault), 0);
    params.n_stops = HALO_TEXT_MAX_STOPS + 1;
    assert_true(halo_text_stream_init(&stream, &arena, &params, &fault) < 0);
    assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
    params.n_stops = 2;
    spans[1].n = HALO_TEXT_MAX_STOP_BYTES + 1;
    assert_true(halo_text_stream_init(&stream, &arena, &params, &fault) < 0);
    assert_non_null(strstr(fault.text, "stop string 1 has 257 bytes"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spans[1] = bad[i].span;
        assert_true(halo_text_stream_init(&stream, &arena, &params, &fault) < 0);
        assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
        assert_non_null(strstr(fault.text, bad[i].words));
    }
    halo_arena_finish(&arena);
    halo_arena_init(&arena, 64); /* too little */
    params.n_stops = 1;
    assert_true(halo_text_stream_init(&stream, &arena, &params, &fault) < 0);
    assert_int_equal(fault.code, HALO_FAULT_OUT_OF_MEMORY);
    halo_arena_finish(&arena);
}

/* The worst case for the buffer: the longest held text, then a whole piece of bytes that each become three. */
static void test_fullest_buffer(void **state)
{
    (void)state;
    char stop[HALO_TEXT_MAX_STOP_BYTES + 1], piece[MAX_PIECE + 1];
    const char *const stops[] = {stop};
    struct run run;
    struct halo_span span;
    memset(stop, 'x', HALO_TEXT_MAX_STOP_BYTES);
    stop[HALO_TEXT_MAX_STOP_BYTES - 1] = 'y';
    stop[HALO_TEXT_MAX_STOP_BYTES] = 0;
    run_start(&run, stops, 1);
    memset(piece, 'x', MAX_PIECE);
    for (int i = 0; i < 8; i++)
        take_feed(&run, piece, MAX_PIECE);
    assert_int_equal(run.stream.n_held, HALO_TEXT_MAX_STOP_BYTES - 1);
    halo_text_stream_feed(&run.stream, "\xF0\x9F\x98", 3, &span);
    memset(piece, 0xFF, MAX_PIECE);
    halo_text_stream_feed(&run.stream, piece, MAX_PIECE, &span);
    assert_int_equal(span.n, HALO_TEXT_MAX_STOP_BYTES - 1 + 3 * (MAX_PIECE + 1));
    finish(&run, "");
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Against a slow and obvious model: the whole text made valid, then searched for the stop that is complete first. */
static void check_against_model(const char *bytes, size_t n, const char *const *stops, size_t n_stops, uint64_t *seed)
{
    char text[4096];
    size_t n_text = halo_text_sanitize(bytes, n, text), end = n_text;
    int stopped_by = -1;
    for (size_t at = 1; stopped_by < 0 && at <= n_text; at++)
        for (size_t s = 0; s < n_stops; s++) {
            size_t n_stop = strlen(stops[s]);
            bool here = n_stop <= at && memcmp(text + at - n_stop, stops[s], n_stop) == 0;
            if (here && (stopped_by < 0 || n_stop > strlen(stops[stopped_by]))) {
                stopped_by = (int)s;
                end = at - n_stop;
            }
        }
    uint64_t n_skip = next_random(seed) % 3 ? 0 : next_random(seed) % (end + 1);
    while (n_skip < end && (text[n_skip] & 0xC0) == 0x80)
        n_skip--; /* a stream only ever counts whole characters */
    struct run run;
    run_start(&run, stops, n_stops);
    halo_text_stream_skip(&run.stream, n_skip);
    for (size_t at = 0, n_piece; at < n; at += n_piece) {
        struct halo_span span;
        n_piece = next_random(seed) % 6;
        n_piece = n_piece > n - at ? n - at : n_piece;
        int outcome = halo_text_stream_feed(&run.stream, bytes + at, n_piece, &span);
        char again[4096];
        assert_int_equal(halo_text_sanitize(span.bytes, span.n, again),
                         span.n); /* what is released is valid by itself */
        run_take(&run, span, outcome);
    }
    take_finish(&run);
    assert_int_equal(run.stream.stopped_by, stopped_by);
    assert_int_equal(run.stopped, stopped_by < 0 ? 0 : HALO_TEXT_STOPPED);
    assert_int_equal(run.stream.released_bytes, end);
    assert_int_equal(run.stream.skip_bytes, 0);
    assert_int_equal(run.n, end - n_skip);
    assert_memory_equal(run.text, text + n_skip, run.n);
    halo_arena_finish(&run.arena);
}

static void test_random_streams(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "a", "b", "ab", "aba", "\n", "\xC3\xA9", "\xC3", "\xE2\x82", "\xAC", "\xF0\x9F\x98\x80", "\xFF"};
    static const char *const stops[] = {"abab", "\n\n", "b\xC3\xA9", "aaa", "\357\277\275a", "\xF0\x9F\x98\x80\n"};
    uint64_t seed = 7;
    size_t n_stopped = 0;
    for (int round = 0; round < 20000; round++) {
        char bytes[512];
        size_t n = 0;
        for (uint64_t left = next_random(&seed) % 60; left; left--) {
            const char *part = parts[next_random(&seed) % (sizeof parts / sizeof *parts)];
            memcpy(bytes + n, part, strlen(part));
            n += strlen(part);
        }
        size_t n_stops = next_random(&seed) % (sizeof stops / sizeof *stops + 1);
        check_against_model(bytes, n, stops, n_stops, &seed);
        n_stopped += n_stops > 0;
    }
    assert_true(n_stopped > 10000);
}

static void test_skip_inside_held(void **state)
{
    (void)state;
    static const char *const stops[] = {"END"};
    struct run run;
    run_start(&run, stops, 1);
    halo_text_stream_skip(&run.stream, 6);
    feed(&run, "abcE", "");
    feed(&run, "Nd", "");
    feed(&run, "ef", "ef");
    assert_int_equal(run.stream.released_bytes, 8);
    finish(&run, "");
    /* A resume that was promised more than there is: seen by the caller. */
    run_start(&run, NULL, 0);
    halo_text_stream_skip(&run.stream, 6);
    feed(&run, "abc", "");
    finish(&run, "");
    assert_int_equal(run.stream.skip_bytes, 3);
}

static void test_first_space(void **state)
{
    (void)state;
    struct halo_text_params params = {.max_piece_bytes = MAX_PIECE, .strip_first_space = true};
    static const char *const first[] = {" a", "a", "  a"};
    static const char *const shown[] = {"a b", "a b", " a b"};
    for (size_t i = 0; i < 3; i++) {
        struct run run = {0};
        halo_arena_init(&run.arena, 0);
        assert_int_equal(halo_text_stream_init(&run.stream, &run.arena, &params, NULL), 0);
        take_feed(&run, "", 0);
        take_feed(&run, first[i], strlen(first[i]));
        take_feed(&run, " b", 2);
        assert_string_equal(run.text, shown[i]);
        finish(&run, "");
    }
}

static void test_detokenize(void **state)
{
    (void)state;
    static const struct spm_token extra[] = {{"\xE2\x96\x81", -3, 1},
                                             {"a", -4, 1},
                                             {"\xE2\x96\x81"
                                              "a",
                                              -1, 1}};
    struct vocab_build build;
    struct halo_tokenizer *tokenizer;
    struct halo_fault fault;
    struct halo_arena arena;
    struct halo_span text;
    build_init(&build);
    build_spm(&build, extra, 3);
    assert_int_equal(build_tokenizer(&build, &tokenizer, &fault), 0);
    halo_arena_init(&arena, 0);
    static const int32_t ids[] = {1, BUILD_SPM_FIRST + 2, BUILD_SPM_FIRST + 2, 3 + 0xC3, 2};
    assert_int_equal(halo_text_detokenize(tokenizer, ids, 5, false, &arena, &text, &fault), 0);
    assert_int_equal(text.n, 6); /* the first space gone, the cut character replaced */
    assert_memory_equal(text.bytes, "a a\xEF\xBF\xBD", 6);
    assert_int_equal(halo_text_detokenize(tokenizer, ids, 5, true, &arena, &text, &fault), 0);
    assert_int_equal(text.n, 14);
    assert_memory_equal(text.bytes, "<s> a a\xEF\xBF\xBD</s>", 14);
    assert_int_equal(halo_text_detokenize(tokenizer, ids, 0, true, &arena, &text, &fault), 0);
    assert_int_equal(text.n, 0);
    static const int32_t outside[][2] = {{1, -1}, {1, BUILD_SPM_FIRST + 3}};
    for (int i = 0; i < 2; i++) {
        assert_true(halo_text_detokenize(tokenizer, outside[i], 2, false, &arena, &text, &fault) < 0);
        assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
        assert_non_null(
            strstr(fault.text, i ? "tokens[1] is 262, the vocabulary has ids 0 to 261" : "tokens[1] is -1"));
    }
    halo_arena_finish(&arena);
    halo_arena_init(&arena, 8);
    assert_true(halo_text_detokenize(tokenizer, ids, 5, true, &arena, &text, &fault) < 0);
    assert_int_equal(fault.code, HALO_FAULT_OUT_OF_MEMORY);
    halo_arena_finish(&arena);
    halo_tokenizer_destroy(tokenizer);
    build_finish(&build);
}

static void test_normalize(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
        size_t runs;
    } cases[] = {
        {"", "", 0},
        {"a", "a", 0},
        {"\n\n", "\n\n", 0},
        {"\n\n\n", "\n\n", 1},
        {"a\n\n\n\n\nb\n\nc\n\n\n", "a\n\nb\n\nc\n\n", 2},
        {"\n\n\r\n\n\n\n", "\n\n\r\n\n", 1},
        {"\n\n \n\n\n", "\n\n \n\n", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buffer[64];
        size_t n = 99;
        memcpy(buffer, cases[i].in, strlen(cases[i].in));
        assert_int_equal(halo_text_normalize(buffer, strlen(cases[i].in), buffer, &n), cases[i].runs); /* in place */
        assert_int_equal(n, strlen(cases[i].out));
        assert_memory_equal(buffer, cases[i].out, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_stop_across_tokens),
        cmocka_unit_test(test_stop_choice),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_fullest_buffer),
        cmocka_unit_test(test_random_streams),
        cmocka_unit_test(test_skip_inside_held),
        cmocka_unit_test(test_first_space),
        cmocka_unit_test(test_detokenize),
        cmocka_unit_test(test_normalize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
