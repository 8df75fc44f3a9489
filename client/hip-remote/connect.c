/* connect.c: connects to the worker within a time limit. POSIX only. */
#include "connect_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define KEEPALIVE_S 15

static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM, 0), on = 1, idle = KEEPALIVE_S;
    if (fd < 0)
        return -errno;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
#ifdef SO_NOSIGPIPE
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof(on));
#endif
    if (family == AF_UNIX)
        return fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* frames are gathered by the client itself */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
#ifdef TCP_KEEPIDLE
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
#else
    (void)idle;
#endif
    return fd;
}

/* The descriptor, or a negative errno with it closed. */
static int finish(int fd, int failed, uint32_t timeout_ms)
{
    struct pollfd state = {.fd = fd, .events = POLLOUT};
    socklen_t n = sizeof(failed);
    if (failed == EINPROGRESS || failed == EAGAIN) {
        int ready = poll(&state, 1, (int)timeout_ms);
        failed = ready == 0 ? ETIMEDOUT : ready < 0 ? errno : 0;
        if (!failed && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &n) < 0)
            failed = errno;
    }
    if (!failed)
        return fd;
    close(fd);
    return -failed;
}

static int connect_unix(const struct halo_remote_settings *settings)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = open_socket(AF_UNIX);
    if (fd < 0)
        return fd;
    memcpy(address.sun_path, settings->worker.path, strlen(settings->worker.path) + 1);
    int r = connect(fd, (const struct sockaddr *)&address, sizeof(address));
    return finish(fd, r < 0 ? errno : 0, settings->connect_ms);
}

/* Each address of the host in turn. */
static int connect_tcp(const struct halo_remote_settings *settings)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int fd = -EHOSTUNREACH;
    if (getaddrinfo(settings->worker.host, settings->worker.port, &hints, &found) != 0)
        return fd;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = open_socket(at->ai_family);
        if (fd < 0)
            continue;
        int r = connect(fd, at->ai_addr, at->ai_addrlen);
        fd = finish(fd, r < 0 ? errno : 0, settings->connect_ms);
    }
    freeaddrinfo(found);
    return fd;
}

_Static_assert(sizeof(((struct halo_endpoint *)0)->path) <= sizeof(((struct sockaddr_un *)0)->sun_path),
               "sun_path holds every path of an endpoint");

int halo_remote_connect(const struct halo_remote_settings *settings, struct halo_remote_channel *ret,
                        char reason[static HALO_REMOTE_REASON_BYTES])
{
    int fd = settings->worker.is_unix ? connect_unix(settings) : connect_tcp(settings), r = 0;
    if (fd < 0) {
        snprintf(reason, HALO_REMOTE_REASON_BYTES, "%s", strerror(-fd));
        return fd;
    }
    *ret = (struct halo_remote_channel){.fd = fd};
    if (settings->key_file && !settings->worker.is_unix)
        r = halo_remote_secure(ret, settings->key_file, settings->connect_ms, reason);
    if (r < 0)
        close(fd);
    return r;
}
