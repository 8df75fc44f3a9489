/* test_daemon_watch.c: each kind of work has a deadline of its own, and a load has one too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;
static struct client client;

struct kind {
    enum halo_wire_activity activity;
    const char *key, *logged;
};

static const struct kind kinds[] = {
    {HALO_WIRE_ACTIVITY_MODEL, "load_ms",
     "hung for 60000 ms in allocating or freeing a model's memory: step of 8 rows"},
    {HALO_WIRE_ACTIVITY_FIRST, "first_ms", "hung for 60000 ms in the first step of a model: step of 8 rows"},
    {HALO_WIRE_ACTIVITY_PREFILL, "prefill_ms", "hung for 60000 ms in a prefill step: step of 8 rows"},
    {HALO_WIRE_ACTIVITY_DECODE, "step_ms", "hung for 60000 ms in a decode step: step of 8 rows"},
    {HALO_WIRE_ACTIVITY_STEP, "step_ms", "hung for 60000 ms in a step: step of 8 rows"},
    {HALO_WIRE_ACTIVITY_TEXT, "text_ms", "hung for 60000 ms in preparing or reading text: tokenizing for request 1"},
    {HALO_WIRE_ACTIVITY_FILE, "load_ms", "hung for 60000 ms in reading or writing files: reading folder /mnt/gone"},
};

/* A configuration in which this key has one value and the others another. */
static void start_with(const char *key, int value, int others)
{
    static const char *const keys[] = {"load_ms", "first_ms", "prefill_ms", "step_ms", "text_ms"};
    char config[256] = "[engine]\nheartbeat_ms = 2000\n";
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        snprintf(config + strlen(config), sizeof(config) - strlen(config), "%s = %d\n", keys[i],
                 strcmp(keys[i], key) == 0 ? value : others);
    rig_start(&rig, config, NULL);
    client_connect(&client, &rig);
}

static void stop(void)
{
    client_close(&client);
    rig_stop(&rig);
}

static void a_hang_is_one_by_its_own_deadline(void **state)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct stream stream = {.id = 1, .size = 4};
        start_with(kinds[i].key, 30000, 0);
        client_sendf(&client,
                     "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=5 stuck=4 as=%d\",\"emit_token_ids\":true}",
                     (int)kinds[i].activity);
        streams_read(&client, &stream, 1);
        assert_int_equal(stream.terminal, HALO_EV_DONE);
        assert_int_equal(stream.n_ids, 5);
        assert_int_equal(stream.n_notices, 1);
        halo_ev_finish(&stream.end);
        if (!rig_log_has(&rig, kinds[i].logged))
            fail_msg("the log does not say '%s'", kinds[i].logged);
        stop();
    }
}

static void other_deadlines_do_not_matter(void **state)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        start_with(kinds[i].key, 0, 30000);
        client_sendf(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=5 stuck=1 as=%d\"}",
                     (int)kinds[i].activity);
        struct halo_ev ev;
        client_event(&client, &ev);
        assert_int_equal(ev.type, HALO_EV_STARTED);
        halo_ev_finish(&ev);
        assert_true(client_is_quiet(&client, 500));
        assert_int_equal(rig_engine_starts(&rig), 1);
        stop();
    }
}

/* The load is asked for again; the client that waits for it hears nothing but the end. */
static void a_load_that_stalls_is_begun_again(void **state)
{
    start_with("load_ms", 30000, 0);
    assert_int_equal(client_ask(&client, "{\"type\":\"load\",\"id\":1,\"model\":\"stall\"}", 1, NULL), HALO_EV_LOADED);
    assert_int_equal(rig_engine_starts(&rig), 2);
    assert_true(rig_log_has(&rig, "hung for 60000 ms in reading or writing files: 3 of 8 tensors"));
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hang_is_one_by_its_own_deadline),
        cmocka_unit_test(other_deadlines_do_not_matter),
        cmocka_unit_test(a_load_that_stalls_is_begun_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
