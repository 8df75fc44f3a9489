/* suggest.h: which known word may be meant by one that is not known. Pure; any thread.
 *
 * Near is: equal but for upper and lower case, beginning with the word, or one edit away for every three letters of the
 * word. An edit inserts, drops or replaces a byte or swaps two neighbours.
 */
#ifndef HALO_PROTOCOL_SUGGEST_H
#define HALO_PROTOCOL_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `known` is near to the word, which need not be NUL-terminated, and how far away it is. */
bool halo_suggest_is_near(const char *word, size_t n_word, const char *known, size_t *ret_distance);

/* The nearest of several words, which are offered one by one. */
struct halo_suggest {
    const char *word;
    size_t n_word;
    const char *best; /* of equals the first; NULL: none is near */
    size_t distance;
};

void halo_suggest_start(struct halo_suggest *s, const char *word, size_t n_word);
void halo_suggest_offer(struct halo_suggest *s, const char *known);

#endif
