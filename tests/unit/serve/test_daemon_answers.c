/* test_daemon_answers.c: what halod answers: envelope, errors, ids, limits, queries, streams, cancel, loads, who may
 * name files. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;
static struct client client;

static int begin(void **state)
{
    rig_start(&rig, "", NULL);
    client_connect(&client, &rig);
    return 0;
}

static int end(void **state)
{
    client_close(&client);
    rig_stop(&rig);
    return 0;
}

static void expect_error(const char *line, int64_t id, enum halo_error wanted)
{
    enum halo_error code;
    assert_int_equal(client_ask(&client, line, id, &code), HALO_EV_ERROR);
    if (code != wanted)
        fail_msg("%s: %s instead of %s", line, halo_error_name(code), halo_error_name(wanted));
}

/* The next line is an error without an id. */
static void expect_loose_error(enum halo_error wanted)
{
    struct halo_ev ev;
    client_event(&client, &ev);
    assert_int_equal(ev.type, HALO_EV_ERROR);
    assert_int_equal(ev.id.kind, HALO_ID_NONE);
    assert_int_equal(ev.error.code, wanted);
    halo_ev_finish(&ev);
}

static void answers_by_itself(void **state)
{
    struct halo_ev ev;
    client_send(&client, "{\"type\":\"ping\"}\r");
    client_event(&client, &ev);
    assert_int_equal(ev.type, HALO_EV_PONG);
    assert_int_equal(ev.id.kind, HALO_ID_NONE);
    halo_ev_finish(&ev);
    client_send(&client, "{\"type\":\"hello\",\"id\":\"\\u00e9\\n\"}");
    client_event(&client, &ev);
    assert_int_equal(ev.type, HALO_EV_HELLO);
    assert_true(halo_str_is(ev.id.str, "\xc3\xa9\n"));
    assert_int_equal(ev.hello.protocol, 1);
    assert_int_equal(ev.hello.limits.open_requests, 32);
    assert_int_equal(ev.hello.features.n, 1); /* the engine's, waited for */
    halo_ev_finish(&ev);
}

static void stays_usable_after_errors(void **state)
{
    client_send(&client, "this is no JSON");
    expect_loose_error(HALO_ERROR_BAD_JSON);
    client_send(&client, "[1,2]");
    expect_loose_error(HALO_ERROR_BAD_REQUEST);
    client_send(&client, "");
    expect_error("{\"type\":\"frobnicate\",\"id\":1}", 1, HALO_ERROR_UNKNOWN_TYPE);
    expect_error("{\"type\":\"pause\",\"id\":2,\"target\":1}", 2, HALO_ERROR_UNKNOWN_TYPE);
    expect_error("{\"type\":\"generate\",\"id\":3,\"prompt\":\"x\",\"max_token\":4}", 3, HALO_ERROR_BAD_REQUEST);
    expect_error("{\"type\":\"generate\",\"id\":3,\"prompt\":\"x\",\"resume\":{}}", 3, HALO_ERROR_BAD_REQUEST);
    expect_error("{\"type\":\"cancel\",\"id\":4,\"target\":99}", 4, HALO_ERROR_NOT_FOUND);
    client_send(&client, "{\"type\":\"generate\",\"prompt\":\"x\"}"); /* may not go without an id */
    expect_loose_error(HALO_ERROR_BAD_REQUEST);
    assert_int_equal(client_ask(&client, "{\"type\":\"ping\",\"id\":5}", 5, NULL), HALO_EV_PONG);
}

static void drops_long_lines(void **state)
{
    size_t n = (8u << 20) + 10;
    char *line = malloc(n + 1);
    assert_non_null(line);
    memset(line, 'x', n);
    line[n] = '\0';
    /* As long as a line may be; with what it gets here it is longer, and goes to the engine all the same. */
    memcpy(line, "{\"type\":\"generate\",\"id\":9,\"prompt\":\"", 36);
    strcpy(line + (8u << 20) - 2, "\"}");
    assert_int_equal(client_ask(&client, line, 9, NULL), HALO_EV_DONE);
    memset(line, 'x', n);
    line[n] = '\0';
    client_send(&client, line);
    expect_loose_error(HALO_ERROR_LINE_TOO_LONG);
    assert_int_equal(client_ask(&client, "{\"type\":\"ping\",\"id\":5}", 5, NULL), HALO_EV_PONG);
    free(line);
}

/* Events of several requests, each in its order, each under its own id, ids only where asked for. */
static void streams_side_by_side(void **state)
{
    struct halo_ev ev;
    int n_done = 0, n_ids = 0;
    int64_t next_pos = 0, text_bytes[3] = {0};
    client_send(&client,
                "{\"type\":\"generate\",\"id\":0,\"prompt\":\"n=40 size=3\",\"emit_token_ids\":true,\"seed\":5}");
    client_send(&client, "{\"type\":\"generate\",\"id\":\"one\",\"prompt\":\"n=30 size=5\"}");
    client_send(&client, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"n=20 size=7\"}");
    while (n_done < 3) {
        client_event(&client, &ev);
        size_t which = ev.id.kind == HALO_ID_STR ? 1 : (size_t)ev.id.num;
        assert_true(which < 3);
        if (ev.type == HALO_EV_STARTED && which == 0)
            assert_int_equal(ev.started.seed, 5);
        if (ev.type == HALO_EV_COMMITTED) {
            assert_int_equal(which, 0);
            assert_int_equal(ev.committed.pos, next_pos++);
            n_ids++;
        }
        if (ev.type == HALO_EV_TOKEN)
            text_bytes[which] += (int64_t)ev.token.text.len;
        n_done += ev.type == HALO_EV_DONE;
        halo_ev_finish(&ev);
    }
    assert_int_equal(n_ids, 40);
    assert_int_equal(text_bytes[0], 120);
    assert_int_equal(text_bytes[1], 150);
    assert_int_equal(text_bytes[2], 140);
    assert_true(client_is_quiet(&client, 100));
}

/* The seeds that the daemon draws: reported, not the same twice, and kept by JSON readers that have only doubles. */
static void draws_seeds(void **state)
{
    int64_t seeds[8];
    for (int i = 0; i < 8; i++) {
        struct halo_ev ev;
        client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}");
        client_event(&client, &ev);
        assert_int_equal(ev.type, HALO_EV_STARTED);
        seeds[i] = ev.started.seed;
        assert_true(seeds[i] >= 0 && seeds[i] < (int64_t)1 << 53);
        halo_ev_finish(&ev);
        client_terminal(&client, 1, &ev);
        halo_ev_finish(&ev);
    }
    assert_true(seeds[0] != seeds[1]);
}

static void refuses_duplicate_ids(void **state)
{
    struct client other;
    client_send(&client, "{\"type\":\"generate\",\"id\":\"a\",\"prompt\":\"never=1\"}");
    client_send(&client, "{\"type\":\"ping\",\"id\":\"\\u0061\"}");
    struct halo_ev ev;
    do {
        client_event(&client, &ev);
        bool refused = ev.type == HALO_EV_ERROR;
        if (refused)
            assert_int_equal(ev.error.code, HALO_ERROR_DUPLICATE_ID);
        halo_ev_finish(&ev);
        if (refused)
            break;
    } while (true);
    client_connect(&other, &rig); /* of another connection it is fine */
    client_send(&other, "{\"type\":\"ping\",\"id\":\"a\"}");
    client_event(&other, &ev);
    assert_int_equal(ev.type, HALO_EV_PONG);
    halo_ev_finish(&ev);
    client_close(&other);
}

static void cancels(void **state)
{
    struct halo_ev ev;
    bool answered = false;
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=100000 us=2000\"}");
    client_event(&client, &ev);
    halo_ev_finish(&ev);
    client_event(&client, &ev);
    halo_ev_finish(&ev);
    client_send(&client, "{\"type\":\"cancel\",\"id\":2,\"target\":1}");
    for (bool done = false; !done;) {
        client_event(&client, &ev);
        if (ev.type == HALO_EV_CANCELLED) {
            assert_int_equal(ev.id.num, 2);
            assert_int_equal(ev.cancelled.target.num, 1);
            assert_true(halo_str_is(ev.cancelled.was, "decode"));
            answered = true;
        }
        if (ev.type == HALO_EV_DONE) {
            assert_int_equal(ev.id.num, 1);
            assert_int_equal(ev.done.finish_reason, HALO_WIRE_FINISH_CANCELLED);
            done = true;
        }
        halo_ev_finish(&ev);
    }
    assert_true(answered);
    expect_error("{\"type\":\"cancel\",\"id\":3,\"target\":1}", 3, HALO_ERROR_NOT_FOUND);
    assert_true(client_is_quiet(&client, 50));
}

static void limits_open_requests(void **state)
{
    struct client other;
    struct halo_ev ev;
    for (int i = 0; i < 32; i++)
        client_sendf(&client, "{\"type\":\"generate\",\"id\":%d,\"prompt\":\"n=0 never=1\"}", i);
    expect_error("{\"type\":\"generate\",\"id\":100,\"prompt\":\"\"}", 100, HALO_ERROR_TOO_MANY_REQUESTS);
    assert_int_equal(client_ask(&client, "{\"type\":\"ping\",\"id\":101}", 101, NULL), HALO_EV_PONG);
    client_connect(&other, &rig); /* nobody else is hurt */
    client_send(&other, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}");
    client_terminal(&other, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_DONE);
    halo_ev_finish(&ev);
    client_close(&other);
}

static void merges_status_and_stats(void **state)
{
    struct halo_ev ev;
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"m\"}", 1, NULL), HALO_EV_LOADED);
    client_send(&client, "{\"type\":\"status\"}");
    client_event(&client, &ev);
    assert_int_equal(ev.type, HALO_EV_STATUS);
    assert_true(halo_str_is(ev.status.engine.state, "ready"));
    assert_true(halo_str_is(ev.status.engine.device, "fake device"));
    assert_true(halo_str_is(ev.status.engine.phase, "answering")); /* of now, not of the last heartbeat */
    assert_int_equal(ev.status.engine.pid, rig_engine_pid(&rig));
    assert_int_equal(ev.status.engine.restarts, 0);
    assert_int_equal(ev.status.models.n, 1);
    assert_int_equal(ev.status.queue + ev.status.running, 0);
    assert_int_equal(ev.status.connections, 1);
    assert_non_null(strstr(ev.status.more.at, "\"engine_answered\":true"));
    halo_ev_finish(&ev);
    client_send(&client, "{\"type\":\"stats\"}");
    client_event(&client, &ev);
    assert_int_equal(ev.type, HALO_EV_STATS);
    assert_non_null(strstr(ev.stats.counters.at, "\"engine_starts\":1"));
    assert_non_null(strstr(ev.stats.engine.at, "\"steps\":7"));
    halo_ev_finish(&ev);
}

static void loads_outlive_their_client(void **state)
{
    struct client other;
    client_connect(&other, &rig);
    client_send(&other, "{\"type\":\"load\",\"id\":1,\"model\":\"slow-300\"}");
    rig_wait_log(&rig, "engine: loading slow-300");
    client_close(&other);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"slow-300\",\"prompt\":\"\"}");
    struct halo_ev ev;
    client_terminal(&client, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_DONE); /* it waited for that load */
    halo_ev_finish(&ev);
    assert_int_equal(rig_log_count(&rig, "engine: loading slow-300"), 1);
}

/* A peer of another user names models, not files. Needs root, to become somebody else. */
static int ask_as_stranger(void)
{
    static const struct {
        const char *line;
        enum halo_error wanted;
    } cases[] = {
        {"{\"type\":\"load\",\"id\":1,\"model\":\"/etc/passwd\"}", HALO_ERROR_NOT_FOUND},
        {"{\"type\":\"load\",\"id\":1,\"model\":\"../m\"}", HALO_ERROR_NOT_FOUND},
        {"{\"type\":\"plan\",\"id\":1,\"path\":\"m\"}", HALO_ERROR_NOT_FOUND},
        {"{\"type\":\"generate\",\"id\":1,\"model\":\"a/b\",\"prompt\":\"\"}", HALO_ERROR_NOT_FOUND},
        {"{\"type\":\"load\",\"id\":1,\"model\":\"m\"}", HALO_ERROR_NONE},
    };
    if (setuid(12345) != 0)
        return 90;
    struct client stranger;
    client_connect(&stranger, &rig);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum halo_error code;
        client_ask(&stranger, cases[i].line, 1, &code);
        if (code != cases[i].wanted)
            return (int)i + 1;
    }
    return 0;
}

static void strangers_name_no_files(void **state)
{
    int status;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(rig.dir, 0755), 0);
    assert_int_equal(chmod(rig.socket_path, 0666), 0);
    enum halo_error code; /* the daemon's own user may: the fake engine takes any name */
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"/etc/passwd\"}", 1, &code),
                     HALO_EV_LOADED);
    pid_t pid = fork();
    if (pid == 0)
        _exit(ask_as_stranger());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void emits_ids_for_all(void **state)
{
    static const char *const env[] = {"HALO_EMIT_TOKEN_IDS=1", NULL};
    struct halo_ev ev;
    int n_ids = 0;
    rig_start(&rig, "", env);
    client_connect(&client, &rig);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=6\"}");
    do {
        client_event(&client, &ev);
        n_ids += ev.type == HALO_EV_COMMITTED;
        halo_ev_finish(&ev);
    } while (n_ids < 6);
    assert_int_equal(n_ids, 6);
    client_close(&client);
    rig_stop(&rig);
}

static void limits_queue_and_lines(void **state)
{
    struct halo_ev ev;
    char big[3000];
    rig_start(&rig, "[limits]\nqueued_requests = 2\nresume_user_bytes = 4096\nresume_bytes = 5000\n", NULL);
    client_connect(&client, &rig);
    /* Two loads that take their time are queued, as far as anybody knows. */
    client_send(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"slow-60000\"}");
    client_send(&client, "{\"type\":\"load\",\"id\":2,\"model\":\"slow-60001\"}");
    expect_error("{\"type\":\"load\",\"id\":3,\"model\":\"m\"}", 3, HALO_ERROR_QUEUE_FULL);
    client_send(&client, "{\"type\":\"cancel\",\"id\":4,\"target\":1}");
    client_terminal(&client, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_DONE);
    halo_ev_finish(&ev);
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    client_sendf(&client, "{\"type\":\"generate\",\"id\":5,\"prompt\":\"never=1 %s\"}", big);
    client_event(&client, &ev);
    assert_int_equal(ev.type, HALO_EV_STARTED);
    halo_ev_finish(&ev);
    client_sendf(&client, "{\"type\":\"generate\",\"id\":6,\"prompt\":\"never=1 %s\"}", big);
    client_terminal(&client, 6, &ev);
    assert_int_equal(ev.type, HALO_EV_ERROR);
    assert_int_equal(ev.error.code, HALO_ERROR_TOO_MANY_REQUESTS);
    halo_ev_finish(&ev);
    /* Half a line counts too: the rest of the share is 1 KiB, this takes more. It is dropped up to its newline. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(write(client.fd, big, 2000), 2000);
        bool refused = false;
        while (!refused) {
            client_event(&client, &ev);
            refused = ev.type == HALO_EV_ERROR;
            if (refused)
                assert_int_equal(ev.error.code, HALO_ERROR_TOO_MANY_REQUESTS);
            halo_ev_finish(&ev);
        }
        assert_int_equal(write(client.fd, big, 2000), 2000); /* thrown away, not said again */
        client_send(&client, "\n{\"type\":\"ping\",\"id\":9}");
        client_terminal(&client, 9, &ev);
        assert_int_equal(ev.type, HALO_EV_PONG);
        halo_ev_finish(&ev);
    }
    client_close(&client);
    rig_stop(&rig);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(answers_by_itself),
        CASE(stays_usable_after_errors),
        CASE(drops_long_lines),
        CASE(streams_side_by_side),
        CASE(draws_seeds),
        CASE(refuses_duplicate_ids),
        CASE(cancels),
        CASE(limits_open_requests),
        CASE(merges_status_and_stats),
        CASE(loads_outlive_their_client),
        CASE(strangers_name_no_files),
        cmocka_unit_test(emits_ids_for_all),
        cmocka_unit_test(limits_queue_and_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
