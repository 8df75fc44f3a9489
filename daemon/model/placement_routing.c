/* placement_routing.c: how often a token uses each expert of a layer, and what a cache of so many slots finds. */
#include "placement_priv.h"

#include <assert.h>
#include <math.h>

#define BISECTIONS 200
#define NEWTON_STEPS 100
#define CERTAIN (1 - 1e-12)

/* Experts are drawn one after the other without replacement, each by its weight among those that are left. The
 * probability that the expert of weight w is among the first n_used is 1 - e^(-w t), where t makes these add up to
 * n_used (Rosen 1972, "Asymptotic theory for successive sampling with varying probabilities without replacement"). */
void halo_routing_zipf_shares(uint32_t n_expert, uint32_t n_used, double exponent, double *ret_shares)
{
    double low = 0, high = 1, weights[HALO_MODEL_MAX_EXPERTS];
    assert(n_used < n_expert && n_expert <= HALO_MODEL_MAX_EXPERTS);
    for (uint32_t i = 0; i < n_expert; i++)
        weights[i] = pow(i + 1, -exponent);
    for (uint32_t round = 0; round < BISECTIONS; round++) {
        double t = round < BISECTIONS / 2 ? high : (low + high) / 2, sum = 0;
        for (uint32_t i = 0; i < n_expert; i++) {
            ret_shares[i] = 1 - exp(-weights[i] * t);
            sum += ret_shares[i];
        }
        if (round < BISECTIONS / 2) /* first a t that is too large */
            high = sum < n_used ? high * 2 : high;
        else if (sum < n_used)
            low = t;
        else
            high = t;
    }
}

/* Slots that are taken, and experts of a token that are found, when every expert stays for `age` tokens. */
struct fill {
    double slots, more_slots; /* more_slots: for each further token of age */
    double hits;
};

static struct fill fill_of(const double *shares, const double *rate, uint32_t n, double age)
{
    struct fill f = {0};
    for (uint32_t i = 0; i < n; i++) {
        double gone = exp(-rate[i] * age);
        f.slots += 1 - gone;
        f.more_slots += gone * rate[i];
        f.hits += shares[i] * (1 - gone);
    }
    return f;
}

/* Least recently used with s slots keeps an expert for an age that is nearly the same for all (Che, Tung, Wang 2002,
 * "Hierarchical web caching systems: modeling, design and experimental results"): the expert that a token uses with
 * probability p is there with 1 - (1 - p)^age, and these add up to s. Slots are a concave function of age, so Newton's
 * steps from below stay below. */
void halo_routing_gains(const double *shares, uint32_t n, float *ret_gains)
{
    double rate[HALO_MODEL_MAX_EXPERTS], age = 0, before = 0, all = 0;
    uint32_t n_used = 0; /* by any token */
    assert(n <= HALO_MODEL_MAX_EXPERTS);
    for (uint32_t i = 0; i < n; i++) {
        rate[i] = -log1p(-(shares[i] < CERTAIN ? shares[i] : CERTAIN));
        all += shares[i];
        n_used += shares[i] > 0;
    }
    for (uint32_t slots = 1; slots <= n; slots++) {
        double hits = all;
        if (slots < n_used) {
            struct fill f = fill_of(shares, rate, n, age);
            for (uint32_t step = 0; step < NEWTON_STEPS && slots - f.slots > 1e-9 * slots; step++) {
                age += (slots - f.slots) / f.more_slots;
                f = fill_of(shares, rate, n, age);
            }
            hits = f.hits;
        }
        ret_gains[slots - 1] = (float)(hits - before);
        before = hits;
    }
}

void halo_shares_init(struct halo_shares *shares, const struct halo_routing *routing, uint32_t n_expert,
                      uint32_t n_used)
{
    assert(n_expert <= HALO_MODEL_MAX_EXPERTS && n_used <= n_expert);
    shares->routing = routing;
    shares->n_expert = n_expert;
    if (routing->kind == HALO_ROUTING_ZIPF && n_used < n_expert) {
        double of[HALO_MODEL_MAX_EXPERTS];
        halo_routing_zipf_shares(n_expert, n_used, routing->exponent, of);
        halo_routing_gains(of, n_expert, shares->gains);
    } else {
        for (uint32_t i = 0; i < n_expert; i++)
            shares->gains[i] = (float)n_used / (float)n_expert;
    }
}

double halo_shares_gain(const struct halo_shares *shares, uint32_t layer, uint32_t n_slots)
{
    const struct halo_routing *routing = shares->routing;
    if (routing->kind != HALO_ROUTING_TRACE)
        return n_slots < shares->n_expert ? (double)shares->gains[n_slots] : 0;
    return n_slots < routing->n_expert ? (double)routing->gains[(size_t)layer * routing->n_expert + n_slots] : 0;
}

double halo_shares_missing(uint32_t n_used, double hit_rate, uint32_t n_missed)
{
    double p = 1;
    for (uint32_t i = 0; i < n_missed; i++) /* the binomial coefficient */
        p *= (double)(n_used - i) / (i + 1) * (1 - hit_rate);
    return p * pow(hit_rate, n_used - n_missed);
}
