/* fake_device.h: a scripted device: the table of device.h over a few arrays.
 *
 * Logits are a hash of every token of the sequence up to the row, read back through the row's page table: a wrong page,
 * a page given away too early or a row computed twice changes them. So does nothing else: the device is
 * batch-invariant. It fails when told to, and aborts when a row does not find what it sees in a group with a
 * window, or a state that is not that of the text in front of it.
 */
#ifndef HALO_TESTS_FAKE_DEVICE_H
#define HALO_TESTS_FAKE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kernels/device.h>

#define FAKE_VOCAB_MAX 256 /* of a plan whose batches ask for lists */

/* What a test may script and look at. All zero: a healthy device. */
struct fake_control {
    _Atomic uint32_t n_runs;
    _Atomic uint32_t fail_run; /* this run (from 1) or the first one after it fails with fail_error, then no other */
    int fail_error;
    _Atomic int32_t nan_token; /* a row whose sequence holds this token (> 0) gets a NaN among its logits */
    _Atomic uint32_t run_us;   /* each run takes this long */
    _Atomic uint32_t row_us;   /* and each row of it */
    _Atomic uint32_t hang_run; /* this run never returns */
    atomic_bool hang_folder;   /* folders do not answer (test_hang.c) */
    atomic_bool hang_text;     /* no text is tokenized (test_hang.c) */
    atomic_bool hang_weights;  /* no weight is taken */
    _Atomic uint32_t max_rows, max_seqs, n_outputs; /* seen */
    _Atomic uint32_t n_rows, n_copies;              /* rows that ran, pages that were copied */
    _Atomic uint32_t n_through_host;                /* pages that were read or written by the host */
    _Atomic uint32_t n_listed;                      /* of the outputs: those of which a list was wanted and no row */
    _Atomic uint64_t n_bytes;                       /* of lists and rows that came back */
    int copy_error;                                 /* kv_copy fails */
    uint64_t free_bytes;                            /* without models and others; 0: plenty */
    _Atomic uint64_t others_bytes;                  /* of it, held by other programs */
    _Atomic uint64_t taken_bytes;                   /* seen: of it, held by models */
    bool lacks;                                     /* each seal is a notice */
    _Atomic uint32_t n_notices;                     /* seen */
    uint32_t refuse_weight;                         /* weight_commit of this one (from 1) fails */
    int open_error;
    _Atomic uint32_t n_closed;
    int32_t favourite; /* > 0: this token's logit is raised in every favourite_every-th position */
    uint32_t favourite_every;
    uint32_t cycle, cycle_until; /* cycle > 0: before position cycle_until the tokens go round that many (above 60:
                                   * not all distinct, yet no shorter cycle) */
    uint32_t batch_rows, scratch_row_bytes; /* rows that it wants in a batch; scratch that each of them takes */
    bool not_invariant;
    bool lacks_q4; /* supports() refuses plans with such a cache */
    bool is_two;   /* two GPUs divide each plan: the cache in halves, of the weights the second has all */
    bool coarse;   /* logits are few different numbers, zeros of both signs among them */
};

extern struct fake_control *fake_control; /* set before use; shared memory when the engine runs in a child */

const struct halo_device_ops *fake_device(void);

/* A plan with nothing but its numbers. */
void fake_plan(struct halo_plan *plan, uint32_t n_vocab, uint32_t n_context, uint32_t max_rows, uint32_t max_outputs,
               uint32_t n_pages);
/* One more group of the cache, with a window (0: none). n_pages of 0: as many as a load gives it. */
void fake_plan_window(struct halo_plan *plan, uint32_t window, uint32_t n_pages);
/* ... of states. */
void fake_plan_states(struct halo_plan *plan, uint32_t n_slots);

/* A model without load: for tests of the scheduler alone. */
struct halo_device_model *fake_model(const struct halo_plan *plan);

#endif
