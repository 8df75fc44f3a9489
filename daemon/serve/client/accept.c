/* accept.c: new connections, up to the limit; a pause when the system has no descriptors or memory left. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/log.h>
#include <protocol/message.h>

#include "clients_priv.h"
#include "credentials_priv.h"

#define SOCKET_MODE 0660 /* owner and group; other users have to be in the group */

#define ACCEPTS_AT_ONCE 64
#define PAUSE_MS 100
#define LOG_LINES_PER_S 20

static void accept_some(uv_poll_t *poll, int status, int events);

static void resume(uv_timer_t *timer)
{
    struct halo_clients *clients = timer->data;
    if (clients->accepting)
        uv_poll_start(&clients->poll, UV_READABLE, accept_some);
}

/* The connection stays in the backlog; asking again at once would spin. */
static void pause_accept(struct halo_clients *clients, int error)
{
    if (clients->counters->accept_pauses++ % 100 == 0)
        halo_log(HALO_LOG_WARN, "cannot accept a connection: %s; trying again every %d ms", strerror(error), PAUSE_MS);
    uv_poll_stop(&clients->poll);
    uv_timer_start(&clients->timer, resume, PAUSE_MS, 0);
}

static void refuse(struct halo_clients *clients, int fd, int which, const struct halo_peer_refused *refused)
{
    char message[256], line[1024], detail[HALO_DETAIL_BYTES];
    struct halo_ev ev;
    struct halo_json w;
    clients->counters->connections_refused++;
    if (which == HALO_QUOTA_E_ALL)
        snprintf(message, sizeof(message), "all connections are in use; close one or try later");
    else
        snprintf(message, sizeof(message),
                 "user %u has %lld connections and gets no more: one user may have half of what the others leave; "
                 "close one or try later",
                 (unsigned)refused->uid, (long long)refused->n);
    halo_ev_init_error(&ev, NULL, HALO_ERROR_TOO_MANY_REQUESTS, message);
    halo_ev_set_detail(&ev, HALO_NUMBERS({"connections", refused->n}, {"limit", refused->share}), detail);
    halo_json_init_fixed(&w, line, sizeof(line));
    if (halo_ev_encode(&w, &ev) == 0)
        halo_linger(clients, fd, w.at, w.len);
    else
        close(fd);
}

static void accept_some(uv_poll_t *poll, int status, int events)
{
    struct halo_clients *clients = poll->data;
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int fd = accept4(clients->listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                pause_accept(clients, errno);
            else if (errno == ECONNABORTED || errno == EINTR)
                continue;
            return;
        }
        struct halo_peer_refused refused;
        int r = halo_peer_create(clients, fd, &refused);
        if (r > 0)
            refuse(clients, fd, r, &refused);
        else if (r < 0)
            halo_log_limited(&clients->log_limit, HALO_LOG_WARN, "a new connection was closed: %s", strerror(-r));
    }
}

static void stop_accepting(struct halo_clients *clients)
{
    if (!clients->accepting)
        return;
    clients->accepting = false;
    uv_close((uv_handle_t *)&clients->poll, NULL);
    uv_close((uv_handle_t *)&clients->timer, NULL);
}

static int start_accepting(struct halo_clients *clients)
{
    int r = uv_poll_init(clients->loop, &clients->poll, clients->listen.fd);
    if (r < 0)
        return r;
    uv_timer_init(clients->loop, &clients->timer);
    clients->poll.data = clients->timer.data = clients;
    clients->accepting = true;
    return uv_poll_start(&clients->poll, UV_READABLE, accept_some);
}

int halo_clients_start(struct halo_clients *clients, int passed_fd, struct halo_fault *fault)
{
    halo_list_init(&clients->peers);
    halo_list_init(&clients->ready);
    halo_list_init(&clients->refused);
    clients->admin_gid = HALO_NO_GROUP;
    clients->log_limit.n_per_s = LOG_LINES_PER_S;
    int r = 0;
    if (clients->config->admin_group)
        r = halo_credentials_group(clients->config->admin_group, &clients->admin_gid, fault);
    if (r < 0)
        return r;
    r = passed_fd >= 0 ? halo_listen_adopt(&clients->listen, passed_fd, fault)
                       : halo_listen_open(&clients->listen, clients->config->socket_path, SOCKET_MODE, fault);
    if (r < 0)
        return r;
    r = start_accepting(clients);
    uv_idle_init(clients->loop, &clients->idle);
    if (r == 0)
        return 0;
    halo_clients_close_handles(clients);
    stop_accepting(clients);
    halo_listen_finish(&clients->listen);
    return halo_fault_errno(fault, HALO_FAULT_INTERNAL, r, "cannot watch the socket");
}

void halo_clients_stop(struct halo_clients *clients)
{
    stop_accepting(clients);
    halo_listen_close(&clients->listen);
}

void halo_clients_finish(struct halo_clients *clients)
{
    assert(!clients->peers.first);
    halo_listen_finish(&clients->listen);
}
