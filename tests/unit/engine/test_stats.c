/* test_stats.c: histograms count into the right bucket, names are stable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <engine/stats.h>

static void an_observation_falls_into_the_first_bucket_that_holds_it(void **state)
{
    struct halo_stats stats = {0};
    const uint32_t *bounds = halo_histogram_bounds(HALO_HISTOGRAM_step_rows);
    for (int i = 0; i < HALO_HISTOGRAM_BOUNDS; i++) {
        assert_true(i == 0 || bounds[i] > bounds[i - 1]);
        halo_stats_observe(&stats, HALO_HISTOGRAM_step_rows, bounds[i]); /* the bound itself belongs to the bucket */
        halo_stats_observe(&stats, HALO_HISTOGRAM_step_rows, bounds[i] + 1); /* one more does not */
    }
    struct halo_histogram *histogram = &stats.histograms[HALO_HISTOGRAM_step_rows];
    assert_int_equal(histogram->n, 2 * HALO_HISTOGRAM_BOUNDS);
    uint64_t n = 0, sum = 0;
    for (int i = 0; i <= HALO_HISTOGRAM_BOUNDS; i++)
        n += histogram->counts[i];
    for (int i = 0; i < HALO_HISTOGRAM_BOUNDS; i++)
        sum += 2 * bounds[i] + 1;
    assert_int_equal(n, histogram->n);
    assert_int_equal(histogram->sum, sum);
    assert_int_equal(histogram->counts[0], 1);
    assert_int_equal(histogram->counts[HALO_HISTOGRAM_BOUNDS], 1);
}

/* Outside scripts read these. A change here is a change of the protocol. */
static void names_are_stable(void **state)
{
    static const char *const wanted[] = {"steps",
                                         "rows",
                                         "steps_8_or_more",
                                         "prompt_tokens",
                                         "committed_tokens",
                                         "preemptions",
                                         "cancelled_decode",
                                         "refused_queue_full"};
    struct halo_stats stats = {0};
    HALO_COUNT(&stats, steps_8_or_more, 7);
    for (size_t w = 0; w < sizeof(wanted) / sizeof(wanted[0]); w++) {
        bool found = false;
        for (uint32_t i = 0; i < halo_stats_n_counters(); i++) {
            uint64_t value;
            const char *name = halo_stats_counter(&stats, i, &value);
            if (strcmp(name, wanted[w]) != 0)
                continue;
            found = true;
            assert_int_equal(value, strcmp(name, "steps_8_or_more") == 0 ? 7 : 0);
        }
        assert_true(found);
    }
    assert_string_equal(halo_histogram_name(HALO_HISTOGRAM_ttft_ms), "ttft_ms");
    assert_string_equal(halo_histogram_name(HALO_HISTOGRAM_inter_token_ms), "inter_token_ms");
    assert_string_equal(halo_histogram_name(HALO_HISTOGRAM_queue_ms), "queue_ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_observation_falls_into_the_first_bucket_that_holds_it),
        cmocka_unit_test(names_are_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
