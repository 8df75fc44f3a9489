/* golden_mutants.h: mutations of plans that have states, beside the table of golden_mutants.c. Each returns whether the
 * plan had what it changes. */
#ifndef HALO_TESTS_GOLDEN_MUTANTS_H
#define HALO_TESTS_GOLDEN_MUTANTS_H

#include "golden_gate.h"

/* Applies a change to every op of a kind; whether it changed any. */
bool halo_golden_each_op(struct halo_golden_host *host, enum halo_op_kind kind, bool (*change)(struct halo_op *op));

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
