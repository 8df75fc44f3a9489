/* ratio.h: how much faster B is than A, and how sure that is: the statistics of scripts/speed-gate.
 *
 * The estimate is the median of all ratios b / a (Hodges and Lehmann's, of the logarithms), its interval that of Moses:
 * two order statistics of those ratios, chosen by the exact distribution of the rank sum under equality. It needs no
 * normal distribution, an outlier moves it little, and its coverage is exact for continuous measurements that differ by
 * a factor. Source: M. Hollander, D. A. Wolfe, E. Chicken, Nonparametric Statistical Methods, sections 4.2 and 4.3.
 */
#ifndef HALO_GATES_RATIO_H
#define HALO_GATES_RATIO_H

#include <stdbool.h>
#include <stddef.h>

#define HALO_RATIO_LEAST 5 /* measurements of each side */
#define HALO_RATIO_MOST 64

struct halo_ratio {
    double ratio, low, high;
    double coverage; /* of low..high: at least what was asked */
};

enum halo_ratio_verdict {
    HALO_RATIO_SAME, /* the interval holds 1: no difference is shown */
    HALO_RATIO_GAIN,
    HALO_RATIO_LOSS_SMALL, /* shown, but less than 5 % */
    HALO_RATIO_LOSS,
};

/* Sorts. n > 0. */
double halo_median(double *values, size_t n);

/* Positive, finite measurements, LEAST to MOST of each side; else false. `level` such as 0.95; false when it cannot be
 * reached with so few. */
bool halo_ratio_of(const double *a, size_t n_a, const double *b, size_t n_b, double level, struct halo_ratio *ret);
enum halo_ratio_verdict halo_ratio_judge(const struct halo_ratio *ratio);

/* P(U <= u) when both sides come from the same distribution; U counts the pairs with b < a. */
double halo_rank_sum_below(size_t n_a, size_t n_b, size_t u);

#endif
