/* test_reload.c: models that come back after a death, and models that come because a request names them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

static struct world world;

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

/* The engine answers the load that it got last. `stamp` stands for the model's files. */
static void loaded(const char *model, const char *stamp)
{
    world_loaded(&world, world_last_id(&world), model, stamp);
}

static void load(const char *model)
{
    char line[128];
    snprintf(line, sizeof(line), "{\"type\":\"load\",\"id\":1,\"model\":\"%s\"}", model);
    world_say(&world, 0, line);
    loaded(model, "1");
    world_forget(&world);
}

static void come_back_one_by_one(void **state)
{
    load("a");
    load("b");
    world_say(&world, 1, "{\"type\":\"generate\",\"id\":5,\"model\":\"a\",\"prompt\":\"p\"}"); /* used after b */
    long long generate = world_last_id(&world);
    world_started(&world, generate, "a");
    world_engine_dies(&world, "died");
    world_forget(&world);
    world_engine_up(&world);
    assert_int_equal(world.requests.link.state, HALO_LINK_LOADING);
    assert_int_equal(world_engine_says(&world, "{\"type\":\"token\",\"id\":%lld,\"text\":\"x\"}", generate), 0);
    assert_int_equal(world.counters.events_late, 1); /* this engine has not got it yet */
    world_hears(&world, 1, "");
    /* As large, as pinned and as long-lived as it was. */
    world_engine_hears(&world, "{\"type\":\"load\",*\"model\":\"b\",*\"context\":64*\"kv_tokens\":128*\"pin\":true*"
                               "\"keep_alive_s\":9*}\n");
    loaded("b", "1");
    world_engine_hears(&world, "{\"type\":\"load\",*\"model\":\"a\",*}\n");
    world_pass(&world, (uint64_t)world.config.wait_ms + 1); /* it loads: there is something to wait for */
    loaded("a", "1");
    assert_int_equal(world.requests.link.state, HALO_LINK_READY);
    assert_string_equal(world.status, "ready, 2 models in memory");
    world_engine_hears(&world, "{\"type\":\"generate\",*\"resume\":*}\n");
    world_hears(&world, 1, "{\"type\":\"notice\",\"id\":5,\"code\":\"engine_restarted\",*}\n");
    assert_true(world.requests.breaker.n_vain == 0);
}

static void what_came_back_otherwise_ends_its_replies(void **state)
{
    load("a");
    world_say(&world, 1, "{\"type\":\"generate\",\"id\":5,\"model\":\"a\",\"prompt\":\"p\"}");
    world_started(&world, world_last_id(&world), "a");
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    world_forget(&world);
    loaded("a", "2");
    world_hears(&world, 1,
                "{\"type\":\"error\",\"id\":5,\"code\":\"engine_lost\",*was reloaded on d with a context of 64, "
                "files 2, but the reply began on d with a context of 64, files 1*}\n");
}

static void one_that_does_not_come_back_is_forgotten(void **state)
{
    load("a");
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    world_error(&world, world_last_id(&world), "load_failed");
    assert_int_equal(world.requests.link.state, HALO_LINK_READY);
    assert_int_equal(world.requests.models.n_models, 0);
    /* One that kills each engine that loads it is given up too. */
    load("b");
    world.config.breaker_deaths = 100;
    for (int i = 0; i < 3; i++) {
        world_engine_dies(&world, "died");
        assert_int_equal(world.requests.models.n_models, 1);
        world_engine_up(&world);
    }
    world_engine_dies(&world, "died");
    assert_int_equal(world.requests.models.n_models, 0);
    world_engine_up(&world);
    assert_int_equal(world.requests.link.state, HALO_LINK_READY);
    /* One that came back is no suspect any more. */
    load("c");
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    assert_int_equal(world.requests.models.models[0].n_deaths, 1);
    loaded("c", "1");
    assert_int_equal(world.requests.models.models[0].n_deaths, 0);
}

/* It unloads one to make room for the next, or the client's own `unload` ends it, while models come back. */
static void one_that_is_unloaded_meanwhile(void **state)
{
    load("a");
    load("b");
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    world_unloaded(&world, "a", "room");
    loaded("a", "1");
    assert_int_equal(world.requests.models.n_models, 1);
    loaded("b", "1");
    assert_int_equal(world.requests.link.state, HALO_LINK_READY);
    world_say(&world, 0, "{\"type\":\"unload\",\"id\":3,\"model\":\"b\"}");
    assert_int_equal(world_engine_says(&world, "{\"type\":\"unloaded\",\"id\":%lld,\"model\":\"b\",\"freed_bytes\":1}",
                                       world_last_id(&world)),
                     0);
    assert_int_equal(world.requests.models.n_models, 0);
}

static void a_named_model_is_loaded_once(void **state)
{
    world.config.keep_alive_s = 60;
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"model\":\"m\",\"prompt\":\"p\"}");
    world_engine_hears(&world,
                       "{\"type\":\"load\",*\"model\":\"m\",*\"keep_alive_s\":60*}\n{\"type\":\"generate\",*}\n");
    world_say(&world, 1, "{\"type\":\"generate\",\"id\":2,\"model\":\"m\",\"prompt\":\"q\"}");
    world_engine_hears(&world, "{\"type\":\"generate\",*}\n"); /* it is under way */
    world.config.on_demand = false;
    world_say(&world, 2, "{\"type\":\"generate\",\"id\":3,\"model\":\"n\",\"prompt\":\"q\"}");
    world_engine_hears(&world, "{\"type\":\"generate\",*}\n");
    world.config.on_demand = true;
    /* After a death it is asked for again, by whoever waits for it. */
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    world_engine_hears(&world, "{\"type\":\"load\",*\"model\":\"m\",*}\n{\"type\":\"generate\",*\"p\"*}\n"
                               "{\"type\":\"generate\",*\"q\"*}\n{\"type\":\"load\",*\"model\":\"n\",*}\n*");
}

/* What no client asked for is none of the requests that `stats` counts. */
static void own_loads_are_not_counted(void **state)
{
    world_say(&world, 0, "{\"type\":\"generate\",\"id\":1,\"model\":\"m\",\"prompt\":\"p\"}");
    long long load = world_last_id(&world), generate = load - 1;
    loaded("m", "1");
    assert_int_equal(world.counters.requests_done, 0);
    world_started(&world, generate, "m");
    world_done(&world, generate, "stop");
    assert_int_equal(world.counters.requests, 1);
    assert_int_equal(world.counters.requests_done, 1);
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    loaded("m", "1"); /* it comes back */
    assert_int_equal(world.requests.models.n_models, 1);
    assert_int_equal(world.counters.requests_done, 1);
}

/* Its client is gone: the load goes on, and the model is remembered. */
static void a_load_belongs_to_the_daemon(void **state)
{
    world_say(&world, 0, "{\"type\":\"load\",\"id\":1,\"model\":\"m\"}");
    world_forget(&world);
    world_close(&world, 0);
    world_engine_hears(&world, "");
    loaded("m", "1");
    assert_int_equal(world.requests.models.n_models, 1);
    world_say(&world, 1, "{\"type\":\"load\",\"id\":2,\"model\":\"n\"}");
    world_engine_dies(&world, "died");
    world_close(&world, 1); /* one that waits here too */
    world_engine_up(&world);
    loaded("m", "1");
    assert_int_equal(world.requests.all.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(come_back_one_by_one, begin, end),
        cmocka_unit_test_setup_teardown(what_came_back_otherwise_ends_its_replies, begin, end),
        cmocka_unit_test_setup_teardown(one_that_does_not_come_back_is_forgotten, begin, end),
        cmocka_unit_test_setup_teardown(one_that_is_unloaded_meanwhile, begin, end),
        cmocka_unit_test_setup_teardown(a_named_model_is_loaded_once, begin, end),
        cmocka_unit_test_setup_teardown(own_loads_are_not_counted, begin, end),
        cmocka_unit_test_setup_teardown(a_load_belongs_to_the_daemon, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
