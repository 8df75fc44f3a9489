/* tcp.c: listens, and finds out who is at the other end. The kernel lists who owns each socket of this machine. */
#include "tcp_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/endpoint.h>

#define KEEPALIVE_IDLE_S 15
#define KEEPALIVE_EVERY_S 5
#define KEEPALIVE_TIMES 3
#define UNSENT_MS 30000

/* ---- listening ---- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static int open_socket(const struct addrinfo *found, const char *where, struct halo_fault *fault)
{
    const int on = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot make a socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int r = halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot listen on %s", where);
    close(fd);
    return r;
}

int halo_tcp_listen(const char *where, bool has_key, struct halo_fault *fault)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char host[HALO_ENDPOINT_HOST_BYTES];
    const char *port;
    int r = 0;
    if (!halo_endpoint_split(where, strlen(where), host, &port) || !*port)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "--listen takes HOST:PORT, not '%s'", where);
    int error = getaddrinfo(host, port, &hints, &found);
    if (error)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "--listen %s: %s", where, gai_strerror(error));
    if (has_key || is_loopback(found->ai_addr))
        r = open_socket(found, where, fault);
    else
        r = halo_fault_set(
            fault, HALO_FAULT_BAD_REQUEST,
            "--listen %s: not a loopback address. Without --key-file hip-worker neither encrypts connections nor "
            "authenticates clients; give it a key, or forward the socket with ssh -L",
            where);
    freeaddrinfo(found);
    return r;
}

void halo_tcp_name(const struct sockaddr_storage *address, char *ret, size_t size)
{
    char host[64], port[16];
    snprintf(ret, size, "?");
    if (getnameinfo((const struct sockaddr *)address, sizeof(*address), host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(ret, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

bool halo_tcp_is(int fd)
{
    struct sockaddr_storage own;
    socklen_t n = sizeof(own);
    return getsockname(fd, (struct sockaddr *)&own, &n) == 0 && own.ss_family != AF_UNIX;
}

/* ---- the other end ---- */

/* An end as /proc/net/tcp and tcp6 write it: the words of the address as they lie in memory, and the port. */
static void write_end(const struct sockaddr_storage *end, char ret[48])
{
    if (end->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)end;
        snprintf(ret, 48, "%08X:%04X", in->sin_addr.s_addr, ntohs(in->sin_port));
        return;
    }
    const struct sockaddr_in6 *in6 = (const void *)end;
    uint32_t word[4];
    memcpy(word, &in6->sin6_addr, sizeof(word));
    snprintf(ret, 48, "%08X%08X%08X%08X:%04X", word[0], word[1], word[2], word[3], ntohs(in6->sin6_port));
}

static int find_owner(const char *list, const char *local, const char *remote, uid_t *ret)
{
    FILE *in = fopen(list, "re");
    char line[512], is_local[48], is_remote[48];
    unsigned uid;
    int r = -ENOENT;
    if (!in)
        return -errno;
    while (r < 0 && fgets(line, sizeof(line), in))
        if (sscanf(line, " %*d: %47s %47s %*x %*s %*s %*s %u", is_local, is_remote, &uid) == 3 &&
            strcmp(is_local, local) == 0 && strcmp(is_remote, remote) == 0) {
            *ret = uid;
            r = 0;
        }
    fclose(in);
    return r;
}

int halo_tcp_peer_uid(int fd, uid_t *ret)
{
    struct sockaddr_storage own, peer;
    socklen_t n_own = sizeof(own), n_peer = sizeof(peer);
    char local[48], remote[48];
    if (getsockname(fd, (struct sockaddr *)&own, &n_own) != 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &n_peer) != 0)
        return -errno;
    write_end(&peer, local);
    write_end(&own, remote);
    return find_owner(own.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", local, remote, ret);
}

void halo_tcp_prepare(int fd)
{
    const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TIMES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, UNSENT_MS},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}
