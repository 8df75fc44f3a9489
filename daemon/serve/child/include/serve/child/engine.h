/* engine.h: the child that has the device.
 *
 * A process that is silent for too long, stuck in one phase for too long, or that writes something which is no event,
 * is killed with SIGKILL; nothing here ever waits for it. Whoever owns the object hears of it by the ops, and starts
 * the next one. `struct halo_engine` outlives its processes. Loop thread.
 */
#ifndef HALO_SERVE_CHILD_ENGINE_H
#define HALO_SERVE_CHILD_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include <base/fault.h>
#include <base/log.h>
#include <protocol/message.h>

#include <serve/child/child.h>
#include <serve/config.h>
#include <serve/request/event_line.h>

#define HALO_ENGINE_FD 3 /* the child's end of the socket pair */
#define HALO_ENGINE_WORDS_BYTES 160
#define HALO_ENGINE_REASON_BYTES 256
#define HALO_ENGINE_SPARE_FDS 8 /* two pairs for the child, a pipe for its exec, and a little more */
#define HALO_ENGINE_FEATURES 32
#define HALO_ENGINE_FEATURE_BYTES 64

enum halo_engine_state {
    HALO_ENGINE_DOWN,     /* no process */
    HALO_ENGINE_STARTING, /* spawned, its hello is awaited */
    HALO_ENGINE_UP,       /* answered */
    HALO_ENGINE_DYING,    /* killed or told to end; not yet reaped */
    HALO_N_ENGINE_STATES
};

struct halo_engine;

struct halo_engine_ops {
    /* An event that is neither the answer to hello nor a heartbeat. -EPROTO with the reason: it is replaced. */
    int (*line)(struct halo_engine *engine, const struct halo_event_line *line, struct halo_fault *fault);
    /* It answered hello: lines may be written to it. */
    void (*ready)(struct halo_engine *engine);
    /* It is given up, and killed unless it is dead: "was killed by signal 9 (Killed)". No line comes any more. */
    void (*died)(struct halo_engine *engine, const char *reason);
    /* DOWN: reaped; another one may be started. */
    void (*gone)(struct halo_engine *engine);
};

#define HALO_ENGINE_THREADS (HALO_WIRE_THREAD_PREFETCH + 1)

struct halo_engine_thread { /* what a thread of the engine is doing */
    char phase[256];
    enum halo_wire_activity activity;
    int64_t ms; /* since it made progress */
};

struct halo_engine_beat { /* what the last heartbeat said */
    int64_t steps, running;
    struct halo_engine_thread threads[HALO_ENGINE_THREADS]; /* by enum halo_wire_thread */
};

struct halo_engine {
    uv_loop_t *loop;
    const struct halo_config *config;
    const struct halo_engine_ops *ops;
    void *ud;
    enum halo_engine_state state;
    struct halo_child *child; /* NULL: DOWN */
    uv_timer_t grace;         /* between the two signs of a death */
    uv_timer_t watch;         /* see watch.c */
    uint64_t hello_id;
    uint64_t spawned_ns, heard_ns, watched_ns, died_ns;
    enum halo_engine_state died_in; /* what it was when it died last */
    struct halo_engine_beat beat;
    char last_words[HALO_ENGINE_WORDS_BYTES]; /* last line on its stderr that was not routine */
    uint64_t last_words_ns;                   /* when it came */
    struct halo_log_limit err_limit;
    char features[HALO_ENGINE_FEATURES][HALO_ENGINE_FEATURE_BYTES];
    size_t n_features;
    int spare_fds[HALO_ENGINE_SPARE_FDS];
    size_t n_spare;
};

void halo_engine_init(struct halo_engine *engine, uv_loop_t *loop, const struct halo_config *config,
                      const struct halo_engine_ops *ops, void *ud);
/* From DOWN. `hello_id`: an id that no request has. A process that cannot be started has died: the ops say so. */
void halo_engine_start(struct halo_engine *engine, uint64_t hello_id);
/* End of file is its order to go. No word of its death follows, only gone(). */
void halo_engine_stop(struct halo_engine *engine);
void halo_engine_kill(struct halo_engine *engine);
void halo_engine_close(struct halo_engine *engine); /* timers; after halo_engine_stop() */

/* Where lines for it are written; NULL when there is none to read them. */
struct halo_json *halo_engine_out(struct halo_engine *engine);
void halo_engine_flush(struct halo_engine *engine);

bool halo_engine_may_move(enum halo_engine_state from, enum halo_engine_state to);
/* What the device's thread is doing, in words; "": nobody has said. */
static inline const char *halo_engine_phase(const struct halo_engine *engine)
{
    return engine->beat.threads[HALO_WIRE_THREAD_DEVICE].phase;
}
/* Of the process that runs; 0: none. */
pid_t halo_engine_pid(const struct halo_engine *engine);
/* Whether it has a GPU, as far as is known. */
bool halo_engine_has_gpu(const struct halo_engine *engine);

/* ---- watch.c: pure ---- */

/* Whether it must be given up at `now_ns`, with the reason. */
bool halo_engine_is_hung(const struct halo_engine *engine, uint64_t now_ns,
                         char ret_reason[static HALO_ENGINE_REASON_BYTES]);
/* Whether it makes progress or is being replaced. Not: killed and still there, or silent beyond what it is killed for.
 */
bool halo_engine_is_well(const struct halo_engine *engine, uint64_t now_ns);

#endif
