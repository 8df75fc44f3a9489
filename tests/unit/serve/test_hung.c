/* test_hung.c: when an engine is given up: by state, by silence, by what each of its threads says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <serve/child/engine.h>

#define MS 1000000ull

static struct halo_config config;
static struct halo_engine engine;
static const uint64_t now_ns = 1000000 * MS;

static int begin(void **state)
{
    assert_int_equal(halo_config_init(&config), 0);
    engine = (struct halo_engine){
        .config = &config, .state = HALO_ENGINE_UP, .spawned_ns = now_ns, .heard_ns = now_ns, .died_ns = now_ns};
    return 0;
}

static int end(void **state)
{
    halo_config_finish(&config);
    return 0;
}

/* NULL: it is fine. */
static void expect(const char *wanted)
{
    char reason[HALO_ENGINE_REASON_BYTES] = "";
    assert_int_equal(halo_engine_is_hung(&engine, now_ns, reason), wanted != NULL);
    assert_string_equal(reason, wanted ? wanted : "");
}

static void by_silence(void **state)
{
    expect(NULL);
    engine.heard_ns = now_ns - 10000 * MS;
    expect(NULL);
    engine.heard_ns = now_ns - 10001 * MS;
    expect("was silent for 10001 ms");
    snprintf(engine.beat.threads[HALO_WIRE_THREAD_DEVICE].phase, 32, "first launch");
    expect("was silent for 10001 ms, last heard: first launch");
    engine.state = HALO_ENGINE_STARTING; /* it has its own time for that */
    expect(NULL);
    engine.spawned_ns = now_ns - 30001 * MS;
    expect("did not answer hello within 30001 ms");
}

static void by_every_thread_and_kind_of_work(void **state)
{
    const struct {
        enum halo_wire_activity activity;
        const int64_t *limit_ms;
        const char *name;
    } kinds[] = {
        {HALO_WIRE_ACTIVITY_UNKNOWN, NULL, NULL},
        {HALO_WIRE_ACTIVITY_IDLE, NULL, NULL},
        {HALO_WIRE_ACTIVITY_MODEL, &config.load_ms, "allocating or freeing a model's memory"},
        {HALO_WIRE_ACTIVITY_FIRST, &config.first_ms, "the first step of a model"},
        {HALO_WIRE_ACTIVITY_PREFILL, &config.prefill_ms, "a prefill step"},
        {HALO_WIRE_ACTIVITY_DECODE, &config.step_ms, "a decode step"},
        {HALO_WIRE_ACTIVITY_STEP, &config.step_ms, "a step"},
        {HALO_WIRE_ACTIVITY_TEXT, &config.text_ms, "preparing or reading text"},
        {HALO_WIRE_ACTIVITY_FILE, &config.load_ms, "reading or writing files"},
    };
    for (size_t t = 0; t < HALO_ENGINE_THREADS; t++)
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            struct halo_engine_thread *thread = &engine.beat.threads[t];
            char text[128];
            *thread = (struct halo_engine_thread){.phase = "words", .activity = kinds[k].activity, .ms = INT64_MAX};
            if (!kinds[k].limit_ms) {
                expect(NULL);
                continue;
            }
            thread->ms = *kinds[k].limit_ms;
            expect(NULL);
            thread->ms++;
            snprintf(text, sizeof(text), "hung for %lld ms in %s: words", (long long)thread->ms, kinds[k].name);
            expect(text);
            int64_t limit_ms = *kinds[k].limit_ms;
            *(int64_t *)(uintptr_t)kinds[k].limit_ms = 0; /* for ever */
            expect(NULL);
            *(int64_t *)(uintptr_t)kinds[k].limit_ms = limit_ms;
            thread->activity = HALO_WIRE_ACTIVITY_IDLE;
        }
}

static void is_well(void **state)
{
    static const struct {
        enum halo_engine_state state;
        int64_t ms; /* until then it is well; 0: always */
    } cases[] = {
        {HALO_ENGINE_DOWN, 0}, {HALO_ENGINE_STARTING, 60000}, {HALO_ENGINE_UP, 20000}, {HALO_ENGINE_DYING, 10000}};
    for (size_t i = 0; i < 4; i++) {
        engine.state = cases[i].state;
        assert_true(halo_engine_is_well(&engine, now_ns + (uint64_t)cases[i].ms * MS - (cases[i].ms > 0)));
        assert_int_equal(halo_engine_is_well(&engine, now_ns + (uint64_t)cases[i].ms * MS), cases[i].ms == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_silence, begin, end),
        cmocka_unit_test_setup_teardown(by_every_thread_and_kind_of_work, begin, end),
        cmocka_unit_test_setup_teardown(is_well, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
