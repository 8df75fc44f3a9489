/* cpu_rig.h: a scheduler on the real CPU device with a model that the engine's own loader brought, and sequences whose
 * ids and logprobs are collected. */
#ifndef HALO_TESTS_CPU_RIG_H
#define HALO_TESTS_CPU_RIG_H

#include <engine/load.h>

#define CPU_RIG_MAX 128

/* What waits for a sequence: here stands what the port has of its own. */
struct halo_job {
    struct cpu_seq *seq;
};

struct cpu_seq { /* what came out of one sequence */
    struct halo_job job;
    struct halo_sequence *sequence; /* NULL once destroyed */
    int32_t ids[512];
    double logprobs[512]; /* of tokens, or of the rows of a score */
    uint32_t n_ids, n_logprobs, n_cached, n_preempted;
    enum halo_outcome outcome;
    struct halo_fault fault;
};

struct cpu_rig {
    struct halo_device_ops ops; /* the device's, with run replaced by one that counts */
    struct halo_device *device;
    struct halo_instance instance;
    struct halo_load load;
    struct halo_mailbox port;
    struct halo_stats stats;
    struct halo_device_phase phase;
    struct cpu_seq *seqs; /* [CPU_RIG_MAX] */
    uint32_t n_seqs, n_open;
    struct halo_op *plan_ops; /* of a plan that was changed */
};

struct cpu_rig_setup {
    enum halo_kv_type kv;
    uint32_t context, kv_tokens, n_threads;
    uint32_t max_rows; /* of a step; 0: the engine's */
    uint32_t window;   /* > 0: every other layer, the first included, gets this window */
    bool keeps_all;    /* and is kept as a whole nevertheless */
};

extern uint64_t cpu_rig_rows;                        /* that the device really ran, all rigs */
extern const struct halo_device_ops *cpu_rig_device; /* the real one */

/* Loads tests/models/fable-Q4_K_M.gguf, or $HALO_RIG_MODEL. */
void cpu_rig_init(struct cpu_rig *rig, const struct cpu_rig_setup *setup);
void cpu_rig_finish(struct cpu_rig *rig); /* everything must have ended */

/* n ids of the vocabulary, the same for the same seed. */
void cpu_rig_ids(const struct cpu_rig *rig, uint32_t seed, int32_t *ids, uint32_t n);
/* A reply at temperature 0.8 with logprobs; change fields, then submit. */
struct halo_sequence_setup cpu_rig_reply(const int32_t *ids, uint32_t n_prompt, uint32_t max_tokens);
struct cpu_seq *cpu_rig_submit(struct cpu_rig *rig, const struct halo_sequence_setup *setup);
void cpu_rig_collect(struct cpu_rig *rig); /* the port's work */
/* One step, and the port's work after it. */
int cpu_rig_step(struct cpu_rig *rig);
void cpu_rig_run(struct cpu_rig *rig); /* until nothing is open */

#endif
