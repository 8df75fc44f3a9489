/* port_priv.h: what the files of the port share: requests, the port itself, and what each file does.
 *
 *   start.c          threads
 *   load_steps.c     which thread runs which stage of a load
 *   port.c           the poll loop: bytes in, bytes out, mail, time
 *   dispatch.c       a line becomes a request and goes where it is served; cancel, pause, continue
 *   job.c        life of a request: states, exactly one terminal event
 *   models.c         load, unload, reset, and requests that wait for a load
 *   room.c           loads one at a time, models that go to make room for them
 *   reply.c          events of generate and score
 *   catalog.c        the answer to models
 *   report.c         hello, status, stats, diag
 *   phases.c         heartbeat: what each thread is doing and since when
 *   plan.c           plan and bench
 *   save.c           prefixes to the disk: save, and before a model goes
 *   text/            the text workers (text_priv.h)
 */
#ifndef HALO_ENGINE_PORT_PRIV_H
#define HALO_ENGINE_PORT_PRIV_H

#include <base/arena.h>
#include <protocol/json_write.h>
#include <protocol/line.h>
#include <protocol/message.h>

#include <engine/device_thread.h>

#include "io/io_priv.h"
#include "io/prefetch_priv.h"
#include "text/text_priv.h"

/* ---- a request ---- */

enum halo_job_state {
    HALO_JOB_NEW,
    HALO_JOB_PARKED, /* waits for a load, or for the device to be opened */
    HALO_JOB_TEXT,   /* the text workers have it; the port may set only the atomics */
    HALO_JOB_IO,     /* the io thread has its catalog */
    HALO_JOB_DEVICE, /* a sequence, bench or forecast of it is with the device thread */
    HALO_JOB_LOAD,   /* its load is under way, or its unload waits for users */
    HALO_JOB_ENDED,  /* the terminal event is written */
    HALO_N_JOB_STATES
};

struct halo_job {
    struct halo_note note; /* back from the text workers */
    struct halo_text_place text_place;
    struct halo_job *next;      /* in port->requests */
    struct halo_job *wait_next; /* PARKED */
    struct halo_msg msg;        /* owned */
    enum halo_job_state state;
    uint64_t arrived_ns;
    struct halo_instance *model; /* counted among its users */
    bool holds_model;
    atomic_bool cancel, hold;
    struct halo_arena arena; /* of the text worker while it has the request */

    /* the text worker's results */
    struct halo_fault fault;
    struct halo_ev ev; /* terminal event of tokenize, detokenize, template; points into arena */
    struct halo_str *changes;
    size_t n_changes;
    char prompt_md5[33], effective_md5[33];
    uint64_t newline_runs;
    bool other_prompt; /* a resumed reply began with another one than this: the fault says which */
    uint64_t seed;

    /* one of these at most */
    struct halo_sequence *sequence;
    struct halo_load *load;
    struct halo_bench *bench;
    struct halo_forecast *forecast;
    struct halo_catalog *catalog;
    struct halo_reset *reset;
    struct halo_port_saving *saving;

    /* generate */
    bool blocked, finished; /* events wait because the output is full; the sequence has ended */
    bool started;           /* `started` was written, here or before a resume */
    bool replayed;
    char *text; /* the reply, when it is not streamed */
    size_t n_text, text_capacity;
};

/* ---- the port ---- */

struct halo_port_config {
    int in_fd, out_fd;
    bool link;           /* the peer is halod: heartbeats, end at its end; otherwise a person or a pipe */
    uint64_t save_bytes; /* of prefixes that outlive the process, at most; 0: none */
    uint64_t save_ms;    /* of a model that is unloaded: for saving them; 0: they are not */
};

/* The time of one thread's phase: begins anew when a mark moves. */
#define HALO_N_PHASES 4 /* the threads of enum halo_wire_thread */
struct halo_phase_clock {
    uint64_t marks[4], since_ns;
};

struct halo_port {
    struct halo_port_config config;
    struct halo_mailbox box;
    struct halo_line_reader lines;
    struct halo_json out;
    size_t n_sent; /* of out: written, not dropped yet */
    bool eof;
    struct halo_job *jobs;
    uint32_t n_jobs;
    struct halo_job *parked; /* for the device to open */
    struct halo_instance *instances[HALO_MAX_KNOWN];
    uint32_t n_instances;
    struct halo_save save;                   /* one at a time; loaded NULL: none */
    struct halo_job *saver;                  /* the one `save` that is under way */
    uint32_t n_restored;                     /* pages that came back from disk */
    char prefix_problem[512];                /* why saved prefixes were left alone, the last time; "" */
    struct halo_load *load_now, *load_queue; /* one at a time, the others in order of arrival */
    bool load_waits;                         /* load_now: for models that go to make room for it */
    uint64_t born_ns;

    bool lost;                 /* the device is gone and halod has another engine do what is open: leave */
    uint64_t beat_ns, n_beats; /* last heartbeat */
    struct halo_phase_clock clocks[HALO_N_PHASES];

    struct halo_stats stats;
    struct halo_device_thread device;
    struct halo_text_thread text;
    struct halo_io_thread io;
    struct halo_load_route route; /* of all loads */
    struct halo_prefetch_thread prefetch;
};

/* port.c */
int halo_port_init(struct halo_port *port, const struct halo_port_config *config);
/* Runs until the peer is gone (and, for a person, everything asked for is answered). Returns the exit status. */
int halo_port_run(struct halo_port *port);
bool halo_port_is_full(const struct halo_port *port); /* the peer does not read: write no more events of sequences */
/* Encodes an event. Ends the process when there is no memory for it: a request without its end must not be. */
void halo_port_put(struct halo_port *port, const struct halo_ev *ev);

/* dispatch.c */
void halo_port_take_line(struct halo_port *port, const char *line, size_t len);
void halo_port_take_long_line(struct halo_port *port);
void halo_port_dispatch(struct halo_port *port, struct halo_job *job); /* a new or no longer parked one */

/* job.c */
struct halo_job *halo_job_create(struct halo_port *port, struct halo_msg *msg); /* takes the message; NULL: no memory */
struct halo_job *halo_job_find(struct halo_port *port, const struct halo_id *id);
void halo_job_move(struct halo_job *job, enum halo_job_state to);
/* Each writes the terminal event and destroys the request. */
void halo_job_end(struct halo_port *port, struct halo_job *job, struct halo_ev *ev);
void halo_job_end_fault(struct halo_port *port, struct halo_job *job, const struct halo_fault *fault);
void halo_job_end_cancelled(struct halo_port *port, struct halo_job *job);
__attribute__((format(printf, 4, 5))) void halo_job_end_error(struct halo_port *port, struct halo_job *job,
                                                              enum halo_error code, const char *format, ...);
/* To the text workers. */
void halo_job_to_text(struct halo_port *port, struct halo_job *job);

/* models.c */
/* Finds the model that a request names (len 0: the only one), makes the request its user. 0, 1: parked until its load
 * ends, negative: the request was ended with an error. */
int halo_port_hold_model(struct halo_port *port, struct halo_job *job, struct halo_str name);
void halo_port_release_model(struct halo_port *port, struct halo_job *job);
/* One user less, and that was no use of it. */
void halo_port_let_go(struct halo_port *port, struct halo_instance *instance);
void halo_port_load(struct halo_port *port, struct halo_job *job);
void halo_port_unload(struct halo_port *port, struct halo_job *job);
/* The model that was loaded from this path; NULL: none. */
struct halo_instance *halo_port_instance_at(struct halo_port *port, const char *path);
void halo_port_load_progress(struct halo_port *port, struct halo_load *load);
/* The stage DONE. Frees the load. */
enum halo_load_stage halo_port_load_done(struct halo_load *load, const struct halo_load_threads *threads);
void halo_port_unload_done(struct halo_port *port, struct halo_instance *instance);
/* No new users, and gone when those it has are through. */
void halo_port_drain(struct halo_port *port, struct halo_instance *instance, enum halo_unload_why why);
/* A copy of a progress or notice to each request that waits for this load; the first one is under its own id. */
void halo_port_put_waiting(struct halo_port *port, const struct halo_load *load, struct halo_ev *ev);
void halo_port_notice_waiting(struct halo_port *port, const struct halo_load *load, const char *code, const char *text);
void halo_port_reset(struct halo_port *port, struct halo_job *job);
void halo_port_reset_done(struct halo_port *port, struct halo_reset *reset);
void halo_port_expire_models(struct halo_port *port, uint64_t now_ns);
void halo_port_unpark(struct halo_port *port, struct halo_job *job); /* forgets it in a waiting list */

/* room.c */
void halo_port_load_enqueue(struct halo_port *port, struct halo_load *load);
void halo_port_load_over(struct halo_port *port, struct halo_load *load); /* done or failed: the next one begins */
void halo_port_load_cancel(struct halo_port *port, struct halo_load *load);
/* The stage ROOM. */
enum halo_load_stage halo_port_make_room(struct halo_load *load, const struct halo_load_threads *threads);
void halo_port_room_made(struct halo_port *port); /* a model is gone: the load that waits goes on after the last one */

/* reply.c */
void halo_port_submit(struct halo_port *port, struct halo_job *job);
void halo_port_take_events(struct halo_port *port, struct halo_job *job);
void halo_port_resume_blocked(struct halo_port *port); /* there is room in the output again */

/* report.c */
void halo_port_hello(struct halo_port *port, struct halo_job *job);
void halo_port_status(struct halo_port *port, struct halo_job *job);
void halo_port_stats(struct halo_port *port, struct halo_job *job);
void halo_port_diag(struct halo_port *port, struct halo_job *job);
void halo_port_fill_model(const struct halo_port *port, const struct halo_instance *instance,
                          struct halo_part_model_info *ret);

/* phases.c */
void halo_port_heartbeat(struct halo_port *port, const struct halo_id *id, int64_t beat);

/* load_steps.c */
extern const struct halo_load_step halo_load_steps[HALO_N_LOAD_STAGES];

/* catalog.c */
void halo_port_models(struct halo_port *port, struct halo_job *job);
void halo_port_catalog_done(struct halo_port *port, struct halo_catalog *catalog);

/* plan.c */
void halo_port_plan(struct halo_port *port, struct halo_job *job);
void halo_port_bench(struct halo_port *port, struct halo_job *job);
void halo_port_bench_progress(struct halo_port *port, struct halo_bench *bench);
void halo_port_bench_done(struct halo_port *port, struct halo_bench *bench);
void halo_port_forecast_done(struct halo_port *port, struct halo_forecast *forecast);

/* save.c */
void halo_port_save(struct halo_port *port, struct halo_job *job);
void halo_port_save_done(struct halo_port *port, struct halo_save *save);
bool halo_port_can_save(const struct halo_port *port);
void halo_port_save_next(struct halo_port *port); /* unless one is under way: a model that goes, then those of `save` */
void halo_port_saving_destroy(struct halo_port_saving *saving);

#endif
