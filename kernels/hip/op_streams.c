/* op_streams.c: launches of the ops on residual streams (contract in compile_priv.h). */
#include "compile_priv.h"

static struct halo_hip_amount column_blocks(uint32_t n_cols)
{
    return halo_hip_fixed(HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS));
}

int halo_hip_emit_streams_mix(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_streams_mix *u = &op->u.streams_mix;
    struct halo_streams_mix_args args = {.x = halo_hip_value(c->model, u->x),
                                         .mix = halo_hip_value(c->model, u->mix),
                                         .scale = halo_hip_vector(c->model, u->scale),
                                         .base = halo_hip_vector(c->model, u->base),
                                         .out = halo_hip_value(c->model, u->out),
                                         .back = halo_hip_value(c->model, u->back),
                                         .n = u->n,
                                         .n_cols = c->plan->values[u->out].width,
                                         .iterations = u->iterations,
                                         .eps = u->eps};
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_STREAMS_MIX,
                                                        .type = HALO_HIP_TYPE_ANY,
                                                        .rows = u->n,
                                                        .grid = {column_blocks(args.n_cols), halo_hip_per_row(1)},
                                                        HALO_HIP_ARGS(args)});
}

int halo_hip_emit_streams_add(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_streams_add *u = &op->u.streams_add;
    struct halo_streams_add_args args = {.x = halo_hip_value(c->model, u->x),
                                         .back = halo_hip_value(c->model, u->back),
                                         .add = halo_hip_value(c->model, u->add),
                                         .n = u->n,
                                         .n_cols = c->plan->values[u->add].width};
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_STREAMS_ADD,
                                                        .type = HALO_HIP_TYPE_ANY,
                                                        .rows = u->n,
                                                        .grid = {column_blocks(args.n_cols), halo_hip_per_row(1)},
                                                        HALO_HIP_ARGS(args)});
}
