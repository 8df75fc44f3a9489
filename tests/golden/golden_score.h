/* golden_score.h: how far a device's logits are from the recorded ones. */
#ifndef HALO_GOLDEN_SCORE_H
#define HALO_GOLDEN_SCORE_H

#include "golden_file.h"
#include "golden_host.h"

/* KLD11 of one position: sum of p ln(p / q) over the ten recorded tokens and one bucket for all others, p recorded, q
 * from the logits. A lower bound of the full divergence. Infinite or NaN when the logits are not finite. */
double halo_golden_kld11(const struct halo_golden_step *step, const float *logits, uint32_t n_vocab);

struct halo_golden_score {
    uint32_t n, capacity;
    double *kld; /* [n], one for each recorded position; halo_golden_score_close sorts it */
    double mean, median, max;
    double max_abs_logit; /* over the recorded tokens */
    uint32_t n_top1;      /* positions whose largest logit is the recorded one */
    uint32_t n_broken;    /* positions with a logit that is not finite */
    /* Of the greedy positions: how many chose another token although the recorded margin is over the stated error. */
    uint32_t n_greedy, n_greedy_wrong;
};

void halo_golden_score_finish(struct halo_golden_score *score);

/* Feeds prompt in chunks and the generated ids one by one, adds the recorded positions to the score. `error`: the
 * largest change of a logit that is taken as rounding, for the greedy rule. */
int halo_golden_score_add(struct halo_golden_score *score, struct halo_golden_host *host,
                          const struct halo_golden_file *file, uint32_t chunk, double error, struct halo_fault *fault);
/* Computes mean, median and max. */
void halo_golden_score_close(struct halo_golden_score *score);

#endif
