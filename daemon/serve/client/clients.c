/* clients.c: what is done to all connections. */
#include <serve/client/clients.h>

void halo_clients_flush(struct halo_clients *clients)
{
    while (clients->touched->first)
        halo_peer_flush(HALO_LIST_ITEM(clients->touched->first, struct halo_peer, client.touch));
}

void halo_clients_doom(struct halo_clients *clients)
{
    for (struct halo_list_node *node = clients->peers.first; node; node = node->next)
        halo_peer_doom(HALO_LIST_ITEM(node, struct halo_peer, node));
}

void halo_clients_close(struct halo_clients *clients)
{
    while (clients->peers.first)
        halo_peer_close(HALO_LIST_ITEM(clients->peers.first, struct halo_peer, node));
}
