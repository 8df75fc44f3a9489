/* op_state.c: launches of the ops that go on from a state (contract in compile_priv.h). A launch has blocks for each
 * sequence, whether it has one row or many. */
#include "compile_priv.h"

struct halo_state_arg halo_hip_state_arg(const struct halo_hip_compiler *c, const struct halo_state_part *part)
{
    uint8_t *layer = halo_hip_kv_layer(c->model, part->kv_group, part->kv_layer);
    return (struct halo_state_arg){.base = layer ? layer + part->offset * sizeof(float) : NULL,
                                   .slot_bytes = halo_hip_kv_page_stride(&c->plan->kv[part->kv_group])};
}

int halo_hip_emit_conv1d(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_conv1d *u = &op->u.conv1d;
    struct halo_conv1d_args args = {.state = halo_hip_state_arg(c, &u->state),
                                    .x = halo_hip_value(c->model, u->x),
                                    .weight = halo_hip_vector(c->model, u->weight),
                                    .bias = halo_hip_vector(c->model, u->bias),
                                    .out = halo_hip_value(c->model, u->out),
                                    .n_cols = c->plan->values[u->x].width,
                                    .n_taps = c->plan->weights[u->weight].n_cols,
                                    .silu = u->silu};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = HALO_HIP_CONV1D,
               .type = HALO_HIP_TYPE_ANY,
               .rows = args.n_taps,
               .grid = {halo_hip_fixed(HALO_HIP_CEIL(args.n_cols, HALO_CONV1D_COLS)), halo_hip_per_sequence(1)},
               HALO_HIP_ARGS(args),
               HALO_HIP_PATCHES(HALO_HIP_STATE_INPUTS(struct halo_conv1d_args, u->state.kv_group))});
}
