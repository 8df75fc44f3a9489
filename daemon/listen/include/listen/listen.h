/* listen.h: a listening Unix socket: one daemon for each path, and never a live one displaced.
 *
 * Beside the socket lies PATH.lock, held with flock() while the daemon lives and never removed (removing it would race
 * with the next daemon's open). A socket file is unlinked only by the holder of the lock, and only after a connect() to
 * it was refused. A socket passed by the service manager is used as it is; its file is the manager's.
 */
#ifndef HALO_LISTEN_LISTEN_H
#define HALO_LISTEN_LISTEN_H

#include <stdbool.h>
#include <sys/types.h>

#include <base/fault.h>

#define HALO_LISTEN_PATH_BYTES 107 /* what sockaddr_un holds beside its NUL */

struct halo_listen {
    int fd;      /* bound and listening; -1: none */
    int lock_fd; /* -1 with a passed socket */
    bool passed;
    char path[HALO_LISTEN_PATH_BYTES + 1];
};

/* Binds and listens at `path`; the file has this mode from its first moment. On failure nothing is left open. */
int halo_listen_open(struct halo_listen *ret_listen, const char *path, mode_t mode, struct halo_fault *fault);

/* Takes over a descriptor that the service manager passed. It must be a listening Unix stream socket. */
int halo_listen_adopt(struct halo_listen *ret_listen, int fd, struct halo_fault *fault);

/* Stops listening and removes the socket file if it is ours. Idempotent. The lock is held until the finish. */
void halo_listen_close(struct halo_listen *listen);
void halo_listen_finish(struct halo_listen *listen);

#endif
