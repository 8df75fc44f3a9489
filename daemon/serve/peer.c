/* peer.c: a connection: made, read, flushed, closed. */
#include <serve/peer.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/log.h>
#include <base/state.h>

#include <serve/answer.h>
#include <serve/daemon.h>

#define READ_BYTES (64 << 10)

#define BIT(state) HALO_STATE_BIT(HALO_PEER_##state)

static const unsigned moves[HALO_N_PEER_STATES] = {
    [HALO_PEER_OPEN] = BIT(SLOW) | BIT(HALF) | BIT(CLOSED),
    [HALO_PEER_SLOW] = BIT(OPEN) | BIT(HALF) | BIT(CLOSED),
    [HALO_PEER_HALF] = BIT(SLOW) | BIT(CLOSED),
    [HALO_PEER_CLOSED] = 0,
};

bool halo_peer_may_move(enum halo_peer_state from, enum halo_peer_state to)
{
    return halo_state_may_move(moves, from, to);
}

void halo_peer_move(struct halo_peer *peer, enum halo_peer_state to)
{
    assert(halo_peer_may_move(peer->state, to));
    peer->state = to;
}

static void handle_closed(uv_handle_t *handle)
{
    struct halo_peer *peer = handle->data;
    if (--peer->n_handles > 0)
        return;
    struct halo_daemon *daemon = peer->daemon;
    halo_sink_finish(&peer->sink);
    halo_line_finish(&peer->reader);
    halo_quota_release(&daemon->quota, peer->user);
    free(peer);
    halo_shutdown_check(daemon);
}

static void unmark(struct halo_peer *peer)
{
    if (!peer->dirty_link)
        return;
    *peer->dirty_link = peer->dirty_next;
    if (peer->dirty_next)
        peer->dirty_next->dirty_link = peer->dirty_link;
    peer->dirty_link = NULL;
}

static void release_pending(struct halo_peer *peer)
{
    halo_quota_give_back(&peer->daemon->quota, peer->user, peer->charged_bytes);
    peer->charged_bytes = 0;
}

void halo_peer_close(struct halo_peer *peer)
{
    struct halo_daemon *daemon = peer->daemon;
    if (peer->state == HALO_PEER_CLOSED)
        return;
    halo_peer_move(peer, HALO_PEER_CLOSED);
    if (peer->requests)
        daemon->counters.disconnects++;
    while (peer->requests)
        halo_dispatch_abandon(daemon, peer->requests);
    unmark(peer);
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    daemon->n_peers--;
    release_pending(peer);
    uv_close((uv_handle_t *)&peer->pipe, handle_closed);
    uv_close((uv_handle_t *)&peer->timer, handle_closed);
}

void halo_peer_break(struct halo_peer *peer)
{
    if (peer->state == HALO_PEER_CLOSED || peer->broken)
        return;
    halo_log(HALO_LOG_ERROR, "no memory for an event: closing the connection of pid %ld", (long)peer->pid);
    peer->broken = true;
    halo_peer_mark(peer);
}

void halo_peer_mark(struct halo_peer *peer)
{
    struct halo_daemon *daemon = peer->daemon;
    if (peer->dirty_link || peer->state == HALO_PEER_CLOSED)
        return;
    peer->dirty_next = daemon->dirty;
    peer->dirty_link = &daemon->dirty;
    if (daemon->dirty)
        daemon->dirty->dirty_link = &peer->dirty_next;
    daemon->dirty = peer;
}

void halo_peer_flush(struct halo_peer *peer)
{
    unmark(peer);
    if (peer->state == HALO_PEER_CLOSED)
        return;
    if (peer->broken || halo_sink_flush(&peer->sink) < 0)
        halo_peer_close(peer);
    else
        halo_peer_flow(peer);
}

static void written(struct halo_sink *sink, int status, void *ud)
{
    struct halo_peer *peer = ud;
    if (status < 0)
        halo_peer_close(peer);
    else
        halo_peer_flow(peer);
}

void halo_peer_attach(struct halo_peer *peer, struct halo_request *request)
{
    assert(!request->peer && !request->peer_link);
    request->peer = peer;
    request->peer_next = peer->requests;
    request->peer_link = &peer->requests;
    if (peer->requests)
        peer->requests->peer_link = &request->peer_next;
    peer->requests = request;
    peer->n_requests++;
}

void halo_peer_detach(struct halo_request *request)
{
    if (!request->peer)
        return;
    *request->peer_link = request->peer_next;
    if (request->peer_next)
        request->peer_next->peer_link = request->peer_link;
    request->peer_link = NULL;
    request->peer->n_requests--;
    /* A connection that only waits for this answer may now be through. */
    halo_peer_mark(request->peer);
    request->peer = NULL;
}

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
    if (halo_quota_charge(&peer->daemon->quota, peer->user, pending) != 0)
        return false;
    peer->charged_bytes = pending;
    return true;
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
            halo_answer_error(peer, NULL, HALO_ERROR_LINE_TOO_LONG,
                              "the line is longer than %lld bytes; it was dropped",
                              (long long)peer->daemon->config->line_bytes);
        else
            halo_route_line(peer, line, len);
        if (peer->broken)
            return;
    }
    if (charge_pending(peer))
        return;
    /* The reader is in the middle of this line and has nothing else: the rest is thrown away as if it were too long. */
    peer->reader.skipping = true;
    halo_line_next(&peer->reader, &line, &len); /* gives the memory back */
    halo_answer_error(peer, NULL, HALO_ERROR_TOO_MANY_REQUESTS,
                      "the request lines of user %u hold %lld bytes already, %lld are allowed; this line was dropped",
                      (unsigned)peer->uid, (long long)peer->user->bytes,
                      (long long)peer->daemon->config->resume_user_bytes);
}

static void read_some(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct halo_peer *peer = stream->data;
    if (n == 0)
        return;
    if (n == UV_EOF) {
        peer->input_over = true;
        halo_peer_input_ended(peer);
        return;
    }
    if (n < 0) {
        halo_peer_close(peer);
        return;
    }
    peer->daemon->counters.bytes_in += (uint64_t)n;
    halo_line_commit(&peer->reader, (size_t)n);
    take_lines(peer);
}

void halo_peer_read_start(struct halo_peer *peer)
{
    if (!peer->input_over && !peer->doomed && uv_read_start((uv_stream_t *)&peer->pipe, give_buffer, read_some) < 0)
        halo_peer_close(peer);
}

int halo_peer_create(struct halo_daemon *daemon, int fd)
{
    struct ucred cred;
    socklen_t cred_len = sizeof(cred);
    struct halo_peer *peer = calloc(1, sizeof(*peer));
    int r = !peer ? -ENOMEM : 0;
    if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) != 0)
        r = -errno;
    if (r == 0 && !(peer->user = halo_quota_acquire(&daemon->quota, cred.uid)))
        r = -ENOMEM;
    if (r < 0) {
        free(peer);
        close(fd);
        return r;
    }
    peer->daemon = daemon;
    peer->uid = cred.uid;
    peer->pid = cred.pid;
    peer->trusted = cred.uid == 0 || cred.uid == daemon->uid;
    halo_line_init(&peer->reader, (size_t)daemon->config->line_bytes);
    uv_pipe_init(daemon->loop, &peer->pipe, 0);
    uv_timer_init(daemon->loop, &peer->timer);
    peer->pipe.data = peer->timer.data = peer;
    peer->n_handles = 2;
    halo_sink_init(&peer->sink, (uv_stream_t *)&peer->pipe, written, peer);
    peer->next = daemon->peers;
    peer->link = &daemon->peers;
    if (daemon->peers)
        daemon->peers->link = &peer->next;
    daemon->peers = peer;
    daemon->n_peers++;
    daemon->counters.connections++;
    r = uv_pipe_open(&peer->pipe, fd);
    if (r < 0) {
        close(fd);
        halo_peer_close(peer);
        return r;
    }
    halo_peer_read_start(peer);
    return 0;
}
