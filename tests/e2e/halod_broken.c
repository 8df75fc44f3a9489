/* halod_broken.c: the real halod without one of its limits (broken.h): the linker's --wrap puts these functions in
 * front of its own. */
#include <stdint.h>

#include <serve/quota.h>

#include "broken.h"

struct halo_clients;

static bool is_unlimited(enum halo_quota_kind kind)
{
    static const enum broken limits[HALO_N_QUOTA_KINDS] = {
        [HALO_QUOTA_LINES] = BROKEN_lines,
        [HALO_QUOTA_OUTPUT] = BROKEN_output,
        [HALO_QUOTA_CONNECTIONS] = BROKEN_connections,
        [HALO_QUOTA_QUEUED] = BROKEN_queued,
    };
    return is_broken(limits[kind]);
}

WRAP(int, halo_quota_fits, const struct halo_quota *quota, const struct halo_quota_user *user,
     enum halo_quota_kind kind, size_t n)
{
    if (is_unlimited(kind))
        return 0;
    if (is_broken(BROKEN_shares))
        return quota->used[kind] + (int64_t)n <= quota->limits[kind].all ? 0 : HALO_QUOTA_E_ALL;
    return __real_halo_quota_fits(quota, user, kind, n);
}

WRAP(int, halo_quota_charge, struct halo_quota *quota, struct halo_quota_user *user, enum halo_quota_kind kind,
     size_t n)
{
    int r = __wrap_halo_quota_fits(quota, user, kind, n);
    if (r == 0)
        halo_quota_add(quota, user, kind, n);
    return r;
}

WRAP(bool, halo_clients_shed, struct halo_clients *clients, const struct halo_quota_user *user, int which)
{
    return !is_broken(BROKEN_shed) && __real_halo_clients_shed(clients, user, which);
}

WRAP(bool, halo_turn_has_time, struct halo_quota_user *user, uint64_t turn)
{
    return __real_halo_turn_has_time(user, turn) || is_broken(BROKEN_turn_time);
}

WRAP(bool, halo_turn_add_bytes, struct halo_quota_user *user, uint64_t turn, uint64_t n_bytes)
{
    return __real_halo_turn_add_bytes(user, turn, n_bytes) || is_broken(BROKEN_turn_bytes);
}
