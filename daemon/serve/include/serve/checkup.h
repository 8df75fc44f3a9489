/* checkup.h: after a death of an engine that has a GPU, `halo-doctor --json --quick` is asked what is wrong.
 *
 * The doctor is a child on the loop, with a deadline; nothing waits for it, what it says is bounded, and it is killed
 * when its time is over: what it told until then counts. Of its findings one is kept, the one that fits best where the
 * engine died, and said in the journal, in `status`, and where clients read why an engine was lost. Loop thread.
 */
#ifndef HALO_SERVE_CHECKUP_H
#define HALO_SERVE_CHECKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct halo_daemon;
struct halo_engine;
struct halo_checkup_run;

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
    char text[HALO_CHECKUP_TEXT_BYTES]; /* "mes FAIL: MES firmware 0x83 makes ..." */
};

struct halo_checkup {
    struct halo_daemon *daemon;
    struct halo_checkup_run *run;      /* NULL: none is under way */
    uv_timer_t timer;                  /* its deadline */
    uint64_t done_ns;                  /* when the last one was over; 0: never */
    struct halo_checkup_finding found; /* of the last one that ended */
};

void halo_checkup_init(struct halo_checkup *checkup, struct halo_daemon *daemon);
/* The engine died: asks, unless it has no GPU, or was asked just now. To be called before the engine forgets what it
 * was doing. */
void halo_checkup_begin(struct halo_checkup *checkup, const struct halo_engine *engine);
/* Ends one that is under way; afterwards the timer can be closed. halo_shutdown_check() hears of its end. */
void halo_checkup_stop(struct halo_checkup *checkup);
void halo_checkup_close(struct halo_checkup *checkup);
/* Whether the engine has a GPU, as far as is known. */
bool halo_checkup_concerns(const struct halo_engine *engine);
/* " (halo-doctor: mes FAIL: ...)", or "": nothing is known. In `buf`. */
const char *halo_checkup_note(const struct halo_checkup *checkup, char *buf, size_t room);

/* checkup_read.c: a line of the doctor's; kept if it fits better than what is there. `stage`: open, load, launch, step,
 * or "": not known. Pure. */
void halo_checkup_take(struct halo_checkup_finding *best, const char *line, size_t len, const char *stage);
/* Where in its life the engine is, as a stage. */
const char *halo_checkup_stage(const struct halo_engine *engine);

#endif
