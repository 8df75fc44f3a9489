/* expert_guess.c: see expert_guess.h. */
#include <engine/expert_guess.h>

#include <stdlib.h>

#define COUNTED_MAX 256 /* guesses of a rank after which all of them count half */

void halo_expert_guess_begin(struct halo_expert_guess *guess, uint32_t layer)
{
    guess->layer = layer;
    guess->missing = 0;
}

bool halo_expert_guess_add(struct halo_expert_guess *guess, uint32_t rank, uint32_t id)
{
    if (rank >= HALO_EXPERT_GUESS_RANKS)
        return false;
    guess->ids[rank] = id;
    guess->missing |= 1u << rank;
    return guess->n_made[rank] < HALO_EXPERT_GUESS_TRIED ||
           8u * guess->n_right[rank] >= HALO_EXPERT_GUESS_RIGHT * guess->n_made[rank];
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void halo_expert_guess_compare(struct halo_expert_guess *guess, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    for (uint32_t rank = 0; rank < HALO_EXPERT_GUESS_RANKS && guess->layer == layer; rank++) {
        if (!(guess->missing >> rank & 1))
            continue;
        if (guess->n_made[rank] == COUNTED_MAX) {
            guess->n_made[rank] /= 2;
            guess->n_right[rank] /= 2;
        }
        guess->n_made[rank]++;
        guess->n_right[rank] += bsearch(&guess->ids[rank], ids, n, sizeof(*ids), compare_ids) != NULL;
    }
    guess->missing = 0;
}
