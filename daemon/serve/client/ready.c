/* ready.c: the connections that have lines to handle; below peer.c and clients.c, which both tell of them. */
#include "clients_priv.h"

static void stay_awake(uv_idle_t *idle)
{
}

void halo_clients_ready(struct halo_clients *clients, struct halo_peer *peer)
{
    if (halo_list_is_linked(&peer->ready))
        return;
    halo_list_append(&clients->ready, &peer->ready);
    uv_idle_start(&clients->idle, stay_awake);
}
