/* kv_worth.h: which windows and states of texts are kept, where a state is taken, and what of them goes to the disk.
 *
 * A text can be continued only where the window in front of a position and the states at it are still there. Memory
 * does not suffice for all of them, so each kept page or slot has a worth, and the least worth goes first:
 *   PASSED   the same text was continued behind it
 *   LAST     nothing of the text stands behind it: without it the text is computed again from far in front
 *   RESUMED  likewise, and the text was continued before: a conversation, not a single request
 * So a request beside a conversation (a title, a summary) never takes the last copy of the conversation while anything
 * else is left, and its checkpoints never take one at all. RESUMED holds half of the pages of a group at most, or those
 * that are reserved for checkpoints if they are more, so that new conversations find room beside old ones: beyond that
 * the longest idle becomes LAST (the protected segment of a segmented LRU).
 *
 * Pure functions; any thread.
 */
#ifndef HALO_ENGINE_KV_WORTH_H
#define HALO_ENGINE_KV_WORTH_H

#include <stdbool.h>
#include <stdint.h>

enum halo_kv_worth { HALO_KV_PASSED, HALO_KV_LAST, HALO_KV_RESUMED, HALO_KV_N_WORTHS };

/* How many idle pages of n_pages, n_reserved of which sequences may not hold, may be RESUMED. */
static inline uint32_t halo_kv_most_resumed(uint32_t n_pages, uint32_t n_reserved)
{
    return n_reserved > n_pages / 2 ? n_reserved : n_pages / 2;
}

#define HALO_KV_GRID 2048 /* positions from one checkpoint of a long text to the next */
#define HALO_KV_NOWHERE UINT32_MAX

/* Where states of a text are kept, beside its end. Both may be NOWHERE. */
struct halo_kv_places {
    uint32_t parted; /* the end of what others computed of this text: where it parts from theirs. Whole pages */
    uint32_t stable; /* the end of what the next turn of the conversation repeats */
};

/* The next place behind n_filled computed positions. */
uint32_t halo_kv_next_place(const struct halo_kv_places *places, uint32_t n_filled);
/* Whether n_filled is one, and what the states there are worth while the text goes on: at the stable place as much as
 * at the text's end, elsewhere PASSED. */
bool halo_kv_is_place(const struct halo_kv_places *places, uint32_t n_filled, bool resumed,
                      enum halo_kv_worth *ret_worth);

/* Of a window that a text has left behind n_filled positions: what its page with the positions `page * 32` and on is
 * worth. `window` as in struct halo_kv_group. */
enum halo_kv_worth halo_kv_window_worth(const struct halo_kv_places *places, uint32_t window, uint32_t page,
                                        bool resumed);

/* Whether states go to the disk: those of the end of a text, and where texts part; not those of the grid. */
static inline bool halo_kv_is_saved(enum halo_kv_worth worth, uint32_t n_children)
{
    return worth > HALO_KV_PASSED || n_children > 1;
}

#endif
