/* turn_priv.h: a user's share of one turn of the loop: how long its lines are handled, and how much is read for it,
 * on all its connections together. The account holds what it had in the turn under way. Loop thread. */
#ifndef HALO_SERVE_CLIENT_TURN_PRIV_H
#define HALO_SERVE_CLIENT_TURN_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include <serve/quota.h>

/* False: no more of its lines are handled before the next turn. `turn`: the number of the one under way. */
bool halo_turn_has_time(struct halo_quota_user *user, uint64_t turn);
/* Handling a line took so long. */
void halo_turn_add_time(struct halo_quota_user *user, uint64_t ns);
/* So much was read. False: no more is read for it before the next turn. */
bool halo_turn_add_bytes(struct halo_quota_user *user, uint64_t turn, uint64_t n_bytes);

#endif
