/* bench_socket.c: opens them. */
#include "bench_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int open_socket(const char *name, int buffer_bytes, bool listens)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(name)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_path = strchr(name, '/') != NULL;
    snprintf(local.sun_path, sizeof(local.sun_path), "%s", name);
    const struct sockaddr *address = is_path ? (struct sockaddr *)&local : (struct sockaddr *)&port;
    socklen_t n = is_path ? sizeof(local) : sizeof(port);
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (buffer_bytes > 0)
        setsockopt(fd, SOL_SOCKET, listens ? SO_RCVBUF : SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
    int r = listens ? bind(fd, address, n) : connect(fd, address, n);
    if (r == 0 && listens)
        r = listen(fd, 4);
    if (r < 0) {
        fprintf(stderr, "%s: %s\n", name, strerror(errno));
        exit(1);
    }
    return fd;
}

int bench_socket_listen(const char *name, int buffer_bytes)
{
    return open_socket(name, buffer_bytes, true);
}

int bench_socket_connect(const char *name, int buffer_bytes)
{
    return open_socket(name, buffer_bytes, false);
}
