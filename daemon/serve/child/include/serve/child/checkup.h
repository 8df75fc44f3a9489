/* checkup.h: after a death of an engine that has a GPU, `halo-doctor --json --quick` is asked what is wrong.
 *
 * The doctor is a child with a deadline; nothing waits for it, what it says is bounded, and it is killed when its time
 * is over: what it said until then counts. Of its findings one is kept, the one that best explains where the engine
 * died. Loop thread.
 */
#ifndef HALO_SERVE_CHILD_CHECKUP_H
#define HALO_SERVE_CHILD_CHECKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <serve/child/child.h>
#include <serve/child/engine.h>
#include <serve/config.h>

#define HALO_CHECKUP_FRESH_MS 60000 /* within which another death is not a reason to ask again */
#define HALO_CHECKUP_TEXT_BYTES 512

enum halo_checkup_rank { /* of a finding */
                         HALO_CHECKUP_NOTHING,
                         HALO_CHECKUP_WARNS,   /* a warning about what the engine was doing */
                         HALO_CHECKUP_FAILS,   /* a fault of something else */
                         HALO_CHECKUP_EXPLAINS /* a fault of what it was doing */
};

struct halo_checkup_finding {
    enum halo_checkup_rank rank;
    bool no_gpu;                        /* the machine has none */
    size_t n_read;                      /* lines that were findings */
    char text[HALO_CHECKUP_TEXT_BYTES]; /* "mes FAIL: MES firmware 0x83 makes ..."; "": nothing explains the death */
};

struct halo_checkup {
    uv_loop_t *loop;
    const struct halo_config *config;
    void (*found)(struct halo_checkup *checkup); /* one ended with a finding */
    void *ud;
    struct halo_child *child; /* NULL: none is under way */
    bool ended;               /* what it says does not count any more */
    size_t n_bytes;           /* said */
    char stage[8];            /* what the engine was doing: open, load, launch, step, or "": not known */
    struct halo_checkup_finding reading, last; /* of the one under way, and of the last one that ended */
    uint64_t done_ns;                          /* when the last one ended; 0: never */
    uv_timer_t timer;                          /* its deadline */
};

void halo_checkup_init(struct halo_checkup *checkup, uv_loop_t *loop, const struct halo_config *config,
                       void (*found)(struct halo_checkup *checkup), void *ud);
/* The engine died: asks, unless it has no GPU, was never spawned, or the doctor was asked just now. */
void halo_checkup_begin(struct halo_checkup *checkup, const struct halo_engine *engine);
/* Ends one that is under way; `child` is NULL once it is gone, and then the object may be closed. */
void halo_checkup_stop(struct halo_checkup *checkup);
void halo_checkup_close(struct halo_checkup *checkup);

/* ---- checkup_read.c: pure ---- */

/* A line of the doctor's; kept if it explains more than what is there. */
void halo_checkup_take(struct halo_checkup_finding *best, const char *line, size_t len, const char *stage);
/* What an engine in this state, with this last heartbeat, was doing. */
const char *halo_checkup_stage(enum halo_engine_state state, const struct halo_engine_beat *beat);

#endif
