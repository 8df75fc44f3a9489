/* expert_trial.c: see expert_trial.h. */
#include <engine/expert_trial.h>

#include <stdlib.h>

static bool is_with(const struct halo_expert_trial *trial)
{
    return trial->stretch % 2 == 1;
}

bool halo_expert_trial_is_on(const struct halo_expert_trial *trial)
{
    return trial->is_decided ? trial->pays : is_with(trial);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of all stretches with guesses, or without. */
static uint64_t median(struct halo_expert_trial *trial, bool with)
{
    qsort(trial->ns[with], trial->n_timed[with], sizeof(trial->ns[with][0]), compare);
    uint32_t n = trial->n_timed[with];
    return (trial->ns[with][(n - 1) / 2] + trial->ns[with][n / 2]) / 2;
}

void halo_expert_trial_note(struct halo_expert_trial *trial, uint64_t ns)
{
    uint32_t n = trial->n++;
    if (trial->is_decided) {
        if (trial->n == HALO_EXPERT_TRIAL_KEPT)
            *trial = (struct halo_expert_trial){0};
        return;
    }
    if (n > 0)
        trial->ns[is_with(trial)][trial->n_timed[is_with(trial)]++] = ns;
    if (trial->n < HALO_EXPERT_TRIAL_TOKENS)
        return;
    trial->n = 0;
    if (++trial->stretch < HALO_EXPERT_TRIAL_STRETCHES)
        return;
    trial->is_decided = true;
    trial->pays = (double)median(trial, true) < HALO_EXPERT_TRIAL_GAIN * (double)median(trial, false);
}
