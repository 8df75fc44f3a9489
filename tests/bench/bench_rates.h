/* bench_rates.h: rates of several ways over interleaved rounds: medians, spread, and the median of each round's ratio.
 * The speed of a shared disk drifts, its neighbours in time drift with it: so ratios are taken within a round. */
#ifndef HALO_BENCH_RATES_H
#define HALO_BENCH_RATES_H

#define BENCH_ROUNDS_MAX 99

double bench_median(const double *values, int n);
double bench_median_ratio(const double *rates, const double *yardstick, int rounds);
/* "name  median  (lowest, highest)", without a newline. */
void bench_rates_row(const char *name, const double *rates, int rounds);

#endif
