/* expert_trial.c: see expert_trial.h. */
#include <engine/expert_trial.h>

#include <stdlib.h>

bool halo_expert_trial_is_on(const struct halo_expert_trial *trial)
{
    return trial->phase == HALO_EXPERT_TRIAL_WITH || (trial->phase == HALO_EXPERT_TRIAL_DECIDED && trial->pays);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Of the window; leaves it sorted. */
static uint64_t median(struct halo_expert_trial *trial)
{
    qsort(trial->ns, HALO_EXPERT_TRIAL_TOKENS - 1, sizeof(trial->ns[0]), compare);
    return trial->ns[(HALO_EXPERT_TRIAL_TOKENS - 1) / 2];
}

static void enter(struct halo_expert_trial *trial, enum halo_expert_trial_phase phase)
{
    trial->phase = phase;
    trial->n = 0;
}

void halo_expert_trial_note(struct halo_expert_trial *trial, uint64_t ns)
{
    uint32_t n = trial->n++;
    if (trial->phase == HALO_EXPERT_TRIAL_DECIDED) {
        if (trial->n == HALO_EXPERT_TRIAL_KEPT)
            enter(trial, HALO_EXPERT_TRIAL_WITHOUT);
        return;
    }
    if (n > 0)
        trial->ns[n - 1] = ns;
    if (trial->n < HALO_EXPERT_TRIAL_TOKENS)
        return;
    uint64_t took = median(trial);
    switch (trial->phase) {
    case HALO_EXPERT_TRIAL_WITHOUT:
        trial->without_ns = took;
        enter(trial, HALO_EXPERT_TRIAL_WITH);
        break;
    case HALO_EXPERT_TRIAL_WITH:
        trial->with_ns = took;
        enter(trial, HALO_EXPERT_TRIAL_AGAIN);
        break;
    default:
        trial->without_ns = took < trial->without_ns ? took : trial->without_ns;
        trial->pays = (double)trial->with_ns < HALO_EXPERT_TRIAL_GAIN * (double)trial->without_ns;
        enter(trial, HALO_EXPERT_TRIAL_DECIDED);
    }
}
