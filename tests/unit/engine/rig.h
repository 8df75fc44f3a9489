/* rig.h: a scheduler on the fake device, with sequences whose events are collected. */
#ifndef HALO_TESTS_RIG_H
#define HALO_TESTS_RIG_H

#include <engine/scheduler.h>

#include "fake_device.h"

#define RIG_VOCAB 64
#define RIG_END 1 /* the end token */
#define RIG_MAX 256

/* What waits for a sequence: here stands what the port has of its own. */
struct halo_job {
    struct rig_seq *seq;
};

struct rig_seq { /* what came out of one sequence */
    struct halo_job job;
    struct halo_sequence *sequence; /* NULL once destroyed */
    int32_t ids[1024];
    double logprobs[1024];
    uint32_t n_ids, n_top;
    char text[8192];
    uint32_t n_text;
    int64_t n_started_cached; /* what `started` said */
    uint32_t n_started, n_done, n_rows, n_progress, n_queue_progress;
    uint32_t n_loops, loop_at; /* loop_at: ids that had come before it was told */
    int64_t loop_start;
    struct halo_cycle loop;
    double row_logprobs[1024];
    bool row_has[1024];
    uint32_t first_row;
    bool blocked; /* its ring is not read */
    /* after the end */
    enum halo_outcome outcome;
    struct halo_fault fault;
    uint32_t n_preempted, n_prompt, n_cached;
    int stopped_by;
    double nll;
};

struct rig {
    struct fake_control control;
    struct halo_plan plan;
    struct halo_stats stats;
    struct halo_device_phase phase;
    struct halo_mailbox port;
    atomic_bool lost;
    struct halo_device_model *model;
    struct halo_scheduler scheduler;
    struct rig_seq *seqs; /* [RIG_MAX] */
    uint32_t n_seqs, n_open;
    uint64_t now_ns;
};

void rig_init(struct rig *rig, uint32_t max_rows, uint32_t max_outputs, uint32_t n_pages);
/* The same with a vocabulary of another size; ids from RIG_VOCAB on have no text. */
void rig_init_vocab(struct rig *rig, uint32_t n_vocab, uint32_t max_rows, uint32_t max_outputs, uint32_t n_pages);
/* The same on a plan of the test's own making, copied. */
void rig_init_plan(struct rig *rig, const struct halo_plan *plan);
/* Of the plan's slots of states so many are kept for checkpoints. */
void rig_init_checkpoints(struct rig *rig, const struct halo_plan *plan, uint32_t n_checkpoints);
void rig_finish(struct rig *rig); /* everything must have ended */

/* A greedy reply to a prompt of n pseudo-random ids of this seed; change fields, then rig_submit. */
struct halo_sequence_setup rig_setup(struct rig *rig, uint32_t seed, uint32_t n_prompt, uint32_t max_tokens);
struct rig_seq *rig_submit(struct rig *rig, const struct halo_sequence_setup *setup);

/* One step and the port's work after it. */
int rig_step(struct rig *rig);
/* The port's work alone. */
void rig_collect(struct rig *rig);
/* Steps until nothing is open, or fails the test. */
void rig_run(struct rig *rig);

#endif
