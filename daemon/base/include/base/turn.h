/* turn.h: how a long computation lets others have their turn, and learns that nobody wants its result any more.
 *
 * Code whose time grows with its data takes one (NULL: nobody asks) and counts its work as it goes. The check runs each
 * HALO_TURN_WORK units; it may block for as long as others have the turn. When it returns a negative errno the
 * computation ends with it at once, and the reason is with whoever gave the turn: the computation sets no fault. One
 * thread at a time.
 */
#ifndef HALO_BASE_TURN_H
#define HALO_BASE_TURN_H

#include <stddef.h>

#define HALO_TURN_WORK 4096 /* units between two checks; one is a merge, a word or a step of a template: 50 to 500 ns */

struct halo_turn {
    int (*check)(struct halo_turn *turn); /* 0: continue */
    size_t n_work;                        /* since the last check */
};

static inline int halo_turn_check(struct halo_turn *turn)
{
    if (!turn)
        return 0;
    turn->n_work = 0;
    return turn->check(turn);
}

static inline int halo_turn_work(struct halo_turn *turn, size_t n)
{
    if (!turn || (turn->n_work += n) < HALO_TURN_WORK)
        return 0;
    return halo_turn_check(turn);
}

#endif
