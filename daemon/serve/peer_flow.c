/* peer_flow.c: slow readers, half-open connections, and when a connection is through. */
#include <assert.h>
#include <poll.h>

#include <base/clock.h>
#include <base/log.h>

#include <serve/answer.h>
#include <serve/daemon.h>
#include <serve/peer.h>

#define TICK_MS 50
#define HARD_FACTOR 64 /* high marks, and one answer: what arrives after a pause is one step's worth or an answer */

static int64_t output_bytes(const struct halo_peer *peer)
{
    return (int64_t)halo_sink_bytes(&peer->sink);
}

static bool is_gone(struct halo_peer *peer)
{
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)&peer->pipe, &fd) < 0)
        return true;
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

static void pause_all(struct halo_peer *peer, bool pause)
{
    for (struct halo_request *request = peer->requests; request; request = request->peer_next)
        halo_dispatch_pause(peer->daemon, request, pause);
}

static void become_slow(struct halo_peer *peer)
{
    halo_peer_move(peer, HALO_PEER_SLOW);
    peer->daemon->counters.pauses++;
    peer->slow_since_ns = halo_clock_ns();
    peer->stalled = false;
    uv_read_stop((uv_stream_t *)&peer->pipe);
    pause_all(peer, true);
    uv_timer_start(&peer->timer, halo_peer_tick, TICK_MS, TICK_MS);
}

static void become_quick(struct halo_peer *peer)
{
    halo_peer_move(peer, peer->input_over ? HALO_PEER_HALF : HALO_PEER_OPEN);
    if (peer->state == HALO_PEER_OPEN && !peer->doomed)
        uv_timer_stop(&peer->timer);
    pause_all(peer, false);
    halo_peer_read_start(peer);
}

/* Nothing more will come from the client and nothing more is due to it. */
static bool is_through(const struct halo_peer *peer)
{
    return (peer->state == HALO_PEER_HALF && !peer->requests && output_bytes(peer) == 0) ||
           (peer->doomed && output_bytes(peer) == 0);
}

void halo_peer_flow(struct halo_peer *peer)
{
    const struct halo_config *config = peer->daemon->config;
    int64_t bytes = output_bytes(peer);
    if (peer->state == HALO_PEER_CLOSED)
        return;
    if (bytes > config->output_high_bytes * HARD_FACTOR + HALO_LIMIT_ANSWER_BYTES) {
        halo_log(HALO_LOG_WARN, "pid %ld does not read: %lld bytes are waiting for it, closing", (long)peer->pid,
                 (long long)bytes);
        halo_peer_close(peer);
    } else if (peer->state != HALO_PEER_SLOW && bytes > config->output_high_bytes) {
        become_slow(peer);
    } else if (peer->state == HALO_PEER_SLOW && bytes <= config->output_low_bytes) {
        become_quick(peer);
    } else if (is_through(peer)) {
        halo_peer_close(peer);
    }
}

void halo_peer_doom(struct halo_peer *peer)
{
    uv_read_stop((uv_stream_t *)&peer->pipe);
    peer->doomed = true;
    if (peer->state != HALO_PEER_SLOW)
        peer->slow_since_ns = halo_clock_ns();
    uv_timer_start(&peer->timer, halo_peer_tick, TICK_MS, TICK_MS);
    halo_peer_mark(peer);
}

void halo_peer_input_ended(struct halo_peer *peer)
{
    if (is_gone(peer)) {
        halo_peer_close(peer);
        return;
    }
    assert(peer->state == HALO_PEER_OPEN); /* a slow peer is not read from */
    halo_peer_move(peer, HALO_PEER_HALF);
    /* A full close that follows is no event of its own for a socket that is at its end of file. */
    uv_timer_start(&peer->timer, halo_peer_tick, TICK_MS, TICK_MS);
    halo_peer_mark(peer);
}

static void stall(struct halo_peer *peer)
{
    struct halo_daemon *daemon = peer->daemon;
    daemon->counters.stalls++;
    if (peer->stalled) {
        halo_log(HALO_LOG_INFO, "pid %ld still does not read, closing", (long)peer->pid);
        halo_peer_close(peer);
        return;
    }
    peer->stalled = true;
    peer->slow_since_ns = halo_clock_ns();
    while (peer->requests) {
        struct halo_request *request = peer->requests;
        struct halo_ev ev;
        halo_ev_init_error(&ev, &request->client_id, HALO_ERROR_CLIENT_STALLED,
                           "the client did not read its events for too long; read faster or ask for less");
        /* The terminal event first, then the engine: abandon() detaches, and may free the record. */
        ev.id = request->client_id;
        halo_answer(peer, &ev);
        halo_dispatch_abandon(daemon, request);
    }
}

void halo_peer_tick(uv_timer_t *timer)
{
    struct halo_peer *peer = timer->data;
    uint64_t stall_ns = (uint64_t)peer->daemon->config->stall_ms * 1000000;
    bool overdue = halo_clock_ns() - peer->slow_since_ns >= stall_ns;
    if (is_gone(peer) || (peer->doomed && overdue))
        halo_peer_close(peer);
    else if (peer->state == HALO_PEER_SLOW && overdue)
        stall(peer);
}
