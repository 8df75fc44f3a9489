/* test_daemon_flow.c: readers and writers of every pace, many connections, and connections that end in every way. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;
static struct client client;

static void begin(const char *config)
{
    rig_start(&rig, config, NULL);
    client_connect(&client, &rig);
}

static void end(void)
{
    client_close(&client);
    rig_stop(&rig);
}

static long counter(const char *name)
{
    return client_counter(&client, name);
}

/* Requests that the engine still has, as the daemon sees it. */
static long n_in_engine(void)
{
    struct halo_ev ev;
    client_send(&client, "{\"type\":\"status\",\"id\":\"status\"}");
    do
        client_event(&client, &ev);
    while (ev.type != HALO_EV_STATUS);
    long n = (long)(ev.status.queue + ev.status.running);
    halo_ev_finish(&ev);
    return n;
}

static void wait_in_engine(long wanted)
{
    for (uint64_t end = rig_now_ms() + RIG_PATIENCE_MS; n_in_engine() != wanted; rig_sleep_ms(5))
        assert_true(rig_now_ms() < end);
}

static const char small_marks[] = "[limits]\noutput_high_bytes = 65536\noutput_low_bytes = 16384\nstall_ms = 30000\n";

/* The slow reader is paused; another's stream is as quick as ever; then the slow one gets every byte. */
static void slow_reader_pauses_itself(void **state)
{
    struct client slow;
    struct halo_ev ev;
    int64_t bytes = 0, next_pos = 0;
    begin(small_marks);
    client_connect(&slow, &rig);
    client_send(&slow, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=3000 size=1000\",\"emit_token_ids\":true}");
    client_wait_counter(&client, "pauses", 1);
    assert_int_equal(n_in_engine(), 1); /* paused, not ended */
    for (int i = 0; i < 5; i++)
        assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=50 size=100\"}", 1, NULL),
                         HALO_EV_DONE);
    long events = counter("events");
    rig_sleep_ms(200);
    assert_true(counter("events") - events <= 1); /* nothing was sent to it meanwhile */
    do {
        client_event(&slow, &ev);
        if (ev.type == HALO_EV_COMMITTED)
            assert_int_equal(ev.committed.pos, next_pos++);
        if (ev.type == HALO_EV_TOKEN)
            bytes += (int64_t)ev.token.text.len;
        halo_ev_finish(&ev);
    } while (next_pos + bytes < 3000 + 3000000);
    assert_int_equal(bytes, 3000000);
    assert_int_equal(next_pos, 3000);
    client_terminal(&slow, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_DONE);
    halo_ev_finish(&ev);
    client_close(&slow);
    end();
}

/* It never reads: its requests end with client_stalled, in the engine too; a load goes on without it; then it is
 * closed. */
static void stalled_reader_is_given_up(void **state)
{
    struct client slow;
    struct halo_ev ev;
    int n_stalled = 0;
    const char *line;
    size_t len;
    begin("[limits]\noutput_high_bytes = 65536\noutput_low_bytes = 16384\nstall_ms = 400\n");
    client_connect(&slow, &rig);
    client_send(&slow, "{\"type\":\"load\",\"id\":3,\"model\":\"slow-3000\"}");
    client_send(&slow, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"n=0 never=1\"}");
    client_send(&slow, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=30000 size=1000\"}");
    client_wait_counter(&client, "stalls", 1);
    wait_in_engine(1); /* the load */
    client_wait_counter(&client, "stalls", 2);
    while (client_line(&slow, &line, &len)) { /* what the socket still holds, then the end */
        struct halo_refusal refusal;
        assert_int_equal(halo_ev_decode(&ev, line, len, 0, &refusal), 0);
        n_stalled += ev.type == HALO_EV_ERROR && ev.error.code == HALO_ERROR_CLIENT_STALLED;
        halo_ev_finish(&ev);
    }
    assert_int_equal(n_stalled, 0); /* the end was cut off: nobody read */
    client_close(&slow);
    wait_in_engine(0);
    assert_int_equal(
        client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"slow-3000\",\"prompt\":\"\"}", 1, NULL),
        HALO_EV_DONE);
    end();
}

/* It stalls, and reads again in time to see why: each request's terminal event comes once, and the connection is
 * usable. */
static void stalled_reader_comes_back(void **state)
{
    struct client slow;
    struct halo_ev ev;
    int n_terminal = 0;
    begin("[limits]\noutput_high_bytes = 65536\noutput_low_bytes = 16384\nstall_ms = 1000\n");
    client_connect(&slow, &rig);
    client_send(&slow, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=30000 size=1000\"}");
    client_send(&slow, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"n=0 never=1\"}");
    client_wait_counter(&client, "stalls", 1);
    while (n_terminal < 2) {
        client_event(&slow, &ev);
        if (halo_ev_is_terminal(ev.type)) {
            assert_int_equal(ev.type, HALO_EV_ERROR);
            assert_int_equal(ev.error.code, HALO_ERROR_CLIENT_STALLED);
            n_terminal++;
        }
        halo_ev_finish(&ev);
    }
    assert_int_equal(client_ask(&slow, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    assert_true(client_is_quiet(&slow, 50));
    client_close(&slow);
    end();
}

/* Floods pings without reading: its input stops being read, the daemon's memory stays small, others are served. */
static void flood_is_held_back(void **state)
{
    static const char ping[] = "{\"type\":\"ping\",\"id\":\"0123456789012345678901234567890123456789\"}\n";
    struct client flood;
    size_t sent = 0;
    begin(small_marks);
    client_connect(&flood, &rig);
    for (int idle = 0; idle < 50 || counter("pauses") == 0;) {
        ssize_t n = send(flood.fd, ping, sizeof(ping) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            idle++;
            rig_sleep_ms(2);
            continue;
        }
        assert_int_equal(n, sizeof(ping) - 1);
        sent++;
        idle = 0;
        assert_true(sent < 200000);
    }
    assert_true(sent > 100);
    assert_int_equal(counter("pauses"), 1);
    const char *line;
    size_t len;
    for (size_t i = 0; i < sent; i++) /* all of them are answered once it reads */
        assert_true(client_line(&flood, &line, &len));
    client_close(&flood);
    end();
}

static void one_byte_at_a_time(void **state)
{
    static const char line[] = "{\"type\":\"ping\",\"id\":7}\n";
    struct halo_ev ev;
    struct client slow;
    begin("");
    client_connect(&slow, &rig);
    for (size_t i = 0; i + 1 < sizeof(line); i++) {
        assert_int_equal(send(slow.fd, line + i, 1, 0), 1);
        rig_sleep_ms(10);
        if (i % 5 == 0)
            assert_int_equal(client_ask(&client, "{\"type\":\"ping\",\"id\":1}", 1, NULL), HALO_EV_PONG);
    }
    client_event(&slow, &ev);
    assert_int_equal(ev.id.num, 7);
    halo_ev_finish(&ev);
    client_close(&slow);
    end();
}

/* Half a line, then gone. And nothing at all, then gone. */
static void leaves_in_the_middle(void **state)
{
    begin("");
    for (int i = 0; i < 20; i++) {
        struct client brief;
        client_connect(&brief, &rig);
        if (i % 2 == 0)
            assert_int_equal(send(brief.fd, "{\"type\":", 8, 0), 8);
        client_close(&brief);
    }
    client_wait_counter(&client, "connections", 21);
    end();
}

/* `printf ... | socat`: the client sends no more, but reads on: it gets everything, then the end. */
static void half_open_gets_its_answers(void **state)
{
    struct client half;
    struct halo_ev ev;
    const char *line;
    size_t len;
    begin("");
    client_connect(&half, &rig);
    client_send(&half, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=20 us=5000\"}");
    client_send(&half, "{\"type\":\"ping\",\"id\":2}");
    assert_int_equal(shutdown(half.fd, SHUT_WR), 0);
    client_terminal(&half, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_DONE);
    halo_ev_finish(&ev);
    assert_false(client_line(&half, &line, &len));
    client_close(&half);
    end();
}

/* Half open first, then really gone: noticed even when nothing is written to it. */
static void half_open_then_gone(void **state)
{
    struct client half;
    begin("");
    client_connect(&half, &rig);
    client_send(&half, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=0 never=1\"}");
    assert_int_equal(shutdown(half.fd, SHUT_WR), 0);
    wait_in_engine(1);
    client_close(&half);
    wait_in_engine(0);
    end();
}

/* A disconnect cancels what the connection had open, waiting, queued or running, and nobody else's. */
static void disconnect_cancels(void **state)
{
    struct halo_ev ev;
    begin("");
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=60 us=10000\"}");
    for (int round = 0; round < 10; round++) {
        struct client brief;
        client_connect(&brief, &rig);
        for (int i = 0; i < 8; i++)
            client_sendf(&brief, "{\"type\":\"generate\",\"id\":%d,\"prompt\":\"n=1000000 us=1000\"}", i);
        if (round % 2 == 0) {
            client_event(&brief, &ev);
            halo_ev_finish(&ev);
        }
        client_close(&brief);
    }
    client_terminal(&client, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_DONE);
    assert_int_equal(ev.done.finish_reason, HALO_WIRE_FINISH_LENGTH);
    halo_ev_finish(&ev);
    wait_in_engine(0);
    assert_int_equal(counter("disconnects"), 10);
    end();
}

static void wait_connections(int64_t wanted)
{
    struct halo_ev ev;
    for (int64_t have = -1; have != wanted; rig_sleep_ms(2)) {
        client_send(&client, "{\"type\":\"status\",\"id\":1}");
        client_terminal(&client, 1, &ev);
        have = ev.status.connections;
        halo_ev_finish(&ev);
    }
}

/* 256 connections, each with its stream, at once; the 257th is told, and the first ones still work. */
static void full_house(void **state)
{
    enum { N = 256 };
    static struct client all[N];
    struct client extra;
    struct halo_ev ev;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < N + 64) {
        limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    begin("");
    wait_connections(1); /* the one that found out whether it listens is gone */
    all[0] = client;
    for (int i = 0; i < N; i++) {
        if (i > 0)
            client_connect(&all[i], &rig);
        client_sendf(&all[i], "{\"type\":\"generate\",\"id\":%d,\"prompt\":\"n=20 us=3000 size=%d\"}", i, i);
    }
    client_connect(&extra, &rig);
    client_event(&extra, &ev);
    assert_int_equal(ev.type, HALO_EV_ERROR);
    assert_int_equal(ev.error.code, HALO_ERROR_TOO_MANY_REQUESTS);
    halo_ev_finish(&ev);
    const char *line;
    size_t len;
    assert_false(client_line(&extra, &line, &len));
    client_close(&extra);
    for (int i = 0; i < N; i++) {
        client_terminal(&all[i], i, &ev);
        assert_int_equal(ev.type, HALO_EV_DONE);
        halo_ev_finish(&ev);
        assert_true(client_is_quiet(&all[i], 0));
    }
    for (int i = 1; i < N; i++)
        client_close(&all[i]);
    client = all[0];
    assert_int_equal(client_ask(&client, "{\"type\":\"ping\",\"id\":1}", 1, NULL), HALO_EV_PONG);
    end();
}

/* No descriptors left: accepting pauses instead of spinning, and goes on when there are some again. */
static void descriptors_run_out(void **state)
{
    struct client held[40];
    struct rlimit small = {48, 48}; /* the loop, the engine's pipes, stderr and what is spare take about 28 */
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    rig_start(&rig, "", NULL);
    client_connect(&client, &rig);
    assert_int_equal(client_ask(&client, "{\"type\":\"ping\",\"id\":1}", 1, NULL), HALO_EV_PONG);
    assert_int_equal(prlimit(rig.pid, RLIMIT_NOFILE, &small, NULL), 0);
    for (int i = 0; i < 40; i++)
        client_connect(&held[i], &rig); /* the backlog takes those that it cannot */
    client_wait_counter(&client, "accept_pauses", 1);
    long pauses = counter("accept_pauses");
    rig_sleep_ms(500);
    assert_true(counter("accept_pauses") - pauses < 10); /* about every 100 ms */
    for (int i = 0; i < 20; i++)
        client_close(&held[i]);
    for (int i = 20; i < 40; i++)
        assert_int_equal(client_ask(&held[i], "{\"type\":\"ping\",\"id\":1}", 1, NULL), HALO_EV_PONG);
    for (int i = 20; i < 40; i++)
        client_close(&held[i]);
    end();
}

/* All taken, and then the engine dies: its successor still gets what it needs, not those who wait at the door. */
static void descriptors_for_the_next_engine(void **state)
{
    struct client held[60];
    struct rlimit small = {56, 56};
    struct halo_ev ev;
    rig_start(&rig, "[engine]\nbreaker_deaths = 3\n", NULL);
    client_connect(&client, &rig);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    assert_int_equal(prlimit(rig.pid, RLIMIT_NOFILE, &small, NULL), 0);
    for (int i = 0; i < 60; i++)
        client_connect(&held[i], &rig);
    client_wait_counter(&client, "accept_pauses", 1);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=300 us=2000 size=1\"}");
    client_event(&client, &ev);
    halo_ev_finish(&ev);
    for (int i = 0; i < 3; i++) {
        int starts = rig_engine_starts(&rig);
        assert_int_equal(kill(rig_engine_pid(&rig), SIGKILL), 0);
        for (uint64_t until = rig_now_ms() + RIG_PATIENCE_MS; rig_engine_starts(&rig) == starts; rig_sleep_ms(10))
            assert_true(rig_now_ms() < until);
        rig_sleep_ms(150); /* time for the door to take what was freed */
    }
    client_terminal(&client, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_DONE);
    halo_ev_finish(&ev);
    for (int i = 0; i < 60; i++)
        client_close(&held[i]);
    end();
}

/* Who reads a byte now and then is as slow as who reads nothing: the time does not begin anew with each byte. */
static void a_byte_now_and_then_is_no_reading(void **state)
{
    struct client slow, other;
    struct stream stream = {.id = 2, .size = 4};
    char byte;
    begin("[limits]\nstall_ms = 600\noutput_high_bytes = 65536\noutput_low_bytes = 16384\n");
    client_connect(&slow, &rig);
    client_connect(&other, &rig);
    client_send(&slow, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=100000 size=10000\"}");
    client_send(&other, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"n=100 us=3000\",\"emit_token_ids\":true}");
    for (uint64_t until = rig_now_ms() + RIG_PATIENCE_MS; counter("stalls") == 0; rig_sleep_ms(10)) {
        assert_true(rig_now_ms() < until);
        assert_int_equal(recv(slow.fd, &byte, 1, 0), 1);
    }
    streams_read(&other, &stream, 1);
    assert_int_equal(stream.n_ids, 100); /* nobody else was slower for it */
    halo_ev_finish(&stream.end);
    client_close(&other);
    client_close(&slow);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_reader_pauses_itself),
        cmocka_unit_test(stalled_reader_is_given_up),
        cmocka_unit_test(stalled_reader_comes_back),
        cmocka_unit_test(flood_is_held_back),
        cmocka_unit_test(one_byte_at_a_time),
        cmocka_unit_test(leaves_in_the_middle),
        cmocka_unit_test(half_open_gets_its_answers),
        cmocka_unit_test(half_open_then_gone),
        cmocka_unit_test(disconnect_cancels),
        cmocka_unit_test(full_house),
        cmocka_unit_test(descriptors_run_out),
        cmocka_unit_test(descriptors_for_the_next_engine),
        cmocka_unit_test(a_byte_now_and_then_is_no_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
