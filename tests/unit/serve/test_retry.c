/* test_retry.c: what follows from deaths: which requests run again, alone, or end; how long until the next engine; when
 * none is started any more. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "retry_priv.h"
#include "world.h"

static struct world world;

static int begin(void **state)
{
    world_begin(&world);
    return 0;
}

static int end(void **state)
{
    world_end(&world);
    return 0;
}

/* ---- pure ---- */

static void verdict_of_every_record(void **state)
{
    for (int s = 0; s < HALO_REQUEST_ENDED; s++)
        for (unsigned n_deaths = 0; n_deaths < 5; n_deaths++)
            for (unsigned bits = 0; bits < 16; bits++) {
                const struct halo_request request = {
                    .state = (enum halo_request_state)s,
                    .type = bits & 1 ? HALO_MSG_STATS : HALO_MSG_SCORE,
                    .reload_model = bits & 2 ? (char *)"m" : NULL,
                    .demanded = bits & 4,
                    .score.over = bits & 8,
                    .n_deaths = n_deaths,
                };
                enum halo_retry wanted = s == HALO_REQUEST_WAITING      ? HALO_RETRY_AGAIN
                                         : bits & 7                     ? HALO_RETRY_OWN
                                         : s == HALO_REQUEST_CANCELLING ? HALO_RETRY_CANCELLED
                                         : bits & 8                     ? HALO_RETRY_SCORED
                                         : n_deaths >= 3                ? HALO_RETRY_GUILTY
                                                                        : HALO_RETRY_AGAIN;
                assert_int_equal(halo_retry_verdict(&request, 3), wanted);
                assert_int_equal(halo_retry_is_suspect(&request, 3), n_deaths >= 2 && !(bits & 1));
            }
    const struct halo_request progressed = {.type = HALO_MSG_GENERATE, .n_deaths = 2, .progressed = true};
    assert_false(halo_retry_is_suspect(&progressed, 3));
    const struct halo_request fresh = {.type = HALO_MSG_GENERATE};
    assert_false(halo_retry_is_suspect(&fresh, 1)); /* no engine died with it yet */
}

static void the_wait_doubles_and_the_breaker_opens(void **state)
{
    const struct halo_config *config = &world.config;
    struct halo_breaker breaker = {0};
    uint64_t now_ns = 5 * WORLD_MS, waits[] = {10, 10, 20, 40, 80};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(halo_breaker_backoff_ms(&breaker, config), waits[i]);
        assert_int_equal(halo_breaker_engine_died(&breaker, config, now_ns), i == 4);
    }
    assert_true(breaker.open);
    assert_int_equal(halo_breaker_left_ms(&breaker, now_ns), 60000);
    assert_int_equal(halo_breaker_left_ms(&breaker, now_ns + 1), 60000); /* rounded up */
    assert_int_equal(halo_breaker_left_ms(&breaker, now_ns + 60000 * WORLD_MS), 0);
    halo_breaker_close(&breaker, config);
    halo_breaker_close(&breaker, config);
    assert_int_equal(halo_breaker_left_ms(&breaker, now_ns), 0);
    assert_true(halo_breaker_engine_died(&breaker, config, now_ns)); /* one more opens it again */
    breaker.n_vain = 1000;
    assert_int_equal(halo_breaker_backoff_ms(&breaker, config), 5000);
}

static void a_death_after_work_is_not_in_vain(void **state)
{
    const struct halo_config *config = &world.config;
    struct halo_breaker breaker = {.n_vain = 3};
    halo_breaker_engine_progressed(&breaker);
    assert_false(halo_breaker_engine_died(&breaker, config, 1));
    assert_int_equal(breaker.n_vain, 0);
    halo_breaker_engine_died(&breaker, config, 1); /* the next one begins anew */
    assert_int_equal(breaker.n_vain, 1);
    halo_breaker_engine_ready(&breaker, 1);
    halo_breaker_engine_died(&breaker, config, 60000 * WORLD_MS);
    assert_int_equal(breaker.n_vain, 2); /* ready, but a moment too short */
    halo_breaker_engine_ready(&breaker, 1);
    halo_breaker_engine_died(&breaker, config, 60000 * WORLD_MS + 1);
    assert_int_equal(breaker.n_vain, 0);
}

/* ---- with requests ---- */

static void deaths(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        world_engine_up(&world);
        world_engine_dies(&world, "exited with status 4");
    }
}

static void the_breaker_refuses(void **state)
{
    world.note = " (halo-doctor: x)";
    world_say(&world, 0, "{\"type\":\"load\",\"id\":1,\"model\":\"m\"}"); /* waits: ended when the breaker opens */
    world.config.request_deaths = 100;
    deaths(4);
    world_hears(&world, 0, "");
    world_say(&world, 1, "{\"type\":\"hello\",\"id\":9}");
    deaths(1);
    assert_true(world.requests.breaker.open);
    world_hears(&world, 0,
                "{\"type\":\"error\",\"id\":1,\"code\":\"engine_lost\",\"message\":\"the engine died 5 times in a row "
                "without making progress, the last time it exited with status 4; requests are refused for 60 s "
                "more, `load` tries again at once (halo-doctor: x)\",*}\n");
    assert_string_equal(world.status,
                        "broken: the engine died 5 times in a row, the last time it exited with status 4; "
                        "refusing requests, `haloctl load` tries again");
    world_forget(&world);
    world.note = "";
    world_pass(&world, 10000);
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
    world_hears(&world, 0, "{\"type\":\"error\",\"id\":1,\"code\":\"engine_lost\",*for 50 s more, *; ask*}\n");
    world_say(&world, 0, "{\"type\":\"hello\",\"id\":2}");
    world_hears(&world, 0, "{*\"id\":2,*}\n"); /* queries are answered */
    world_say(&world, 0, "{\"type\":\"load\",\"id\":1,\"model\":\"m\"}");
    assert_int_equal(world.n_starts, 1);
    assert_string_equal(world.status, "starting an engine again after 5 deaths in a row");
    halo_requests_close_breaker(&world.requests, "once is enough");
    assert_int_equal(world.n_starts, 1);
    world_engine_up(&world);
    world_engine_hears(&world, "{\"type\":\"load\",*}\n");
    world_engine_dies(&world, "died"); /* one more */
    assert_true(world.requests.breaker.open);
    world_hears(&world, 0, "{\"type\":\"error\",\"id\":1,\"code\":\"engine_lost\",*}\n");
}

static void a_hello_waits_for_no_broken_engine(void **state)
{
    world.requests.link.known = false;
    world.config.breaker_deaths = 1;
    world_say(&world, 0, "{\"type\":\"hello\",\"id\":1}");
    world_engine_dies(&world, "died"); /* before it answered */
    world_hears(&world, 0, "{*\"id\":1,*}\n");
}

static void the_guilty_one_runs_alone_and_ends(void **state)
{
    world.config.breaker_deaths = 100;
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
    world_say(&world, 1, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"q\"}");
    deaths(2);
    /* Both are suspects now: one goes alone, the oldest first. */
    world_engine_up(&world);
    world_engine_hears(&world, "{\"type\":\"generate\",*\"prompt\":\"p\"*}\n");
    world_say(&world, 2, "{\"type\":\"generate\",\"id\":3,\"prompt\":\"r\"}");
    world_engine_hears(&world, "");
    world_engine_dies(&world, "died");
    world_hears(&world, 0,
                "{\"type\":\"error\",\"id\":1,\"code\":\"engine_lost\",\"message\":\"3 engines in a row died with this "
                "request before it made progress, the last one while it ran alone: the engine died\",*}\n");
    assert_int_equal(world.counters.requests_lost, 1);
    /* The second one makes progress: no suspect any more, and the third may go. */
    world_engine_up(&world);
    world_engine_hears(&world, "{\"type\":\"generate\",*\"prompt\":\"q\"*}\n");
    long long q = world_last_id(&world) - 1;
    world_started(&world, q, "m");
    world_engine_hears(&world, "");
    world_committed(&world, q, 0);
    world_engine_hears(&world, "{\"type\":\"generate\",*\"prompt\":\"r\"*}\n");
    /* It dies again, with both: neither is guilty. */
    world_forget(&world);
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    world_engine_hears(&world, "{\"type\":\"generate\",*\"prompt\":\"q\"*\"resume\":{*}}\n"
                               "{\"type\":\"generate\",*\"prompt\":\"r\"*}\n");
    world_hears(&world, 1, "{\"type\":\"notice\",\"id\":2,\"code\":\"engine_restarted\",*\"resumed_at\":1}\n");
    world_hears(&world, 2, "");
    assert_int_equal(world.counters.requests_resumed, 2 + 1 + 1 + 2);
}

static void one_death_may_be_enough(void **state)
{
    world.config.request_deaths = 1;
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
    deaths(1);
    world_hears(&world, 0,
                "{\"type\":\"error\",\"id\":1,\"code\":\"engine_lost\",\"message\":\"an engine died with this request "
                "before it made progress: the engine exited with status 4\",*}\n");
}

static void a_suspect_waits_until_the_others_ended(void **state)
{
    world.config.breaker_deaths = 100;
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
    deaths(2);
    world_engine_up(&world);
    world_engine_hears(&world, "{\"type\":\"generate\",*\"prompt\":\"p\"*}\n");
    world_say(&world, 0, "{\"type\":\"cancel\",\"id\":9,\"target\":1}");
    long long p = 1;
    world_say(&world, 1, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"q\"}");
    world_engine_hears(&world, "{\"type\":\"cancel\",*}\n"); /* the suspect is still there */
    world_done(&world, p, "cancelled");
    world_engine_hears(&world, "{\"type\":\"generate\",*\"prompt\":\"q\"*}\n");
}

/* One that comes in the same turn of the loop in which a suspect ended does not pass those that waited for it. */
static void nobody_passes_those_that_wait(void **state)
{
    struct halo_event_line line;
    char text[] = "{\"type\":\"error\",\"id\":1,\"code\":\"internal\",\"message\":\"m\",\"retryable\":false}";
    char late[] = "{\"type\":\"generate\",\"id\":3,\"prompt\":\"r\"}";
    world.config.breaker_deaths = 100;
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
    deaths(2);
    world_engine_up(&world);
    world_say(&world, 1, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"q\"}");
    world_forget(&world);
    assert_int_equal(halo_event_line_scan(&line, text, strlen(text), &world.fault), 0);
    assert_int_equal(halo_requests_engine_line(&world.requests, &line, world.now_ns, &world.fault), 0);
    halo_requests_line(&world.requests, &world.clients[2], late, strlen(late), world.now_ns);
    world_flush(&world);
    world_engine_hears(&world,
                       "{\"type\":\"generate\",*\"prompt\":\"q\"*}\n{\"type\":\"generate\",*\"prompt\":\"r\"*}\n");
}

static void what_each_one_gets_from_a_death(void **state)
{
    world_engine_up(&world);
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
    world_say(&world, 0, "{\"type\":\"cancel\",\"id\":9,\"target\":1}");
    world_say(&world, 1, "{\"type\":\"score\",\"id\":2,\"model\":\"m\",\"text\":\"t\"}"); /* and the load of m */
    long long score = world_last_id(&world) - 1;
    world_say(&world, 2, "{\"type\":\"stats\",\"id\":3}");
    world_row(&world, score, 0, -2);
    world_row(&world, score, 1, NAN);
    world_forget(&world);
    world_engine_dies(&world, "died");
    world_hears(&world, 0, "{\"type\":\"done\",\"id\":1,\"finish_reason\":\"cancelled\",*}\n");
    world_hears(&world, 1, "{\"type\":\"done\",\"id\":2,\"tokens\":2,\"nll\":2}\n");
    world_hears(&world, 2, "{*\"id\":3,*\"heard\":false*}\n");
    assert_int_equal(world.requests.all.n, 0);
}

/* Rows from two engines: `done` of the second one knows only its own. */
static void a_score_goes_on(void **state)
{
    world_engine_up(&world);
    world_say(&world, 0, "{\"type\":\"score\",\"id\":1,\"model\":\"m\",\"text\":\"t\"}");
    long long id = world_last_id(&world) - 1;
    world_row(&world, id, 0, -2);
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    world_engine_hears(&world, "{\"type\":\"load\",*}\n{\"type\":\"score\",*\"from\":1}\n");
    world_hears(&world, 0, "{\"type\":\"score_row\",*}\n{\"type\":\"notice\",*\"resumed_at\":1}\n");
    world_row(&world, id, 1, -4);
    world_row(&world, id, 2, NAN);
    world_engine_says(&world, "{\"type\":\"done\",\"id\":%lld,\"tokens\":3,\"nll\":4}", id);
    world_hears(&world, 0,
                "{\"type\":\"score_row\",*}\n{\"type\":\"score_row\",*}\n{\"type\":\"done\",\"id\":1,\"tokens\":3,"
                "\"nll\":3}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(verdict_of_every_record, begin, end),
        cmocka_unit_test_setup_teardown(the_wait_doubles_and_the_breaker_opens, begin, end),
        cmocka_unit_test_setup_teardown(a_death_after_work_is_not_in_vain, begin, end),
        cmocka_unit_test_setup_teardown(the_breaker_refuses, begin, end),
        cmocka_unit_test_setup_teardown(a_hello_waits_for_no_broken_engine, begin, end),
        cmocka_unit_test_setup_teardown(the_guilty_one_runs_alone_and_ends, begin, end),
        cmocka_unit_test_setup_teardown(one_death_may_be_enough, begin, end),
        cmocka_unit_test_setup_teardown(a_suspect_waits_until_the_others_ended, begin, end),
        cmocka_unit_test_setup_teardown(nobody_passes_those_that_wait, begin, end),
        cmocka_unit_test_setup_teardown(what_each_one_gets_from_a_death, begin, end),
        cmocka_unit_test_setup_teardown(a_score_goes_on, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
