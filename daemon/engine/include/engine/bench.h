/* bench.h: how fast a loaded model runs here, by running it.
 *
 * A bench takes turns with the requests of others, run by run, and counts the time of its own runs alone: it stops
 * nobody, and on a busy device it takes longer. Bandwidth is measured while nobody else wants the device, or not at
 * all. One call is one run of the plan, so that a cancel is honoured between them. It borrows pages of the model's
 * pool for each repetition and waits while there are too few. The prompt is made of ids spread over the vocabulary,
 * decoding is greedy. Threads: the device thread between post and BENCH_DONE.
 */
#ifndef HALO_ENGINE_BENCH_H
#define HALO_ENGINE_BENCH_H

#include <engine/instance.h>

struct halo_bench_run {                 /* one repetition, all sequences together */
    double prefill_tok_s, decode_tok_s; /* 0: no such phase */
};

struct halo_bench {
    struct halo_note note, progress_note;
    struct halo_bench *next;
    struct halo_job *job;
    struct halo_instance *instance;
    uint32_t prefill, decode, batch, repeat;
    uint32_t chunk;  /* rows of a piece of a prompt, at most; 0: as requests have them */
    uint32_t number; /* of those of this model since it was loaded: each has other ids */
    atomic_bool cancel, progress_posted;
    _Atomic uint32_t runs_done;
    uint32_t runs_shown; /* the port's, as the next */
    uint64_t shown_ns;

    /* results */
    struct halo_fault fault;
    bool cancelled;
    struct halo_bench_run *runs; /* [repeat] */
    double bandwidth;            /* bytes per second, 0: unknown; the device thread's to measure */
    double bytes_per_token;
    uint32_t longest_chunk; /* rows of a piece of a prompt */

    /* while it runs */
    struct halo_batch batch_run;
    struct halo_batch_room room;
    struct halo_kv_table *tables;              /* [batch] */
    uint32_t at_run, at_sequence, at_position; /* prefill: which piece; decode: which step */
    bool decoding, begun;
    bool measured;     /* bandwidth */
    bool lent;         /* the tables have their pages: a repetition is under way */
    uint64_t phase_ns; /* in the device, this phase */
};

/* Outcomes of step. */
#define HALO_BENCH_MORE 1 /* call again */
#define HALO_BENCH_WAIT 2 /* nothing was run: there are not enough pages now */

/* Takes memory for the results. BAD_REQUEST when it does not fit the model's context or pool (numbers), OUT_OF_MEMORY.
 * Any thread. */
struct halo_bench_wish {
    uint32_t prefill, decode; /* tokens of a sequence */
    uint32_t batch;           /* sequences */
    uint32_t repeat;          /* repetitions, at least 1 */
    uint32_t chunk;           /* rows of a piece of a prompt; 0: as requests have them */
};
int halo_bench_create(struct halo_bench **ret, struct halo_instance *instance, const struct halo_bench_wish *wish,
                      struct halo_fault *fault);
void halo_bench_destroy(struct halo_bench *bench);

/* One run of the device. An outcome, 0: over, negative: bench->fault is set. */
int halo_bench_step(struct halo_bench *bench, const struct halo_device_ops *ops, struct halo_device_phase *phase);

/* The pages of a repetition that is under way, if one is. Before a bench that ends early goes. */
void halo_bench_give_back(struct halo_bench *bench);

struct halo_spread {
    double median, least, greatest;
};
/* Of n > 0 values; sorts them. */
struct halo_spread halo_spread_of(double *values, uint32_t n);

#endif
