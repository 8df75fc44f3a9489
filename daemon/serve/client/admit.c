/* admit.c: a new connection: whose it is, and whether its user may have one more. Makes room when that helps, so it
 * stands above peer.c and clients.c. */
#include <errno.h>
#include <unistd.h>

#include "clients_priv.h"
#include "credentials_priv.h"

/* Its user's account, charged with one connection more. 0, a negative errno, a HALO_QUOTA_E. */
static int charge_user(struct halo_clients *clients, uid_t uid, struct halo_quota_user **ret_user,
                       struct halo_peer_refused *ret_refused)
{
    struct halo_quota_user *user = halo_quota_acquire(clients->quota, uid);
    if (!user)
        return -ENOMEM;
    int r = halo_quota_charge(clients->quota, user, HALO_QUOTA_CONNECTIONS, 1);
    if (r > 0 && halo_clients_shed(clients, user, r))
        r = halo_quota_charge(clients->quota, user, HALO_QUOTA_CONNECTIONS, 1);
    if (r > 0) {
        *ret_refused = (struct halo_peer_refused){
            .uid = uid,
            .n = user->used[HALO_QUOTA_CONNECTIONS],
            .share = halo_quota_share(clients->quota, user, HALO_QUOTA_CONNECTIONS),
        };
        halo_quota_release(clients->quota, user);
    }
    *ret_user = user;
    return r;
}

int halo_peer_create(struct halo_clients *clients, int fd, struct halo_peer_refused *ret_refused)
{
    struct halo_credentials credentials;
    struct halo_quota_user *user = NULL;
    int r = halo_credentials_of(fd, clients->admin_gid, &credentials);
    if (r == 0)
        r = charge_user(clients, credentials.uid, &user, ret_refused);
    if (r > 0)
        return r;
    if (r == 0) {
        r = halo_peer_open(clients, fd, user, &credentials);
        if (r == 0)
            return 0;
        halo_quota_give_back(clients->quota, user, HALO_QUOTA_CONNECTIONS, 1);
        halo_quota_release(clients->quota, user);
    }
    close(fd);
    return r;
}
