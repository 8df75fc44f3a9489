/* candidate_priv.h: the order of candidates and heaps of them. */
#ifndef HALO_ENGINE_CANDIDATE_PRIV_H
#define HALO_ENGINE_CANDIDATE_PRIV_H

#include <engine/sampler.h>

/* A strict order: no two entries of one row are equal. */
static inline bool halo_candidate_better(const struct halo_candidate *a, const struct halo_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* Moves heap[at] down to its place. */
void halo_candidates_sift(struct halo_candidate *heap, uint32_t n, uint32_t at, bool best_on_top);
void halo_candidates_heapify(struct halo_candidate *heap, uint32_t n, bool best_on_top);

#endif
