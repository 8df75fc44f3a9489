/* test_daemon_resume.c: what a client sees of a reply whose engine died: nothing twice, nothing lost, or one clear end.
 */
#include <math.h>
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

static const char quick[] = "[engine]\nheartbeat_ms = 20000\nwait_ms = 60000\n";

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

static void generate(struct client *who, int64_t id, const char *model, const char *script)
{
    client_sendf(who, "{\"type\":\"generate\",\"id\":%lld,\"prompt\":\"%s\",\"emit_token_ids\":true%s%s%s}",
                 (long long)id, script, model ? ",\"model\":\"" : "", model ? model : "", model ? "\"" : "");
}

static void load(const char *model)
{
    client_sendf(&client, "{\"type\":\"load\",\"id\":1000,\"model\":\"%s\"}", model);
    struct halo_ev ev;
    client_terminal(&client, 1000, &ev);
    assert_int_equal(ev.type, HALO_EV_LOADED);
    halo_ev_finish(&ev);
}

/* Reads until the stream has `n` tokens. */
static void read_tokens(struct client *who, struct stream *stream, long n)
{
    while (stream->n_ids < n) {
        struct halo_ev ev;
        client_event(who, &ev);
        assert_true(stream_take(stream, &ev));
        assert_false(stream->over);
    }
}

static void assert_done(struct stream *stream, long n, long n_notices)
{
    if (stream->terminal == HALO_EV_ERROR)
        fail_msg("ended with an error: %s", stream->end.error.message.at);
    assert_int_equal(stream->terminal, HALO_EV_DONE);
    assert_int_equal(stream->n_ids, n);
    assert_int_equal(stream->n_text, n * (long)stream->size);
    assert_int_equal(stream->n_notices, n_notices);
    halo_ev_finish(&stream->end);
}

static void assert_lost(struct stream *stream, const char *why)
{
    assert_int_equal(stream->terminal, HALO_EV_ERROR);
    assert_int_equal(stream->end.error.code, HALO_ERROR_ENGINE_LOST);
    if (!strstr(stream->end.error.message.at, why))
        fail_msg("'%s' does not say '%s'", stream->end.error.message.at, why);
    halo_ev_finish(&stream->end);
}

/* A request that kills each engine: after two it gets one for itself, and ends with that one. The others go on. */
static void the_guilty_one_ends_alone(void **state)
{
    struct stream guilty = {.id = 1, .size = 4}, mine = {.id = 2, .size = 4}, others = {.id = 3, .size = 4};
    begin(quick, NULL);
    generate(&client, 2, NULL, "n=40 from=4");
    generate(&other, 3, NULL, "n=40 from=4");
    read_tokens(&other, &others, 1);
    generate(&client, 1, NULL, "n=5 poison=1");
    struct stream both[] = {guilty, mine};
    streams_read(&client, both, 2);
    streams_read(&other, &others, 1);
    assert_int_equal(both[0].n_started, 0);
    assert_int_equal(both[0].n_notices, 0); /* its client had nothing of it yet */
    assert_lost(&both[0], "3 engines in a row");
    assert_done(&both[1], 40, 2); /* the third engine never had them */
    assert_done(&others, 40, 2);
    assert_int_equal(rig_engine_starts(&rig), 4);
    assert_true(rig_log_has(&rig, "poisoned beside 2 others"));
    assert_true(rig_log_has(&rig, "poisoned beside 0 others"));
    end();
}

/* Two of them do not block each other, nor anybody else. */
static void two_guilty_ones_end_one_by_one(void **state)
{
    struct stream streams[3] = {{.id = 1, .size = 4}, {.id = 2, .size = 4}, {.id = 3, .size = 4}};
    begin(quick, NULL);
    generate(&client, 1, NULL, "n=5 poison=1");
    generate(&client, 2, NULL, "n=5 poison=1");
    generate(&client, 3, NULL, "n=50 us=500");
    streams_read(&client, streams, 3);
    assert_lost(&streams[0], "while it ran alone");
    assert_lost(&streams[1], "while it ran alone");
    assert_done(&streams[2], 50, streams[2].n_notices);
    end();
}

/* A death after each token is none without progress: the reply is whole in the end. */
static void every_token_costs_an_engine(void **state)
{
    struct stream stream = {.id = 1, .size = 4};
    begin(quick, NULL);
    generate(&client, 1, NULL, "n=12 each=1");
    streams_read(&client, &stream, 1);
    assert_done(&stream, 12, 12);
    assert_int_equal(rig_engine_starts(&rig), 13);
    end();
}

/* The notice of a loop comes once, however many engines see the loop. */
static void a_loop_is_told_once(void **state)
{
    begin(quick, NULL);
    for (int k = 1; k <= 3; k++) { /* one that dies with the notice on its way out, and before and after it */
        struct stream stream = {.id = k, .size = 4};
        char script[64];
        snprintf(script, sizeof(script), "n=12 each=1 loop=%d", 5 + k);
        generate(&client, k, NULL, script);
        streams_read(&client, &stream, 1);
        assert_int_equal(stream.n_loops, 1);
        assert_done(&stream, 12, 12);
    }
    end();
}

/* After each row, also the last one, when only the end is missing. */
static void scores_go_on(void **state)
{
    begin(quick, NULL);
    for (int k = 1; k <= 10; k++) {
        struct stream stream = {.id = k, .size = 1};
        int from = k % 3;
        client_sendf(&client, "{\"type\":\"score\",\"id\":%d,\"model\":\"m\",\"text\":\"n=10 die=%d\"}", k, k);
        streams_read(&client, &stream, 1);
        assert_int_equal(stream.terminal, HALO_EV_SCORED);
        assert_int_equal(stream.n_rows, 10);
        assert_int_equal(stream.end.scored.tokens, 10);
        assert_int_equal(stream.n_notices, k < 10);
        assert_true(fabs(stream.end.scored.nll - 45 / 8.0 / 9) < 1e-12);
        /* The mean is that of the rows from `from` on. */
        stream = (struct stream){.id = 100 + k, .size = 1, .n_rows = from};
        client_sendf(&client, "{\"type\":\"score\",\"id\":%d,\"model\":\"m\",\"text\":\"n=6 die=5\",\"from\":%d}",
                     100 + k, from);
        streams_read(&client, &stream, 1);
        assert_int_equal(stream.n_rows, 6);
        assert_true(fabs(stream.end.scored.nll - stream.nll / (5 - from)) < 1e-12);
    }
    end();
}

/* A reply is bound to the files that it began with. */
static void changed_files_end_a_reply(void **state)
{
    struct stream bound = {.id = 1, .size = 4}, free_one = {.id = 2, .size = 4};
    begin(quick, NULL);
    load("changes");
    load("stays");
    generate(&client, 1, "changes", "n=30 from=2");
    read_tokens(&client, &bound, 3);
    generate(&other, 2, "stays", "n=30 from=2");
    read_tokens(&other, &free_one, 3);
    assert_int_equal(kill(rig_engine_pid(&rig), SIGKILL), 0);
    streams_read(&client, &bound, 1);
    assert_lost(&bound, "files 2, but the reply began on fake with a context of 0, files 1");
    streams_read(&other, &free_one, 1);
    assert_done(&free_one, 30, 1);
    /* A new one is bound to the new files. */
    bound = (struct stream){.id = 1, .size = 4};
    generate(&client, 1, "changes", "n=3");
    streams_read(&client, &bound, 1);
    assert_done(&bound, 3, 0);
    end();
}

static void a_model_that_stays_away_ends_its_replies(void **state)
{
    struct stream bound = {.id = 1, .size = 4};
    begin(quick, NULL);
    load("dieagain");
    generate(&client, 1, "dieagain", "n=10 die=4");
    streams_read(&client, &bound, 1);
    assert_lost(&bound, "model dieagain was not reloaded");
    end();
}

/* No engine comes back in time: the reply ends by its deadline, with what it has; without one, with engine_lost. */
static void waiting_has_an_end(void **state)
{
    struct stream timed = {.id = 1, .size = 4}, patient = {.id = 2, .size = 4};
    begin("[engine]\nwait_ms = 1000\nbreaker_deaths = 1000\nrestart_max_ms = 100\n",
          (const char *const[]){"FAKE_ONCE=1", NULL});
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=100000 us=1000\",\"emit_token_ids\":true,"
                         "\"deadline_ms\":500}");
    read_tokens(&client, &timed, 5);
    generate(&other, 2, NULL, "n=100000 us=1000");
    read_tokens(&other, &patient, 5);
    assert_int_equal(kill(rig_engine_pid(&rig), SIGKILL), 0);
    streams_read(&client, &timed, 1);
    assert_int_equal(timed.terminal, HALO_EV_DONE);
    assert_int_equal(timed.end.done.finish_reason, HALO_WIRE_FINISH_DEADLINE);
    assert_int_equal(timed.end.done.tokens, timed.n_ids);
    halo_ev_finish(&timed.end);
    streams_read(&other, &patient, 1);
    assert_lost(&patient, "no engine was ready within");
    end();
}

/* Between two engines a cancel and a disconnect end it at once. */
static void ends_between_two_engines(void **state)
{
    struct stream stream = {.id = 1, .size = 4}, gone = {.id = 2, .size = 4};
    struct client third;
    struct halo_ev ev;
    begin("[engine]\nrestart_min_ms = 3000\nrestart_max_ms = 3000\n", NULL);
    client_connect(&third, &rig);
    generate(&client, 1, NULL, "n=100000 us=1000");
    generate(&third, 2, NULL, "n=100000 us=1000");
    read_tokens(&client, &stream, 5);
    read_tokens(&third, &gone, 5);
    assert_int_equal(kill(rig_engine_pid(&rig), SIGKILL), 0);
    rig_wait_log(&rig, "was killed by signal 9");
    client_close(&third);
    client_send(&client, "{\"type\":\"cancel\",\"id\":9,\"target\":1}");
    while (!stream.over) {
        client_event(&client, &ev);
        if (!stream_take(&stream, &ev)) {
            assert_int_equal(ev.type, HALO_EV_CANCELLED);
            assert_true(halo_str_is(ev.cancelled.was, "queued"));
            halo_ev_finish(&ev);
        }
    }
    assert_int_equal(rig_engine_starts(&rig), 1);
    assert_int_equal(stream.end.done.finish_reason, HALO_WIRE_FINISH_CANCELLED);
    assert_int_equal(stream.end.done.tokens, stream.n_ids);
    halo_ev_finish(&stream.end);
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    client_send(&client, "{\"type\":\"status\"}");
    client_event(&client, &ev);
    assert_int_equal(ev.status.running + ev.status.queue, 0);
    halo_ev_finish(&ev);
    end();
}

/* Who did not read before the death need not read after it: the next engine holds the reply until he does. */
static void slow_readers_stay_paused(void **state)
{
    struct stream stream = {.id = 1, .size = 50000};
    begin("[engine]\nheartbeat_ms = 20000\n"
          "[limits]\nstall_ms = 60000\noutput_high_bytes = 100000\noutput_low_bytes = 50000\n",
          NULL);
    generate(&client, 1, NULL, "n=200 size=50000");
    client_wait_counter(&other, "pauses", 1);
    assert_int_equal(kill(rig_engine_pid(&rig), SIGKILL), 0);
    client_wait_counter(&other, "requests_resumed", 1);
    rig_sleep_ms(200);
    assert_int_equal(client_counter(&other, "pauses"), 1);
    streams_read(&client, &stream, 1);
    assert_done(&stream, 200, 1);
    end();
}

/* An open breaker refuses; a load closes it at once, and the engine that comes up works. */
static void a_load_closes_the_breaker(void **state)
{
    struct halo_ev ev;
    enum halo_error code;
    begin("[engine]\nbreaker_deaths = 3\nrestart_max_ms = 20\nbreaker_ms = 600000\n",
          (const char *const[]){"FAKE_FAIL_STARTS=3", NULL});
    client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, &code);
    assert_int_equal(code, HALO_ERROR_ENGINE_LOST);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}");
    client_event(&client, &ev);
    assert_int_equal(ev.error.code, HALO_ERROR_ENGINE_LOST);
    assert_true(ev.error.retryable);
    assert_non_null(strstr(ev.error.message.at, "`load` tries again at once"));
    halo_ev_finish(&ev);
    rig_sleep_ms(200);
    assert_int_equal(rig_engine_starts(&rig), 3); /* none is started meanwhile */
    load("a");
    assert_int_equal(client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=1\"}", 1, NULL), HALO_EV_DONE);
    client_send(&client, "{\"type\":\"status\"}");
    client_event(&client, &ev);
    assert_true(halo_str_is(ev.status.engine.state, "ready"));
    halo_ev_finish(&ev);
    end();
}

/* Bringing models back is no progress: an engine that only does that and dies opens the breaker. */
static void reloading_is_no_progress(void **state)
{
    struct stream stream = {.id = 1, .size = 4};
    begin("[engine]\nbreaker_deaths = 3\nrequest_deaths = 100\nrestart_max_ms = 20\nbreaker_ms = 600000\n", NULL);
    load("a");
    generate(&client, 1, "a", "n=5 poison=1");
    streams_read(&client, &stream, 1);
    assert_lost(&stream, "in a row without making progress");
    assert_int_equal(rig_engine_starts(&rig), 4); /* the first one had loaded the model for a client */
    end();
}

/* Who asks for probabilities gets the tokens that have them. */
static void logprobs_bring_committed_events(void **state)
{
    struct stream stream = {.id = 1, .size = 4};
    begin(quick, NULL);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=3\",\"logprobs\":2}");
    streams_read(&client, &stream, 1);
    assert_done(&stream, 3, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_guilty_one_ends_alone),
        cmocka_unit_test(two_guilty_ones_end_one_by_one),
        cmocka_unit_test(every_token_costs_an_engine),
        cmocka_unit_test(a_loop_is_told_once),
        cmocka_unit_test(scores_go_on),
        cmocka_unit_test(changed_files_end_a_reply),
        cmocka_unit_test(a_model_that_stays_away_ends_its_replies),
        cmocka_unit_test(waiting_has_an_end),
        cmocka_unit_test(ends_between_two_engines),
        cmocka_unit_test(slow_readers_stay_paused),
        cmocka_unit_test(a_load_closes_the_breaker),
        cmocka_unit_test(reloading_is_no_progress),
        cmocka_unit_test(logprobs_bring_committed_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
