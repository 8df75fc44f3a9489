/* link_priv.h: the engine as requests see it. */
#ifndef HALO_SERVE_REQUEST_LINK_PRIV_H
#define HALO_SERVE_REQUEST_LINK_PRIV_H

#include <serve/request/requests.h>

bool halo_link_may_move(enum halo_link_state from, enum halo_link_state to);
/* Aborts on a move that the table of moves lacks. */
void halo_link_move(struct halo_link *link, enum halo_link_state to);

#endif
