/* peer.h: one client connection.
 *
 * Reads lines and routes them; events are written into its sink and go out when the loop has handled everything that
 * was ready. A reader that is slow pauses itself only: above the high mark its requests are paused in the engine and
 * its own input is no longer read; below the low mark both go on; after the stall time its requests end with
 * client_stalled, after another one the connection is closed. A connection that was shut down for writing only (`printf
 * ... | socat`) still gets its answers. Lives until the close callback of its last handle. Loop thread.
 */
#ifndef HALO_SERVE_PEER_H
#define HALO_SERVE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include <protocol/line.h>

#include <serve/quota.h>
#include <serve/sink.h>

struct halo_daemon;
struct halo_request;

enum halo_peer_state {
    HALO_PEER_OPEN,   /* both ways */
    HALO_PEER_SLOW,   /* above the high mark: not read from, its requests paused */
    HALO_PEER_HALF,   /* the client sends no more, but still reads */
    HALO_PEER_CLOSED, /* handles are closing */
    HALO_N_PEER_STATES
};

struct halo_peer {
    struct halo_daemon *daemon;
    struct halo_peer *next, **link;             /* the daemon's list */
    struct halo_peer *dirty_next, **dirty_link; /* has output to flush; link NULL: has not */
    enum halo_peer_state state;
    uv_pipe_t pipe;
    uv_timer_t timer; /* while SLOW or HALF */
    unsigned n_handles;
    struct halo_line_reader reader;
    struct halo_sink sink;
    uid_t uid;
    pid_t pid;
    bool trusted;    /* root or the daemon's own user: may name files */
    bool input_over; /* end of file was read */
    bool doomed;     /* closes once its output is out */
    bool broken;     /* an event was lost: closes at the next flush */
    struct halo_quota_user *user;
    size_t charged_bytes;          /* for the line that it is in the middle of */
    struct halo_request *requests; /* attached: their terminal event is due */
    size_t n_requests;
    uint64_t slow_since_ns;
    bool stalled; /* its requests were ended; the next stall time closes it */
};

/* Takes over a connected socket. On failure the descriptor is closed. */
int halo_peer_create(struct halo_daemon *daemon, int fd);
void halo_peer_close(struct halo_peer *peer);
bool halo_peer_may_move(enum halo_peer_state from, enum halo_peer_state to);
void halo_peer_move(struct halo_peer *peer, enum halo_peer_state to);

/* An event could not be written for want of memory. The connection closes at the next flush, not in the middle of a
 * walk over requests. */
void halo_peer_break(struct halo_peer *peer);

/* Output was added: it is flushed before the loop sleeps. */
void halo_peer_mark(struct halo_peer *peer);
/* Flushes and applies the marks. May close the peer. */
void halo_peer_flush(struct halo_peer *peer);

void halo_peer_attach(struct halo_peer *peer, struct halo_request *request);
void halo_peer_detach(struct halo_request *request);

/* peer_flow.c */
void halo_peer_flow(struct halo_peer *peer);        /* after its output grew or shrank */
void halo_peer_input_ended(struct halo_peer *peer); /* end of file */
void halo_peer_read_start(struct halo_peer *peer);
void halo_peer_doom(struct halo_peer *peer); /* reads no more; closes when its output is out, or after the stall time */
void halo_peer_tick(uv_timer_t *timer);

#endif
