/* cut_priv.h: a plan in stages. Pure; any thread. */
#ifndef HALO_PIPELINE_CUT_PRIV_H
#define HALO_PIPELINE_CUT_PRIV_H

#include <pipeline/pipeline.h>

struct halo_stage {
    struct halo_plan plan; /* ropes and values are those of the whole plan */
    struct halo_op *ops;
    struct halo_weight *weights;
    uint32_t *weight_of;              /* [plan.n_weights] its index in the whole plan */
    uint16_t first_layer, last_layer; /* of the model; HALO_NONE: it has none */
};

struct halo_cut {
    uint32_t n;
    struct halo_stage stage[HALO_STAGES_MAX];
};

/* Cuts the plan, which must outlive the stages, into n; share[i]: how much of it stage i gets, beside the others. 0,
 * -ENOMEM, or -ENOTSUP with the reason: it has too few places to cut. */
int halo_cut_make(struct halo_cut *ret, const struct halo_plan *plan, uint32_t n, const uint64_t share[], char *reason);
void halo_cut_finish(struct halo_cut *cut);

#endif
