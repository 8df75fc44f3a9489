/* accept.c: new connections, up to the limit; a pause when the system has no descriptors or memory left. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/log.h>
#include <protocol/message.h>

#include <serve/daemon.h>

#define ACCEPTS_AT_ONCE 64
#define PAUSE_MS 100

static void accept_some(uv_poll_t *poll, int status, int events);

static void resume(uv_timer_t *timer)
{
    struct halo_daemon *daemon = timer->data;
    if (daemon->accepting)
        uv_poll_start(&daemon->accept_poll, UV_READABLE, accept_some);
}

/* The connection stays in the backlog; asking again at once would spin. */
static void pause_accept(struct halo_daemon *daemon, int error)
{
    if (daemon->counters.accept_pauses++ % 100 == 0)
        halo_log(HALO_LOG_WARN, "cannot accept a connection: %s; trying again every %d ms", strerror(error), PAUSE_MS);
    uv_poll_stop(&daemon->accept_poll);
    uv_timer_start(&daemon->accept_timer, resume, PAUSE_MS, 0);
}

static void refuse(struct halo_daemon *daemon, int fd)
{
    struct halo_ev ev;
    struct halo_json w;
    char line[512];
    daemon->counters.connections_refused++;
    halo_ev_init_error(&ev, NULL, HALO_ERROR_TOO_MANY_REQUESTS, "all connections are in use; close one or try later");
    halo_json_init_fixed(&w, line, sizeof(line));
    if (halo_ev_encode(&w, &ev) == 0 && send(fd, w.at, w.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        halo_log(HALO_LOG_DEBUG, "a refused client was gone already");
    close(fd);
}

static void accept_some(uv_poll_t *poll, int status, int events)
{
    struct halo_daemon *daemon = poll->data;
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int fd = accept4(daemon->listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                pause_accept(daemon, errno);
            else if (errno == ECONNABORTED || errno == EINTR)
                continue;
            return;
        }
        if (daemon->n_peers >= (size_t)daemon->config->connections) {
            refuse(daemon, fd);
            continue;
        }
        int r = halo_peer_create(daemon, fd);
        if (r < 0)
            halo_log(HALO_LOG_WARN, "a connection was lost at once: %s", strerror(-r));
    }
}

int halo_accept_start(struct halo_daemon *daemon)
{
    int r = uv_poll_init(daemon->loop, &daemon->accept_poll, daemon->listen.fd);
    if (r < 0)
        return r;
    uv_timer_init(daemon->loop, &daemon->accept_timer);
    daemon->accept_poll.data = daemon->accept_timer.data = daemon;
    daemon->accepting = true;
    return uv_poll_start(&daemon->accept_poll, UV_READABLE, accept_some);
}

void halo_accept_stop(struct halo_daemon *daemon)
{
    if (!daemon->accepting)
        return;
    daemon->accepting = false;
    uv_close((uv_handle_t *)&daemon->accept_poll, NULL);
    uv_close((uv_handle_t *)&daemon->accept_timer, NULL);
}
