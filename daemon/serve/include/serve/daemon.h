/* daemon.h: everything that halod is, in one object on one loop.
 *
 * The modules work on it in this order: accept.c makes peers, peer.c cuts their input into lines, route.c turns a line
 * into an answer or a request, dispatch.c sends requests to the engine, deliver.c takes the engine's lines to the
 * peers, supervise.c replaces the engine, resubmit.c settles what it had, shutdown.c ends it all. Everything runs on
 * the loop's thread; nothing blocks.
 */
#ifndef HALO_SERVE_DAEMON_H
#define HALO_SERVE_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include <base/fault.h>

#include <serve/checkup.h>
#include <serve/config.h>
#include <serve/counters.h>
#include <serve/engine.h>
#include <serve/listen.h>
#include <serve/loaded.h>
#include <serve/peer.h>
#include <serve/quota.h>
#include <serve/request.h>

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
    uid_t uid;
    uint64_t started_ns;

    struct halo_listen listen;
    uv_poll_t accept_poll;
    uv_timer_t accept_timer; /* after a failed accept */
    bool accepting;

    struct halo_peer *peers;
    size_t n_peers;
    struct halo_peer *dirty; /* peers with output to flush */

    struct halo_quota quota;
    struct halo_requests requests;
    struct halo_loaded loaded;
    struct halo_engine engine;
    struct halo_checkup checkup;
    struct halo_counters counters;
    uint64_t alone;    /* the id of a suspect that the engine has by itself; 0: none */
    bool dispatch_due; /* something ended: others may be sent at the next flush */

    uv_prepare_t prepare; /* flush before the loop sleeps ... */
    uv_check_t check;     /* ... and right after it handled what was ready */
    uv_timer_t expire_timer;
    uint64_t expire_at_ns; /* UINT64_MAX: not armed */
    uv_timer_t watchdog_timer;
    uv_timer_t close_timer;   /* stages of the end */
    uint64_t drain_ends_ns;   /* DRAINING and SAVING */
    uint64_t save_id;         /* of the engine's request; 0: none */
    bool engine_stuck;        /* it could not even be reaped: the loop was stopped with handles open */
    struct halo_json scratch; /* one line being made */
};

/* Everything but the engine: listens, or takes over `passed_fd` if that is not -1. On failure nothing is left on the
 * loop once it has run. */
int halo_daemon_init(struct halo_daemon *daemon, uv_loop_t *loop, const struct halo_config *config, int passed_fd,
                     struct halo_fault *fault);
/* After the loop has returned. */
void halo_daemon_finish(struct halo_daemon *daemon);

/* daemon.c: hands all output to the kernel. */
void halo_daemon_flush(struct halo_daemon *daemon);

/* accept.c */
int halo_accept_start(struct halo_daemon *daemon);
void halo_accept_stop(struct halo_daemon *daemon); /* closes its handles */

/* route.c: one line of a client. */
void halo_route_line(struct halo_peer *peer, const char *line, size_t len);

/* dispatch.c: towards the engine. */
void halo_dispatch(struct halo_daemon *daemon, struct halo_request *request);      /* now, or when an engine is ready */
void halo_dispatch_wait(struct halo_daemon *daemon, struct halo_request *request); /* (anew) with its time limit */
void halo_dispatch_waiting(struct halo_daemon *daemon);
int64_t halo_dispatch_left_ms(const struct halo_request *request, uint64_t now_ns); /* INT64_MAX: no deadline */
void halo_dispatch_late(struct halo_request *request); /* terminal: its deadline passed here */
void halo_dispatch_cancel(struct halo_daemon *daemon, struct halo_request *request);
void halo_dispatch_pause(struct halo_daemon *daemon, struct halo_request *request, bool pause);
void halo_dispatch_order(struct halo_daemon *daemon, struct halo_request *request); /* one that is due */
/* The client has no more interest (gone, or told that it ended): the engine is told, unless the request is the
 * daemon's. Detaches; may destroy. */
void halo_dispatch_abandon(struct halo_daemon *daemon, struct halo_request *request);
/* The engine did not have the model of this one any more: true when it waits to be sent anew. */
bool halo_dispatch_again(struct halo_daemon *daemon, struct halo_request *request);
/* The engine's side is over, and the client's: frees it. */
void halo_dispatch_ended(struct halo_daemon *daemon, struct halo_request *request);

/* expire.c: requests with a time of their own. */
void halo_expire_arm(struct halo_daemon *daemon, uint64_t at_ns);
void halo_expire_fired(uv_timer_t *timer);

/* deliver.c: one line of the engine. 0, or -EPROTO with the reason: it is no event that this engine may send now. */
__attribute__((format(printf, 2, 3))) int halo_deliver_garbage(struct halo_fault *fault, const char *format, ...);
int halo_deliver_line(struct halo_daemon *daemon, const char *line, size_t len, struct halo_fault *fault);

/* The fields of an event that the record needs, as the scan of its line found them. */
enum halo_event_field {
    HALO_EVENT_TOK_ID,
    HALO_EVENT_POS,
    HALO_EVENT_TEXT,
    HALO_EVENT_LOGPROB,
    HALO_EVENT_FINISH_REASON,
    HALO_N_EVENT_FIELDS
};

/* record.c: what the event means for the record. 0 or -EPROTO. */
int halo_record_event(struct halo_daemon *daemon, struct halo_request *request, int type, const char *line, size_t len,
                      const struct halo_envelope_field *fields, struct halo_fault *fault);
/* A load worked, or a model is gone: remembered for the next engine. `request` is NULL for a model that the engine gave
 * up by itself. */
int halo_record_model(struct halo_daemon *daemon, const struct halo_request *request, const char *line, size_t len,
                      struct halo_fault *fault);

/* demand.c: sends the load of a model that the request needs and that is not there. -ENOMEM. */
int halo_demand(struct halo_daemon *daemon, const struct halo_request *request, struct halo_json *out);
void halo_demand_complete(const struct halo_daemon *daemon, struct halo_msg_load *load); /* configured defaults */

/* breaker.c */
void halo_breaker_count(struct halo_engine *engine); /* one more death */
void halo_breaker_close(struct halo_engine *engine, const char *why);
uint64_t halo_breaker_left_ms(const struct halo_engine *engine);
#define HALO_BREAKER_TEXT_BYTES 1024
void halo_breaker_answer(struct halo_engine *engine, char *ret_text, size_t room); /* what a refused client reads */
void halo_breaker_refuse(struct halo_daemon *daemon);                              /* everybody who waits */

/* query.c: hello, status, stats: answered here, with the engine's part when it comes in time. */
void halo_query_begin(struct halo_peer *peer, enum halo_msg_type type, const struct halo_id *id);
void halo_query_answer(struct halo_daemon *daemon, struct halo_request *request, const char *line, size_t len);
void halo_query_engine_known(struct halo_daemon *daemon);

/* shutdown.c */
bool halo_daemon_saves(const struct halo_config *config); /* there is a place for cached prefixes, and it is wanted */
/* The engine's answer to `save`; NULL: it died. */
void halo_shutdown_saved(struct halo_daemon *daemon, const char *line, size_t len);
void halo_shutdown_begin(struct halo_daemon *daemon);
void halo_shutdown_check(struct halo_daemon *daemon); /* a request, a peer or the engine is gone: is it time? */

#endif
