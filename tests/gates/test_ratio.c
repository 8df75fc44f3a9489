/* test_ratio.c: the statistics of the speed gate: exact distribution, published example, coverage, and the verdicts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ratio.h"

/* Every order of n_a and n_b things, counted one by one. */
static void the_distribution_is_exact(void **state)
{
    for (unsigned n_a = 1; n_a <= 6; n_a++)
        for (unsigned n_b = 1; n_b <= 6; n_b++) {
            unsigned count[37] = {0}, all = 0, below = 0;
            for (unsigned order = 0; order < 1u << (n_a + n_b); order++) {
                unsigned u = 0, n_seen_b = 0;
                if ((unsigned)__builtin_popcount(order) != n_a)
                    continue;
                for (unsigned i = 0; i < n_a + n_b; i++)
                    if (order & 1u << i)
                        u += n_seen_b;
                    else
                        n_seen_b++;
                count[u]++;
                all++;
            }
            for (unsigned u = 0; u <= n_a * n_b; u++) {
                below += count[u];
                assert_true(fabs(halo_rank_sum_below(n_a, n_b, u) - (double)below / all) < 1e-12);
            }
        }
    /* Published: with ten of each the 2.5 % point is U = 23, with twenty 127; in the middle it is a half. */
    assert_true(halo_rank_sum_below(10, 10, 23) <= 0.025 && halo_rank_sum_below(10, 10, 24) > 0.025);
    assert_true(halo_rank_sum_below(20, 20, 127) <= 0.025 && halo_rank_sum_below(20, 20, 128) > 0.025);
    assert_true(fabs(halo_rank_sum_below(64, 64, 2047) - 0.5) < 0.01);
}

/* Hollander and Wolfe's example of the permeability of membranes: the estimate of the shift is -0.305, the 96 %
 * interval -0.76 to 0.15. Ours are factors, so it is given as powers. */
static void the_published_example(void **state)
{
    double a[] = {0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}, b[] = {1.15, 0.88, 0.90, 0.74, 1.21};
    struct halo_ratio ratio;
    for (size_t i = 0; i < 10; i++)
        a[i] = exp(a[i]);
    for (size_t i = 0; i < 5; i++)
        b[i] = exp(b[i]);
    assert_true(halo_ratio_of(a, 10, b, 5, 0.95, &ratio));
    assert_true(fabs(log(ratio.ratio) + 0.305) < 1e-9);
    assert_true(fabs(log(ratio.low) + 0.76) < 1e-9);
    assert_true(fabs(log(ratio.high) - 0.15) < 1e-9);
    assert_true(fabs(ratio.coverage - 0.96) < 0.005);
}

/* Five of each: the third and the third last of 25 ratios, 1 - 2 * 4 / 252. */
static void five_of_each(void **state)
{
    const double a[] = {1, 1, 1, 1, 1}, b[] = {1.01, 1.02, 1.03, 1.04, 1.05};
    struct halo_ratio ratio;
    assert_true(halo_ratio_of(a, 5, b, 5, 0.95, &ratio));
    assert_true(fabs(ratio.coverage - (1 - 8.0 / 252)) < 1e-12);
    assert_true(fabs(ratio.ratio - 1.03) < 1e-12 && fabs(ratio.low - 1.01) < 1e-12 && fabs(ratio.high - 1.05) < 1e-12);
}

static double uniform(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*s >> 11) + 0.5) / 9007199254740992.0;
}

/* Skewed noise with outliers, a true factor of 1.1: the interval holds it as often as it says. */
static void it_covers_as_often_as_it_says(void **state)
{
    uint64_t seed = 20;
    unsigned n_held = 0, n_trials = 4000;
    double coverage = 0;
    for (unsigned trial = 0; trial < n_trials; trial++) {
        double values[2][7];
        struct halo_ratio ratio;
        for (int side = 0; side < 2; side++)
            for (int i = 0; i < 7; i++) {
                double slow = uniform(&seed) < 0.1 ? 0.5 : 1;
                values[side][i] = 100 * slow * exp(-0.05 * log(1 / uniform(&seed))) * (side ? 1.1 : 1);
            }
        assert_true(halo_ratio_of(values[0], 7, values[1], 7, 0.95, &ratio));
        n_held += ratio.low <= 1.1 && ratio.high >= 1.1;
        coverage = ratio.coverage;
    }
    assert_true(coverage >= 0.95);
    /* Four standard deviations of the binomial. */
    assert_true(fabs((double)n_held / n_trials - coverage) < 4 * sqrt(coverage * (1 - coverage) / n_trials));
}

static void what_is_no_measurement_is_refused(void **state)
{
    const double good[] = {1, 2, 3, 4, 5}, zero[] = {1, 2, 0, 4, 5};
    const double none[] = {1, 2, NAN, 4, 5}, inf[] = {1, 2, INFINITY, 4, 5};
    struct halo_ratio ratio;
    assert_true(halo_ratio_of(good, 5, good, 5, 0.95, &ratio));
    assert_false(halo_ratio_of(good, 4, good, 5, 0.95, &ratio));
    assert_false(halo_ratio_of(good, 5, good, 4, 0.95, &ratio));
    assert_false(halo_ratio_of(good, 5, zero, 5, 0.95, &ratio));
    assert_false(halo_ratio_of(none, 5, good, 5, 0.95, &ratio));
    assert_false(halo_ratio_of(good, 5, inf, 5, 0.95, &ratio));
    assert_false(halo_ratio_of(good, 5, good, 5, 0.9999, &ratio)); /* 252 orders are too few for that */
}

static void verdicts(void **state)
{
    static const struct {
        double ratio, low, high;
        enum halo_ratio_verdict verdict;
    } cases[] = {{1.00, 0.99, 1.01, HALO_RATIO_SAME},       {0.90, 0.80, 1.00, HALO_RATIO_SAME},
                 {1.20, 1.00, 1.40, HALO_RATIO_SAME},       {1.02, 1.001, 1.03, HALO_RATIO_GAIN},
                 {0.97, 0.95, 0.99, HALO_RATIO_LOSS_SMALL}, {0.951, 0.90, 0.999, HALO_RATIO_LOSS_SMALL},
                 {0.95, 0.94, 0.96, HALO_RATIO_LOSS},       {0.50, 0.10, 0.999, HALO_RATIO_LOSS}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct halo_ratio ratio = {cases[i].ratio, cases[i].low, cases[i].high, 0.95};
        assert_int_equal(halo_ratio_judge(&ratio), cases[i].verdict);
    }
}

static void medians(void **state)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};
    assert_true(halo_median(odd, 3) == 2 && halo_median(even, 4) == 2.5 && halo_median(one, 1) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_distribution_is_exact),
        cmocka_unit_test(the_published_example),
        cmocka_unit_test(five_of_each),
        cmocka_unit_test(it_covers_as_often_as_it_says),
        cmocka_unit_test(what_is_no_measurement_is_refused),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(medians),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
