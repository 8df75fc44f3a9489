/* golden_gate.h: the gate: one model through one device setting, judged against the recordings and the peer.
 *
 * The rule, with the KV cache in f32: the mean KLD11 is at most 1.1 times the peer's (with experts: the median at
 * most 1.5 times the peer's), plus 1e-6; no logit is NaN or infinite; and wherever the recorded choice leads by more
 * than rounding, ours is the same. The peer's figures are those of a well-known engine against the same reference;
 * where it is the reference itself (F32 files), they are 0 and the bound is 1e-6. With the cache in f16 or q8 the
 * figure stands beside the peer's default setting (f16), for reading; where q8 costs more than elsewhere, the model is
 * run with f16 too, and q8 may cost so many times as much (README.md).
 */
#ifndef HALO_GOLDEN_GATE_H
#define HALO_GOLDEN_GATE_H

#include "golden_data.h"
#include "golden_score.h"

struct halo_golden_verdict {
    struct halo_golden_score score;
    struct halo_golden_peer peer;
    double figure, peer_figure, bound; /* mean or, with experts, median; over the prompts that were run */
    bool passed;
};

/* Runs the prompts whose bit is set in `prompts` (bit i: halo_golden_prompts[i]). 0 with the verdict, or negative when
 * the gate could not be run. With kv f32 the bound is that of the project; with the others it only catches breakage,
 * the figure is for reading. */
int halo_golden_gate_run(struct halo_golden_verdict *ret, const struct halo_golden_data *data,
                         const struct halo_golden_model *model, unsigned prompts,
                         const struct halo_golden_settings *settings, struct halo_fault *fault);
void halo_golden_gate_finish(struct halo_golden_verdict *verdict);

#endif
