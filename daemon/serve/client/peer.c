/* peer.c: a connection: made, read, flushed, closed. */
#include <serve/client/peer.h>

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/log.h>

#include "clients_priv.h"
#include "credentials_priv.h"
#include "flow_priv.h"
#include "turn_priv.h"

#define READ_BYTES (64 << 10)
#define TICK_MS 50

static void read_start(struct halo_peer *peer);

static void read_stop(struct halo_peer *peer)
{
    peer->reading = false;
    uv_read_stop((uv_stream_t *)&peer->pipe);
}

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

/* The input that was not handled is held in memory, at the cost of its sender. */
static void release_pending(struct halo_peer *peer)
{
    halo_quota_give_back(peer->clients->quota, peer->client.user, HALO_QUOTA_LINES, peer->charged_bytes);
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
    halo_list_remove(&peer->ready);
    halo_list_remove(&peer->node);
    release_pending(peer);
    halo_client_settle(&peer->client, 0);
    halo_quota_give_back(peer->clients->quota, peer->client.user, HALO_QUOTA_CONNECTIONS, 1);
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
    if (peer->flow.state != HALO_PEER_CLOSED)
        halo_client_settle(&peer->client, halo_sink_bytes(&peer->sink));
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
    read_stop(peer);
    start_ticking(peer);
    peer->clients->ops->pressure(peer, HALO_PRESSURE_SLOW);
}

static void become_quick(struct halo_peer *peer)
{
    halo_flow_move(&peer->flow, peer->flow.input_over ? HALO_PEER_HALF : HALO_PEER_OPEN);
    if (peer->flow.state == HALO_PEER_OPEN && !peer->flow.doomed)
        uv_timer_stop(&peer->timer);
    peer->clients->ops->pressure(peer, HALO_PRESSURE_NONE);
    halo_clients_ready(peer->clients, peer); /* lines may be left of before */
    halo_client_touch(&peer->client);        /* a connection that had only this output left is over now */
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
        halo_log_limited(&peer->clients->log_limit, HALO_LOG_WARN,
                         "pid %ld does not read its events: %zu bytes are waiting; closing its connection",
                         (long)peer->pid, halo_sink_bytes(&peer->sink));
        halo_peer_close(peer);
        return;
    case HALO_FLOW_GIVE_UP:
        peer->clients->counters->stalls++;
        halo_log_limited(&peer->clients->log_limit, HALO_LOG_INFO,
                         "pid %ld still does not read its events; closing its connection", (long)peer->pid);
        halo_peer_close(peer);
        return;
    case HALO_FLOW_CLOSE: halo_peer_close(peer); return;
    }
}

static void flow(struct halo_peer *peer)
{
    size_t bytes = halo_sink_bytes(&peer->sink);
    if (peer->flow.state == HALO_PEER_CLOSED)
        return;
    halo_client_settle(&peer->client, bytes);
    peer->active_ms = uv_now(peer->clients->loop);
    take_step(peer, halo_flow_output(&peer->flow, peer->clients->config, (int64_t)bytes, peer->client.requests.n));
}

void halo_peer_doom(struct halo_peer *peer)
{
    read_stop(peer);
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
        halo_log_limited(&peer->clients->log_limit, HALO_LOG_ERROR,
                         "out of memory for an event: closing the connection of pid %ld", (long)peer->pid);
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

static void drop_long_line(struct halo_peer *peer)
{
    int64_t limit = peer->clients->config->line_bytes;
    drop(peer, HALO_ERROR_LINE_TOO_LONG, HALO_NUMBERS({"limit_bytes", limit}),
         "the line is longer than %lld bytes; it was dropped", (long long)limit);
}

/* The reader is in the middle of a line and has nothing else: the rest is thrown away as if it were too long. */
static void drop_half_line(struct halo_peer *peer)
{
    const struct halo_quota_user *user = peer->client.user;
    int64_t limit = peer->clients->config->resume_user_bytes, held = user->used[HALO_QUOTA_LINES];
    const char *line;
    size_t len;
    peer->reader.skipping = true;
    halo_line_next(&peer->reader, &line, &len); /* gives the memory back */
    drop(peer, HALO_ERROR_TOO_MANY_REQUESTS, HALO_NUMBERS({"bytes", held}, {"limit_bytes", limit}),
         "the request lines of user %u hold %lld bytes already, %lld are allowed; this line was dropped",
         (unsigned)user->uid, (long long)held, (long long)limit);
}

/* Nothing more will come. A last line without its newline was handled as a line. */
static void input_over(struct halo_peer *peer)
{
    if (peer->flow.input_over)
        return;
    peer->flow.input_over = true;
    if (is_gone(peer)) {
        halo_peer_close(peer);
        return;
    }
    if (peer->flow.state == HALO_PEER_OPEN)
        halo_flow_move(&peer->flow, HALO_PEER_HALF);
    start_ticking(peer); /* a full close that follows is no event of its own for a socket at its end of file */
    halo_client_touch(&peer->client);
}

/* All lines were handled: reads on. */
static void drained(struct halo_peer *peer)
{
    size_t pending = halo_line_pending(&peer->reader);
    if (pending == 0 || halo_quota_charge(peer->clients->quota, peer->client.user, HALO_QUOTA_LINES, pending) == 0)
        peer->charged_bytes = pending;
    else
        drop_half_line(peer);
    if (peer->eof)
        input_over(peer);
    else
        read_start(peer);
}

static bool may_take(const struct halo_peer *peer)
{
    return (peer->flow.state == HALO_PEER_OPEN || peer->flow.state == HALO_PEER_HALF) && !peer->flow.doomed &&
           !peer->client.broken;
}

static void take_line(struct halo_peer *peer, int r, const char *line, size_t len)
{
    if (r == HALO_LINE_E_TOO_LONG)
        drop_long_line(peer);
    else
        peer->clients->ops->line(peer, line, len);
    if (peer->sink.pending.len > (size_t)peer->clients->config->output_high_bytes)
        halo_peer_flush(peer); /* it turns slow now and not after thousands of lines */
}

bool halo_peer_take(struct halo_peer *peer)
{
    struct halo_quota_user *user = peer->client.user;
    bool in_time = true;
    const char *line;
    size_t len;
    release_pending(peer); /* a request that a line becomes is charged as such */
    while (may_take(peer) && (in_time = halo_turn_has_time(user, peer->clients->turn))) {
        uint64_t start_ns = halo_clock_ns();
        int r = halo_line_next(&peer->reader, &line, &len);
        if (r == HALO_LINE_E_MORE) {
            drained(peer);
            return true;
        }
        take_line(peer, r, line, len);
        halo_turn_add_time(user, halo_clock_ns() - start_ns);
    }
    if (peer->flow.state != HALO_PEER_CLOSED) {
        peer->charged_bytes = halo_line_pending(&peer->reader);
        halo_quota_add(peer->clients->quota, user, HALO_QUOTA_LINES, peer->charged_bytes);
    }
    return in_time;
}

/* The user's share of this turn is read: none of its connections is read before the next one. */
static void pause_user(struct halo_clients *clients, const struct halo_quota_user *user)
{
    for (struct halo_list_node *node = clients->peers.first; node; node = node->next) {
        struct halo_peer *peer = HALO_LIST_ITEM(node, struct halo_peer, node);
        if (peer->client.user != user || !peer->reading)
            continue;
        read_stop(peer);
        halo_clients_ready(clients, peer);
    }
}

static void read_some(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct halo_peer *peer = stream->data;
    if (n == 0)
        return;
    if (n == UV_EOF) {
        read_stop(peer);
        peer->eof = true;
        if (halo_line_pending(&peer->reader) > 0)
            (void)halo_line_feed(&peer->reader, "\n", 1); /* without memory the line is lost with its sender */
        halo_clients_ready(peer->clients, peer);
        return;
    }
    if (n < 0) {
        halo_peer_close(peer);
        return;
    }
    peer->active_ms = uv_now(peer->clients->loop);
    peer->clients->counters->bytes_in += (uint64_t)n;
    halo_line_commit(&peer->reader, (size_t)n);
    halo_clients_ready(peer->clients, peer);
    if (!halo_turn_add_bytes(peer->client.user, peer->clients->turn, (uint64_t)n))
        pause_user(peer->clients, peer->client.user);
}

static void read_start(struct halo_peer *peer)
{
    if (peer->reading || peer->eof || peer->flow.doomed)
        return;
    peer->reading = true;
    if (uv_read_start((uv_stream_t *)&peer->pipe, give_buffer, read_some) < 0)
        halo_peer_close(peer);
}

/* ---- the beginning ---- */

int halo_peer_open(struct halo_clients *clients, int fd, struct halo_quota_user *user,
                   const struct halo_credentials *credentials)
{
    struct halo_peer *peer = calloc(1, sizeof(*peer));
    if (!peer)
        return -ENOMEM;
    peer->clients = clients;
    peer->pid = credentials->pid;
    peer->active_ms = uv_now(clients->loop);
    halo_client_init(&peer->client, clients->quota, user, &peer->sink.pending, clients->touched);
    peer->client.admin = user->privileged || credentials->in_group;
    halo_line_init(&peer->reader, (size_t)clients->config->line_bytes);
    uv_pipe_init(clients->loop, &peer->pipe, 0);
    uv_timer_init(clients->loop, &peer->timer);
    peer->pipe.data = peer->timer.data = peer;
    peer->n_handles = 2;
    halo_sink_init(&peer->sink, (uv_stream_t *)&peer->pipe, written, peer);
    halo_list_append(&clients->peers, &peer->node);
    clients->counters->connections++;
    int r = uv_pipe_open(&peer->pipe, fd);
    if (r == 0) {
        read_start(peer);
        return 0;
    }
    halo_log(HALO_LOG_WARN, "a new connection was closed: %s", uv_strerror(r));
    close(fd);
    halo_peer_close(peer);
    return 0;
}
