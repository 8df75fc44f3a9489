/* test_daemon_users.c: the hostile neighbour. Whatever user A does, user B gets its connection, its answers and its
 * place in the queue. No bound here is a time: what counts is who is answered, with what, and before whom. Users are
 * stated by the name of a client's socket: needs a build with -Dinject=true.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

#define A 1001
#define B 1002
#define MOST 256

static struct rig rig;
static struct client a[MOST], b;
static size_t n_a;

static const char *const env[] = {"HALO_INJECT_UIDS=1", NULL};

static void begin(const char *config)
{
    rig_start(&rig, config, env);
    n_a = 0;
}

static void end(void)
{
    while (n_a > 0)
        client_close(&a[--n_a]);
    client_close(&b);
    rig_stop(&rig);
}

static struct client *connect_a(void)
{
    client_connect_as(&a[n_a], &rig, A, "");
    return &a[n_a++];
}

/* B is served: a ping, and a reply to its end. */
static void b_is_served(void)
{
    struct stream stream = {.id = 2, .size = 4};
    assert_int_equal(client_ask(&b, "{\"type\":\"ping\",\"id\":1}", 1, NULL), HALO_EV_PONG);
    client_send(&b, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"n=20\",\"emit_token_ids\":true}");
    streams_read(&b, &stream, 1);
    assert_int_equal(stream.terminal, HALO_EV_DONE);
    assert_int_equal(stream.n_ids, 20);
    halo_ev_finish(&stream.end);
}

static void silent_connections(void **state)
{
    struct halo_ev ev;
    begin("[limits]\nconnections = 64\n");
    for (int i = 0; i < 64; i++)
        connect_a();
    client_connect_as(&b, &rig, B, "");
    b_is_served();
    client_event(&a[63], &ev); /* half of the 60 that are not reserved were its share */
    assert_int_equal(ev.type, HALO_EV_ERROR);
    assert_int_equal(ev.error.code, HALO_ERROR_TOO_MANY_REQUESTS);
    halo_ev_finish(&ev);
    end();
}

static void a_full_queue(void **state)
{
    enum halo_error code;
    long n_refused = 0;
    begin("[daemon]\ndrain_ms = 100\n[limits]\nqueued_requests = 64\n");
    /* The first one is never done with its load: the others wait in the engine and here. */
    for (int c = 0; c < 4; c++) {
        struct client *client = connect_a();
        for (int i = 1; i <= 32; i++)
            client_sendf(client, "{\"type\":\"generate\",\"id\":%d,\"model\":\"slow-600000\",\"prompt\":\"n=1\"}", i);
        assert_int_equal(client_ask(client, "{\"type\":\"ping\",\"id\":99}", 99, NULL), HALO_EV_PONG);
    }
    client_connect_as(&b, &rig, B, "");
    b_is_served();
    assert_int_equal(client_ask(&a[0], "{\"type\":\"models\",\"id\":100}", 100, &code), HALO_EV_ERROR);
    n_refused += code == HALO_ERROR_QUEUE_FULL || code == HALO_ERROR_TOO_MANY_REQUESTS;
    assert_int_equal(n_refused, 1);
    end();
}

/* 60 connections that do not read: what they leave unread is bounded, and B's reply comes. */
static void readers_that_never_read(void **state)
{
    begin("[limits]\noutput_user_bytes = 35000000\noutput_bytes = 80000000\n");
    for (int c = 0; c < 60; c++)
        client_send(connect_a(), "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=100000 size=60000\"}");
    client_connect_as(&b, &rig, B, "");
    client_wait_counter(&b, "output_refused", 1);
    b_is_served();
    client_send(&b, "{\"type\":\"status\",\"id\":7}");
    struct halo_ev ev;
    client_terminal(&b, 7, &ev);
    assert_int_equal(ev.type, HALO_EV_STATUS);
    const char *at = strstr(ev.status.more.at, "\"unread_event_bytes\":");
    assert_non_null(at);
    assert_true(atoll(at + strlen("\"unread_event_bytes\":")) <= 35000000 + 60 * 4096);
    halo_ev_finish(&ev);
    end();
}

static void a_flood_of_questions(void **state)
{
    long n_answers = 0;
    begin("");
    for (int c = 0; c < 8; c++) {
        struct client *client = connect_a();
        for (int i = 1; i <= 2000; i++)
            client_sendf(client, i % 2 == 0 ? "{\"type\":\"models\",\"id\":%d}" : "{\"type\":\"nonsense\",\"id\":%d}",
                         i);
        n_answers += 2000;
    }
    client_connect_as(&b, &rig, B, "");
    b_is_served();
    for (int c = 0; c < 8; c++) /* nothing of it is lost */
        for (int i = 0; i < 2000; i++, n_answers--) {
            struct halo_ev ev;
            client_event(&a[c], &ev);
            halo_ev_finish(&ev);
        }
    assert_int_equal(n_answers, 0);
    end();
}

/* What concerns others: who may do it. */
static void what_is_for_administrators(void **state)
{
    static const char *const lines[] = {
        "{\"type\":\"bench\",\"id\":1,\"model\":\"m\"}",
        "{\"type\":\"diag\",\"id\":1}",
        "{\"type\":\"unload\",\"id\":1,\"model\":\"m\"}",
        "{\"type\":\"load\",\"id\":1,\"model\":\"m\",\"params\":{\"pin\":true}}",
        "{\"type\":\"load\",\"id\":1,\"model\":\"m\",\"params\":{\"keep_alive_s\":1}}",
    };
    struct client admin;
    enum halo_error code;
    begin("");
    client_connect_as(&b, &rig, B, "");
    client_connect_as(&admin, &rig, 1003, "admin-");
    assert_int_equal(client_ask(&b, "{\"type\":\"load\",\"id\":1,\"model\":\"m\",\"params\":{\"pin\":true}}", 1, NULL),
                     HALO_EV_LOADED);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(client_ask(connect_a(), lines[i], 1, &code), HALO_EV_ERROR);
        assert_int_equal(code, HALO_ERROR_FORBIDDEN);
    }
    assert_int_equal(client_ask(&a[0], "{\"type\":\"load\",\"id\":1,\"model\":\"m\"}", 1, NULL), HALO_EV_LOADED);
    assert_int_equal(client_ask(&admin, lines[4], 1, NULL), HALO_EV_LOADED);
    assert_int_equal(client_ask(&b, lines[3], 1, NULL), HALO_EV_LOADED); /* its own */
    assert_int_equal(client_ask(&b, lines[2], 1, NULL), HALO_EV_UNLOADED);
    assert_int_equal(client_ask(&a[0], "{\"type\":\"generate\",\"id\":1,\"model\":\"m\",\"prompt\":\"n=1\"}", 1, NULL),
                     HALO_EV_DONE); /* loads it */
    assert_int_equal(client_ask(&b, lines[2], 1, &code), HALO_EV_ERROR);
    assert_int_equal(client_ask(&a[0], lines[2], 1, NULL), HALO_EV_UNLOADED);
    client_close(&admin);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_connections),         cmocka_unit_test(a_full_queue),
        cmocka_unit_test(readers_that_never_read),    cmocka_unit_test(a_flood_of_questions),
        cmocka_unit_test(what_is_for_administrators),
    };
    const char *inject = getenv("HALO_TEST_INJECT");
    if (!inject || strcmp(inject, "1") != 0) {
        fprintf(stderr, "skipped: built without -Dinject=true\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
