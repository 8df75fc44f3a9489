/* test_daemon_demand.c: a request that names a model has it loaded, once for everybody who waits for it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;
static struct client client, other;

static void begin(const char *config)
{
    rig_begin(&rig, &client, &other, config, NULL);
}
static void end(void)
{
    rig_end(&rig, &client, &other);
}

static enum halo_ev_type generate(const char *model)
{
    char line[256];
    snprintf(line, sizeof(line), "{\"type\":\"generate\",\"id\":1,\"model\":\"%s\",\"prompt\":\"n=3\"}", model);
    return client_ask(&client, line, 1, NULL);
}

static size_t n_models(void)
{
    struct halo_ev ev;
    client_send(&other, "{\"type\":\"status\",\"id\":77}");
    client_terminal(&other, 77, &ev);
    size_t n = ev.status.models.n;
    halo_ev_finish(&ev);
    return n;
}

static void named_models_are_loaded(void **state)
{
    begin("[models]\nkeep_alive_s = 4321\n");
    assert_int_equal(n_models(), 0);
    assert_int_equal(generate("a"), HALO_EV_DONE);
    generate("a.gguf"); /* the fake knows no endings; it is a name of the same model, and no load */
    assert_int_equal(rig_log_count(&rig, "engine: loading"), 1);
    assert_int_equal(n_models(), 1);
    generate("/some/where/a.gguf"); /* a path stands for that very file: the engine has to look */
    assert_int_equal(rig_log_count(&rig, "engine: loading"), 2);
    assert_true(rig_log_has(&rig, "engine: loading a, keep_alive_s 4321"));
    assert_int_equal(n_models(), 2);
    /* A load that says so itself is not overruled. */
    static const char load[] = "{\"type\":\"load\",\"id\":1,\"model\":\"b\",\"params\":{\"keep_alive_s\":7}}";
    assert_int_equal(client_ask(&client, load, 1, NULL), HALO_EV_LOADED);
    assert_true(rig_log_has(&rig, "engine: loading b, keep_alive_s 7"));
    /* It is the daemon's now: another engine gets it back. */
    assert_int_equal(kill(rig_engine_pid(&rig), SIGKILL), 0);
    assert_int_equal(generate("a"), HALO_EV_DONE);
    assert_int_equal(n_models(), 3);
    end();
}

static void one_load_serves_all(void **state)
{
    struct stream mine[2] = {{.id = 1, .size = 4}, {.id = 2, .size = 4}}, others = {.id = 3, .size = 4};
    begin("");
    for (int i = 1; i <= 2; i++)
        client_sendf(&client,
                     "{\"type\":\"generate\",\"id\":%d,\"model\":\"slow-300\",\"prompt\":\"n=3\","
                     "\"emit_token_ids\":true}",
                     i);
    client_send(&other, "{\"type\":\"generate\",\"id\":3,\"model\":\"slow-300\",\"prompt\":\"n=3\","
                        "\"emit_token_ids\":true}");
    streams_read(&client, mine, 2);
    streams_read(&other, &others, 1);
    assert_int_equal(mine[0].n_ids + mine[1].n_ids + others.n_ids, 9);
    assert_int_equal(rig_log_count(&rig, "engine: loading"), 1);
    halo_ev_finish(&mine[0].end);
    halo_ev_finish(&mine[1].end);
    halo_ev_finish(&others.end);
    end();
}

/* The engine dies over it: whoever still waits asks again; nobody left: nobody asks, but a finished load stays. */
static void a_death_in_between(void **state)
{
    struct stream stream = {.id = 1, .size = 4};
    struct client gone;
    begin("");
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"first-60000\",\"prompt\":\"n=3\","
                         "\"emit_token_ids\":true}");
    rig_wait_log(&rig, "engine: loading first-60000");
    assert_int_equal(kill(rig_engine_pid(&rig), SIGKILL), 0);
    streams_read(&client, &stream, 1);
    assert_int_equal(stream.terminal, HALO_EV_DONE);
    assert_int_equal(stream.n_ids, 3);
    assert_int_equal(stream.n_notices, 0); /* it had not begun */
    halo_ev_finish(&stream.end);
    assert_int_equal(rig_log_count(&rig, "engine: loading first-60000"), 2);
    client_connect(&gone, &rig);
    client_send(&gone, "{\"type\":\"generate\",\"id\":1,\"model\":\"slow-200\",\"prompt\":\"n=3\"}");
    rig_wait_log(&rig, "engine: loading slow-200");
    client_close(&gone);
    for (uint64_t until = rig_now_ms() + RIG_PATIENCE_MS; n_models() < 2;) { /* a disconnect does not end a load */
        assert_true(rig_now_ms() < until);
        rig_sleep_ms(20);
    }
    end();
}

static void what_cannot_be_loaded_says_so(void **state)
{
    enum halo_error code;
    begin("");
    client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"fail\",\"prompt\":\"\"}", 1, &code);
    assert_int_equal(code, HALO_ERROR_NOT_FOUND); /* the fake does not let it wait for the load */
    assert_int_equal(n_models(), 0);
    client_ask(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"die\",\"prompt\":\"\"}", 1, &code);
    assert_int_equal(code, HALO_ERROR_ENGINE_LOST);
    assert_int_equal(generate("fine"), HALO_EV_DONE);
    assert_int_equal(rig_engine_starts(&rig), 4); /* three died of it */
    end();
}

/* A model makes room while a request for it is on its way: the request does not hear of it, the model comes again. */
static void a_model_that_went_comes_again(void **state)
{
    struct stream stream = {.id = 1, .size = 4};
    struct halo_ev ev;
    begin("");
    assert_int_equal(generate("a"), HALO_EV_DONE);
    assert_int_equal(client_ask(&other, "{\"type\":\"load\",\"id\":1,\"model\":\"crowd\"}", 1, NULL), HALO_EV_LOADED);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"model\":\"a\",\"prompt\":\"n=3\","
                         "\"emit_token_ids\":true}");
    streams_read(&client, &stream, 1);
    assert_int_equal(stream.terminal, HALO_EV_DONE);
    assert_int_equal(stream.n_ids, 3);
    halo_ev_finish(&stream.end);
    assert_int_equal(rig_log_count(&rig, "engine: too late for a"), 1);
    assert_int_equal(rig_log_count(&rig, "engine: loading a,"), 2);
    assert_int_equal(rig_log_count(&rig, "model a was unloaded: another model needed the memory"), 1);
    client_send(&other, "{\"type\":\"stats\",\"id\":5}");
    client_terminal(&other, 5, &ev);
    assert_non_null(strstr(ev.stats.counters.at, "\"models_evicted\":1,"));
    halo_ev_finish(&ev);
    end();
}

/* Another engine gets the same set: in the order of last use, pinned and as large as they were. */
static void the_same_set_comes_back(void **state)
{
    static const char pin[] = "{\"type\":\"load\",\"id\":1,\"model\":\"a\",\"params\":{\"pin\":true,"
                              "\"keep_alive_s\":9}}";
    static const char again[] = "{\"type\":\"load\",\"id\":1,\"model\":\"b\",\"params\":{\"pin\":true}}";
    begin("");
    assert_int_equal(client_ask(&client, pin, 1, NULL), HALO_EV_LOADED);
    assert_int_equal(generate("b"), HALO_EV_DONE);
    assert_int_equal(generate("c"), HALO_EV_DONE);
    assert_int_equal(client_ask(&client, again, 1, NULL), HALO_EV_LOADED);
    assert_int_equal(generate("a"), HALO_EV_DONE); /* c was used the longest ago now, then b */
    assert_int_equal(kill(rig_engine_pid(&rig), SIGKILL), 0);
    assert_int_equal(generate("a"), HALO_EV_DONE);
    assert_int_equal(n_models(), 3);
    assert_int_equal(rig_log_count(&rig, "engine: loading a, keep_alive_s 9, pinned, kv_tokens 7777"), 1);
    assert_int_equal(rig_log_count(&rig, "engine: loading b, keep_alive_s -1, pinned, kv_tokens 7777"), 1);
    assert_int_equal(rig_log_count(&rig, "engine: loading c, keep_alive_s -1, kv_tokens 7777"), 1);
    assert_true(rig_log_before(&rig, "loading c again", "loading b again"));
    assert_true(rig_log_before(&rig, "loading b again", "loading a again"));
    end();
}

static void not_where_it_is_not_wanted(void **state)
{
    begin("[models]\non_demand = no\n");
    assert_int_equal(generate("a"), HALO_EV_ERROR);
    assert_int_equal(rig_log_count(&rig, "engine: loading"), 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_models_are_loaded),    cmocka_unit_test(one_load_serves_all),
        cmocka_unit_test(a_death_in_between),         cmocka_unit_test(what_cannot_be_loaded_says_so),
        cmocka_unit_test(not_where_it_is_not_wanted), cmocka_unit_test(a_model_that_went_comes_again),
        cmocka_unit_test(the_same_set_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
