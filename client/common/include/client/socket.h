/* socket.h: a connection to a daemon's socket, and why there is none. One thread. */
#ifndef HALO_CLIENT_SOCKET_H
#define HALO_CLIENT_SOCKET_H

#include <stddef.h>

/* Returns a connected descriptor, closed on exec, or a negative errno. */
int halo_client_connect(const char *path);

/* What the error of halo_client_connect() means and, where this user may not connect, which group may: "permission
 * denied: /run/halod/halod.sock is open to the group 'halod'; ..." in `buf`. Returns buf. */
const char *halo_client_connect_reason(const char *path, int error, char *buf, size_t n_bytes);

#endif
