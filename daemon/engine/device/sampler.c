/* sampler.c: the chain from logits to a token, in the order that sampler.h states.
 *
 * Device thread. Owns scratch of one vocabulary. Cannot fail: parameters were checked when the request was read, logits
 * were scanned.
 */
#include <engine/sampler.h>

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <base/rng.h>

#include "candidate_priv.h"

int halo_sampler_init(struct halo_sampler *sampler, uint32_t n_vocab)
{
    assert(n_vocab > 0);
    *sampler = (struct halo_sampler){.n_vocab = n_vocab};
    sampler->candidates = calloc(n_vocab, sizeof(*sampler->candidates));
    sampler->counts = calloc(n_vocab, sizeof(*sampler->counts));
    sampler->adjusted = calloc(n_vocab, sizeof(*sampler->adjusted));
    if (sampler->candidates && sampler->counts && sampler->adjusted)
        return 0;
    halo_sampler_finish(sampler);
    return -ENOMEM;
}

void halo_sampler_finish(struct halo_sampler *sampler)
{
    free(sampler->candidates);
    free(sampler->counts);
    free(sampler->adjusted);
    *sampler = (struct halo_sampler){0};
}

static void apply_biases(const struct halo_sampler_params *params, float *logits, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < params->n_biases; i++) {
        assert((uint32_t)params->biases[i].id < n_vocab);
        logits[params->biases[i].id] += params->biases[i].bias;
    }
}

static void apply_penalties(struct halo_sampler *sampler, const struct halo_sampler_params *params, float *logits,
                            const int32_t *tokens, uint32_t n_tokens)
{
    uint32_t n = n_tokens < params->repeat_window ? n_tokens : params->repeat_window;
    const int32_t *window = tokens + (n_tokens - n);
    for (uint32_t i = 0; i < n; i++)
        sampler->counts[window[i]]++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = sampler->counts[window[i]];
        if (count == 0)
            continue; /* done at its first occurrence */
        sampler->counts[window[i]] = 0;
        double logit = logits[window[i]];
        logit = logit > 0 ? logit / params->repeat_penalty : logit * params->repeat_penalty;
        logits[window[i]] = (float)(logit - params->presence_penalty - count * params->frequency_penalty);
    }
}

/* Cuts the sorted list of n candidates to the nucleus. */
static uint32_t cut_sorted(const struct halo_candidate *sorted, uint32_t n, double top_p)
{
    double max = sorted[0].logit, total = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        total += exp(sorted[i].logit - max);
    for (uint32_t i = 0; i < n; i++) {
        sum += exp(sorted[i].logit - max);
        if (sum >= top_p * total)
            return i + 1;
    }
    return n;
}

/* The nucleus of the whole vocabulary: takes the best from a heap until their mass reaches p. The list grows from the
 * end of the scratch that the shrinking heap leaves free, then is turned to the front. */
static uint32_t take_nucleus(struct halo_candidate *c, uint32_t n, double top_p)
{
    double total = 0, sum = 0;
    halo_candidates_heapify(c, n, true);
    double max = c[0].logit;
    for (uint32_t i = 0; i < n; i++)
        total += exp(c[i].logit - max);
    uint32_t left = n;
    while (left > 0) {
        struct halo_candidate best = c[0];
        c[0] = c[left - 1];
        c[--left] = best;
        if (left > 0)
            halo_candidates_sift(c, left, 0, true);
        sum += exp(best.logit - max);
        if (sum >= top_p * total)
            break;
    }
    uint32_t taken = n - left;
    for (uint32_t i = 0, j = n - 1; i < j; i++, j--) {
        struct halo_candidate swap = c[i];
        c[i] = c[j];
        c[j] = swap;
    }
    return taken;
}

/* Keeps those at least min_p as probable as the best; keeps the order. */
static uint32_t cut_min_p(struct halo_candidate *c, uint32_t n, double min_p)
{
    if (min_p <= 0)
        return n;
    float max = c[0].logit;
    for (uint32_t i = 1; i < n; i++)
        max = c[i].logit > max ? c[i].logit : max;
    double least = max + log(min_p);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (c[i].logit >= least || c[i].logit == max)
            c[kept++] = c[i];
    return kept;
}

static int32_t draw(const struct halo_candidate *c, uint32_t n, double temperature, double uniform)
{
    double max = c[0].logit, total = 0, sum = 0;
    for (uint32_t i = 1; i < n; i++)
        max = c[i].logit > max ? c[i].logit : max;
    for (uint32_t i = 0; i < n; i++)
        total += exp((c[i].logit - max) / temperature);
    uint32_t last = 0;
    for (uint32_t i = 0; i < n; i++) {
        double p = exp((c[i].logit - max) / temperature);
        if (p == 0)
            continue;
        sum += p;
        last = i;
        if (uniform * total < sum)
            return c[i].id;
    }
    return c[last].id;
}

static bool has_penalties(const struct halo_sampler_params *params)
{
    return params->repeat_window > 0 &&
           (params->repeat_penalty != 1 || params->presence_penalty != 0 || params->frequency_penalty != 0);
}

static bool changes_logits(const struct halo_sampler_params *params)
{
    return params->n_biases > 0 || has_penalties(params);
}

uint32_t halo_sampler_n_top(const struct halo_sampler_params *params, uint32_t n_vocab)
{
    if (changes_logits(params))
        return 0;
    if (params->temperature <= 0)
        return 1;
    return params->top_k < n_vocab ? params->top_k : 0;
}

/* The chain behind top_k; the list is the scratch. */
static int32_t draw_sorted(const struct halo_sampler *sampler, const struct halo_sampler_params *params, uint32_t n,
                           uint64_t position)
{
    struct halo_candidate *c = sampler->candidates;
    if (params->top_p < 1)
        n = cut_sorted(c, n, params->top_p);
    n = cut_min_p(c, n, params->min_p);
    return draw(c, n, params->temperature, halo_rng_uniform(params->seed, position, 0));
}

int32_t halo_sampler_draw_top(struct halo_sampler *sampler, const struct halo_sampler_params *params,
                              const struct halo_candidate *top, uint64_t position)
{
    uint32_t n = halo_sampler_n_top(params, sampler->n_vocab);
    assert(n > 0);
    if (params->temperature <= 0)
        return top[0].id;
    memcpy(sampler->candidates, top, n * sizeof(*top));
    return draw_sorted(sampler, params, n, position);
}

int32_t halo_sampler_draw(struct halo_sampler *sampler, const struct halo_sampler_params *params, const float *logits,
                          const int32_t *tokens, uint32_t n_tokens, uint64_t position)
{
    struct halo_candidate *c = sampler->candidates;
    uint32_t n = sampler->n_vocab;
    if (changes_logits(params)) {
        memcpy(sampler->adjusted, logits, n * sizeof(*logits));
        logits = sampler->adjusted;
        apply_biases(params, sampler->adjusted, n);
        if (has_penalties(params))
            apply_penalties(sampler, params, sampler->adjusted, tokens, n_tokens);
    }
    if (params->temperature <= 0)
        return halo_logits_argmax(logits, n);
    if (params->top_k > 0 && params->top_k < n)
        return draw_sorted(sampler, params, halo_logits_top(logits, n, params->top_k, c), position);

    for (uint32_t i = 0; i < n; i++)
        c[i] = (struct halo_candidate){logits[i], (int32_t)i};
    if (params->top_p < 1)
        n = take_nucleus(c, n, params->top_p);
    n = cut_min_p(c, n, params->min_p);
    return draw(c, n, params->temperature, halo_rng_uniform(params->seed, position, 0));
}
