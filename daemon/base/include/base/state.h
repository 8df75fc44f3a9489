/* state.h: which states of an object may follow which.
 *
 * A state machine declares one mask of successors for each state, indexed by the state, and moves through
 * halo_state_move(), which aborts on a move that the table lacks: such a move is a programmer's error. Pure; any
 * thread.
 */
#ifndef HALO_BASE_STATE_H
#define HALO_BASE_STATE_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>

#define HALO_STATE_BIT(state) (1u << (state))

static inline bool halo_state_may_move(const unsigned *moves, unsigned from, unsigned to)
{
    return to < sizeof(*moves) * CHAR_BIT && (moves[from] >> to & 1) != 0;
}

/* Returns `to`. */
static inline unsigned halo_state_move(const unsigned *moves, unsigned from, unsigned to)
{
    assert(halo_state_may_move(moves, from, to));
    return to;
}

#endif
