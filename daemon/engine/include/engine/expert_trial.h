/* expert_trial.h: whether guesses of the next layer's experts pay: they are tried against none, and the faster stays.
 *
 * A guess costs a product with a router and reads that may be in vain; what it gains depends on the disk, the model and
 * how well its layers foretell each other. So tokens are timed in short stretches, without guesses and with them by
 * turns, the first token of a stretch left out. The first and the last stretch are without, so that a cache that fills,
 * or a drive that gets slower, favours neither way. The way with the smaller median over all of its stretches is kept
 * for a longer time before both are tried again.
 *
 * Pure: a few numbers; the caller has the clock. One thread at a time.
 */
#ifndef HALO_ENGINE_EXPERT_TRIAL_H
#define HALO_ENGINE_EXPERT_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#define HALO_EXPERT_TRIAL_TOKENS 9    /* of a stretch, the first one included */
#define HALO_EXPERT_TRIAL_STRETCHES 7 /* the odd ones with guesses */
#define HALO_EXPERT_TRIAL_KEPT 512    /* tokens until the next trial */
#define HALO_EXPERT_TRIAL_GAIN 0.98   /* guesses must make a token at least this much shorter */

struct halo_expert_trial { /* zeroed: begins */
    bool is_decided, pays; /* pays: decided, guesses stay on */
    uint32_t stretch;
    uint32_t n; /* tokens of the stretch, or since the decision */
    uint32_t n_timed[2];
    uint64_t ns[2][(HALO_EXPERT_TRIAL_STRETCHES + 1) / 2 * (HALO_EXPERT_TRIAL_TOKENS - 1)]; /* without, with */
};

/* Whether guesses are to be made for the next token. */
bool halo_expert_trial_is_on(const struct halo_expert_trial *trial);

/* A decoded token took so long. */
void halo_expert_trial_note(struct halo_expert_trial *trial, uint64_t ns);

#endif
