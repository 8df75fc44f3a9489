/* bench_rates.c: see bench_rates.h. */
#include "bench_rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const double *values, int n)
{
    double sorted[BENCH_ROUNDS_MAX];
    memcpy(sorted, values, (size_t)n * sizeof(*values));
    qsort(sorted, (size_t)n, sizeof(*sorted), double_compare);
    return sorted[n / 2];
}

double bench_median_ratio(const double *rates, const double *yardstick, int rounds)
{
    double ratios[BENCH_ROUNDS_MAX];
    for (int round = 0; round < rounds; round++)
        ratios[round] = rates[round] / yardstick[round];
    return bench_median(ratios, rounds);
}

void bench_rates_row(const char *name, const double *rates, int rounds)
{
    double lowest = rates[0], highest = rates[0];
    for (int round = 1; round < rounds; round++) {
        lowest = rates[round] < lowest ? rates[round] : lowest;
        highest = rates[round] > highest ? rates[round] : highest;
    }
    printf("%-22s %7.3f  (%.3f, %.3f)", name, bench_median(rates, rounds), lowest, highest);
}
