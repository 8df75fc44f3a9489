/* accept.c: new connections, up to the limit; a pause when the system has no descriptors or memory left. */
#include <serve/client/clients.h>

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/log.h>
#include <protocol/message.h>

#define ACCEPTS_AT_ONCE 64
#define PAUSE_MS 100

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

static void refuse(struct halo_clients *clients, int fd)
{
    struct halo_ev ev;
    struct halo_json w;
    char line[512], detail[HALO_DETAIL_BYTES];
    clients->counters->connections_refused++;
    halo_ev_init_error(&ev, NULL, HALO_ERROR_TOO_MANY_REQUESTS, "all connections are in use; close one or try later");
    halo_ev_set_detail(&ev, HALO_NUMBERS({"limit", clients->config->connections}), detail);
    halo_json_init_fixed(&w, line, sizeof(line));
    if (halo_ev_encode(&w, &ev) == 0 && send(fd, w.at, w.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        halo_log(HALO_LOG_DEBUG, "a refused client closed its connection already");
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
        if (clients->peers.n >= (size_t)clients->config->connections) {
            refuse(clients, fd);
            continue;
        }
        int r = halo_peer_create(clients, fd);
        if (r < 0)
            halo_log(HALO_LOG_WARN, "a new connection was closed: %s", strerror(-r));
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
    clients->uid = geteuid();
    int r = passed_fd >= 0 ? halo_listen_adopt(&clients->listen, passed_fd, fault)
                           : halo_listen_open(&clients->listen, clients->config->socket_path, fault);
    if (r < 0)
        return r;
    r = start_accepting(clients);
    if (r == 0)
        return 0;
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
