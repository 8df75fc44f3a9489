/* clients.c: what is done to all connections: each turn of the loop, when room is wanted, at the end. */
#include "clients_priv.h"

#define SHED_MS 1000 /* silent for less is no silence */

/* ---- turns ---- */

void halo_clients_take(struct halo_clients *clients)
{
    for (size_t n = clients->ready.n; n > 0 && clients->ready.first; n--) {
        struct halo_peer *peer = HALO_LIST_ITEM(clients->ready.first, struct halo_peer, ready);
        halo_list_remove(&peer->ready);
        if (!halo_peer_take(peer))
            halo_clients_ready(clients, peer);
    }
    clients->turn++;
    if (!clients->ready.first)
        uv_idle_stop(&clients->idle);
}

void halo_clients_flush(struct halo_clients *clients)
{
    while (clients->touched->first)
        halo_peer_flush(HALO_LIST_ITEM(clients->touched->first, struct halo_peer, client.touch));
}

/* ---- room ---- */

static const struct halo_quota_user *user_with_most(const struct halo_quota *quota)
{
    const struct halo_quota_user *most = quota->users;
    for (const struct halo_quota_user *user = most; user; user = user->next)
        if (user->used[HALO_QUOTA_CONNECTIONS] > most->used[HALO_QUOTA_CONNECTIONS])
            most = user;
    return most;
}

/* Nothing is due to it, and nothing of it waits here but half a line at most. */
static bool is_silent(const struct halo_peer *peer)
{
    return peer->client.requests.n == 0 && peer->client.output_bytes == 0 && !halo_list_is_linked(&peer->ready);
}

bool halo_clients_shed(struct halo_clients *clients, const struct halo_quota_user *user, int which)
{
    const struct halo_quota_user *loser = which == HALO_QUOTA_E_USER ? user : user_with_most(clients->quota);
    struct halo_peer *silent = NULL;
    for (struct halo_list_node *node = clients->peers.first; node; node = node->next) {
        struct halo_peer *peer = HALO_LIST_ITEM(node, struct halo_peer, node);
        if (peer->client.user == loser && is_silent(peer) && (!silent || peer->active_ms < silent->active_ms))
            silent = peer;
    }
    if (!silent || uv_now(clients->loop) - silent->active_ms < SHED_MS)
        return false;
    int64_t limit = halo_quota_share(clients->quota, loser, HALO_QUOTA_CONNECTIONS);
    clients->counters->connections_shed++;
    clients->ops->dropped(silent, HALO_ERROR_TOO_MANY_REQUESTS, HALO_NUMBERS({"limit", limit}),
                          "this connection was silent and was closed to make room for another one; connect again");
    halo_peer_flush(silent);
    halo_peer_close(silent);
    return true;
}

/* ---- the end ---- */

void halo_clients_doom(struct halo_clients *clients)
{
    for (struct halo_list_node *node = clients->peers.first; node; node = node->next)
        halo_peer_doom(HALO_LIST_ITEM(node, struct halo_peer, node));
    halo_linger_close_all(clients);
}

void halo_clients_close(struct halo_clients *clients)
{
    while (clients->peers.first)
        halo_peer_close(HALO_LIST_ITEM(clients->peers.first, struct halo_peer, node));
    halo_linger_close_all(clients);
}

void halo_clients_close_handles(struct halo_clients *clients)
{
    uv_close((uv_handle_t *)&clients->idle, NULL);
}
