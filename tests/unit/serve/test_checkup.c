/* test_checkup.c: which finding of halo-doctor is kept, and what an engine was doing when it died. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <serve/child/checkup.h>

static void take(struct halo_checkup_finding *best, const char *line, const char *stage)
{
    halo_checkup_take(best, line, strlen(line), stage);
}

static void keeps_what_explains_most(void **state)
{
    struct halo_checkup_finding best = {0};
    take(&best, "{\"id\":\"a\",\"verdict\":\"PASS\",\"advice\":\"\",\"stages\":[\"step\"]}", "step");
    assert_int_equal(best.rank, HALO_CHECKUP_NOTHING);
    take(&best, "{\"id\":\"b\",\"verdict\":\"WARN\",\"advice\":\"x\",\"stages\":[\"load\"]}", "step");
    assert_int_equal(best.rank, HALO_CHECKUP_NOTHING); /* of something else */
    take(&best, "{\"id\":\"c\",\"verdict\":\"WARN\",\"advice\":\"x\",\"stages\":[\"load\",\"step\"]}", "step");
    assert_string_equal(best.text, "c WARN: x");
    take(&best, "{\"id\":\"d\",\"verdict\":\"FAIL\",\"advice\":\"y\",\"stages\":[]}", "step");
    assert_string_equal(best.text, "d FAIL: y");
    take(&best, "{\"id\":\"e\",\"verdict\":\"FAIL\",\"advice\":\"z\",\"stages\":[\"step\"]}", "step");
    take(&best, "{\"id\":\"f\",\"verdict\":\"FAIL\",\"advice\":\"later\",\"stages\":[\"step\"]}", "step");
    assert_string_equal(best.text, "e FAIL: z"); /* the first of its rank */
    assert_int_equal(best.n_read, 6);
    assert_false(best.no_gpu);
    take(&best, "{\"id\":\"driver\",\"verdict\":\"FAIL\",\"advice\":\"none\"}", "");
    assert_true(best.no_gpu);
}

static void where_nothing_is_known_every_stage_fits(void **state)
{
    struct halo_checkup_finding best = {0};
    take(&best, "{\"id\":\"c\",\"verdict\":\"WARN\",\"advice\":\"x\"}", "");
    assert_int_equal(best.rank, HALO_CHECKUP_WARNS);
}

static void trusts_nothing(void **state)
{
    struct halo_checkup_finding best = {0};
    char line[9000];
    take(&best, "", "step");
    take(&best, "[]", "step");
    take(&best, "{\"id\":7,\"verdict\":\"FAIL\"}", "step");
    take(&best, "{\"id\":\"a\",\"id\":\"b\",\"verdict\":\"FAIL\"}", "step");
    memset(line, ' ', sizeof(line));
    memcpy(line, "{\"id\":\"a\",\"verdict\":\"FAIL\"}", 26);
    halo_checkup_take(&best, line, sizeof(line), "step"); /* longer than a finding */
    assert_int_equal(best.n_read, 0);
    /* A text that is cut ends with a whole character. */
    int n = snprintf(line, sizeof(line), "{\"id\":\"a\",\"verdict\":\"FAIL\",\"advice\":\"");
    for (int i = 0; i < 300; i++)
        n += snprintf(line + n, sizeof(line) - (size_t)n, "\xe2\x82\xac");
    snprintf(line + n, sizeof(line) - (size_t)n, "\"}");
    take(&best, line, "step");
    size_t len = strlen(best.text);
    assert_true(len > 500 && len < HALO_CHECKUP_TEXT_BYTES);
    assert_string_equal(best.text + len - 3, "\xe2\x82\xac");
}

static void stages(void **state)
{
    static const struct {
        enum halo_wire_activity activity;
        const char *stage;
    } cases[] = {
        {HALO_WIRE_ACTIVITY_IDLE, ""},        {HALO_WIRE_ACTIVITY_MODEL, "load"},  {HALO_WIRE_ACTIVITY_FIRST, "launch"},
        {HALO_WIRE_ACTIVITY_PREFILL, "step"}, {HALO_WIRE_ACTIVITY_DECODE, "step"}, {HALO_WIRE_ACTIVITY_STEP, "step"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct halo_engine_beat beat = {0};
        beat.threads[HALO_WIRE_THREAD_DEVICE].activity = cases[i].activity;
        assert_string_equal(halo_checkup_stage(HALO_ENGINE_UP, &beat), cases[i].stage);
        assert_string_equal(halo_checkup_stage(HALO_ENGINE_STARTING, &beat), "open");
        beat.threads[HALO_WIRE_THREAD_PREFETCH].activity = HALO_WIRE_ACTIVITY_FILE;
        assert_string_equal(halo_checkup_stage(HALO_ENGINE_UP, &beat), "load");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_what_explains_most),
        cmocka_unit_test(where_nothing_is_known_every_stage_fits),
        cmocka_unit_test(trusts_nothing),
        cmocka_unit_test(stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
