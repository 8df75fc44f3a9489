/* logits.c: what a row of logits says by itself: whether it is made of numbers, its log-sum-exp, its best entries.
 *
 * Any thread. Selection keeps a heap of the k best with the worst on top: one pass over the vocabulary and no sort of
 * it.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "candidate_priv.h"
#include <engine/sampler.h>

bool halo_logits_finite(const float *logits, uint32_t n)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof(bits));
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

int32_t halo_logits_argmax(const float *logits, uint32_t n)
{
    assert(n > 0);
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

double halo_logits_lse(const float *logits, uint32_t n)
{
    double max = logits[halo_logits_argmax(logits, n)], sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

void halo_candidates_sift(struct halo_candidate *heap, uint32_t n, uint32_t at, bool best_on_top)
{
    struct halo_candidate moving = heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n)
            break;
        if (child + 1 < n && halo_candidate_better(&heap[child + 1], &heap[child]) == best_on_top)
            child++;
        if (halo_candidate_better(&heap[child], &moving) != best_on_top)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

void halo_candidates_heapify(struct halo_candidate *heap, uint32_t n, bool best_on_top)
{
    for (uint32_t i = n / 2; i-- > 0;)
        halo_candidates_sift(heap, n, i, best_on_top);
}

uint32_t halo_logits_top(const float *logits, uint32_t n, uint32_t k, struct halo_candidate *ret)
{
    uint32_t filled = k < n ? k : n;
    if (filled == 0)
        return 0;
    for (uint32_t i = 0; i < filled; i++)
        ret[i] = (struct halo_candidate){logits[i], (int32_t)i};
    halo_candidates_heapify(ret, filled, false);
    for (uint32_t i = filled; i < n; i++)
        if (logits[i] > ret[0].logit) { /* on a tie the one that is there has the lower id */
            ret[0] = (struct halo_candidate){logits[i], (int32_t)i};
            halo_candidates_sift(ret, filled, 0, false);
        }
    for (uint32_t left = filled; left > 1; left--) { /* the worst to the end, again and again */
        struct halo_candidate worst = ret[0];
        ret[0] = ret[left - 1];
        ret[left - 1] = worst;
        halo_candidates_sift(ret, left - 1, 0, false);
    }
    return filled;
}
