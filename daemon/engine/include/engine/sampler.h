/* sampler.h: from logits to the next token.
 *
 * The chain, in this order:
 *   1. logit_bias        logit += bias
 *   2. penalties         over the last `repeat_window` tokens of prompt and reply together; for a token seen c > 0
 * times there: logit > 0 ? logit / repeat : logit * repeat, then logit -= presence + c * frequency
 *   3. temperature <= 0  greedy: the largest logit, the lowest id on a tie; nothing is drawn
 *   4. top_k             the k largest logits (before any softmax)
 *   5. top_p             the shortest list of most probable tokens whose probabilities reach p, of the softmax over
 * what top_k left
 *   6. min_p             those at least min_p times as probable as the best
 *   7. temperature       logit / temperature, for what is left
 *   8. draw              one uniform number from (seed, position), walked along the cumulative probabilities: from the
 * most probable down (lowest id first on a tie) when top_k or top_p is on, by rising id when both are off So
 * temperature never changes which tokens survive the filters (the order llama.cpp's server uses by default). At least
 * one token survives every step. Sums are double.
 *
 * A draw is a pure function of (logits, tokens, parameters, position): nothing is kept between calls.
 * Threads: one at a time for each sampler (the device thread). Memory: scratch, all at init.
 */
#ifndef HALO_ENGINE_SAMPLER_H
#define HALO_ENGINE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kernels/candidate.h>

struct halo_logit_bias {
    int32_t id;
    float bias;
};

struct halo_sampler_params {
    double temperature;
    uint32_t top_k; /* 0: all */
    double top_p;   /* >= 1: all */
    double min_p;   /* <= 0: all */
    double repeat_penalty;
    uint32_t repeat_window; /* 0: no penalties */
    double presence_penalty, frequency_penalty;
    const struct halo_logit_bias *biases; /* ids < n_vocab */
    uint32_t n_biases;
    uint64_t seed;
};

struct halo_sampler {
    uint32_t n_vocab;
    struct halo_candidate *candidates; /* [n_vocab] */
    uint32_t *counts;                  /* [n_vocab], all zero between calls */
    float *adjusted;                   /* [n_vocab] logits after bias and penalties */
};

int halo_sampler_init(struct halo_sampler *sampler, uint32_t n_vocab); /* 0 or -ENOMEM */
void halo_sampler_finish(struct halo_sampler *sampler);

/* The next token after tokens[0 .. n_tokens), which will stand at `position` of its sequence. `logits`: finite,
 * [n_vocab]. */
int32_t halo_sampler_draw(struct halo_sampler *sampler, const struct halo_sampler_params *params, const float *logits,
                          const int32_t *tokens, uint32_t n_tokens, uint64_t position);

/* How many of the largest of n_vocab logits decide the next token, whatever the tokens before: 1 when greedy, top_k
 * when it cuts, since every later step of the chain looks at what is left alone. 0: all do, or biases and penalties
 * make another order. */
uint32_t halo_sampler_n_top(const struct halo_sampler_params *params, uint32_t n_vocab);

/* The next token from the list of the halo_sampler_n_top() largest, as halo_logits_top() gives it: the one that
 * halo_sampler_draw() takes from the row. */
int32_t halo_sampler_draw_top(struct halo_sampler *sampler, const struct halo_sampler_params *params,
                              const struct halo_candidate *top, uint64_t position);

/* ---- what logits say by themselves ---- */

/* False when any is a NaN or an infinity. */
bool halo_logits_finite(const float *logits, uint32_t n);

/* ln(sum(exp(logit))), in double. */
double halo_logits_lse(const float *logits, uint32_t n);

/* The k largest, in falling order, the lowest id first on a tie. Returns how many (k, or n when that is less). */
uint32_t halo_logits_top(const float *logits, uint32_t n, uint32_t k, struct halo_candidate *ret);

/* The largest, the lowest id on a tie. */
int32_t halo_logits_argmax(const float *logits, uint32_t n);

#endif
