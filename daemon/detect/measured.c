/* measured.c: detectors of what was measured beside the ids: times and log-probabilities. Any thread. */
#include <math.h>
#include <string.h>

#include "detect_priv.h"

#define MEDIAN_OF 32
#define LEAST_STEPS 8

static double median(const double *values, size_t n)
{
    double sorted[MEDIAN_OF];
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        while (at > 0 && sorted[at - 1] > values[i]) {
            sorted[at] = sorted[at - 1];
            at--;
        }
        sorted[at] = values[i];
    }
    return sorted[n / 2];
}

/* Below a tenth of a millisecond it is the clock and the pipe that are seen, not the step. */
void halo_look_step_time(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    double gaps[MEDIAN_OF], worst = 0, worst_median = 0;
    size_t n_spikes = 0, n_gaps = 0, worst_at = 0;
    if (!reply->t_ms || reply->n_ids < LEAST_STEPS + 2) {
        halo_find(ret, HALO_VERDICT_SKIP, reply->t_ms ? "%zu ids, %d are needed" : "no times of %zu ids are recorded",
                  reply->n_ids, LEAST_STEPS + 2);
        return;
    }
    for (size_t i = 1; i < reply->n_ids; i++) {
        double gap = reply->t_ms[i] - reply->t_ms[i - 1];
        size_t n = n_gaps < MEDIAN_OF ? n_gaps : MEDIAN_OF;
        double usual = n >= LEAST_STEPS ? median(gaps, n) : 0;
        if (n >= LEAST_STEPS && gap > 4 * usual && gap > usual + 0.1) {
            n_spikes++;
            if (gap > worst) {
                worst = gap;
                worst_at = i;
                worst_median = usual;
            }
        }
        gaps[n_gaps++ % MEDIAN_OF] = gap;
    }
    if (n_spikes > 0)
        halo_find(ret, HALO_VERDICT_WARN, "%zu slow steps; id %zu took %.3f ms, the steps before it %.3f ms", n_spikes,
                  worst_at, worst, worst_median);
}

void halo_look_logprob(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = reply->n_ids, from = n > 64 ? n - 64 : 0, n_certain = 0;
    if (!reply->logprobs || n < 32) {
        halo_find(ret, HALO_VERDICT_SKIP,
                  reply->logprobs ? "%zu ids, 32 are needed" : "no logprobs of %zu ids are there", n);
        return;
    }
    for (size_t i = from; i < n; i++)
        n_certain += reply->logprobs[i] > -1e-3;
    if (n_certain * 20 >= (n - from) * 19)
        halo_find(ret, HALO_VERDICT_WARN, "%zu of the last %zu ids have a probability above 99.9 %%", n_certain,
                  n - from);
}

void halo_look_numbers(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    if (!reply->logprobs || reply->n_ids == 0) {
        halo_find(ret, HALO_VERDICT_SKIP, "no logprobs of %zu ids are there", reply->n_ids);
        return;
    }
    for (size_t i = 0; i < reply->n_ids; i++)
        if (!isfinite(reply->logprobs[i]) || reply->logprobs[i] > 1e-4) {
            halo_find(ret, HALO_VERDICT_FAIL, "the logprob of id %zu is %g", i, reply->logprobs[i]);
            return;
        }
}
