/* test_deliver.c: what becomes of an engine's line: passed on, kept for the record, or the reason to replace the
 * engine. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/log.h>

#include "world.h"

static struct world world;
static long long id;

static int begin(void **state)
{
    world_begin(&world);
    world_engine_up(&world);
    return 0;
}

static int end(void **state)
{
    world_end(&world);
    return 0;
}

static void ask(const char *line)
{
    world_say(&world, 0, line);
    id = world_last_id(&world);
    world_forget(&world);
}

static void start(const char *line)
{
    ask(line);
    world_started(&world, id, "m");
}

#define GENERATE "{\"type\":\"generate\",\"id\":\"g\",\"prompt\":\"p\"}"

static void passes_on_under_the_clients_id(void **state)
{
    start(GENERATE);
    world_committed(&world, id, 0);
    assert_int_equal(world_engine_says(&world, "{\"type\":\"token\",\"id\":%lld,\"text\":\"\\u00e9\"}", id), 0);
    assert_int_equal(
        world_engine_says(&world, "{\"type\":\"notice\",\"id\":%lld,\"code\":\"c\",\"message\":\"m\"}", id), 0);
    world_done(&world, id, "stop");
    world_hears(&world, 0,
                "{\"type\":\"started\",\"id\":\"g\",*}\n"
                "{\"type\":\"token\",\"id\":\"g\",\"text\":\"\\u00e9\"}\n"
                "{\"type\":\"notice\",\"id\":\"g\",*}\n"
                "{\"type\":\"done\",\"id\":\"g\",\"finish_reason\":\"stop\",*}\n");
    assert_int_equal(world.counters.events, 4); /* `committed` was not asked for */
    assert_int_equal(world.counters.requests_done, 1);
    assert_int_equal(world_engine_says(&world, "{\"type\":\"token\",\"id\":%lld,\"text\":\"late\"}", id), 0);
    assert_int_equal(world.counters.events_late, 1);
    world_hears(&world, 0, "");
}

/* A request in one of these states, then a line; `%lld` is its id. NULL: the line is taken. */
enum { NONE, GENERATED, STARTED, ONE_TOKEN, SCORED, LOADED };
static const struct {
    int state;
    const char *line, *fault;
} said[] = {
    {NONE, "{\"type\":\"tok", "no JSON object at byte *"},
    {NONE, "[1]", "no JSON object at byte *"},
    {NONE, "{\"type\":\"whatever\",\"id\":1}", "no known event in *"},
    {NONE, "{\"id\":1}", "no known event in *"},
    {NONE, "{\"type\":\"pong\",\"id\":4611686018427387904,\"uptime_ms\":1}", "an event for an unknown id: *"},
    {NONE, "{\"type\":\"pong\",\"id\":\"x\",\"uptime_ms\":1}", "an event for an unknown id: *"},
    {NONE, "{\"type\":\"pong\",\"id\":-1,\"uptime_ms\":1}", "an event for an unknown id: *"},
    {NONE, "{\"type\":\"pong\",\"id\":null,\"uptime_ms\":1}", "a pong event without an id"},
    {NONE, "{\"type\":\"notice\",\"id\":null,\"code\":\"c\",\"message\":\"m\"}", NULL},
    {NONE, "{\"type\":\"error\",\"id\":null,\"code\":\"internal\",\"message\":\"m\",\"retryable\":false}", NULL},
    {NONE, "{\"type\":\"unloaded\",\"id\":null}", "*model*"},
    {NONE, "{\"type\":\"unloaded\",\"id\":null,\"model\":\"x\",\"freed_bytes\":0}", NULL},
    {NONE, "{\"type\":\"unloaded\",\"id\":null,\"model\":\"\",\"freed_bytes\":0}", "*model*"},
    {GENERATED, "{\"type\":\"pong\",\"id\":%lld,\"uptime_ms\":1}", "a pong event for a generate request"},
    {GENERATED, "{\"type\":\"score_row\",\"id\":%lld,\"pos\":0}", "a score_row event for a generate request"},
    {GENERATED, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":5,\"pos\":0}", "token 0 of a reply that has 0"},
    {GENERATED, "{\"type\":\"started\",\"id\":%lld}", "*model*"},
    {GENERATED, "{\"type\":\"progress\",\"id\":%lld,\"phase\":\"queue\",\"done\":0,\"total\":1}", NULL},
    {GENERATED, "{\"type\":\"progress\",\"id\":%lld,\"phase\":\"load\",\"done\":0,\"total\":1}", NULL},
    {GENERATED, "{\"type\":\"progress\",\"id\":%lld,\"phase\":\"prefill\",\"done\":0,\"total\":1}", NULL},
    {GENERATED, "{\"type\":\"progress\",\"id\":%lld,\"phase\":\"newer\",\"done\":0,\"total\":1}", NULL},
    {GENERATED, "{\"type\":\"progress\",\"id\":%lld}", NULL}, /* only its phase is missed */
    {STARTED,
     "{\"type\":\"started\",\"id\":%lld,\"model\":\"m\",\"seed\":7,\"prompt_tokens\":1,\"cached\":0,"
     "\"prompt_md5\":\"0\",\"effective_md5\":\"e\",\"changes\":[]}",
     "a second started event"},
    {STARTED, "{\"type\":\"committed\",\"id\":%lld,\"pos\":0}", "a committed event without a token id"},
    {STARTED, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":-1,\"pos\":0}", "a committed event without a token id"},
    {STARTED, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":2147483648,\"pos\":0}",
     "a committed event without a token id"},
    {STARTED, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":1}", "token -1 of a reply that has 0"},
    {STARTED, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":1,\"pos\":1}", "token 1 of a reply that has 0"},
    {STARTED, "{\"type\":\"token\",\"id\":%lld}", "a token event without text"},
    {STARTED, "{\"type\":\"token\",\"id\":%lld,\"text\":7}", "a token event without text"},
    {ONE_TOKEN, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":1,\"pos\":0}", "token 0 of a reply that has 1"},
    {ONE_TOKEN, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":1,\"pos\":1}", NULL},
    {ONE_TOKEN, "{\"type\":\"error\",\"id\":%lld,\"code\":\"internal\",\"message\":\"m\",\"retryable\":false}", NULL},
    {SCORED, "{\"type\":\"score_row\",\"id\":%lld,\"pos\":1}", "row 1 of a score that is at 0"},
    {SCORED, "{\"type\":\"score_row\",\"id\":%lld}", "row -1 of a score that is at 0"},
    {SCORED, "{\"type\":\"score_row\",\"id\":%lld,\"pos\":0,\"logprob\":-1}", NULL},
    {SCORED, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":1,\"pos\":0}", "a committed event for a score request"},
    {LOADED, "{\"type\":\"loaded\",\"id\":%lld}", "*model*"},
    {LOADED, "{\"type\":\"unloaded\",\"id\":%lld,\"model\":\"m\"}", "a unloaded event for a load request"},
};
static void what_the_engine_may_not_say(void **state)
{
    world.config.on_demand = false;
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        char line[512];
        if (said[i].state >= SCORED)
            ask(said[i].state == SCORED ? "{\"type\":\"score\",\"id\":1,\"model\":\"m\",\"text\":\"t\"}"
                                        : "{\"type\":\"load\",\"id\":1,\"model\":\"m\"}");
        else if (said[i].state >= STARTED)
            start("{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
        else if (said[i].state == GENERATED)
            ask("{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
        if (said[i].state == ONE_TOKEN)
            world_committed(&world, id, 0);
        const char *slot = strstr(said[i].line, "%lld");
        int head = slot ? (int)(slot - said[i].line) : (int)strlen(said[i].line);
        snprintf(line, sizeof(line), "%.*s", head, said[i].line);
        if (slot)
            snprintf(line + head, sizeof(line) - (size_t)head, "%lld%s", id, slot + 4);
        int r = world_engine_says(&world, "%s", line);
        if (r != (said[i].fault ? -EPROTO : 0))
            fail_msg("case %zu, %s: %d", i, line, r);
        if (said[i].fault && !world_matches(world.fault.text, strlen(world.fault.text), said[i].fault))
            fail_msg("case %zu, %s: '%s'", i, line, world.fault.text);
        world_engine_dies(&world, "wrote garbage");
        world_say(&world, 0, "{\"type\":\"cancel\",\"id\":9,\"target\":1}");
        world.requests.breaker = (struct halo_breaker){0};
        world.requests.models.n_models = 0;
        world_engine_up(&world);
        world_forget(&world);
    }
}

static void progress_is_the_phase(void **state)
{
    static const struct {
        const char *phase, *was;
    } cases[] = {
        {"queue", "queued"}, {"load", "loading"}, {"prefill", "prefill"}, {"profile", "profile"}, {"newer", "queued"}};
    for (size_t i = 0; i < 5; i++) {
        ask("{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
        world_engine_says(&world, "{\"type\":\"progress\",\"id\":%lld,\"phase\":\"%s\",\"done\":0,\"total\":1}", id,
                          cases[i].phase);
        assert_int_equal(halo_requests_n_running(&world.requests), i > 0);
        assert_int_equal(halo_requests_n_queued(&world.requests), i == 0);
        world_forget(&world);
        world_say(&world, 0, "{\"type\":\"cancel\",\"id\":9,\"target\":1}");
        char pattern[128];
        snprintf(pattern, sizeof(pattern), "{\"type\":\"cancelled\",\"id\":9,\"target\":1,\"was\":\"%s\"}\n",
                 cases[i].was);
        world_hears(&world, 0, pattern);
        world_done(&world, id, "cancelled");
    }
}

/* What halod writes to stderr meanwhile. */
static const char *log_of(void (*act)(enum halo_notice code), enum halo_notice code)
{
    static char text[4096];
    FILE *file = tmpfile();
    int was = dup(STDERR_FILENO);
    assert_true(file && was >= 0);
    assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
    halo_log_set_level(HALO_LOG_INFO);
    act(code);
    halo_log_set_level(HALO_LOG_ERROR);
    assert_int_equal(dup2(was, STDERR_FILENO), STDERR_FILENO);
    close(was);
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static const char *name_of(enum halo_notice code)
{
    return code == HALO_NOTICE_UNKNOWN ? "newer" : halo_notice_name(code);
}

static void say_notice(enum halo_notice code)
{
    world_engine_says(&world, "{\"type\":\"notice\",\"id\":%lld,\"code\":\"%s\",\"message\":\"a sentence\"}", id,
                      name_of(code));
}

/* One notice for a load, which a client asked for or the daemon makes because a request needs the model. */
static void notice_of_a_load(enum halo_notice code, bool demanded)
{
    char pattern[256];
    ask(demanded ? "{\"type\":\"generate\",\"id\":1,\"model\":\"m\",\"prompt\":\"p\"}"
                 : "{\"type\":\"load\",\"id\":1,\"model\":\"m\"}");
    const char *text = log_of(say_notice, code);
    snprintf(pattern, sizeof(pattern), "*%s load of m: %s: a sentence\n", halo_notice_warns(code) ? "warn " : "info ",
             name_of(code));
    if (!world_matches(text, strlen(text), pattern))
        fail_msg("demanded %d, wanted %s: %s", demanded, pattern, text);
    snprintf(pattern, sizeof(pattern), "{\"type\":\"notice\",\"id\":1,\"code\":\"%s\",*}\n", name_of(code));
    world_hears(&world, 0, demanded ? "" : pattern); /* who waits has the engine's notice under its own id */
    world_engine_dies(&world, "died");
    world_say(&world, 0, "{\"type\":\"cancel\",\"id\":9,\"target\":1}");
    world.requests.breaker = (struct halo_breaker){0};
    world.requests.models.n_models = 0;
    world_engine_up(&world);
    world_forget(&world);
}

/* Every notice of the table is passed on to whoever asked; one about a load is also in the log, with its priority. */
static void notices_reach_client_and_log(void **state)
{
    for (int i = HALO_NOTICE_UNKNOWN; i < HALO_N_NOTICES; i++) {
        enum halo_notice code = (enum halo_notice)i;
        char pattern[256];
        if (halo_notice_is_of_load(code) || code == HALO_NOTICE_UNKNOWN) {
            notice_of_a_load(code, false);
            notice_of_a_load(code, true);
        }
        start("{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}");
        world_forget(&world);
        say_notice(code);
        snprintf(pattern, sizeof(pattern), "{\"type\":\"notice\",\"id\":1,\"code\":\"%s\",*}\n", name_of(code));
        world_hears(&world, 0, pattern);
        world_done(&world, id, "stop");
    }
}

static int64_t id_of_second;

static void say_notice_to_both(enum halo_notice code)
{
    say_notice(code);
    world_engine_says(&world, "{\"type\":\"notice\",\"id\":%lld,\"code\":\"%s\",\"message\":\"a sentence\"}",
                      (long long)id_of_second, name_of(code));
}

/* Two clients load one model: both are told, and the log has it once. */
static void notices_of_one_load_are_logged_once(void **state)
{
    int64_t first = (ask("{\"type\":\"load\",\"id\":1,\"model\":\"m\"}"), id);
    ask("{\"type\":\"load\",\"id\":2,\"model\":\"m\"}");
    id_of_second = id;
    id = first;
    const char *text = log_of(say_notice_to_both, HALO_NOTICE_LOAD_CHANGED);
    const char *line = strstr(text, "load of m: load_changed: a sentence\n");
    assert_non_null(line);
    assert_null(strstr(line + 1, "load of m"));
    world_hears(&world, 0, "{\"type\":\"notice\",\"id\":1,*}\n{\"type\":\"notice\",\"id\":2,*}\n");
    world_done(&world, first, "cancelled");
    world_done(&world, id_of_second, "cancelled");
}

static void queries_wait_a_moment(void **state)
{
    world_say(&world, 0, "{\"type\":\"stats\",\"id\":1}");
    world_engine_hears(&world, "{\"type\":\"stats\",\"id\":*}\n");
    world_pass(&world, (uint64_t)world.config.status_ms - 1);
    world_hears(&world, 0, "");
    world_pass(&world, 1);
    world_hears(&world, 0, "*\"heard\":false*\n");
    ask("{\"type\":\"stats\",\"id\":2}");
    world_engine_says(
        &world, "{\"type\":\"error\",\"id\":%lld,\"code\":\"internal\",\"message\":\"m\",\"retryable\":false}", id);
    world_hears(&world, 0, "*\"heard\":false*\n"); /* no answer that fits */
    ask("{\"type\":\"stats\",\"id\":3}");
    world_engine_says(&world, "{\"type\":\"stats\",\"id\":%lld,\"counters\":7}", id);
    world_hears(&world, 0, "*\"heard\":false*\n"); /* nor one that can be read */
    ask("{\"type\":\"stats\",\"id\":4}");
    world_engine_dies(&world, "died");
    world_hears(&world, 0, "*\"heard\":false*\n");
    world_say(&world, 0, "{\"type\":\"hello\",\"id\":5}"); /* an engine was there once: its features are known */
    world_hears(&world, 0, "*\"id\":5*\n");
    ask("{\"type\":\"stats\",\"id\":6}");
    assert_int_equal(world.requests.all.n, 0); /* answered at once, without an engine */
}

static void the_first_hello_waits_for_the_engine(void **state)
{
    world_engine_dies(&world, "died");
    world.requests.link.known = false;
    world_say(&world, 0, "{\"type\":\"hello\",\"id\":1}");
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"p\"}");
    world_say(&world, 0, "{\"type\":\"hello\",\"id\":3}");
    world_hears(&world, 0, "");
    world_engine_up(&world);
    world_hears(&world, 0, "{*\"id\":1,*}\n{*\"id\":3,*}\n");
    world_engine_hears(&world, "{\"type\":\"generate\",*}\n");
}

/* The engine took the model away before the request came, or while it waited for its load: it is asked again, once, and
 * the model loaded. */
static void a_model_that_was_unloaded_comes_again(void **state)
{
    ask("{\"type\":\"load\",\"id\":1,\"model\":\"m\"}");
    world_loaded(&world, id, "m", "1");
    ask("{\"type\":\"generate\",\"id\":2,\"model\":\"m.gguf\",\"prompt\":\"p\"}");
    long long generate = id;
    world_engine_says(&world, "{\"type\":\"progress\",\"id\":%lld,\"phase\":\"load\",\"done\":0,\"total\":1}", id);
    world_forget(&world);
    world_unloaded(&world, "m", "room");
    assert_int_equal(world.counters.models_evicted, 1);
    world_error(&world, generate, "not_found");
    world_hears(&world, 0, "");
    world_engine_hears(&world, "{\"type\":\"load\",*\"model\":\"m.gguf\"*}\n{\"type\":\"generate\",*}\n");
    world_error(&world, generate, "not_found");
    world_hears(&world, 0, "{\"type\":\"error\",\"id\":2,\"code\":\"not_found\",*}\n");
}

/* ... but not after another error, and not where nothing is loaded on demand. */
static void a_model_that_was_unloaded_stays_away(void **state)
{
    world.config.on_demand = false;
    ask("{\"type\":\"load\",\"id\":1,\"model\":\"n\"}");
    world_loaded(&world, id, "n", "1");
    for (int i = 0; i < 2; i++) {
        ask("{\"type\":\"generate\",\"id\":2,\"model\":\"n\",\"prompt\":\"p\"}");
        if (i == 0)
            world_unloaded(&world, "n", "idle");
        world_error(&world, id, i == 0 ? "not_found" : "internal");
        world_hears(&world, 0, "{\"type\":\"error\",\"id\":2,*}\n");
    }
}

static void without_memory_the_connection_breaks(void **state)
{
    char small[8];
    start(GENERATE);
    halo_json_finish(&world.outs[0]);
    halo_json_init_fixed(&world.outs[0], small, sizeof(small));
    assert_int_equal(world_engine_says(&world, "{\"type\":\"token\",\"id\":%lld,\"text\":\"x\"}", id), 0);
    assert_true(world.clients[0].broken);
    world.clients[0].broken = false;
    world_say(&world, 0, "{\"type\":\"ping\",\"id\":1}");
    assert_true(world.clients[0].broken);
    world.clients[0].broken = false;
    world_say(&world, 0, "nonsense");
    assert_true(world.clients[0].broken);
    world_close(&world, 0);
    world.clients[0].broken = false;
    halo_client_break(&world.clients[0]); /* nothing is left to break */
    assert_false(world.clients[0].broken);
}

/* An event that does not fit what its user may leave unread ends its request, and nobody else's. */
static void output_over_the_users_share(void **state)
{
    world.quota.limits[HALO_QUOTA_OUTPUT].user = 1000;
    start(GENERATE);
    long long generate = id;
    world_say(&world, 1, GENERATE);
    long long others = world_last_id(&world);
    world_started(&world, others, "m");
    for (int i = 0; i < 100 && world.counters.output_refused == 0; i++)
        assert_int_equal(world_engine_says(&world, "{\"type\":\"token\",\"id\":%lld,\"text\":\"x\"}", generate), 0);
    assert_int_equal(world.counters.output_refused, 1);
    assert_true(world.clients[0].user->used[HALO_QUOTA_OUTPUT] < 1000 + 400); /* and the error */
    world_engine_hears(&world, "*{\"type\":\"cancel\",*}\n");
    world_hears(&world, 0,
                "*{\"type\":\"error\",\"id\":\"g\",\"code\":\"client_stalled\",\"message\":\"user 1000 has 9* bytes of "
                "unread events, an event of * does not fit; *}\n");
    assert_int_equal(world.clients[0].user->used[HALO_QUOTA_OUTPUT], 0);
    assert_int_equal(world_engine_says(&world, "{\"type\":\"token\",\"id\":%lld,\"text\":\"x\"}", others), 0);
    world_hears(&world, 1, "*{\"type\":\"token\",*}\n");
    world_done(&world, generate, "cancelled");
    world_hears(&world, 0, "");
    /* A last event too. */
    world.quota.limits[HALO_QUOTA_OUTPUT].user = 10;
    world_done(&world, others, "length");
    world_hears(&world, 1, "{\"type\":\"error\",\"id\":\"g\",\"code\":\"client_stalled\",*}\n");
    world_engine_hears(&world, "");
    assert_int_equal(world.requests.all.n, 0);
}

/* What is larger than an answer may be ends with an error, not with a broken connection. */
static void an_answer_that_is_too_large(void **state)
{
    world_say(&world, 0, "{\"type\":\"stats\",\"id\":1}");
    world.outs[0].most = 300;
    world_engine_says(&world, "{\"type\":\"stats\",\"id\":%lld,\"counters\":{},\"histograms\":{}}",
                      world_last_id(&world));
    world_hears(&world, 0, "{\"type\":\"stats\",\"id\":1,*}\n"); /* this one fits */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(passes_on_under_the_clients_id, begin, end),
        cmocka_unit_test_setup_teardown(what_the_engine_may_not_say, begin, end),
        cmocka_unit_test_setup_teardown(progress_is_the_phase, begin, end),
        cmocka_unit_test_setup_teardown(notices_reach_client_and_log, begin, end),
        cmocka_unit_test_setup_teardown(notices_of_one_load_are_logged_once, begin, end),
        cmocka_unit_test_setup_teardown(queries_wait_a_moment, begin, end),
        cmocka_unit_test_setup_teardown(the_first_hello_waits_for_the_engine, begin, end),
        cmocka_unit_test_setup_teardown(a_model_that_was_unloaded_comes_again, begin, end),
        cmocka_unit_test_setup_teardown(a_model_that_was_unloaded_stays_away, begin, end),
        cmocka_unit_test_setup_teardown(without_memory_the_connection_breaks, begin, end),
        cmocka_unit_test_setup_teardown(output_over_the_users_share, begin, end),
        cmocka_unit_test_setup_teardown(an_answer_that_is_too_large, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
