/* expert_guess.h: which guesses of the next layer's experts are worth a read: those of ranks that were mostly right.
 *
 * A layer's router on the input of the layer before it names experts, the likeliest first. The further down the list,
 * the more often it is wrong, and a wrong guess makes the drive read in vain. So each list is compared with what the
 * layer then chooses, whether its experts were read or not, and a rank is read as long as it was right often enough.
 * Only experts that are not in memory count: those that are there are chosen so often that most guesses of them are
 * right.
 *
 * Pure. One thread at a time.
 */
#ifndef HALO_ENGINE_EXPERT_GUESS_H
#define HALO_ENGINE_EXPERT_GUESS_H

#include <stdbool.h>
#include <stdint.h>

#define HALO_EXPERT_GUESS_RANKS 32 /* guesses further down the list are not read */
#define HALO_EXPERT_GUESS_TRIED 8  /* guesses of a rank that are read whatever comes of them */
#define HALO_EXPERT_GUESS_RIGHT 3  /* of eight guesses of a rank so many must have been right */
#define HALO_EXPERT_GUESS_READ 3   /* guesses of a list that are read */

struct halo_expert_guess {                                                      /* zeroed: nothing is known */
    uint16_t n_right[HALO_EXPERT_GUESS_RANKS], n_made[HALO_EXPERT_GUESS_RANKS]; /* the later ones count more */
    uint32_t ids[HALO_EXPERT_GUESS_RANKS];                                      /* of the last list */
    uint32_t missing;                                                           /* bits: ranks of it that count */
    uint32_t layer;
};

/* Begins the list of a layer. */
void halo_expert_guess_begin(struct halo_expert_guess *guess, uint32_t layer);
/* An expert on it that is not in memory. Returns whether to read it. */
bool halo_expert_guess_add(struct halo_expert_guess *guess, uint32_t rank, uint32_t id);
/* The layer has chosen these, ascending: counts the ranks of its list, if that was the last one. */
void halo_expert_guess_compare(struct halo_expert_guess *guess, uint32_t layer, const uint32_t *ids, uint32_t n);

#endif
