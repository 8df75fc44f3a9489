/* golden_score.c: divergence of logits from the recorded ones, and its statistics. One thread. */
#include "golden_score.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double halo_golden_kld11(const struct halo_golden_step *step, const float *logits, uint32_t n_vocab)
{
    double top = -INFINITY, total = 0, p_rest = 1, q_rest = 0, kld = 0, recorded[HALO_GOLDEN_TOP], q;

    for (uint32_t i = 0; i < n_vocab; i++) {
        if (!isfinite(logits[i]))
            return NAN;
        top = logits[i] > top ? logits[i] : top;
    }
    for (int k = 0; k < HALO_GOLDEN_TOP; k++)
        recorded[k] = exp(logits[step->id[k]] - top);
    for (uint32_t i = 0; i < n_vocab; i++)
        total += exp(logits[i] - top);
    q_rest = total;
    for (int k = 0; k < HALO_GOLDEN_TOP; k++) {
        double p = exp(step->logit[k] - step->lse);
        q = recorded[k] / total;
        kld += p * log(p / q);
        p_rest -= p;
        q_rest -= recorded[k];
    }
    q = q_rest / total;
    if (p_rest > 1e-9 && q > 0) /* below, the recorded figures' six decimals say nothing */
        kld += p_rest * log(p_rest / q);
    return kld;
}

struct context {
    struct halo_golden_score *score;
    const struct halo_golden_file *file;
    double error;
};

static uint32_t argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void row_score(void *ud, uint32_t pos, const float *logits)
{
    const struct context *context = ud;
    struct halo_golden_score *score = context->score;
    const struct halo_golden_file *file = context->file;
    const struct halo_golden_step *step = &file->steps[pos - file->first_pos];
    double kld = halo_golden_kld11(step, logits, file->n_vocab);
    bool same;

    assert(step->pos == pos && score->n < score->capacity);
    score->kld[score->n++] = kld;
    if (!isfinite(kld))
        score->n_broken++;
    for (int k = 0; k < HALO_GOLDEN_TOP; k++)
        score->max_abs_logit = fmax(score->max_abs_logit, fabs(logits[step->id[k]] - step->logit[k]));
    same = argmax(logits, file->n_vocab) == (uint32_t)step->id[0];
    score->n_top1 += same;
    if (pos + 1 < file->n_prompt)
        return;
    score->n_greedy++;
    if (!same && step->logit[0] - step->logit[1] > 2 * context->error) /* both logits may move */
        score->n_greedy_wrong++;
}

int halo_golden_score_add(struct halo_golden_score *score, struct halo_golden_host *host,
                          const struct halo_golden_file *file, uint32_t chunk, double error, struct halo_fault *fault)
{
    struct context context = {score, file, error};
    uint32_t n_decoded = file->n_tokens - 1 - file->n_prompt;
    double *grown = realloc(score->kld, (score->n + file->n_steps) * sizeof(*grown));
    int r;

    if (!grown)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the score");
    score->kld = grown;
    score->capacity = score->n + file->n_steps;
    if (host->plan.n_vocab != file->n_vocab)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "the model has %u tokens, the recording %u",
                              host->plan.n_vocab, file->n_vocab);
    r = halo_golden_host_feed(host, file->tokens, 0, file->n_prompt, chunk, file->first_pos, row_score, &context,
                              fault);
    if (r < 0)
        return r;
    r = halo_golden_host_feed(host, file->tokens + file->n_prompt, file->n_prompt, n_decoded, 1, file->first_pos,
                              row_score, &context, fault);
    if (r == 0)
        assert(score->n == score->capacity);
    return r;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void halo_golden_score_close(struct halo_golden_score *score)
{
    double sum = 0;

    assert(score->n > 0);
    for (uint32_t i = 0; i < score->n; i++)
        sum += score->kld[i];
    score->mean = sum / score->n; /* NaN when a position is broken: every comparison with a bound then fails */
    qsort(score->kld, score->n, sizeof(*score->kld), by_size);
    score->median = (score->kld[(score->n - 1) / 2] + score->kld[score->n / 2]) / 2;
    score->max = score->n_broken ? NAN : score->kld[score->n - 1];
}

void halo_golden_score_finish(struct halo_golden_score *score)
{
    free(score->kld);
    memset(score, 0, sizeof(*score));
}
