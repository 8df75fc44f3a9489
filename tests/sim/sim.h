/* sim.h: halod's policies in a world of one thread: a clock, clients, a scripted engine, driven by a list of events.
 *
 * What is real: serve/request, serve/common, client/flow.c, child/watch.c. What is simulated: the loop (host.c, which
 * does what daemon.c and peer.c do around them), the clients (crowd.c asks and reads, hear.c checks what they are
 * told), the engine (engine.c lives and dies, work.c says what a sane one says). check.c holds the state of halod
 * against what the world knows.
 *
 * A story is what the world knows of one request: both its client and its engine know how it has to go, so that a
 * token lost, doubled or moved is seen on the spot. Everything depends on the events alone. One thread.
 */
#ifndef HALO_TEST_SIM_H
#define HALO_TEST_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <serve/child/engine.h>
#include <serve/client/peer.h>
#include <serve/request/requests.h>

#include "event.h"

#define SIM_MS 1000000ull
#define SIM_CONNS 12
#define SIM_IDS 16 /* ids of one connection, used again and again */
#define SIM_MODELS 4
#define SIM_ROOM 2 /* models that the engine has memory for */
#define SIM_JOBS 1024
#define SIM_SENT 65536    /* ids of the daemon that are looked up: more than one life has, or nearly */
#define SIM_SHORT_ID 1000 /* ids from here on: pings and cancels, answered at once */
#define SIM_FOREVER 100000
#define SIM_LEAST_LINE 64   /* bytes of a request for an engine */
#define SIM_MOST_EVENT 4096 /* bytes of an event of this engine */
#define SIM_MOST_LINE 65536 /* bytes of a line for it: the longest reply that continues */

struct sim_story {
    enum halo_msg_type type;
    int conn, id; /* whose, under which id */
    int model;    /* -1: none named */
    unsigned n, piece_bytes, from;
    int poison;        /* dies before this token, each time it is computed; -1: never */
    unsigned antidote; /* ... until so many engines died of it */
    int64_t deadline_ms;
    uint64_t asked_ns;
    bool wants_ids, endless;
    bool unkept;          /* its user's quota had no room for an id: no other engine can continue it */
    bool privileged_only; /* and its client is not: must be refused */
    /* What its client knows. */
    bool open, started, cancelled;
    unsigned n_ids, n_pieces, n_rows;
    /* What its engines did. */
    bool in_engine, committed_here;
    unsigned n_committed, n_texts, n_scored;
    int version;           /* of the model's files, when it began */
    int began_with;        /* the model that it began with; -1: it has not */
    enum halo_error said;  /* the engine ended it with this error */
    enum halo_error ended; /* what its client was told, if that was an error */
    unsigned n_deaths;     /* in a row, with nothing committed */
    bool died_alone;       /* at the last of them the engine had nothing else */
};

struct sim_conn {
    bool open;
    struct halo_client client;
    struct halo_json out;
    size_t unread; /* bytes that left `out` and that the client has not read */
    struct halo_flow flow;
    bool reads;       /* all that comes, at once */
    int ids[SIM_IDS]; /* the open story, or -1 */
    int repeated;     /* an id that was used twice: one refusal is due; -1: none */
    int64_t short_id; /* an answer is due at once; -1: none */
    bool short_null;  /* one with the id null is */
};

struct sim_job {
    int64_t id;
    enum halo_msg_type type;
    int story; /* -1: the daemon's own */
    int model;
    unsigned done, texts;
    bool started, cancelled, paused, running;
    double nll;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    bool pin;
};

struct sim_model {
    bool loaded, pinned, cursed; /* cursed: the engine dies while it loads it */
    bool broken;                 /* its load fails */
    int on_disk, in_memory;      /* versions of its files; in_memory: as it was loaded last */
    uint64_t used;               /* larger: later */
};

struct sim_engine {
    enum halo_engine_state state;
    uint64_t at_ns;    /* STARTING: it answers; DYING: it is reaped; else UINT64_MAX */
    uint64_t watch_ns; /* the next look at it; UINT64_MAX: none */
    uint64_t spawned_ns, up_ns, heard_ns, silent_until_ns, stuck_since_ns;
    struct halo_json out; /* the daemon's buffer */
    char *inbox;          /* what the engine has not read yet */
    size_t inbox_len, inbox_cap;
    struct sim_job jobs[SIM_JOBS];
    size_t n_jobs;
    unsigned n_in; /* stories that an engine has, queries left out */
    int suspect;   /* one of them that must be alone there; -1: none */
    int64_t last_sent;
    struct sim_model models[SIM_MODELS];
    uint64_t clock; /* of uses */
    bool has_spoken;
    unsigned n_mute;  /* deaths in a row of engines that said nothing and did not last */
    unsigned n_idle;  /* deaths since a token or a row was committed */
    bool is_on_trial; /* the breaker was closed, and no engine has done anything since */
};

struct sim_report; /* where what happened is told, see run.h */

struct sim {
    struct sim_report *report;
    struct halo_config config;
    struct halo_quota quota;
    struct halo_counters counters;
    struct halo_requests requests;
    uint64_t now_ns, restart_ns, down_ns; /* restart_ns: UINT64_MAX: not armed; down_ns: of the last death */
    struct sim_conn conns[SIM_CONNS];
    struct sim_engine engine;
    struct sim_story *stories;
    size_t n_stories, stories_cap;
    struct sim_sent {
        int64_t id;
        int story;
        uint64_t at_ns;
    } sent[SIM_SENT];
    int64_t next_seed, next_short;
    unsigned poison_every; /* of so many replies one kills its engine */
};

/* ---- host.c ---- */

void sim_begin(struct sim *sim, unsigned config, struct sim_report *report);
/* Everything ends in peace, then everybody goes: nothing may be left. */
void sim_end(struct sim *sim);
void sim_pass(struct sim *sim, uint64_t ms);
/* After each stimulus: what was written is delivered, and everything is checked. */
void sim_settle(struct sim *sim);
/* Nobody stands in the way of anything any more until all that is open has ended. */
void sim_calm(struct sim *sim);
void sim_do(struct sim *sim, const struct sim_event *event);

/* ---- crowd.c ---- */

void sim_connect(struct sim *sim, int slot, uid_t uid);
void sim_leave(struct sim *sim, int slot);
void sim_half(struct sim *sim, int slot);
void sim_ask(struct sim *sim, int slot, uint32_t kind, uint32_t how);
void sim_cancel(struct sim *sim, int slot, uint32_t which);
void sim_read(struct sim *sim, int slot, size_t bytes);
void sim_conn_flush(struct sim *sim, struct sim_conn *conn);
/* When time alone does something to it. */
uint64_t sim_conn_due(const struct sim *sim, const struct sim_conn *conn);
void sim_conn_tick(struct sim *sim, struct sim_conn *conn);

/* ---- hear.c ---- */

void sim_hear(struct sim *sim, struct sim_conn *conn, const char *line, size_t len);

/* ---- engine.c ---- */

void sim_engine_start(struct sim *sim);
void sim_engine_dies(struct sim *sim, const char *reason);
uint64_t sim_engine_due(const struct sim *sim);
void sim_engine_tick(struct sim *sim);
/* The daemon's buffer goes into the socket. */
void sim_engine_flush(struct sim *sim);
/* It reads up to `n` lines. */
void sim_engine_hears(struct sim *sim, unsigned n);
bool sim_engine_works(const struct sim *sim);
/* It ended what halod knows by this id. */
void sim_engine_lets_go(struct sim *sim, int64_t id);
/* A line of it, which halod must take; it dies of one that is `mad`, and that must be refused. */
__attribute__((format(printf, 3, 4))) void sim_engine_says(struct sim *sim, bool mad, const char *format, ...);

/* ---- work.c ---- */

/* One event of one job, if it has one to say. */
void sim_work(struct sim *sim, size_t at);
void sim_work_all(struct sim *sim);
void sim_mad(struct sim *sim, uint32_t how, uint32_t which);
int32_t sim_token(const struct sim *sim, int story, unsigned pos);
double sim_logprob(unsigned pos);

/* A job that ends: taken from the list; the same, with an error said. */
struct sim_job sim_job_drop(struct sim *sim, size_t at);
void sim_job_fail(struct sim *sim, size_t at, enum halo_error code);

/* ---- models.c ---- */

void sim_job_load(struct sim *sim, size_t at);
void sim_job_unload(struct sim *sim, size_t at);
/* False: it waits for its model, or has ended without. */
bool sim_job_finds_model(struct sim *sim, size_t at);
/* A model's keep-alive time is over. */
void sim_unload_idle(struct sim *sim, uint32_t which);

/* ---- check.c ---- */

void sim_check(struct sim *sim);
/* Of a new record: it may go on without its client. */
void sim_remember(struct sim *sim, const struct halo_request *request);
/* The story of a record; -1: it is the daemon's own. */
int sim_story_of(struct sim *sim, const struct halo_request *request);
bool sim_is_suspect(const struct sim *sim, const struct sim_story *story);
/* Whether the queue has room for one request more of this client, by the rule that docs/CONFIG.md states. */
bool sim_has_room(const struct sim *sim, const struct halo_client *client);

#endif
