/* daemon.h: halod: clients, requests and the engine on one loop.
 *
 * Each of the three objects tells what happens to it through its ops, and daemon.c passes it on to the others: a
 * client's line to the requests, an engine's line too, an engine's death to the requests, to the doctor and to the
 * service manager. What they write is flushed when the loop has handled everything that was ready. shutdown.c ends it
 * all. Everything runs on the loop's thread; nothing blocks.
 */
#ifndef HALO_SERVE_DAEMON_H
#define HALO_SERVE_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <base/fault.h>

#include <serve/child/checkup.h>
#include <serve/child/engine.h>
#include <serve/child/queues.h>
#include <serve/client/clients.h>
#include <serve/config.h>
#include <serve/counters.h>
#include <serve/quota.h>
#include <serve/request/requests.h>

enum halo_daemon_state {
    HALO_DAEMON_SERVING,
    HALO_DAEMON_DRAINING, /* a signal came: no new requests, open ones may finish */
    HALO_DAEMON_SAVING,   /* no requests any more; the engine writes cached prefixes to disk */
    HALO_DAEMON_CLOSING,  /* all requests ended; output and engine get their last moment */
    HALO_DAEMON_CLOSED,   /* handles are closing */
    HALO_N_DAEMON_STATES
};

struct halo_daemon {
    uv_loop_t *loop;                  /* the caller's */
    const struct halo_config *config; /* the caller's */
    enum halo_daemon_state state;

    struct halo_counters counters;
    struct halo_quota quota;
    struct halo_clients clients;
    struct halo_requests requests;
    struct halo_engine engine;
    struct halo_checkup checkup;
    unsigned n_restarts;
    pid_t dead_pid;   /* of the last engine that died; 0: none did */
    uint64_t gone_ns; /* when it was reaped */
    unsigned n_held;  /* of its hardware queues, those that the driver still has, or had when the next one started */
    const char *queue_dir;                    /* where the driver lists them */
    uint64_t queue_ms;                        /* how long a start waits for them */
    char note[HALO_CHECKUP_TEXT_BYTES + 128]; /* what is known of the last death, for a message */

    uint64_t read_ns;  /* when the engine's lines since the last flush became readable; 0: none did */
    uint64_t n_events; /* counters.events at the last flush */

    uv_prepare_t prepare; /* flush before the loop sleeps ... */
    uv_check_t check;     /* ... and right after it handled what was ready */
    uv_timer_t expire_timer;
    uint64_t expire_at_ns;    /* UINT64_MAX: not armed */
    uv_timer_t restart_timer; /* until the next engine is started, or the breaker closes */
    uv_timer_t watchdog_timer;
    bool unwell;            /* the service manager's watchdog is not fed */
    uv_timer_t close_timer; /* stages of the end */
    uint64_t drain_ends_ns; /* DRAINING and SAVING */
    uint64_t save_id;       /* of the engine's request; 0: none */
    bool engine_stuck;      /* it could not even be reaped: the loop was stopped with handles open */
};

/* Listens, or takes over `passed_fd` if that is not -1; no engine yet. On failure nothing is left on the loop once it
 * has run. */
int halo_daemon_init(struct halo_daemon *daemon, uv_loop_t *loop, const struct halo_config *config, int passed_fd,
                     struct halo_fault *fault);
void halo_daemon_start_engine(struct halo_daemon *daemon);
/* SIGTERM: ends in stages; the loop returns when the last handle is closed. */
void halo_daemon_stop(struct halo_daemon *daemon);
/* After the loop has returned. */
void halo_daemon_finish(struct halo_daemon *daemon);

#endif
