/* golden_mutants.h: plans with one feature wrong, which the gate must refuse.
 *
 * A program has a table of them, with each model also unchanged, which must pass.
 */
#ifndef HALO_GOLDEN_MUTANTS_H
#define HALO_GOLDEN_MUTANTS_H

#include <stddef.h>

#include "golden_gate.h"

#define HALO_GOLDEN_SHORT 1u
#define HALO_GOLDEN_LONG 4u /* reaches beyond every window */

struct halo_golden_mutant {
    const char *stem, *what;
    bool (*mutate)(struct halo_golden_host *host); /* NULL: unchanged */
    uint32_t prompts;                              /* 0: the short one */
};

/* The whole program: runs those whose file is there and prints each verdict. With --in-tree: files of the tree; else of
 * the shared folder, or 77 without one. Returns the exit status; 1 too when nothing was run. */
int halo_golden_mutants_run(int argc, char **argv, const struct halo_golden_mutant *mutants, size_t n);

/* What mutations are made of, and those of plans that have states (golden_mutants_state.c). Each returns whether the
 * plan had what it changes. */
/* Applies a change to every op of a kind; whether it changed any. */
bool halo_golden_each_op(struct halo_golden_host *host, enum halo_op_kind kind, bool (*change)(struct halo_op *op));
/* Leaves out the ops of which `drop` is true. */
bool halo_golden_drop_ops(struct halo_golden_host *host,
                          bool (*drop)(const struct halo_golden_host *host, const struct halo_op *op));
bool halo_mutant_qk_norm_dropped(struct halo_golden_host *host);

bool halo_mutant_convolution_ignored(struct halo_golden_host *host);
bool halo_mutant_states_shared(struct halo_golden_host *host);
bool halo_mutant_gates_ignored(struct halo_golden_host *host);
bool halo_mutant_delta_states_shared(struct halo_golden_host *host);
bool halo_mutant_key_heads_swapped(struct halo_golden_host *host);
bool halo_mutant_alpha_and_beta_swapped(struct halo_golden_host *host);
bool halo_mutant_dt_bias_wrong(struct halo_golden_host *host);
bool halo_mutant_convolution_not_activated(struct halo_golden_host *host);
bool halo_mutant_attention_gate_forgotten(struct halo_golden_host *host);
bool halo_mutant_z_gate_forgotten(struct halo_golden_host *host);
bool halo_mutant_heads_rotated_whole(struct halo_golden_host *host);
bool halo_mutant_scan_states_shared(struct halo_golden_host *host);
bool halo_mutant_scan_dt_bias_wrong(struct halo_golden_host *host);
bool halo_mutant_scan_skip_wrong(struct halo_golden_host *host);
bool halo_mutant_scan_normed_first(struct halo_golden_host *host);
bool halo_mutant_convolution_bias_ignored(struct halo_golden_host *host);
bool halo_mutant_additions_dropped(struct halo_golden_host *host);

#endif
