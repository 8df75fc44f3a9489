/* run_priv.h: one run of a batch. Device thread. */
#ifndef HALO_HIP_RUN_PRIV_H
#define HALO_HIP_RUN_PRIV_H

#include "device_priv.h"

struct halo_hip_run {
    struct halo_device_model *model;
    const struct halo_batch *batch;
    struct halo_device_phase *phase;
    char *reason;
    struct halo_hip_inputs in;
    void *stream;   /* where kernels are launched */
    bool recording; /* into a graph: nothing runs, nothing can be waited for */
    uint32_t op;    /* index in the plan */
    uint32_t n_rows;
    uint32_t level;       /* of the longest context: it has at most 4^level pages, or this is the last level */
    uint32_t n_positions; /* of the longest sequence, up to its row's */
    uint32_t n_seqs;      /* with rows in the batch; counted where the plan has states */
    uint32_t n_tiles;     /* of prefill attention */
    const struct halo_prefill_tile *tiles; /* the same in host memory */
    bool apart;                            /* no two rows belong to one sequence */
};

static inline void halo_hip_run_init(struct halo_hip_run *run, struct halo_device_model *model,
                                     const struct halo_batch *batch, struct halo_device_phase *phase, char *reason)
{
    *run = (struct halo_hip_run){.model = model,
                                 .batch = batch,
                                 .phase = phase,
                                 .reason = reason,
                                 .stream = model->device->stream,
                                 .n_rows = batch->n_rows};
}

/* graph.c. Whether the batch is of a kind that has graphs (its inputs are filled), and the one of its class. */
bool halo_hip_graph_fits(const struct halo_hip_run *run);
struct halo_hip_graph *halo_hip_graph_of(const struct halo_hip_run *run);

/* output.c. The most entries of a row that the launches of `top` leave for one another. */
uint64_t halo_hip_top_left(uint32_t n_vocab);
/* Launches what makes the lists that the batch wants; nothing when it wants none. */
int halo_hip_find_top(struct halo_hip_run *run);
/* Queues the copies of a discrete GPU; when the stream has finished, copies everything to the caller. */
int halo_hip_outputs_copy(struct halo_hip_run *run);
void halo_hip_outputs_take(const struct halo_hip_run *run);

/* hop.c, of a stage: numbers of its digests; bytes of pinned memory, and where they lie; whether the kernels exist. */
uint64_t halo_hip_hop_digests(const struct halo_plan *plan);
uint64_t halo_hip_hop_bytes(const struct halo_plan *plan);
void halo_hip_hop_place(struct halo_device_model *model, uint8_t *pinned);
int halo_hip_hop_check(const struct halo_device *device, const struct halo_plan *plan, char *reason);
bool halo_hip_is_stage(const struct halo_plan *plan);
/* Queue what comes before the first op of a stage, and behind its last one; when the stream has finished, hand rows and
 * digests to the caller. */
int halo_hip_hop_take(struct halo_hip_run *run);
int halo_hip_hop_leave(struct halo_hip_run *run);
void halo_hip_hop_bring(const struct halo_hip_run *run);

/* Sequences of a batch, at most. */
#define HALO_HIP_SEQUENCES_MAX 512
static inline uint32_t halo_hip_most_sequences(const struct halo_plan *plan)
{
    return plan->max_rows < HALO_HIP_SEQUENCES_MAX ? plan->max_rows : HALO_HIP_SEQUENCES_MAX;
}

/* input.c: bytes of one set of inputs, at most. */
uint64_t halo_hip_input_bytes(const struct halo_plan *plan);
/* Fills a set at `host`; the addresses in run->in are those of `device`. */
void halo_hip_input_fill(struct halo_hip_run *run, uint8_t *host, uint8_t *device);

#endif
