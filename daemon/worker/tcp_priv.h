/* tcp_priv.h: TCP, and which user of this machine is at the other end. */
#ifndef HALO_WORKER_TCP_PRIV_H
#define HALO_WORKER_TCP_PRIV_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <base/fault.h>

/* Binds and listens at HOST:PORT; port 0: any. The descriptor, or a negative errno. Without a key an address of another
 * than the loopback device is refused: the connection is neither encrypted nor does it say who asks. */
int halo_tcp_listen(const char *where, bool has_key, struct halo_fault *fault);

/* "127.0.0.1:8000" */
void halo_tcp_name(const struct sockaddr_storage *address, char *ret, size_t size);

/* Whether it is one, not a Unix socket. */
bool halo_tcp_is(int fd);

/* The user who owns the other end of a connection within this machine, from /proc/net/tcp and tcp6. 0, -ENOENT when it
 * is not among them, or another negative errno. */
int halo_tcp_peer_uid(int fd, uid_t *ret);

/* No delay of small frames; a dead peer is noticed within half a minute. Does nothing for other sockets. */
void halo_tcp_prepare(int fd);

#endif
