/* ratio.c: the estimate and the interval of ratio.h. Pure; memory on the stack only. */
#include "ratio.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS (HALO_RATIO_MOST * HALO_RATIO_MOST)
#define LOSS 0.95

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double halo_median(double *values, size_t n)
{
    assert(n > 0);
    qsort(values, n, sizeof(*values), by_size);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* Of C(n_a + n_b, n_a) equally likely orders, those with U = u: the coefficients of the Gaussian binomial, by
 * multiplying with (1 - q^(n_b + i)) and dividing by (1 - q^i). */
double halo_rank_sum_below(size_t n_a, size_t n_b, size_t u)
{
    static const size_t most = PAIRS;
    double count[PAIRS + 1] = {1}, below = 0, all = 0;
    assert(n_a <= HALO_RATIO_MOST && n_b <= HALO_RATIO_MOST);
    for (size_t i = 1; i <= n_a; i++) {
        for (size_t k = most; k >= n_b + i; k--)
            count[k] -= count[k - n_b - i];
        for (size_t k = i; k <= most; k++)
            count[k] += count[k - i];
    }
    for (size_t k = 0; k <= n_a * n_b; k++) {
        all += count[k];
        below += k <= u ? count[k] : 0;
    }
    return below / all;
}

static bool usable(const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]) || values[i] <= 0)
            return false;
    return n >= HALO_RATIO_LEAST && n <= HALO_RATIO_MOST;
}

bool halo_ratio_of(const double *a, size_t n_a, const double *b, size_t n_b, double level, struct halo_ratio *ret)
{
    double ratios[PAIRS], beyond = (1 - level) / 2;
    size_t n = n_a * n_b, out = 0; /* ratios left out at each end */
    if (!usable(a, n_a) || !usable(b, n_b) || halo_rank_sum_below(n_a, n_b, 0) > beyond)
        return false;
    for (size_t i = 0; i < n_a; i++)
        for (size_t j = 0; j < n_b; j++)
            ratios[i * n_b + j] = log(b[j] / a[i]);
    ret->ratio = exp(halo_median(ratios, n));
    while (halo_rank_sum_below(n_a, n_b, out + 1) <= beyond)
        out++;
    ret->low = exp(ratios[out]);
    ret->high = exp(ratios[n - 1 - out]);
    ret->coverage = 1 - 2 * halo_rank_sum_below(n_a, n_b, out);
    return true;
}

enum halo_ratio_verdict halo_ratio_judge(const struct halo_ratio *ratio)
{
    if (ratio->low <= 1 && ratio->high >= 1)
        return HALO_RATIO_SAME;
    if (ratio->low > 1)
        return HALO_RATIO_GAIN;
    return ratio->ratio <= LOSS ? HALO_RATIO_LOSS : HALO_RATIO_LOSS_SMALL;
}
