/* engine.h: the child process that has the device, as the daemon sees it.
 *
 * One `struct halo_engine_run` is one process with its socket and its stderr; it lives until the close callback of its
 * last handle. `struct halo_engine` outlives them: state, back-off, what the last heartbeat said. A process that is
 * silent for too long, stuck in one phase for too long, or that writes something which is no event, is killed with
 * SIGKILL and replaced; nothing here ever waits for it. Loop thread.
 */
#ifndef HALO_SERVE_ENGINE_H
#define HALO_SERVE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <base/fault.h>
#include <protocol/line.h>
#include <protocol/message.h>

#include <serve/sink.h>

struct halo_daemon;

#define HALO_ENGINE_FD 3 /* the child's end of the socket pair */
#define HALO_ENGINE_WORDS_BYTES 160
#define HALO_ENGINE_SPARE_FDS 8 /* two pairs for the child, a pipe for its exec, and a little more */
#define HALO_ENGINE_FEATURES 32
#define HALO_ENGINE_FEATURE_BYTES 64

enum halo_engine_state {
    HALO_ENGINE_DOWN,     /* no process; a start is scheduled unless the daemon is leaving */
    HALO_ENGINE_STARTING, /* spawned, its hello is awaited */
    HALO_ENGINE_LOADING,  /* answers; the models that were loaded come back */
    HALO_ENGINE_READY,
    HALO_ENGINE_DYING, /* told to end; waits to be reaped */
    HALO_N_ENGINE_STATES
};

struct halo_engine_run {
    struct halo_engine *engine;
    uv_process_t process;
    uv_pipe_t link, err;
    unsigned n_handles;                    /* not yet closed */
    bool starved;                          /* reading stopped for want of memory */
    bool has_process;                      /* `process` is a handle */
    bool spawned, exited, link_ended, cut; /* cut: its handles are being closed */
    int64_t exit_status;
    int exit_signal;
    struct halo_line_reader reader, err_reader;
    struct halo_sink sink;
    char last_words[HALO_ENGINE_WORDS_BYTES]; /* last line on stderr */
};

#define HALO_ENGINE_THREADS (HALO_WIRE_THREAD_PREFETCH + 1)

/* What a thread of the engine said that it is doing; by enum halo_wire_thread. */
struct halo_engine_thread {
    char phase[256];
    enum halo_wire_activity activity;
    int64_t ms; /* since it made progress */
};

struct halo_engine {
    struct halo_daemon *daemon;
    enum halo_engine_state state;
    struct halo_engine_run *run; /* NULL: DOWN */
    uv_timer_t timer;            /* back-off, or the grace between the two signs of a death */
    uv_timer_t watch;            /* heartbeat */
    uint64_t hello_id;           /* of the hello that was sent to it */
    uint64_t spawned_ns, heard_ns, watched_ns;
    uint64_t read_ns; /* when the lines now handled became readable */
    uint64_t n_read_events;
    unsigned n_restarts;
    unsigned n_futile;                  /* deaths in a row without progress */
    bool broken;                        /* too many of them: none is started until broken_until_ns */
    uint64_t broken_until_ns, ready_ns; /* ready_ns 0: not yet */
    bool progressed;                    /* this process did something for somebody */
    char reason[256];                   /* why the last one died; "" */
    char features[HALO_ENGINE_FEATURES][HALO_ENGINE_FEATURE_BYTES];
    size_t n_features;
    bool known;             /* features were told at least once */
    int64_t steps, running; /* of the last heartbeat, as the threads */
    struct halo_engine_thread threads[HALO_ENGINE_THREADS];
    uint64_t died_ns; /* when the last one was given up */
    bool unwell;      /* the service manager's watchdog is not fed */
    int spare_fds[HALO_ENGINE_SPARE_FDS];
    size_t n_spare;
};

void halo_engine_init(struct halo_engine *engine, struct halo_daemon *daemon);
bool halo_engine_may_move(enum halo_engine_state from, enum halo_engine_state to);
void halo_engine_move(struct halo_engine *engine, enum halo_engine_state to);
const char *halo_engine_state_name(const struct halo_engine *engine);

/* breaker.c: refuses rather than lets wait: it died again and again without doing anything. */
bool halo_engine_is_broken(const struct halo_engine *engine);

/* supervise.c: starts (or schedules) a process; ends one for a reason; ends the last one with the daemon. */
void halo_engine_start(struct halo_engine *engine);
__attribute__((format(printf, 2, 3))) void halo_engine_fail(struct halo_engine *engine, const char *format, ...);
void halo_engine_stop(struct halo_engine *engine);
void halo_engine_kill(struct halo_engine *engine);
void halo_engine_close(struct halo_engine *engine); /* timers; after halo_engine_stop() */
/* What the device's thread is doing, in words; "": nobody has said. */
static inline const char *halo_engine_phase(const struct halo_engine *engine)
{
    return engine->threads[HALO_WIRE_THREAD_DEVICE].phase;
}
void halo_engine_heartbeat(struct halo_engine *engine, const char *line, size_t len);
/* The engine's answer to the hello that it was sent. -EPROTO when it is none. */
int halo_engine_hello(struct halo_engine *engine, const char *line, size_t len, struct halo_fault *fault);

/* engine_spawn.c: 0 or a negative errno; *ret_run is the caller's in both cases unless NULL, and ends by cut(). */
int halo_engine_run_create(struct halo_engine *engine, struct halo_engine_run **ret_run);
int halo_engine_run_read_stderr(struct halo_engine_run *run);
void halo_engine_run_cut(struct halo_engine_run *run);

/* engine_link.c */
void halo_engine_run_open(struct halo_engine_run *run);
int halo_engine_run_read(struct halo_engine_run *run);
/* Where lines for the engine are written; NULL when there is none to hear them. */
struct halo_json *halo_engine_out(struct halo_engine *engine);
void halo_engine_flush(struct halo_engine *engine);

/* spare.c: descriptors kept for a start */
void halo_spare_fill(struct halo_engine *engine);
void halo_spare_drop(struct halo_engine *engine);

/* watch.c */
void halo_watch_start(struct halo_engine *engine);
void halo_watch_feed(uv_timer_t *timer); /* WATCHDOG=1, if the engine gets on or is being replaced */

/* Both signs of a death lead here, in supervise.c. */
void halo_engine_run_ended(struct halo_engine_run *run);
void halo_engine_run_gone(struct halo_engine *engine);

#endif
