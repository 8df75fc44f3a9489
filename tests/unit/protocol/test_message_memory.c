/* test_message_memory.c: who allocates and when, and what happens when the n-th allocation fails.
 *
 * The linker sends the library's malloc, realloc and free through the wrappers below.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <protocol/envelope.h>
#include <protocol/line.h>

#include "sample.h"

static long n_calls;   /* allocations so far */
static long n_live;    /* not yet freed */
static long fail_from; /* the call that fails, counted from 1; 0: none */
static bool fail_once;

void *__real_malloc(size_t n_bytes);
void *__real_realloc(void *at, size_t n_bytes);
void __real_free(void *at);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_realloc(void *at, size_t n_bytes);
void __wrap_free(void *at);

static bool fails(void)
{
    n_calls++;
    return fail_from && (fail_once ? n_calls == fail_from : n_calls >= fail_from);
}

void *__wrap_malloc(size_t n_bytes)
{
    void *at = fails() ? NULL : __real_malloc(n_bytes);

    n_live += at != NULL;
    return at;
}

void *__wrap_realloc(void *at, size_t n_bytes)
{
    void *moved = fails() ? NULL : __real_realloc(at, n_bytes);

    n_live += moved && !at;
    return moved;
}

void __wrap_free(void *at)
{
    n_live -= at != NULL;
    __real_free(at);
}

static void start_counting(long fail_at, bool once)
{
    n_calls = 0;
    n_live = 0;
    fail_from = fail_at;
    fail_once = once;
}

static void the_wrappers_are_in_place(void **state)
{
    struct halo_json w;

    start_counting(0, false);
    halo_json_init(&w);
    halo_json_null(&w);
    assert_int_equal(n_calls, 1);
    assert_int_equal(n_live, 1);
    halo_json_finish(&w);
    assert_int_equal(n_live, 0);
}

/* The events of the decode loop, in a buffer with room: not one allocation. */
static void hot_events_do_not_allocate(void **state)
{
    static const struct halo_top top[20] = {{1, -0.5}, {2, -1.25}, {3, -20.125}};
    struct halo_id id = halo_id_of_str(halo_str_of("client-17"));
    struct halo_json w;
    struct halo_ev ev;

    halo_json_init(&w);
    assert_int_equal(halo_json_reserve(&w, 64 << 10), 0);
    start_counting(0, false);
    for (int i = 0; i < 40; i++) {
        halo_ev_init(&ev, HALO_EV_COMMITTED, &id);
        ev.committed.tok_id = 1000 + i;
        ev.committed.pos = i;
        ev.committed.t_ms = 12.3456 * i;
        ev.committed.has_logprob = true;
        ev.committed.logprob = -1.0 / (i + 3);
        ev.committed.top = (struct halo_top_list){top, 20};
        assert_int_equal(halo_ev_encode(&w, &ev), 0);
        halo_ev_init(&ev, HALO_EV_TOKEN, &id);
        ev.token.text = halo_str_of(" once upon a \"time\"\n");
        assert_int_equal(halo_ev_encode(&w, &ev), 0);
        halo_ev_init(&ev, HALO_EV_PROGRESS, &id);
        ev.progress.phase = HALO_WIRE_PHASE_PREFILL;
        ev.progress.total = 100;
        assert_int_equal(halo_ev_encode(&w, &ev), 0);
    }
    assert_int_equal(n_calls, 0);
    assert_true(w.len > 10000);
    halo_json_finish(&w);
}

static void passing_on_does_not_allocate(void **state)
{
    static const char line[] = "{\"type\":\"committed\",\"id\":812,\"tok_id\":4711,\"pos\":3,\"t_ms\":12.345}";
    struct halo_id id = halo_id_of_str(halo_str_of("mine"));
    struct halo_envelope env;
    struct halo_json w;
    char buf[256];

    start_counting(0, false);
    halo_json_init_fixed(&w, buf, sizeof buf);
    assert_int_equal(halo_envelope_scan(line, sizeof line - 1, &env), 0);
    assert_int_equal(halo_envelope_rewrite(&w, line, &env, &id), 0);
    assert_int_equal(n_calls, 0);
}

/* Runs `work` with the first, the second, ... allocation failing, until none does. Each failure must be reported as
 * such and leave nothing behind. */
static void fail_each(int (*work)(void *), void *ud, long least)
{
    for (int once = 0; once < 2; once++) {
        long n = 0;

        for (;;) {
            int r;

            start_counting(++n, once);
            r = work(ud);
            assert_int_equal(n_live, 0);
            if (n_calls < n) {
                assert_int_equal(r, 0);
                break;
            }
            assert_int_equal(r, -ENOMEM);
        }
        assert_true(n > least);
    }
    start_counting(0, false);
}

struct text {
    const char *at;
    size_t len;
    bool event;
};

static int decode(void *ud)
{
    const struct text *text = ud;
    struct halo_refusal refusal;
    struct halo_msg msg;
    struct halo_ev ev;
    int r;

    if (text->event) {
        r = halo_ev_decode(&ev, text->at, text->len, HALO_EV_STRICT, &refusal);
        halo_ev_finish(&ev);
    } else {
        r = halo_msg_decode(&msg, text->at, text->len, HALO_ROLE_LINK, &refusal);
        halo_msg_finish(&msg);
    }
    if (r == -ENOMEM)
        assert_int_equal(refusal.code, HALO_ERROR_OUT_OF_MEMORY);
    return r;
}

static void decoding_survives(void **state)
{
    for (int type = 0; type < HALO_N_MSGS + HALO_N_EVS; type++) {
        struct text text = {.event = type >= HALO_N_MSGS};
        struct halo_json w;
        struct halo_msg msg;
        struct halo_ev ev;

        halo_json_init(&w);
        if (text.event) {
            sample_ev(&ev, (enum halo_ev_type)(type - HALO_N_MSGS), 1);
            assert_int_equal(halo_ev_encode(&w, &ev), 0);
        } else {
            sample_msg(&msg, (enum halo_msg_type)type, 1, 0);
            assert_int_equal(halo_msg_encode(&w, &msg), 0);
        }
        text.at = w.at;
        text.len = w.len - 1;
        fail_each(decode, &text, 1);
        halo_json_finish(&w);
    }
}

static int encode(void *ud)
{
    struct halo_json w;
    struct halo_json_mark before;
    int r;

    halo_json_init(&w);
    halo_json_bool(&w, true);
    r = halo_json_line_end(&w);
    before = halo_json_mark(&w);
    if (r == 0) {
        r = halo_msg_encode(&w, ud);
        if (r < 0) {
            assert_int_equal(w.len, before.len);
            assert_int_equal(w.error, 0);
        }
    }
    halo_json_finish(&w);
    return r;
}

static void encoding_survives(void **state)
{
    struct halo_msg msg;

    sample_msg(&msg, HALO_MSG_GENERATE, 1, 0);
    fail_each(encode, &msg, 3);
}

static int read_lines(void *ud)
{
    static const char piece[5000] = {'x'};
    struct halo_line_reader r;
    const char *line;
    size_t len;
    int rc = 0;

    halo_line_init(&r, 1u << 20);
    for (int i = 0; i < 100 && rc == 0; i++)
        rc = halo_line_feed(&r, piece, sizeof piece);
    if (rc == 0)
        rc = halo_line_feed(&r, "\nnext", 5);
    if (rc == 0) {
        assert_int_equal(halo_line_next(&r, &line, &len), 0);
        assert_int_equal(len, 100 * sizeof piece);
        /* Here the buffer is made smaller; that this may fail must not show. */
        assert_int_equal(halo_line_next(&r, &line, &len), HALO_LINE_E_MORE);
        assert_int_equal(halo_line_pending(&r), 4);
    }
    halo_line_finish(&r);
    return rc;
}

static void reading_lines_survives(void **state)
{
    long n;

    /* Not fail_each(): the last allocation only gives memory back, and its failure is no failure. */
    for (n = 1; n < 1000; n++) {
        int r;

        start_counting(n, true);
        r = read_lines(NULL);
        assert_int_equal(n_live, 0);
        if (n_calls < n)
            break;
        assert_true(r == 0 || r == -ENOMEM);
    }
    assert_true(n > 5 && n < 1000);
    start_counting(0, false);
}

#define TEMPLATE "{\"type\":\"template\",\"id\":1,\"model\":\"m\",\"messages\":[{\"role\":\"r\",\"content\":\"\"}],"

/* Many small values, keys and containers: whatever the mix, the block that the tree lives in is large enough (the
 * library asserts it). */
static void a_tree_is_one_block(void **state)
{
    static const char *const items[] = {"0,",
                                        "1.5,",
                                        "\"\",",
                                        "\"a\",",
                                        "{},",
                                        "[],",
                                        "[0],",
                                        "{\"\":0},",
                                        "{\"a\":{}},",
                                        "[[[[[[[[0]]]]]]]],",
                                        "null,",
                                        "[0,0,0,0,0,0,0,0,0],",
                                        "{\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8,\"9\":9},",
                                        "\"\\u0001\\u0001\\u0001\\ud83e\\udd8a\","};

    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        for (size_t n = 1; n <= 1000; n = n * 3 + 1) {
            struct halo_refusal refusal;
            struct halo_msg msg;
            char *line = malloc(200 + n * 80), *at = line;

            at = stpcpy(at, TEMPLATE "\"template_vars\":{\"a\":[");
            for (size_t k = 0; k < n; k++)
                at = stpcpy(at, items[i]);
            at[-1] = ']';
            strcpy(at, "}}");
            start_counting(0, false);
            assert_int_equal(halo_msg_decode(&msg, line, strlen(line), HALO_ROLE_CLIENT, &refusal), 0);
            halo_msg_finish(&msg);
            assert_int_equal(n_live, 0);
            free(line);
        }
    }
}

/* One object with very many keys, one very long string, one very long key. */
static void large_trees_fit(void **state)
{
    const size_t n = 60000;
    char *line = malloc(n * 16 + 200), *at;
    struct halo_refusal refusal;
    struct halo_msg msg;

    at = stpcpy(line, TEMPLATE "\"template_vars\":{");
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, "\"%zx\":0,", i);
    at[-1] = '}';
    strcpy(at, "}");
    assert_int_equal(halo_msg_decode(&msg, line, strlen(line), HALO_ROLE_CLIENT, &refusal), 0);
    assert_true(msg.template.has_template_vars);
    halo_msg_finish(&msg);

    for (int key = 0; key < 2; key++) {
        at = stpcpy(line, key ? "{\"" : "{\"type\":\"");
        memset(at, 'k', n * 10);
        at = stpcpy(at + n * 10, key ? "\":1}" : "\"}");
        assert_int_equal(halo_msg_decode(&msg, line, strlen(line), HALO_ROLE_CLIENT, &refusal), HALO_MSG_E_REFUSED);
        assert_int_equal(refusal.code, key ? HALO_ERROR_BAD_REQUEST : HALO_ERROR_UNKNOWN_TYPE);
    }
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wrappers_are_in_place),
        cmocka_unit_test(hot_events_do_not_allocate),
        cmocka_unit_test(passing_on_does_not_allocate),
        cmocka_unit_test(decoding_survives),
        cmocka_unit_test(encoding_survives),
        cmocka_unit_test(reading_lines_survives),
        cmocka_unit_test(a_tree_is_one_block),
        cmocka_unit_test(large_trees_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
