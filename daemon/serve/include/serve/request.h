/* request.h: the record of one request, from its line to its terminal event, and the table of all of them.
 *
 * A record has two sides. Towards the client it belongs to a peer until its terminal event is written or the peer is
 * gone: `peer` is NULL from then on, and exactly one terminal event follows from that. Towards the engine it is open
 * from dispatch to the engine's terminal event or the engine's death. It is freed when both sides are through.
 * It keeps what a restarted engine needs to go on: the line, the seed, the committed ids, the bytes of text sent, the
 * rows of a score, and which model files the reply comes from.
 * One thread.
 */
#ifndef HALO_SERVE_REQUEST_H
#define HALO_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protocol/envelope.h>
#include <protocol/message.h>

#include <serve/quota.h>

struct halo_peer;

enum halo_request_state {
    HALO_REQUEST_WAITING,    /* here, until an engine is ready */
    HALO_REQUEST_SENT,       /* in the engine's queue as far as we know */
    HALO_REQUEST_RUNNING,    /* the engine works on it */
    HALO_REQUEST_CANCELLING, /* the engine was told to end it */
    HALO_REQUEST_ENDED,
    HALO_N_REQUEST_STATES
};

struct halo_request {
    uint64_t id; /* towards the engine; unique for the life of the daemon */
    enum halo_msg_type type;
    enum halo_request_state state;
    const char *phase; /* static word: what a cancel answers as `was` */

    struct halo_request *bucket_next;            /* table */
    struct halo_request *peer_next, **peer_link; /* the peer's list; link NULL: detached */
    struct halo_request *wait_next, **wait_link; /* FIFO of WAITING; link NULL: not in it */

    struct halo_peer *peer;   /* who gets the events; NULL: nobody */
    struct halo_id client_id; /* string: points into client_id_text */
    char client_id_text[HALO_ID_BUF_BYTES];

    /* What the engine gets: its own id, defaults and seed filled in; no newline. `deadline_ms` and `from` are not in
     * it: they are added as they are when it is sent. */
    char *line;
    size_t line_len;
    struct halo_quota_user *user; /* charged with `charged_bytes` */
    size_t charged_bytes;

    uint64_t arrived_ns;
    uint64_t dispatched_ns; /* 0: not yet */
    uint64_t started_ns;    /* `started` was passed on; 0: not yet */
    uint64_t expires_ns;    /* when waiting ends, or order_due; UINT64_MAX: never */
    int64_t deadline_ms;    /* from arrival; 0: none */

    bool wants_ids; /* `committed` events go to the client */
    bool streams;   /* a slow reader pauses it */
    bool paused;
    bool order_due;     /* the engine has yet to be told of a cancel or a pause; expires_ns says when to try */
    char *needs;        /* the model that it works with, or loads, by name or path; else NULL */
    bool missed;        /* `needs` went while the engine had it: not_found is no answer yet */
    bool demanded;      /* the daemon's own load, because a request needs the model */
    char *reload_model; /* the daemon's own load, which brings this model back after a restart; else NULL */

    int64_t seed;    /* generate */
    int32_t *tokens; /* committed so far */
    size_t n_tokens, tokens_cap;
    uint64_t text_bytes; /* of `token` text sent */
    bool loop_told;      /* `loop_detected` was sent */
    struct halo_score_record {
        int64_t from, next; /* first row asked for; the one that comes next */
        double nll_sum;     /* of the rows before `next` */
        uint64_t n_nll;
        bool over; /* the last row was sent: only `done` is missing */
    } score;
    char effective_md5[64]; /* of the prompt, once begun; "": not told */
    char *model, *print; /* once begun: the model's name and what halo_loaded_model.print was; NULL: not known here */
    bool record_lost;    /* memory was short: it cannot be resumed */
    bool progressed;     /* committed something in the engine that has it */
    bool died;           /* an engine died with it, and its client has not heard of that yet */
    unsigned n_resumes;
    unsigned n_deaths; /* engines in a row that died with it and committed nothing of it */
};

#define HALO_REQUEST_BUCKETS 1024

struct halo_requests {
    struct halo_request *buckets[HALO_REQUEST_BUCKETS];
    struct halo_request *wait_first, **wait_last;
    uint64_t last_id;
    size_t n_open;                          /* records */
    size_t n_states[HALO_N_REQUEST_STATES]; /* of requests for the engine: queries are not counted */
    struct halo_quota *quota;
};

/* hello, status, stats: the daemon answers, with the engine's part if it comes in time. */
bool halo_request_is_query(enum halo_msg_type type);

void halo_requests_init(struct halo_requests *table, struct halo_quota *quota);
void halo_requests_finish(struct halo_requests *table); /* must be empty */

/* A new WAITING record with a fresh id. `client_id` is copied. NULL: out of memory. */
struct halo_request *halo_request_create(struct halo_requests *table, enum halo_msg_type type,
                                         const struct halo_id *client_id);
/* Takes it out of every list and frees it. It must be detached from its peer. */
void halo_request_destroy(struct halo_requests *table, struct halo_request *request);

struct halo_request *halo_request_find(const struct halo_requests *table, uint64_t id);
uint64_t halo_requests_next_id(struct halo_requests *table);

/* Aborts on a move that the table of allowed moves does not have. WAITING puts it at the end of the FIFO. */
void halo_request_move(struct halo_requests *table, struct halo_request *request, enum halo_request_state to);
bool halo_request_may_move(enum halo_request_state from, enum halo_request_state to);

/* Keeps the line and charges the user. 0, a HALO_QUOTA_E, -ENOMEM. */
int halo_request_keep_line(struct halo_requests *table, struct halo_request *request, struct halo_quota_user *user,
                           const char *line, size_t len);

/* The client has something of the reply: another engine has to go on, not to begin again. */
bool halo_request_has_begun(const struct halo_request *request);
/* Its engine died. */
void halo_request_note_death(struct halo_request *request);

/* Notes a committed token: charged like the line; when that fails the record is only marked as not resumable. */
void halo_request_note_token(struct halo_requests *table, struct halo_request *request, int32_t tok_id);

/* The first record after `request` (NULL: the first of all) in table order; for walks that do not destroy others. */
struct halo_request *halo_requests_next(const struct halo_requests *table, const struct halo_request *request);

#endif
