/* test_route.c: what becomes of a client's line: answered, refused, or sent to the engine, and as what. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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

static void expect_error(const char *line, const char *code)
{
    char pattern[128];
    world_say(&world, 0, line);
    snprintf(pattern, sizeof(pattern), "{\"type\":\"error\",\"id\":*,\"code\":\"%s\",*}\n", code);
    world_hears(&world, 0, pattern);
}

static void answers_at_once(void **state)
{
    world_pass(&world, 250);
    world_say(&world, 0, "{\"type\":\"ping\",\"id\":\"a\"}");
    world_hears(&world, 0, "{\"type\":\"pong\",\"id\":\"a\",\"uptime_ms\":250}\n");
    expect_error("{\"type\":\"cancel\",\"id\":2,\"target\":9}", "not_found");
    expect_error("{\"type\":\"save\",\"id\":2,\"deadline_ms\":1}", "unknown_type"); /* the daemon's own */
    expect_error("nonsense", "bad_json");
    halo_requests_refuse(&world.requests, &world.clients[0], HALO_ERROR_LINE_TOO_LONG, HALO_NUMBERS({"limit_bytes", 8}),
                         "of %d bytes", 9);
    world_hears(&world, 0,
                "{\"type\":\"error\",\"id\":null,\"code\":\"line_too_long\",\"message\":\"of 9 "
                "bytes\",*\"detail\":{\"limit_bytes\":8}}\n");
    assert_int_equal(world.counters.requests_refused, 4);
    assert_int_equal(world.counters.requests, 2);
}

/* Each line as a client sends it and as the engine gets it: `ID` is the daemon's. */
static void completes_what_the_engine_gets(void **state)
{
    static const struct {
        const char *said, *sent;
    } cases[] = {
        {"{\"type\":\"generate\",\"id\":\"x\",\"prompt\":\"p\",\"user\":0}", NULL}, /* not a client's to say */
        {"{\"type\":\"generate\",\"id\":\"x\",\"prompt\":\"p\"}",
         "{\"type\":\"generate\",\"id\":ID,\"prompt\":\"p\",*\"seed\":7,*\"emit_token_ids\":true*,"
         "\"normalize\":true,\"user\":1000}\n"},
        {"{\"type\":\"generate\",\"id\":\"x\",\"prompt\":\"p\",\"seed\":3,\"normalize\":false,\"deadline_ms\":500}",
         "{\"type\":\"generate\",\"id\":ID,\"prompt\":\"p\",*\"seed\":3,*\"normalize\":false,*\"user\":1000*,"
         "\"deadline_ms\":500}\n"},
        {"{\"type\":\"generate\",\"id\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]}",
         "{\"type\":\"generate\",\"id\":ID,*\"now_s\":1700000000*}\n"},
        {"{\"type\":\"tokenize\",\"id\":\"x\",\"model\":\"m\",\"text\":\"t\",\"user\":0}", NULL},
        {"{\"type\":\"score\",\"id\":\"x\",\"model\":\"\",\"text\":\"t\"}", NULL},
        {"{\"type\":\"tokenize\",\"id\":\"x\",\"model\":\"m\",\"text\":\"t\"}",
         "{\"type\":\"tokenize\",\"id\":ID,\"model\":\"m\",*\"user\":1000*}\n"},
        {"{\"type\":\"detokenize\",\"id\":\"x\",\"model\":\"m\",\"tokens\":[1]}",
         "{\"type\":\"detokenize\",\"id\":ID,\"model\":\"m\",\"tokens\":[1],*\"user\":1000*}\n"},
        {"{\"type\":\"template\",\"id\":\"x\",\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]}",
         "{\"type\":\"template\",\"id\":ID,\"model\":\"m\",*\"normalize\":true,*\"user\":1000*}\n"},
        {"{\"type\":\"score\",\"id\":\"x\",\"model\":\"m\",\"text\":\"t\"}",
         "{\"type\":\"score\",\"id\":ID,\"model\":\"m\",\"text\":\"t\",*\"user\":1000*}\n"},
        {"{\"type\":\"score\",\"id\":\"x\",\"model\":\"m\",\"text\":\"t\",\"from\":4}",
         "{\"type\":\"score\",\"id\":ID,\"model\":\"m\",\"text\":\"t\",*\"user\":1000*,\"from\":4}\n"},
        {"{\"type\":\"reset\",\"id\":\"x\",\"model\":\"m\"}", "{\"type\":\"reset\",\"id\":ID,\"model\":\"m\"}\n"},
        {"{\"type\":\"bench\",\"id\":\"x\",\"model\":\"m\"}", "{\"type\":\"bench\",\"id\":ID,\"model\":\"m\"*}\n"},
        {"{\"type\":\"profile\",\"id\":\"x\",\"model\":\"m\",\"stored\":true}",
         "{\"type\":\"profile\",\"id\":ID,\"model\":\"m\",\"stored\":true*}\n"},
        {"{\"type\":\"unload\",\"id\":\"x\",\"model\":\"m\"}", "{\"type\":\"unload\",\"id\":ID,\"model\":\"m\"*}\n"},
        {"{\"type\":\"models\",\"id\":\"x\"}", "{\"type\":\"models\",\"id\":ID}\n"},
        {"{\"type\":\"diag\",\"id\":\"x\"}", "{\"type\":\"diag\",\"id\":ID*}\n"},
        {"{\"type\":\"plan\",\"id\":\"x\",\"model\":\"m\"}", "{\"type\":\"plan\",\"id\":ID,*\"model\":\"m\"*}\n"},
        {"{\"type\":\"load\",\"id\":\"x\",\"model\":\"n\"}", "{\"type\":\"load\",\"id\":ID,\"model\":\"n\"}\n"},
    };
    world.config.on_demand = false;
    world.clients[0].admin = true;
    world_engine_up(&world);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char pattern[512] = "", id[32];
        world_forget(&world);
        world_say(&world, 0, cases[i].said);
        snprintf(id, sizeof(id), "%lld", world_last_id(&world));
        for (const char *at = cases[i].sent; at && *at != '\0'; at++)
            if (strncmp(at, "ID", 2) == 0) {
                strcat(pattern, id);
                at++;
            } else {
                strncat(pattern, at, 1);
            }
        world_engine_hears(&world, pattern);
        world_say(&world, 0, "{\"type\":\"cancel\",\"id\":9,\"target\":\"x\"}");
        if (cases[i].sent)
            world_done(&world, atoll(id), "cancelled");
    }
}

static void refuses(void **state)
{
    world_engine_up(&world);
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
    expect_error("{\"type\":\"ping\",\"id\":1}", "duplicate_id");
    expect_error("{\"type\":\"load\",\"id\":2,\"model\":\"/etc/passwd\"}", "not_found");
    expect_error("{\"type\":\"plan\",\"id\":2,\"path\":\"passwd\"}", "not_found");
    world.seed = -1;
    expect_error("{\"type\":\"generate\",\"id\":2,\"prompt\":\"p\"}", "internal");
    world.seed = 7;
    world.config.open_requests = 1;
    expect_error("{\"type\":\"models\",\"id\":2}", "too_many_requests");
    expect_error("{\"type\":\"status\",\"id\":2}", "too_many_requests");
    world.config.open_requests = 32;
    world.quota.limits[HALO_QUOTA_QUEUED] = (struct halo_quota_limit){.all = 1};
    expect_error("{\"type\":\"models\",\"id\":2}", "queue_full");
    world.quota.limits[HALO_QUOTA_QUEUED].all = 256;
    world.quota.limits[HALO_QUOTA_LINES].user = world.quota.used[HALO_QUOTA_LINES];
    expect_error("{\"type\":\"models\",\"id\":2}", "too_many_requests");
    world.quota.limits[HALO_QUOTA_LINES].user = 1 << 20;
    world.quota.limits[HALO_QUOTA_LINES].all = world.quota.used[HALO_QUOTA_LINES];
    expect_error("{\"type\":\"models\",\"id\":2}", "too_many_requests");
    world.quota.limits[HALO_QUOTA_LINES].all = 1 << 20;
    world.requests.accepts = false;
    expect_error("{\"type\":\"models\",\"id\":2}", "shutting_down");
    world_say(&world, 0, "{\"type\":\"stats\",\"id\":2}"); /* the daemon still tells about itself */
    world_engine_says(&world, "{\"type\":\"stats\",\"id\":%lld,\"counters\":{},\"histograms\":{}}",
                      world_last_id(&world));
    world_hears(&world, 0, "{\"type\":\"stats\",\"id\":2,\"counters\":{\"heard\":true},\"histograms\":{}}\n");
    assert_int_equal(world.requests.all.n, 1);
}

static void trusted_clients_name_files(void **state)
{
    world_engine_up(&world);
    world.clients[0].user->privileged = world.clients[0].admin = true;
    world_say(&world, 0, "{\"type\":\"load\",\"id\":2,\"model\":\"/m.gguf\"}");
    world_engine_hears(&world, "{\"type\":\"load\",\"id\":*,\"model\":\"/m.gguf\"}\n");
    world_say(&world, 0, "{\"type\":\"reset\",\"id\":3,\"model\":\"/m.gguf\"}"); /* everybody's prefixes */
    world_engine_hears(&world, "{\"type\":\"reset\",\"id\":*,\"model\":\"/m.gguf\"}\n");
}

/* Requests that concern others, from the one who had the model loaded, from another user, from an administrator. */
static void what_concerns_others(void **state)
{
    enum { OWNER, OTHER, ADMIN };
    static const struct {
        const char *line;
        bool may[3];
    } cases[] = {
        {"{\"type\":\"bench\",\"id\":1,\"model\":\"m\"}", {false, false, true}},
        {"{\"type\":\"profile\",\"id\":1,\"model\":\"m\"}", {false, false, true}},
        {"{\"type\":\"profile\",\"id\":1,\"model\":\"m\",\"stored\":true}", {false, false, true}},
        {"{\"type\":\"diag\",\"id\":1}", {false, false, true}},
        {"{\"type\":\"unload\",\"id\":1,\"model\":\"m\"}", {true, false, true}},
        {"{\"type\":\"unload\",\"id\":1,\"model\":\"/x/m.gguf\"}",
         {false, false, false}},                                                      /* a path is not theirs to name */
        {"{\"type\":\"unload\",\"id\":1,\"model\":\"unknown\"}", {true, true, true}}, /* not_found, of the engine */
        {"{\"type\":\"load\",\"id\":1,\"model\":\"m\"}", {true, true, true}},
        {"{\"type\":\"load\",\"id\":1,\"model\":\"m\",\"params\":{\"context\":64}}", {true, true, true}},
        {"{\"type\":\"load\",\"id\":1,\"model\":\"m\",\"params\":{\"pin\":true}}", {true, false, true}},
        {"{\"type\":\"load\",\"id\":1,\"model\":\"m\",\"params\":{\"keep_alive_s\":1}}", {true, false, true}},
        {"{\"type\":\"load\",\"id\":1,\"model\":\"unknown\",\"params\":{\"pin\":true}}", {true, true, true}},
        {"{\"type\":\"reset\",\"id\":1,\"model\":\"m\"}", {true, true, true}}, /* of own prefixes */
    };
    world_engine_up(&world);
    world.clients[ADMIN].admin = true;
    world_say(&world, OWNER, "{\"type\":\"generate\",\"id\":1,\"model\":\"m\",\"prompt\":\"p\"}"); /* has it loaded */
    world_loaded(&world, world_last_id(&world), "m", "1");
    world_done(&world, world_last_id(&world) - 1, "length");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int who = OWNER; who <= ADMIN; who++) {
            world_forget(&world);
            world_say(&world, who, cases[i].line);
            bool sent = world.to_engine.len > 0;
            if (sent != cases[i].may[who])
                fail_msg("%s from client %d", cases[i].line, who);
            if (!sent && strchr(cases[i].line, '/') == NULL)
                world_hears(&world, who, "{\"type\":\"error\",\"id\":1,\"code\":\"forbidden\",*}\n");
            if (sent)
                world_error(&world, world_last_id(&world), "internal");
        }
    world_say(&world, ADMIN, "{\"type\":\"reset\",\"id\":1,\"model\":\"m\"}");
    world_engine_hears(&world, "{\"type\":\"reset\",\"id\":*,\"model\":\"m\"}\n"); /* of everybody's */
}

static void a_share_of_the_queue(void **state)
{
    char line[64];
    world.quota.limits[HALO_QUOTA_QUEUED] = (struct halo_quota_limit){.all = 9, .reserved = 1};
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof(line), "{\"type\":\"models\",\"id\":%d}", i);
        world_say(&world, 0, line);
    }
    world_hears(&world, 0, "");
    world_say(&world, 0, "{\"type\":\"models\",\"id\":9}");
    world_hears(
        &world, 0,
        "{\"type\":\"error\",\"id\":9,\"code\":\"queue_full\",\"message\":\"4 requests of user 1000 are queued and 4 "
        "in "
        "all: one user may have half of what the others leave of 256\",*,\"detail\":{\"queued\":4,\"limit\":256,"
        "\"own\":4,\"share\":4}}\n");
    world_say(&world, 1, "{\"type\":\"models\",\"id\":1}");
    world_hears(&world, 1, "");
    world_engine_up(&world); /* sent is still queued; what the engine works on is not */
    assert_int_equal(world.quota.used[HALO_QUOTA_QUEUED], 5);
    assert_int_equal(
        world_engine_says(&world, "{\"type\":\"progress\",\"id\":1,\"phase\":\"load\",\"done\":0,\"total\":1}"), 0);
    assert_int_equal(world.clients[0].user->used[HALO_QUOTA_QUEUED], 3);
    world_engine_dies(&world, "died");
    assert_int_equal(world.clients[0].user->used[HALO_QUOTA_QUEUED], 4); /* it waits again */
    world_close(&world, 0);
    assert_int_equal(world.quota.used[HALO_QUOTA_QUEUED], 1);
}

static void configured_defaults(void **state)
{
    world.config.keep_alive_s = 60;
    world.config.emit_token_ids = true;
    world.config.normalize = false;
    world_engine_up(&world);
    world_say(&world, 0, "{\"type\":\"load\",\"id\":1,\"model\":\"m\"}");
    world_engine_hears(&world, "{\"type\":\"load\",\"id\":*,\"model\":\"m\",*\"keep_alive_s\":60*}\n");
    world_say(&world, 0, "{\"type\":\"load\",\"id\":2,\"model\":\"n\",\"params\":{\"keep_alive_s\":5}}");
    world_engine_hears(&world, "{\"type\":\"load\",\"id\":*,\"model\":\"n\",*\"keep_alive_s\":5*}\n");
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":3,\"prompt\":\"p\"}");
    world_engine_hears(&world, "{\"type\":\"generate\",*\"normalize\":false*}\n");
    world_started(&world, world_last_id(&world), "m");
    world_forget(&world);
    world_committed(&world, world_last_id(&world), 0);
    world_hears(&world, 0, "{\"type\":\"committed\",\"id\":3,\"tok_id\":5,\"pos\":0,*}\n");
}

static void cancels_by_state(void **state)
{
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}"); /* waits here */
    world_pass(&world, 10);
    world_say(&world, 0, "{\"type\":\"cancel\",\"id\":2,\"target\":1}");
    world_hears(&world, 0,
                "{\"type\":\"cancelled\",\"id\":2,\"target\":1,\"was\":\"queued\"}\n"
                "{\"type\":\"done\",\"id\":1,\"finish_reason\":\"cancelled\",*\"queue_ms\":10.000*}\n");
    world_engine_up(&world);
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
    long long id = world_last_id(&world);
    world_forget(&world);
    world_say(&world, 0, "{\"type\":\"cancel\",\"id\":2,\"target\":1}");
    world_say(&world, 0, "{\"type\":\"cancel\",\"id\":3,\"target\":1}"); /* told once */
    world_hears(&world, 0,
                "{\"type\":\"cancelled\",\"id\":2,\"target\":1,\"was\":\"queued\"}\n"
                "{\"type\":\"cancelled\",\"id\":3,\"target\":1,\"was\":\"cancelling\"}\n");
    world_engine_hears(&world, "{\"type\":\"cancel\",\"id\":*,\"target\":*}\n");
    assert_int_equal(world_engine_says(&world, "{\"type\":\"cancelled\",\"id\":%lld,\"target\":%lld,\"was\":\"x\"}",
                                       world_last_id(&world), id),
                     0);
    assert_int_equal(world.counters.events_late, 1); /* nobody waits for that */
    world_done(&world, id, "cancelled");
    world_hears(&world, 0, "{\"type\":\"done\",\"id\":1,\"finish_reason\":\"cancelled\",*}\n");
    world_say(&world, 0, "{\"type\":\"status\",\"id\":1}");
    world_say(&world, 0, "{\"type\":\"cancel\",\"id\":2,\"target\":1}"); /* a query ends at once */
    world_hears(&world, 0, "*{\"type\":\"done\",\"id\":1,\"finish_reason\":\"cancelled\",*}\n");
    assert_int_equal(world.requests.all.n, 0);
}

static void waiting_has_an_end(void **state)
{
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\",\"deadline_ms\":500}");
    world_say(&world, 1, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"p\"}");
    world_pass(&world, 499);
    world_hears(&world, 0, "");
    world_pass(&world, 1);
    world_hears(&world, 0,
                "{\"type\":\"error\",\"id\":1,\"code\":\"deadline\",\"message\":\"the deadline of 500 ms passed "
                "while the request waited for the engine\",*}\n");
    world_pass(&world, 29499);
    world_hears(&world, 1, "");
    world_pass(&world, 1);
    world_hears(&world, 1,
                "{\"type\":\"error\",\"id\":2,\"code\":\"engine_lost\",\"message\":\"no engine was ready within "
                "30000 ms (it is starting)\",*}\n");
}

/* What is left of a deadline goes to the engine; a reply that has begun ends with what there is of it. */
static void a_deadline_between_two_engines(void **state)
{
    world_engine_up(&world);
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\",\"deadline_ms\":500}");
    world_say(&world, 1, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"p\",\"deadline_ms\":5000}");
    world_started(&world, 1, "m");
    world_committed(&world, 1, 0);
    world_engine_dies(&world, "died");
    world_forget(&world);
    world_pass(&world, 1000);
    world_hears(&world, 0, "{\"type\":\"done\",\"id\":1,\"finish_reason\":\"deadline\",\"tokens\":1,*}\n");
    world_engine_up(&world);
    world_engine_hears(&world, "{\"type\":\"generate\",*\"deadline_ms\":4000}\n");
}

static void slow_readers_are_paused_wherever_their_requests_are(void **state)
{
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
    world_say(&world, 0, "{\"type\":\"models\",\"id\":2}"); /* no stream */
    halo_requests_client_slow(&world.requests, &world.clients[0], true, world.now_ns);
    world_engine_up(&world);
    world_engine_hears(&world,
                       "{\"type\":\"generate\",*}\n{\"type\":\"pause\",\"target\":1}\n{\"type\":\"models\",*}\n");
    halo_requests_client_slow(&world.requests, &world.clients[0], false, world.now_ns);
    world_engine_hears(&world, "{\"type\":\"continue\",\"target\":1}\n");
    halo_requests_client_stalled(&world.requests, &world.clients[0], world.now_ns);
    world_engine_hears(&world, "{\"type\":\"cancel\",*}\n{\"type\":\"cancel\",*}\n");
    world_hears(&world, 0,
                "{\"type\":\"error\",\"id\":2,\"code\":\"client_stalled\",*}\n"
                "{\"type\":\"error\",\"id\":1,\"code\":\"client_stalled\",*}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_at_once, begin, end),
        cmocka_unit_test_setup_teardown(completes_what_the_engine_gets, begin, end),
        cmocka_unit_test_setup_teardown(refuses, begin, end),
        cmocka_unit_test_setup_teardown(trusted_clients_name_files, begin, end),
        cmocka_unit_test_setup_teardown(what_concerns_others, begin, end),
        cmocka_unit_test_setup_teardown(a_share_of_the_queue, begin, end),
        cmocka_unit_test_setup_teardown(configured_defaults, begin, end),
        cmocka_unit_test_setup_teardown(cancels_by_state, begin, end),
        cmocka_unit_test_setup_teardown(waiting_has_an_end, begin, end),
        cmocka_unit_test_setup_teardown(a_deadline_between_two_engines, begin, end),
        cmocka_unit_test_setup_teardown(slow_readers_are_paused_wherever_their_requests_are, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
