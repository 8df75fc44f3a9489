/* test_daemon_death.c: the engine dies, hangs, babbles, never comes up: open requests go on with the next engine or end
 * exactly once, the daemon answers meanwhile, a new engine has the models back, and the next request works. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "rig.h"

static const char quick[] = "[engine]\nheartbeat_ms = 2000\nstep_ms = 30000\nwait_ms = 60000\n";

static struct rig rig;
static struct client client, other;

static void begin(const char *config, const char *const *env)
{
    rig_begin(&rig, &client, &other, config, env);
}
static void end(void)
{
    rig_end(&rig, &client, &other);
}

/* Whatever becomes of the engine: requests would wait a minute for it. */
static void ping(struct client *who)
{
    struct halo_ev ev;
    uint64_t before = rig_now_ms();
    client_send(who, "{\"type\":\"ping\",\"id\":\"p\"}");
    for (bool answered = false; !answered;) {
        client_event(who, &ev);
        answered = ev.type == HALO_EV_PONG;
        halo_ev_finish(&ev);
    }
    assert_true(rig_now_ms() - before < 10000);
}

/* `fault` happens in request 1; request 2 of the same client and request 3 of another one are open too. All go on with
 * the next engine. */
static void all_go_on(const char *fault, const char *logged)
{
    struct stream mine[2] = {{.id = 1, .size = 4}, {.id = 2, .size = 4}}, others = {.id = 3, .size = 4};
    struct halo_ev ev;
    rig_engine_pid(&rig); /* there is one */
    int starts = rig_engine_starts(&rig);
    client_sendf(&other, "{\"type\":\"generate\",\"id\":3,\"prompt\":\"n=100 from=%d\",\"emit_token_ids\":true}",
                 starts + 1);
    client_event(&other, &ev);
    assert_true(ev.type == HALO_EV_STARTED && stream_take(&others, &ev));
    client_sendf(&client, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"n=50 from=%d\",\"logprobs\":1}", starts + 1);
    client_sendf(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=8 %s\",\"emit_token_ids\":true}", fault);
    streams_read(&client, mine, 2);
    ping(&client);
    streams_read(&other, &others, 1);
    for (int i = 0; i < 3; i++) {
        struct stream *stream = i < 2 ? &mine[i] : &others;
        long n = i == 0 ? 8 : i == 1 ? 50 : 100;
        assert_int_equal(stream->terminal, HALO_EV_DONE);
        assert_int_equal(stream->end.done.tokens, n);
        assert_int_equal(stream->n_ids, n);
        assert_int_equal(stream->n_text, 4 * n);
        assert_int_equal(stream->n_started, 1);
        assert_true(stream->n_notices <= 1);
        halo_ev_finish(&stream->end);
    }
    assert_int_equal(others.n_notices, 1);
    assert_int_equal(mine[0].n_notices, 1);
    assert_int_equal(rig_engine_starts(&rig), starts + 1);
    assert_true(client_is_quiet(&client, 20));
    assert_true(client_is_quiet(&other, 20));
    if (logged && !rig_log_has(&rig, logged))
        fail_msg("the log does not say '%s'", logged);
}

/* Death after every event of a short reply: 1 started, 2 per token, and the last ones before done. */
static void dies_at_any_moment(void **state)
{
    char fault[32];
    begin(quick, NULL);
    for (int k = 1; k <= 17; k++) {
        snprintf(fault, sizeof(fault), "die=%d", k);
        all_go_on(fault, "was killed by signal 9");
    }
    end();
}

static void is_killed_from_outside(void **state)
{
    begin(quick, NULL);
    for (int i = 0; i < 5; i++) {
        struct stream stream = {.id = 1, .size = 4};
        struct halo_ev ev;
        pid_t engine = rig_engine_pid(&rig);
        client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=200 us=1000\",\"emit_token_ids\":true}");
        client_event(&client, &ev);
        assert_true(stream_take(&stream, &ev));
        rig_sleep_ms(i * 7);
        assert_int_equal(kill(engine, SIGKILL), 0);
        streams_read(&client, &stream, 1);
        assert_int_equal(stream.n_ids, 200);
        assert_int_equal(stream.n_text, 800);
        assert_int_equal(stream.n_notices, 1);
        halo_ev_finish(&stream.end);
    }
    assert_int_equal(rig_log_count(&rig, "was killed by signal 9"), 5); /* at once, not for its silence */
    end();
}

static void misbehaves(void **state)
{
    begin(quick, NULL);
    all_go_on("exit=4", "exited with status 3 (last words: told to exit)");
    all_go_on("hang=4", "was silent for");
    all_go_on("stuck=4", "hung for 60000 ms in a decode step: step of 8 rows");
    all_go_on("garbage=4", "wrote garbage: no JSON object");
    all_go_on("wrong=4", "a pong event for a generate request");
    all_go_on("early=4", "an event for an unknown id");
    end();
}

/* A second terminal event does not reach the client. */
static void says_done_twice(void **state)
{
    begin(quick, NULL);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=2 twice=1\"}", 1, NULL),
                     HALO_EV_DONE);
    assert_true(client_is_quiet(&client, 300));
    assert_int_equal(rig_engine_starts(&rig), 1);
    end();
}

static void models_come_back(void **state)
{
    struct halo_ev ev;
    char config[256];
    snprintf(config, sizeof(config), "[models]\non_demand = false\n%s", quick);
    begin(config, NULL);
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"a\"}", 1, NULL), HALO_EV_LOADED);
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"slow-200\"}", 1, NULL),
                     HALO_EV_LOADED);
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"c\"}", 1, NULL), HALO_EV_LOADED);
    assert_int_equal(client_ask(&client, "{\"type\":\"unload\",\"id\":1,\"model\":\"c\"}", 1, NULL), HALO_EV_UNLOADED);
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"brief\"}", 1, NULL), HALO_EV_LOADED);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"die=2\"}", 1, NULL),
                     HALO_EV_DONE);
    /* Waits until the slow one is back. */
    assert_int_equal(
        client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"slow-200\",\"prompt\":\"\"}", 1, NULL),
        HALO_EV_DONE);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"a\",\"prompt\":\"\"}", 1, NULL),
                     HALO_EV_DONE);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"c\",\"prompt\":\"\"}", 1, NULL),
                     HALO_EV_ERROR);
    client_send(&client, "{\"type\":\"status\"}");
    client_event(&client, &ev);
    assert_int_equal(ev.status.models.n, 2);
    assert_int_equal(ev.status.engine.restarts, 1);
    halo_ev_finish(&ev);
    end();
}

/* A model that kills each engine it is loaded into is given up; the others come back. */
static void a_deadly_model_is_forgotten(void **state)
{
    begin(quick, NULL);
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"good\"}", 1, NULL), HALO_EV_LOADED);
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"dieagain\"}", 1, NULL),
                     HALO_EV_LOADED);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"die=2\"}", 1, NULL),
                     HALO_EV_DONE);
    assert_int_equal(
        client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"good\",\"prompt\":\"\"}", 1, NULL),
        HALO_EV_DONE);
    assert_true(rig_log_has(&rig, "model dieagain could not be reloaded"));
    assert_int_equal(rig_engine_starts(&rig), 5);
    end();
}

static void a_load_that_kills_ends_once(void **state)
{
    enum halo_error code;
    begin(quick, NULL);
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"die\"}", 1, &code), HALO_EV_ERROR);
    assert_int_equal(code, HALO_ERROR_ENGINE_LOST);
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"fine\"}", 1, NULL), HALO_EV_LOADED);
    assert_int_equal(rig_engine_starts(&rig), 4); /* three engines died of it; the fourth was not asked again */
    end();
}

/* Requests wait while the engine needs several starts, each later than the one before. */
static void starts_with_trouble(void **state)
{
    static const char *const env[] = {"FAKE_FAIL_STARTS=3", NULL};
    begin(quick, env);
    ping(&client);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    assert_int_equal(rig_engine_starts(&rig), 4);
    end();
}

/* It never comes up: whoever waits is refused once the breaker opens, and at once from then on. */
static void never_comes_up(void **state)
{
    static const char *const env[] = {"FAKE_FAIL_STARTS=1000000", NULL};
    struct halo_ev ev;
    enum halo_error code;
    begin("[engine]\nbreaker_deaths = 4\nrestart_max_ms = 200\nbreaker_ms = 2000\n", env);
    client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, &code);
    assert_int_equal(code, HALO_ERROR_ENGINE_LOST);
    assert_true(rig_engine_starts(&rig) >= 4);
    client_ask(&client, "{\"type\":\"models\",\"id\":1}", 1, &code);
    assert_int_equal(code, HALO_ERROR_ENGINE_LOST);
    client_send(&client, "{\"type\":\"status\"}");
    client_event(&client, &ev);
    assert_int_equal(ev.type, HALO_EV_STATUS);
    assert_true(halo_str_is(ev.status.engine.state, "broken"));
    assert_non_null(strstr(ev.status.engine.reason.at, "exited with status 4"));
    halo_ev_finish(&ev);
    int starts = rig_engine_starts(&rig);
    for (uint64_t until = rig_now_ms() + RIG_PATIENCE_MS; rig_engine_starts(&rig) == starts; rig_sleep_ms(5))
        assert_true(rig_now_ms() < until); /* it goes on trying */
    end();
}

static void engine_program_is_missing(void **state)
{
    struct halo_ev ev;
    enum halo_error code;
    begin("[engine]\nwait_ms = 300\n", (const char *const[]){"HALO_TEST_ENGINE=/nonexistent/engine", NULL});
    client_ask(&client, "{\"type\":\"models\",\"id\":1}", 1, &code);
    assert_int_equal(code, HALO_ERROR_ENGINE_LOST);
    client_send(&client, "{\"type\":\"status\"}");
    client_event(&client, &ev);
    assert_non_null(strstr(ev.status.engine.reason.at, "/nonexistent/engine"));
    halo_ev_finish(&ev);
    end();
}

/* Up, but never says hello: waiting ends by itself, and it is replaced. */
static void never_says_hello(void **state)
{
    static const char *const env[] = {"FAKE_MUTE=1", NULL};
    struct halo_ev ev;
    enum halo_error code;
    begin("[engine]\nready_ms = 300\nwait_ms = 200\nstatus_ms = 100\n", env);
    client_send(&client, "{\"type\":\"hello\",\"id\":1}");
    client_terminal(&client, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_HELLO);
    assert_int_equal(ev.hello.features.n, 0);
    halo_ev_finish(&ev);
    client_ask(&client, "{\"type\":\"models\",\"id\":2}", 2, &code);
    assert_int_equal(code, HALO_ERROR_ENGINE_LOST);
    client_ask(&client, "{\"type\":\"generate\",\"id\":3,\"prompt\":\"\",\"deadline_ms\":50}", 3, &code);
    assert_int_equal(code, HALO_ERROR_DEADLINE);
    rig_wait_log(&rig, "did not answer hello");
    for (uint64_t until = rig_now_ms() + RIG_PATIENCE_MS; rig_engine_starts(&rig) < 2; rig_sleep_ms(5))
        assert_true(rig_now_ms() < until);
    end();
}

/* Alive but silent: status answers without it, in time; then it is replaced, and only the first one is silent. */
static void falls_silent(void **state)
{
    static const char *const env[] = {"FAKE_QUIET=1", NULL};
    struct halo_ev ev;
    begin("[engine]\nheartbeat_ms = 3000\nstatus_ms = 200\n", env);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    client_send(&client, "{\"type\":\"status\"}");
    client_event(&client, &ev);
    assert_int_equal(ev.type, HALO_EV_STATUS);
    assert_non_null(strstr(ev.status.more.at, "\"engine_answered\":false"));
    assert_true(halo_str_is(ev.status.engine.phase, "idle")); /* as it said last */
    assert_true(halo_str_is(ev.status.engine.reason, "it did not answer within 200 ms, so its models are not listed"));
    halo_ev_finish(&ev);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    assert_int_equal(rig_engine_starts(&rig), 2);
    end();
}

/* Deaths come at once, with no back-off, as long as engines do their work in between. */
static void cancel_survives_a_death(void **state)
{
    struct halo_ev ev;
    begin(quick, NULL);
    /* A hanging engine never ends the cancelled request; the daemon does, with what was asked for. */
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1000 hang=4\"}");
    for (int i = 0; i < 2; i++) {
        client_event(&client, &ev);
        halo_ev_finish(&ev);
    }
    client_send(&client, "{\"type\":\"cancel\",\"id\":2,\"target\":1}");
    client_terminal(&client, 2, &ev);
    assert_int_equal(ev.type, HALO_EV_CANCELLED);
    halo_ev_finish(&ev);
    client_terminal(&client, 1, &ev);
    assert_int_equal(ev.type, HALO_EV_DONE);
    assert_int_equal(ev.done.finish_reason, HALO_WIRE_FINISH_CANCELLED);
    halo_ev_finish(&ev);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dies_at_any_moment),
        cmocka_unit_test(is_killed_from_outside),
        cmocka_unit_test(misbehaves),
        cmocka_unit_test(says_done_twice),
        cmocka_unit_test(models_come_back),
        cmocka_unit_test(a_deadly_model_is_forgotten),
        cmocka_unit_test(a_load_that_kills_ends_once),
        cmocka_unit_test(starts_with_trouble),
        cmocka_unit_test(never_comes_up),
        cmocka_unit_test(engine_program_is_missing),
        cmocka_unit_test(never_says_hello),
        cmocka_unit_test(falls_silent),
        cmocka_unit_test(cancel_survives_a_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
