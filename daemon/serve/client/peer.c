/* peer.c: a connection: made, read, flushed, closed. */
#include <serve/client/peer.h>

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/log.h>

#include <serve/client/clients.h>

#include "flow_priv.h"

#define READ_BYTES (64 << 10)
#define TICK_MS 50

static void read_start(struct halo_peer *peer);

/* ---- the end ---- */

static void handle_closed(uv_handle_t *handle)
{
    struct halo_peer *peer = handle->data;
    if (--peer->n_handles > 0)
        return;
    halo_sink_finish(&peer->sink);
    halo_line_finish(&peer->reader);
    halo_quota_release(peer->clients->quota, peer->client.user);
    free(peer);
}

static void release_pending(struct halo_peer *peer)
{
    halo_quota_give_back(peer->clients->quota, peer->client.user, peer->charged_bytes);
    peer->charged_bytes = 0;
}

void halo_peer_close(struct halo_peer *peer)
{
    if (peer->flow.state == HALO_PEER_CLOSED)
        return;
    halo_flow_move(&peer->flow, HALO_PEER_CLOSED);
    peer->client.closed = true;
    peer->clients->ops->gone(peer);
    halo_list_remove(&peer->client.touch);
    halo_list_remove(&peer->node);
    release_pending(peer);
    uv_close((uv_handle_t *)&peer->pipe, handle_closed);
    uv_close((uv_handle_t *)&peer->timer, handle_closed);
}

static bool is_gone(struct halo_peer *peer)
{
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)&peer->pipe, &fd) < 0)
        return true;
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

/* ---- flow ---- */

static void take_step(struct halo_peer *peer, enum halo_flow_step step);

static void tick(uv_timer_t *timer)
{
    struct halo_peer *peer = timer->data;
    if (is_gone(peer)) /* of a socket that is not read from, or at its end of file, nothing else tells */
        halo_peer_close(peer);
    else
        take_step(peer, halo_flow_time(&peer->flow, peer->clients->config, halo_clock_ns()));
}

static void start_ticking(struct halo_peer *peer)
{
    uv_timer_start(&peer->timer, tick, TICK_MS, TICK_MS);
}

static void become_slow(struct halo_peer *peer)
{
    halo_flow_move(&peer->flow, HALO_PEER_SLOW);
    peer->clients->counters->pauses++;
    peer->flow.since_ns = halo_clock_ns();
    peer->flow.stalled = false;
    uv_read_stop((uv_stream_t *)&peer->pipe);
    start_ticking(peer);
    peer->clients->ops->pressure(peer, HALO_PRESSURE_SLOW);
}

static void become_quick(struct halo_peer *peer)
{
    halo_flow_move(&peer->flow, peer->flow.input_over ? HALO_PEER_HALF : HALO_PEER_OPEN);
    if (peer->flow.state == HALO_PEER_OPEN && !peer->flow.doomed)
        uv_timer_stop(&peer->timer);
    peer->clients->ops->pressure(peer, HALO_PRESSURE_NONE);
    read_start(peer);
}

static void stall(struct halo_peer *peer)
{
    peer->clients->counters->stalls++;
    peer->flow.stalled = true;
    peer->flow.since_ns = halo_clock_ns();
    peer->clients->ops->pressure(peer, HALO_PRESSURE_STALLED);
}

static void take_step(struct halo_peer *peer, enum halo_flow_step step)
{
    switch (step) {
    case HALO_FLOW_STAYS: return;
    case HALO_FLOW_SLOW: become_slow(peer); return;
    case HALO_FLOW_QUICK: become_quick(peer); return;
    case HALO_FLOW_STALLED: stall(peer); return;
    case HALO_FLOW_OVERFLOW:
        halo_log(HALO_LOG_WARN, "pid %ld does not read: %zu bytes wait for it, closing", (long)peer->pid,
                 halo_sink_bytes(&peer->sink));
        halo_peer_close(peer);
        return;
    case HALO_FLOW_GIVE_UP:
        peer->clients->counters->stalls++;
        halo_log(HALO_LOG_INFO, "pid %ld still does not read, closing", (long)peer->pid);
        halo_peer_close(peer);
        return;
    case HALO_FLOW_CLOSE: halo_peer_close(peer); return;
    }
}

static void flow(struct halo_peer *peer)
{
    take_step(peer, halo_flow_output(&peer->flow, peer->clients->config, (int64_t)halo_sink_bytes(&peer->sink),
                                     peer->client.requests.n));
}

void halo_peer_doom(struct halo_peer *peer)
{
    uv_read_stop((uv_stream_t *)&peer->pipe);
    peer->flow.doomed = true;
    if (peer->flow.state != HALO_PEER_SLOW)
        peer->flow.since_ns = halo_clock_ns();
    start_ticking(peer);
    halo_client_touch(&peer->client);
}

/* ---- output ---- */

void halo_peer_flush(struct halo_peer *peer)
{
    halo_list_remove(&peer->client.touch);
    if (peer->flow.state == HALO_PEER_CLOSED)
        return;
    if (peer->client.broken)
        halo_log(HALO_LOG_ERROR, "out of memory for an event: closing the connection of pid %ld", (long)peer->pid);
    if (peer->client.broken || halo_sink_flush(&peer->sink) < 0)
        halo_peer_close(peer);
    else
        flow(peer);
}

static void written(struct halo_sink *sink, int status, void *ud)
{
    struct halo_peer *peer = ud;
    if (status < 0)
        halo_peer_close(peer);
    else
        flow(peer);
}

/* ---- input ---- */

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct halo_peer *peer = handle->data;
    char *at = NULL;
    size_t room = 0;
    if (halo_line_reserve(&peer->reader, READ_BYTES, &at, &room) < 0)
        room = 0; /* libuv then reports UV_ENOBUFS to read_some() */
    *ret_buf = uv_buf_init(at, (unsigned)room);
}

/* The line that is only half here is held in memory, at the cost of its sender. */
static bool charge_pending(struct halo_peer *peer)
{
    size_t pending = halo_line_pending(&peer->reader);
    if (halo_quota_charge(peer->clients->quota, peer->client.user, pending) != 0)
        return false;
    peer->charged_bytes = pending;
    return true;
}

__attribute__((format(printf, 4, 5))) static void drop(struct halo_peer *peer, enum halo_error code,
                                                       struct halo_numbers numbers, const char *format, ...)
{
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    peer->clients->ops->dropped(peer, code, numbers, message);
}

static void take_lines(struct halo_peer *peer)
{
    const char *line;
    size_t len;
    release_pending(peer); /* a request that it became is charged as such */
    for (;;) {
        int r = halo_line_next(&peer->reader, &line, &len);
        if (r == HALO_LINE_E_MORE)
            break;
        if (r == HALO_LINE_E_TOO_LONG)
            drop(peer, HALO_ERROR_LINE_TOO_LONG, HALO_NUMBERS({"limit_bytes", peer->clients->config->line_bytes}),
                 "the line is longer than %lld bytes; it was dropped", (long long)peer->clients->config->line_bytes);
        else
            peer->clients->ops->line(peer, line, len);
        if (peer->client.broken)
            return;
    }
    if (charge_pending(peer))
        return;
    /* The reader is in the middle of this line and has nothing else: the rest is thrown away as if it were too long. */
    peer->reader.skipping = true;
    halo_line_next(&peer->reader, &line, &len); /* gives the memory back */
    drop(peer, HALO_ERROR_TOO_MANY_REQUESTS,
         HALO_NUMBERS({"bytes", peer->client.user->bytes}, {"limit_bytes", peer->clients->config->resume_user_bytes}),
         "the request lines of user %u hold %lld bytes already, %lld are allowed; this line was dropped",
         (unsigned)peer->client.user->uid, (long long)peer->client.user->bytes,
         (long long)peer->clients->config->resume_user_bytes);
}

static void input_ended(struct halo_peer *peer)
{
    peer->flow.input_over = true;
    if (is_gone(peer)) {
        halo_peer_close(peer);
        return;
    }
    assert(peer->flow.state == HALO_PEER_OPEN); /* a slow peer is not read from */
    halo_flow_move(&peer->flow, HALO_PEER_HALF);
    start_ticking(peer); /* a full close that follows is no event of its own for a socket at its end of file */
    halo_client_touch(&peer->client);
}

static void read_some(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct halo_peer *peer = stream->data;
    if (n == 0)
        return;
    if (n == UV_EOF) {
        input_ended(peer);
        return;
    }
    if (n < 0) {
        halo_peer_close(peer);
        return;
    }
    peer->clients->counters->bytes_in += (uint64_t)n;
    halo_line_commit(&peer->reader, (size_t)n);
    take_lines(peer);
}

static void read_start(struct halo_peer *peer)
{
    if (!peer->flow.input_over && !peer->flow.doomed &&
        uv_read_start((uv_stream_t *)&peer->pipe, give_buffer, read_some) < 0)
        halo_peer_close(peer);
}

/* ---- the beginning ---- */

int halo_peer_create(struct halo_clients *clients, int fd)
{
    struct ucred cred;
    socklen_t cred_len = sizeof(cred);
    struct halo_quota_user *user = NULL;
    struct halo_peer *peer = calloc(1, sizeof(*peer));
    int r = !peer ? -ENOMEM : 0;
    if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) != 0)
        r = -errno;
    if (r == 0 && !(user = halo_quota_acquire(clients->quota, cred.uid)))
        r = -ENOMEM;
    if (r < 0) {
        free(peer);
        close(fd);
        return r;
    }
    peer->clients = clients;
    peer->pid = cred.pid;
    halo_client_init(&peer->client, user, &peer->sink.pending, clients->touched);
    peer->client.trusted = cred.uid == 0 || cred.uid == clients->uid;
    halo_line_init(&peer->reader, (size_t)clients->config->line_bytes);
    uv_pipe_init(clients->loop, &peer->pipe, 0);
    uv_timer_init(clients->loop, &peer->timer);
    peer->pipe.data = peer->timer.data = peer;
    peer->n_handles = 2;
    halo_sink_init(&peer->sink, (uv_stream_t *)&peer->pipe, written, peer);
    halo_list_append(&clients->peers, &peer->node);
    clients->counters->connections++;
    r = uv_pipe_open(&peer->pipe, fd);
    if (r < 0) {
        close(fd);
        halo_peer_close(peer);
        return r;
    }
    read_start(peer);
    return 0;
}
