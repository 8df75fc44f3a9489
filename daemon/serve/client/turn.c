/* turn.c: a user's share of one turn of the loop. */
#include "turn_priv.h"

#define TURN_NS 2000000u        /* of the loop's time for the lines of one user, one line at least ... */
#define TURN_BYTES (256u << 10) /* ... and what is read for it */

static void begin(struct halo_quota_user *user, uint64_t turn)
{
    if (user->turn != turn)
        user->turn_ns = user->turn_bytes = 0;
    user->turn = turn;
}

bool halo_turn_has_time(struct halo_quota_user *user, uint64_t turn)
{
    begin(user, turn);
    return user->turn_ns < TURN_NS;
}

void halo_turn_add_time(struct halo_quota_user *user, uint64_t ns)
{
    user->turn_ns += ns;
}

bool halo_turn_add_bytes(struct halo_quota_user *user, uint64_t turn, uint64_t n_bytes)
{
    begin(user, turn);
    user->turn_bytes += n_bytes;
    return user->turn_bytes <= TURN_BYTES;
}
