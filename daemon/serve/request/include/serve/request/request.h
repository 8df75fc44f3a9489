/* request.h: the record of one request, from its line to its terminal event.
 *
 * A record has two sides. Towards the client it is open until its terminal event is written or the client is gone:
 * `client` is NULL from then on, and exactly one terminal event is written before. Towards the engine it is open from
 * dispatch to the engine's terminal event or the engine's death. It is freed when both sides are over.
 * It keeps what another engine needs to continue: the line, the seed, the committed ids, the bytes of text sent, the
 * rows of a score, and which model files the reply comes from. One thread.
 */
#ifndef HALO_SERVE_REQUEST_REQUEST_H
#define HALO_SERVE_REQUEST_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/list.h>
#include <protocol/envelope.h>
#include <protocol/message.h>

#include <serve/quota.h>

struct halo_client;

enum halo_request_state {
    HALO_REQUEST_WAITING,    /* here, until an engine is ready */
    HALO_REQUEST_SENT,       /* in the engine's queue as far as is known */
    HALO_REQUEST_RUNNING,    /* the engine works on it */
    HALO_REQUEST_CANCELLING, /* the engine was told to end it */
    HALO_REQUEST_ENDED,
    HALO_N_REQUEST_STATES
};

struct halo_request {
    uint64_t id; /* towards the engine; unique for the life of the daemon, larger for younger ones */
    enum halo_msg_type type;
    enum halo_request_state state;
    const char *phase; /* static word: what a cancel answers as `was` */

    struct halo_list_node all;        /* every record, by age */
    struct halo_request *bucket_next; /* by id */
    struct halo_list_node open;       /* the client's; linked while `client` is set */
    struct halo_list_node waiting;    /* by age; linked while WAITING */

    struct halo_client *client; /* who gets the events; NULL: nobody */
    struct halo_id client_id;   /* string: points into client_id_text */
    char client_id_text[HALO_ID_BUF_BYTES];

    /* What the engine gets: its own id, defaults and seed filled in; no newline. `deadline_ms` and `from` are not in
     * it: they are added as they are when it is sent. */
    char *line;
    size_t line_len;
    struct halo_quota_user *user; /* charged with `charged_bytes`, and with its place in the queue */
    size_t charged_bytes;
    bool has_place;

    uint64_t arrived_ns;
    uint64_t dispatched_ns; /* 0: not yet */
    uint64_t started_ns;    /* `started` was passed on; 0: not yet */
    uint64_t expires_ns;    /* when waiting ends, or order_due; UINT64_MAX: never */
    int64_t deadline_ms;    /* from arrival; 0: none */

    uid_t owner;    /* the user who sent it, or for whom the daemon loads a model */
    bool wants_ids; /* `committed` events go to the client */
    bool streams;   /* a slow reader pauses it */
    bool paused;
    bool order_due;     /* the engine has yet to be told of a cancel or a pause; expires_ns says when to try */
    char *needs;        /* the model that it works with, or loads, by name or path; else NULL */
    bool missed;        /* `needs` was unloaded while the engine had it: not_found is not final */
    bool demanded;      /* the daemon's own load, because a request needs the model */
    char *reload_model; /* the daemon's own load, which brings this model back after a restart; else NULL */

    int64_t seed;    /* generate */
    int32_t *tokens; /* committed so far */
    size_t n_tokens, tokens_cap;
    uint64_t text_bytes; /* of `token` text sent */
    bool loop_told;      /* `loop_detected` was sent */
    struct halo_score_record {
        int64_t from, next; /* first row asked for; the next one to come */
        double nll_sum;     /* of the rows before `next` */
        uint64_t n_nll;
        bool over; /* the last row was sent: only `done` is missing */
    } score;
    char effective_md5[64]; /* of the prompt, once begun; "": unknown */
    char *model, *print;    /* once begun: the model's name and its halo_known_model.print then; NULL: unknown here */
    bool record_lost;       /* memory was short: it cannot be resumed */
    bool progressed;        /* the engine that has it committed a token or row of it */
    bool died;              /* an engine died with it, and its client has no notice of that yet */
    unsigned n_resumes;
    unsigned n_deaths; /* engines in a row that died with it without progress */
};

/* hello, status, stats: the daemon answers, with the engine's part if it comes in time. */
bool halo_request_is_query(enum halo_msg_type type);
bool halo_request_may_move(enum halo_request_state from, enum halo_request_state to);
/* The daemon's own load, which no client asked for. */
static inline bool halo_request_is_own_load(const struct halo_request *request)
{
    return request->demanded || request->reload_model;
}
/* The client has a part of the reply: another engine must continue it. */
bool halo_request_has_begun(const struct halo_request *request);
/* The engine has it and sent no part of a reply: it can be sent again from the beginning. */
bool halo_request_awaits_output(const struct halo_request *request);

#endif
