/* requests.h: all requests of all clients: handles lines of clients, lines of the engine, and the engine's death.
 *
 * It writes lines for the engine into the link's buffer and events into the buffers of the clients. It has no handle,
 * no clock and no thread: its owner reports what happens and when, flushes the buffers, and calls
 * halo_requests_expire() at `next_ns` and halo_requests_dispatch() when `dispatch_due`.
 *
 *   client   route.c (a line) ─▶ query.c, dispatch.c (send or wait) ─▶ resume.c, demand.c (what the engine gets)
 *   engine   deliver.c (a line) ─▶ record.c ─▶ the client;  reload.c (an engine is there);  resubmit.c (it died)
 *   time     expire.c
 *
 * A call that takes `now_ns` sets the time for everything that it does. One thread.
 */
#ifndef HALO_SERVE_REQUEST_REQUESTS_H
#define HALO_SERVE_REQUEST_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <base/list.h>
#include <base/log.h>
#include <protocol/message.h>

#include <serve/config.h>
#include <serve/counters.h>
#include <serve/quota.h>
#include <serve/request/breaker.h>
#include <serve/request/client.h>
#include <serve/request/event_line.h>
#include <serve/request/models.h>
#include <serve/request/request.h>

#define HALO_REQUESTS_REASON_BYTES 256
#define HALO_REQUESTS_REFUSAL_BYTES 1024

struct halo_requests_ops {
    /* Answers a hello, status or stats by halo_answer_terminal(). `said`: the engine's part; NULL: none in time. */
    void (*query)(void *ud, struct halo_request *request, const struct halo_ev *said);
    /* The state of the engine for people: "starting". */
    const char *(*engine_state)(void *ud);
    /* More on the last death: " (halo-doctor: mes FAIL: ...)", or "". `advise`: if nothing is known, what to run.
     * The text lives until the next call. */
    const char *(*death_note)(void *ud, bool advise);
    /* The breaker closed: an engine may be started. */
    void (*breaker_closed)(void *ud);
    /* One line for the service manager. */
    void (*status)(void *ud, const char *text);
    /* A random seed >= 0, and the seconds since 1970: what replies depend on and the record keeps. */
    int (*draw_seed)(void *ud, int64_t *ret_seed);
    int64_t (*wall_s)(void *ud);
};

enum halo_link_state {
    HALO_LINK_DOWN,    /* no engine answers */
    HALO_LINK_LOADING, /* one does and reloads the models that were in memory */
    HALO_LINK_READY,
    HALO_N_LINK_STATES
};

struct halo_link {
    enum halo_link_state state;
    struct halo_json *out;                   /* lines for the engine; NULL: DOWN */
    bool known;                              /* an engine has answered at least once */
    char reason[HALO_REQUESTS_REASON_BYTES]; /* why the last one died; "" */
};

#define HALO_REQUEST_BUCKETS 1024

struct halo_requests {
    const struct halo_config *config;
    struct halo_counters *counters;
    struct halo_quota *quota;
    const struct halo_requests_ops *ops;
    void *ud;
    uint64_t started_ns, now_ns;
    bool accepts; /* false: the daemon is shutting down */

    struct halo_list all, waiting; /* by age */
    struct halo_request *buckets[HALO_REQUEST_BUCKETS];
    uint64_t last_id;
    size_t n_states[HALO_N_REQUEST_STATES]; /* of requests for the engine: queries are not counted */

    struct halo_list touched; /* clients with output */
    struct halo_link link;
    struct halo_breaker breaker;
    struct halo_known_models models;
    uint64_t alone;                  /* the id of a suspect that the engine runs alone; 0: none */
    bool dispatch_due;               /* something ended: waiting requests may be sent */
    uint64_t next_ns;                /* when halo_requests_expire() is due; UINT64_MAX: never */
    struct halo_json scratch;        /* one line being made */
    struct halo_log_limit log_limit; /* for lines that clients and the engine cause */
};

/* The caller keeps what is passed. */
void halo_requests_init(struct halo_requests *requests, const struct halo_config *config, struct halo_quota *quota,
                        struct halo_counters *counters, const struct halo_requests_ops *ops, void *ud, uint64_t now_ns);
void halo_requests_finish(struct halo_requests *requests); /* none may be left */

/* ---- clients ---- */

void halo_requests_line(struct halo_requests *requests, struct halo_client *client, const char *line, size_t len,
                        uint64_t now_ns);
/* A line that was dropped before it could be read. */
__attribute__((format(printf, 5, 6))) void halo_requests_refuse(struct halo_requests *requests,
                                                                struct halo_client *client, enum halo_error code,
                                                                struct halo_numbers numbers, const char *format, ...);
/* The client reads slowly, or fast enough again: its replies pause, or continue. */
void halo_requests_client_slow(struct halo_requests *requests, struct halo_client *client, bool slow, uint64_t now_ns);
/* The client did not read for too long: its requests end. */
void halo_requests_client_stalled(struct halo_requests *requests, struct halo_client *client, uint64_t now_ns);
/* The client is `closed`: its requests are cancelled. */
void halo_requests_client_gone(struct halo_requests *requests, struct halo_client *client, uint64_t now_ns);

/* ---- the engine ---- */

/* The engine answered hello; `out` takes lines for it until it dies. */
void halo_requests_engine_up(struct halo_requests *requests, struct halo_json *out, uint64_t now_ns);
/* An event with its line. 0, or -EPROTO with a reason: the engine may not send it and must be replaced. */
int halo_requests_engine_line(struct halo_requests *requests, const struct halo_event_line *line, uint64_t now_ns,
                              struct halo_fault *fault);
/* The engine died: each of its requests ends or waits for the next one. `reason`: a predicate, "was killed by ...". */
void halo_requests_engine_died(struct halo_requests *requests, const char *reason, uint64_t now_ns);
/* The engine was told to exit and reads no more. Only queries are open; they end without its part. */
void halo_requests_engine_left(struct halo_requests *requests);
/* The time of an open breaker is over, or a client wants to try again. */
void halo_requests_close_breaker(struct halo_requests *requests, const char *why);

/* ---- time ---- */

void halo_requests_expire(struct halo_requests *requests, uint64_t now_ns);
void halo_requests_dispatch(struct halo_requests *requests, uint64_t now_ns);
/* Ends all of them with `code`. */
void halo_requests_end_all(struct halo_requests *requests, enum halo_error code, const char *message, uint64_t now_ns);

/* ---- what others read ---- */

/* An id for a request of the owner's own. */
uint64_t halo_requests_next_id(struct halo_requests *requests);
size_t halo_requests_n_queued(const struct halo_requests *requests);
size_t halo_requests_n_running(const struct halo_requests *requests);
/* The message for a client that is refused while the breaker is open. */
void halo_requests_breaker_text(const struct halo_requests *requests, char *ret_text, size_t room);

/* Terminal: writes the event with the request's id to its client, if it still has one, and detaches it. */
void halo_answer_terminal(struct halo_request *request, struct halo_ev *ev);
__attribute__((format(printf, 3, 4))) void halo_answer_failed(struct halo_request *request, enum halo_error code,
                                                              const char *format, ...);

#endif
