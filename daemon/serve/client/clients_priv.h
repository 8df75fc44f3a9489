/* clients_priv.h: what the files of this room know of each other. */
#ifndef HALO_SERVE_CLIENT_CLIENTS_PRIV_H
#define HALO_SERVE_CLIENT_CLIENTS_PRIV_H

#include <serve/client/clients.h>

/* ready.c: input of the peer waits to be handled. Does nothing when it is known. */
void halo_clients_ready(struct halo_clients *clients, struct halo_peer *peer);

struct halo_credentials;
/* peer.c: takes over the socket and the user's account, which is charged with the connection. 0, also when it had to
 * close it at once; -ENOMEM: took nothing. */
int halo_peer_open(struct halo_clients *clients, int fd, struct halo_quota_user *user,
                   const struct halo_credentials *credentials);

/* A user wants one more connection and has no room (HALO_QUOTA_E_USER), or nobody has (HALO_QUOTA_E_ALL): closes the
 * connection that has been silent for longest, of this user or of the one with most connections. False: all are in use.
 */
bool halo_clients_shed(struct halo_clients *clients, const struct halo_quota_user *user, int which);

/* linger.c: sends the line, and closes the connection when the client has closed it, at the latest after a second:
 * closed at once, it would lose the line to a client that writes before it reads. Takes the descriptor. */
void halo_linger(struct halo_clients *clients, int fd, const char *line, size_t len);
void halo_linger_close_all(struct halo_clients *clients);

#endif
