/* port_priv.h: the port: the main thread's state, and what its files do.
 *
 * Each file calls only those above it in this list:
 *
 *   output.c      events into the output
 *   instances.c   the models that are there: found by name or file, held by requests, given back
 *   job.c         life of a request: states, exactly one terminal event
 *   tell.c        progress and notices to all who wait for a load
 *   phases.c      the heartbeat: what each thread is doing and since when
 *   report.c      hello, status, diag
 *   stats.c       stats
 *   catalog.c     the answer to models
 *   pressure.c    memory pressure; caches of experts that give memory back and take it again
 *   room.c        loads one at a time, models that go to make room for them
 *   save.c        prefixes to the disk: save, and before a model goes
 *   lookup.c      the model that a request names, and requests that wait for a load
 *   loaded.c      what a client is told of a load that has succeeded
 *   load.c        load
 *   unload.c      unload
 *   reset.c       reset
 *   profile.c     profile, and what plan takes from a stored one
 *   plan.c        plan and bench
 *   reply.c       events of generate and score
 *   dispatch.c    a line becomes a request and goes where it is served; cancel, pause, continue
 *   load_steps.c  which thread runs which stage of a load
 *   port.c        the poll loop: bytes in, bytes out, mail, time
 *   start.c       threads
 *
 * Beside them text/ has the text workers (text_priv.h), io/ the io and prefetch threads.
 */
#ifndef HALO_ENGINE_PORT_PRIV_H
#define HALO_ENGINE_PORT_PRIV_H

#include <base/log.h>
#include <protocol/json_write.h>
#include <protocol/line.h>

#include <engine/pressure_watch.h>

#include "io/io_priv.h"
#include "io/prefetch_priv.h"
#include "port/job_priv.h"

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
    struct halo_job *ready;  /* NEW: to be dispatched again before anything else is read */
    struct halo_instance *instances[HALO_MAX_KNOWN];
    uint32_t n_instances;
    struct halo_save save;    /* one at a time; loaded NULL: none */
    struct halo_job *saver;   /* the one `save` that is under way */
    uint32_t n_restored;      /* pages that came back from disk */
    char prefix_problem[512]; /* why saved prefixes were left alone, the last time; "" */
    struct halo_heat *heat;   /* asked for; NULL: not */
    double celsius;           /* of the hottest drive, the last time; as the next */
    bool has_celsius;
    struct halo_profiling *profiling;        /* one at a time; NULL: none */
    struct halo_load *load_now, *load_queue; /* one at a time, the others in order of arrival */
    bool load_waits;                         /* load_now: for models that go to make room for it */
    uint64_t born_ns;
    struct halo_pressure_watch *watch; /* NULL: nobody looks at memory */
    struct halo_pressure pressure;
    struct halo_pressure_sample memory; /* the last one */

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

/* output.c */
bool halo_port_is_full(const struct halo_port *port); /* the peer does not read: write no more events of sequences */
size_t halo_port_unsent(const struct halo_port *port);
/* Encodes an event. Ends the process when there is no memory for it: a request must never lose its terminal event. */
void halo_port_put(struct halo_port *port, const struct halo_ev *ev);

/* instances.c */
/* A model that is loaded or on its way, by the name that it has, with or without the ending of a file; one whose file
 * is not known yet, by what its load was asked for. NULL: none. */
struct halo_instance *halo_port_instance_named(const struct halo_port *port, struct halo_str name);
/* By its file, unchanged. NULL: none. */
struct halo_instance *halo_port_instance_of(const struct halo_port *port, const struct halo_file_id *id);
/* One whose file was replaced or changed since: loaded from this path or this inode, but not this file. NULL: none. */
struct halo_instance *halo_port_instance_before(const struct halo_port *port, const char *path,
                                                const struct halo_file_id *id);
void halo_port_hold_instance(struct halo_job *job, struct halo_instance *instance);
void halo_port_release_model(struct halo_job *job);
/* No new users; unloads when its current requests finish. */
void halo_port_drain(struct halo_port *port, struct halo_instance *instance, enum halo_unload_why why);
/* Asks the device thread for the models that can go now. */
void halo_port_unload_unused(struct halo_port *port);
void halo_port_expire_models(struct halo_port *port, uint64_t now_ns);
void halo_port_forget_instance(struct halo_port *port, struct halo_instance *instance);
bool halo_port_can_save(const struct halo_port *port);

/* job.c */
struct halo_job *halo_job_create(struct halo_port *port, struct halo_msg *msg); /* takes the message; NULL: no memory */
struct halo_job *halo_job_find(struct halo_port *port, const struct halo_id *id);
void halo_job_move(struct halo_job *job, enum halo_job_state to);
/* Each writes the terminal event and destroys the job. */
void halo_job_end(struct halo_port *port, struct halo_job *job, struct halo_ev *ev);
void halo_job_end_fault(struct halo_port *port, struct halo_job *job, const struct halo_fault *fault);
void halo_job_end_cancelled(struct halo_port *port, struct halo_job *job);
__attribute__((format(printf, 4, 5))) void halo_job_end_error(struct halo_port *port, struct halo_job *job,
                                                              enum halo_error code, const char *format, ...);
/* To the text workers. */
void halo_job_to_text(struct halo_port *port, struct halo_job *job);
/* Waits for the load of this model, or for its end. */
void halo_job_park(struct halo_instance *instance, struct halo_job *job);
void halo_job_unpark(struct halo_port *port, struct halo_job *job); /* forgets it in a waiting list */
/* All of a waiting list will be dispatched again, in order. */
void halo_job_wake(struct halo_port *port, struct halo_job *waiting);

/* tell.c: to the request that a load is for and to each that waits for it. */
void halo_port_tell_progress(struct halo_port *port, const struct halo_load *load, enum halo_wire_phase phase,
                             uint64_t done, uint64_t total, const char *step);
/* The log has it as well, with the priority of its code. */
void halo_port_tell_notice(struct halo_port *port, const struct halo_load *load, enum halo_notice code,
                           const char *text);

/* phases.c */
void halo_port_heartbeat(struct halo_port *port, const struct halo_id *id, int64_t beat);

/* report.c */
void halo_port_hello(struct halo_port *port, struct halo_job *job);
void halo_port_status(struct halo_port *port, struct halo_job *job);
void halo_port_answer_status(struct halo_port *port, struct halo_job *job);
void halo_port_diag(struct halo_port *port, struct halo_job *job);
void halo_port_describe_instance(struct halo_port *port, struct halo_instance *instance,
                                 struct halo_part_model_info *ret);

/* stats.c */
void halo_port_stats(struct halo_port *port, struct halo_job *job);
void halo_port_heat_done(struct halo_port *port, struct halo_heat *heat);
void halo_port_heat_expire(struct halo_port *port, uint64_t now_ns); /* answers without it, after a while */

/* catalog.c */
void halo_port_models(struct halo_port *port, struct halo_job *job);
void halo_port_catalog_done(struct halo_port *port, struct halo_catalog *catalog);

/* pressure.c */
/* Looks at memory when it is time, or when the trigger has fired, and acts. */
/* Why memory is looked at: because it is time, the control group is at its limit, or tasks stall. */
enum halo_memory_call { HALO_MEMORY_TIME, HALO_MEMORY_LIMIT, HALO_MEMORY_STALL };
/* What poll said of the watch's two descriptors. */
enum halo_memory_call halo_port_memory_call(const struct halo_port *port, short trigger, short events);
void halo_port_watch_memory(struct halo_port *port, uint64_t now_ns, enum halo_memory_call call);
/* 0, or OUT_OF_MEMORY in the fault: memory is too short for a load for which nobody goes. */
int halo_port_may_load(const struct halo_port *port, struct halo_fault *fault);
/* What the caches of experts of a model could give back, whoever uses it; NULL: of all models. */
uint64_t halo_port_spare_bytes(const struct halo_port *port, const struct halo_instance *instance);
/* Caches of experts give back so much, as far as they can, those of idle models first. */
void halo_port_shrink(struct halo_port *port, uint64_t bytes);
bool halo_port_is_resizing(const struct halo_port *port);
void halo_port_resize_done(struct halo_port *port, struct halo_resize *resize);
void halo_port_allow_guesses(const struct halo_port *port, const struct halo_instance *instance);
void halo_port_write_pressure(const struct halo_port *port, struct halo_json *w); /* if there is a watch */

/* room.c */
void halo_port_load_enqueue(struct halo_port *port, struct halo_load *load);
void halo_port_load_over(struct halo_port *port, struct halo_load *load); /* done or failed: the next one begins */
void halo_port_load_cancel(struct halo_port *port, struct halo_load *load);
/* The stage ROOM. */
enum halo_load_stage halo_port_make_room(struct halo_load *load, const struct halo_load_threads *threads);
void halo_port_room_made(struct halo_port *port); /* the load that waits goes on when the last model is gone */

/* save.c */
void halo_port_save(struct halo_port *port, struct halo_job *job);
void halo_port_save_done(struct halo_port *port, struct halo_save *save);
void halo_port_save_next(struct halo_port *port); /* unless one is under way: a model that goes, then those of `save` */

/* lookup.c */
bool halo_port_is_path(struct halo_str name);
/* The model that the name stands for, in any state. NULL: the request waits for the io thread, or was ended. */
struct halo_instance *halo_port_find(struct halo_port *port, struct halo_job *job, struct halo_str name);
/* Finds the model that a request names (len 0: the only one), makes the request its user. False: the request waits for
 * a load or for the io thread, or was ended with an error. */
bool halo_port_hold_model(struct halo_port *port, struct halo_job *job, struct halo_str name);
void halo_port_lookup_done(struct halo_port *port, struct halo_lookup *lookup);

/* load.c */
void halo_port_load(struct halo_port *port, struct halo_job *job);
/* Whether this is the engine's device; else the job has ended with UNSUPPORTED. */
bool halo_port_has_device(struct halo_port *port, struct halo_job *job, enum halo_wire_device wish);
void halo_port_load_progress(struct halo_port *port, struct halo_load *load);
/* The stages MATCH and DONE; DONE frees the load. */
enum halo_load_stage halo_port_match(struct halo_load *load, const struct halo_load_threads *threads);
enum halo_load_stage halo_port_load_done(struct halo_load *load, const struct halo_load_threads *threads);

/* unload.c */
void halo_port_unload(struct halo_port *port, struct halo_job *job);
void halo_port_unload_done(struct halo_port *port, struct halo_instance *instance);

/* reset.c */
void halo_port_reset(struct halo_port *port, struct halo_job *job);
void halo_port_reset_done(struct halo_port *port, struct halo_reset *reset);

/* profile_text.c: the text of a record's file, and the grid of an answer. */
void halo_profile_write(struct halo_json *w, const struct halo_profile_record *record);
void halo_profile_write_grid(struct halo_json *w, const struct halo_profile_record *record);

/* profile.c */
void halo_port_profile(struct halo_port *port, struct halo_job *job);
void halo_port_profile_cancel(struct halo_port *port, struct halo_job *job); /* ends the request */
void halo_port_profile_progress(struct halo_port *port, struct halo_profiling *profiling);
void halo_port_profile_note(struct halo_port *port, struct halo_profiling *profiling);
/* The stored speeds of the model that a forecast is for, if they hold; else why they do not is a notice to the request
 * that asked. */
/* Fills in what is known of the device; nothing while it is being opened. */
void halo_port_name_device(struct halo_port *port, struct halo_profile *here);
void halo_port_use_profile(struct halo_port *port, struct halo_forecast *forecast, const char *model);

/* plan.c */
void halo_port_plan(struct halo_port *port, struct halo_job *job);
void halo_port_bench(struct halo_port *port, struct halo_job *job);
void halo_port_bench_progress(struct halo_port *port, struct halo_bench *bench);
void halo_port_bench_done(struct halo_port *port, struct halo_bench *bench);
void halo_port_forecast_done(struct halo_port *port, struct halo_forecast *forecast);

/* reply.c */
void halo_port_submit(struct halo_port *port, struct halo_job *job);
void halo_port_take_events(struct halo_port *port, struct halo_job *job);
void halo_port_resume_blocked(struct halo_port *port); /* there is room in the output again */

/* dispatch.c */
void halo_port_take_line(struct halo_port *port, const char *line, size_t len);
void halo_port_take_long_line(struct halo_port *port);
void halo_port_dispatch_ready(struct halo_port *port);

/* load_steps.c */
extern const struct halo_load_step halo_load_steps[HALO_N_LOAD_STAGES];

/* port.c */
int halo_port_init(struct halo_port *port, const struct halo_port_config *config);
/* Runs until the peer is gone (and, for a person, everything asked for is answered). Returns the exit status. */
int halo_port_run(struct halo_port *port);

#endif
