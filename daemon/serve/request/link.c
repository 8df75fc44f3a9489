/* link.c: states of the way to the engine. */
#include "link_priv.h"

#include <base/state.h>

#define BIT(state) HALO_STATE_BIT(HALO_LINK_##state)

static const unsigned moves[HALO_N_LINK_STATES] = {
    [HALO_LINK_DOWN] = BIT(LOADING) | BIT(DOWN), /* one that never answered dies too */
    [HALO_LINK_LOADING] = BIT(READY) | BIT(DOWN),
    [HALO_LINK_READY] = BIT(DOWN),
};

bool halo_link_may_move(enum halo_link_state from, enum halo_link_state to)
{
    return halo_state_may_move(moves, from, to);
}

void halo_link_move(struct halo_link *link, enum halo_link_state to)
{
    link->state = halo_state_move(moves, link->state, to);
}
