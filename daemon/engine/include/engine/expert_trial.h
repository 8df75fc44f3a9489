/* expert_trial.h: whether guesses of the next layer's experts pay: they are tried against none, and the faster stays.
 *
 * A guess costs a product with a router and reads that may be in vain; what it gains depends on the disk, the model and
 * how well its layers foretell each other. So tokens are timed in windows without guesses, with them and without again,
 * the first token of a window left out, and the way with the smallest median is kept for a longer time before both are
 * tried again. Tokens become faster while a cache fills: with one window of each, whichever is last would win.
 *
 * Pure: a few numbers; the caller has the clock. One thread at a time.
 */
#ifndef HALO_ENGINE_EXPERT_TRIAL_H
#define HALO_ENGINE_EXPERT_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#define HALO_EXPERT_TRIAL_TOKENS 17 /* of a window, the first one included */
#define HALO_EXPERT_TRIAL_KEPT 512  /* tokens until the next trial */
#define HALO_EXPERT_TRIAL_GAIN 0.98 /* guesses must make a token at least this much shorter */

enum halo_expert_trial_phase {
    HALO_EXPERT_TRIAL_WITHOUT,
    HALO_EXPERT_TRIAL_WITH,
    HALO_EXPERT_TRIAL_AGAIN, /* without */
    HALO_EXPERT_TRIAL_DECIDED,
};

struct halo_expert_trial { /* zeroed: begins */
    enum halo_expert_trial_phase phase;
    bool pays;  /* DECIDED: guesses stay on */
    uint32_t n; /* tokens of the phase */
    uint64_t ns[HALO_EXPERT_TRIAL_TOKENS - 1];
    uint64_t without_ns, with_ns; /* medians */
};

/* Whether guesses are to be made for the next token. */
bool halo_expert_trial_is_on(const struct halo_expert_trial *trial);

/* A decoded token took so long. */
void halo_expert_trial_note(struct halo_expert_trial *trial, uint64_t ns);

#endif
