/* scheduler.h: continuous batching for one loaded model: which rows run in the next step, and what becomes of their
 * logits.
 *
 * Sequences wait in order of arrival, of several users the one with the fewest running first; they are admitted when
 * pages for all their ids are free, and share each step: first one row of every sequence that decodes, then pieces of
 * prompts and of scores, as many rows as keep the step short enough for those who decode (pace.h). The oldest prompt
 * gets at least half of them, the rest goes to users by turns, to what has the least left first: nobody waits behind a
 * long prompt, and a long prompt always makes progress. Sequences join and leave at any step. A bench may borrow pages;
 * a sequence that then does not fit waits in the queue.
 * A sequence that must make room gives its pages back and returns to the queue (preemption): a paused one, whose reader
 * does not read, first; else the youngest of the user who has the most running, when the page pool runs dry or when
 * somebody who has two fewer wants to run. A sequence alone always fits (submit refuses what cannot), and the oldest
 * one makes room for nobody whose user has as many, so it always makes progress.
 *
 * Prefixes: what a sequence computed stays in the page pool when it fills a page, ends or is sent back, and the next
 * one of the same user whose ids begin alike takes it over instead of computing it (prefix.h). The last id is always
 * computed afresh. What is shared in part is copied by the device, so on a batch-invariant device logits and ids are
 * bit for bit those of a run without reuse. Where layers have windows or states, a text is continued where those are
 * kept (kv_worth.h says where, and for how long). After a device fault the user's prefixes are forgotten.
 *
 * Cancel, deadline and hold are looked at before every step. Logits are scanned: a sequence whose row is not made of
 * finite numbers ends with device_fault, and no token of it.
 *
 * Threads: the device thread. Memory: all at init; step() allocates nothing (guarded).
 */
#ifndef HALO_ENGINE_SCHEDULER_H
#define HALO_ENGINE_SCHEDULER_H

#include <base/fault.h>
#include <kernels/device.h>

#include <engine/batch_room.h>
#include <engine/kv_pages.h>
#include <engine/pace.h>
#include <engine/phase.h>
#include <engine/sampler.h>
#include <engine/sequence.h>
#include <engine/stats.h>

#define HALO_SCHEDULER_IDLE 1 /* outcome of step: nothing could run */

struct halo_scheduler_setup {
    const struct halo_device_ops *ops;
    struct halo_device_model *device_model;
    const struct halo_plan *plan;
    bool makes_lists; /* the device's: steps bring the largest logits where they decide, not the rows */
    bool any_cut;     /* the device's: the piece of a prompt follows the clock, for the numbers do not depend on it */
    bool queues;      /* the device's: a step without outputs may return before it has ended */
    bool streams;     /* a step reads weights from the disk, however few its rows: a prompt takes all that there are */
    uint32_t n_checkpoints; /* slots of each group of states that are kept for checkpoints: no sequence holds them */
    uint32_t max_queued;    /* waiting sequences; more are refused with queue_full */
    struct halo_device_phase *phase;
    struct halo_stats *stats;
    struct halo_mailbox *port; /* where sequences go when they ended */
    atomic_bool *lost;         /* raised when the device fails for good; may be NULL */
    atomic_int *activity;      /* enum halo_activity, told around a run; may be NULL */
};

/* What one sequence has in the batch. */
struct halo_batch_part {
    struct halo_sequence *sequence;
    uint32_t n_rows, first_output, n_outputs;
};

/* What goes on on other models of the device. */
struct halo_scheduler_others {
    double decode_ns;      /* of their replies in a round; 0: nobody decodes */
    uint32_t n_prompts_of; /* models with prompts to work on, this one included; 0 counts as 1 */
};

struct halo_scheduler {
    struct halo_scheduler_setup setup;
    struct halo_kv_pool pool;
    struct halo_sampler sampler;
    struct halo_candidate *tops;    /* [HALO_SCHEDULER_TOPS] */
    struct halo_sequence *queue;    /* by serial, oldest first */
    struct halo_sequence **running; /* [max_running] by serial, oldest first */
    uint32_t n_queued, n_running, max_running;
    uint32_t n_lent; /* pages that a bench holds */
    bool has_run;    /* its first step is over */
    uint64_t next_serial;
    uint64_t n_evicted_told; /* of the pool's evictions, what is in the statistics */
    struct halo_pace pace;
    struct halo_scheduler_others others;

    /* the step being built */
    struct halo_batch batch;
    struct halo_batch_room room;
    struct halo_batch_part *parts; /* [max_running] */
    struct halo_sequence **picks;  /* [max_running] whose prompts may have a piece */
    uint32_t n_parts, n_decodes;   /* n_decodes: of the parts, those that decode; they come first */
};

/* 0 or -ENOMEM. */
int halo_scheduler_init(struct halo_scheduler *scheduler, const struct halo_scheduler_setup *setup);
void halo_scheduler_finish(struct halo_scheduler *scheduler); /* no sequence may be left */

/* Takes a sequence. It comes back through the port's mailbox, at once when it cannot run (queue_full, out_of_memory).
 */
void halo_scheduler_submit(struct halo_scheduler *scheduler, struct halo_sequence *sequence);

/* What others must know to share the device fairly: the time of a step of those who decode now (0: nobody does, or it
 * was not measured), and whether there are prompts to work on. */
double halo_scheduler_decode_ns(const struct halo_scheduler *scheduler);
bool halo_scheduler_has_prompts(const struct halo_scheduler *scheduler);

/* One step. 0, HALO_SCHEDULER_IDLE, or a negative errno: the device failed and every sequence that was in the step has
 * ended. */
int halo_scheduler_step(struct halo_scheduler *scheduler, struct halo_fault *fault);

/* Tells of other models, before a round of steps. */
void halo_scheduler_share(struct halo_scheduler *scheduler, const struct halo_scheduler_others *others);

/* Adds to the statistics what happened to the pool since the last time. Returns how many pages sequences, saves and
 * benches hold. */
uint32_t halo_scheduler_count_pages(struct halo_scheduler *scheduler);

/* Pages for a bench. Paused sequences give theirs back and wait in the queue as far as that helps. False: there are not
 * enough, nothing was lent. `tables` are grown to n_positions each. */
bool halo_scheduler_lend(struct halo_scheduler *scheduler, struct halo_kv_table *tables, uint32_t n_tables,
                         uint32_t n_positions);
void halo_scheduler_take_back(struct halo_scheduler *scheduler, struct halo_kv_table *tables, uint32_t n_tables);

/* Forgets the prefixes of this user (of everybody when `all`); sequences that run leave none any more. Returns how many
 * pages became free. */
uint32_t halo_scheduler_forget(struct halo_scheduler *scheduler, bool all, uint64_t user);

/* Ends everything with this fault. */
void halo_scheduler_fail_all(struct halo_scheduler *scheduler, const struct halo_fault *fault);

/* The nearest deadline of any sequence; UINT64_MAX: none. What an idle device thread may sleep until. */
uint64_t halo_scheduler_next_deadline_ns(const struct halo_scheduler *scheduler);

#endif
