/* placement_routing.c: how often a token uses each expert of a layer, by an assumption or by a trace. */
#include "placement_priv.h"

#include <assert.h>
#include <math.h>

#define BISECTIONS 200

/* Experts are drawn one after the other without replacement, each by its weight among those that are left. The
 * probability that the expert of weight w is among the first n_used is 1 - e^(-w t), where t makes these add up to
 * n_used (Rosen 1972, "Asymptotic theory for successive sampling with varying probabilities without replacement"). */
static void zipf(double *of, uint32_t n_expert, uint32_t n_used, double exponent)
{
    double low = 0, high = 1, weights[HALO_MODEL_MAX_EXPERTS];
    for (uint32_t i = 0; i < n_expert; i++)
        weights[i] = pow(i + 1, -exponent);
    for (uint32_t round = 0; round < BISECTIONS; round++) {
        double t = round < BISECTIONS / 2 ? high : (low + high) / 2, sum = 0;
        for (uint32_t i = 0; i < n_expert; i++) {
            of[i] = 1 - exp(-weights[i] * t);
            sum += of[i];
        }
        if (round < BISECTIONS / 2) /* first a t that is too large */
            high = sum < n_used ? high * 2 : high;
        else if (sum < n_used)
            low = t;
        else
            high = t;
    }
}

void halo_shares_init(struct halo_shares *shares, const struct halo_routing *routing, uint32_t n_expert,
                      uint32_t n_used)
{
    assert(n_expert <= HALO_MODEL_MAX_EXPERTS && n_used <= n_expert);
    shares->routing = routing;
    shares->n_expert = n_expert;
    shares->n_used = n_used;
    if (routing->kind == HALO_ROUTING_ZIPF && n_used < n_expert)
        zipf(shares->of, n_expert, n_used, routing->exponent);
    else
        for (uint32_t i = 0; i < n_expert; i++)
            shares->of[i] = (double)n_used / n_expert;
}

double halo_shares_at(const struct halo_shares *shares, uint32_t layer, uint32_t rank)
{
    const struct halo_routing *routing = shares->routing;
    if (routing->kind != HALO_ROUTING_TRACE)
        return rank < shares->n_expert ? shares->of[rank] : 0;
    return rank < routing->n_expert ? (double)routing->share[(size_t)layer * routing->n_expert + rank] : 0;
}

double halo_shares_missing(uint32_t n_used, double hit_rate, uint32_t n_missed)
{
    double p = 1;
    for (uint32_t i = 0; i < n_missed; i++) /* the binomial coefficient */
        p *= (double)(n_used - i) / (i + 1) * (1 - hit_rate);
    return p * pow(hit_rate, n_used - n_missed);
}
