/* peer.h: one client connection.
 *
 * Reads lines and hands them on; events are written into its sink and go out when the loop has handled everything that
 * was ready. A client that reads slowly pauses only itself (flow_priv.h). A connection that was shut down for writing
 * only (`printf ... | socat`) still gets its answers. Lives until the close callback of its last handle. Loop thread.
 */
#ifndef HALO_SERVE_CLIENT_PEER_H
#define HALO_SERVE_CLIENT_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include <base/list.h>
#include <protocol/error.h>
#include <protocol/line.h>

#include <serve/request/client.h>
#include <serve/sink.h>

struct halo_clients;
struct halo_peer;

enum halo_peer_state {
    HALO_PEER_OPEN,   /* both ways */
    HALO_PEER_SLOW,   /* above the high mark: not read from, its replies paused */
    HALO_PEER_HALF,   /* the client sends no more, but still reads */
    HALO_PEER_CLOSED, /* handles are closing */
    HALO_N_PEER_STATES
};

enum halo_pressure {
    HALO_PRESSURE_NONE,   /* it reads fast enough again */
    HALO_PRESSURE_SLOW,   /* its output is above the high mark */
    HALO_PRESSURE_STALLED /* ... and has been for the stall time */
};

struct halo_peer_ops {
    void (*line)(struct halo_peer *peer, const char *line, size_t len);
    /* A line was dropped, or the connection closes: the reason for the client. */
    void (*dropped)(struct halo_peer *peer, enum halo_error code, struct halo_numbers numbers, const char *message);
    void (*pressure)(struct halo_peer *peer, enum halo_pressure pressure);
    /* The connection closes. Nothing may be written to it any more. */
    void (*gone)(struct halo_peer *peer);
};

struct halo_flow {
    enum halo_peer_state state;
    bool input_over;   /* end of file was read, and all lines before it were handled */
    bool doomed;       /* closes once its output is out */
    bool stalled;      /* its requests were ended; the next stall time closes it */
    uint64_t since_ns; /* SLOW or doomed */
};

struct halo_peer {
    struct halo_clients *clients;
    struct halo_list_node node;  /* in clients->peers until it closes */
    struct halo_list_node ready; /* in clients->ready: has input that was not looked at */
    struct halo_client client;
    uv_pipe_t pipe;
    uv_timer_t timer; /* while SLOW, HALF or doomed */
    unsigned n_handles;
    struct halo_line_reader reader;
    struct halo_sink sink;
    struct halo_flow flow;
    pid_t pid;
    bool reading, eof;
    uint64_t active_ms;   /* when it last sent something or got something, by uv_now() */
    size_t charged_bytes; /* for the input that was not handled */
};

struct halo_peer_refused {
    uid_t uid;
    int64_t n, share; /* connections that the user has, and may have at the moment */
};

/* Takes over a connected socket. A negative errno: the descriptor is closed. HALO_QUOTA_E: its user may not have one
 * more; the descriptor stays the caller's, and *ret_refused says why. */
int halo_peer_create(struct halo_clients *clients, int fd, struct halo_peer_refused *ret_refused);
void halo_peer_close(struct halo_peer *peer);
/* Hands its output to the kernel and applies the marks. May close the peer. */
void halo_peer_flush(struct halo_peer *peer);
/* Handles lines until there are none or its user's time in this turn of the loop is over. False: there may be more. */
bool halo_peer_take(struct halo_peer *peer);
/* Reads no more; closes when its output is out, or after the stall time. */
void halo_peer_doom(struct halo_peer *peer);

#endif
