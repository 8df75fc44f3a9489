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

/* Blocks for the rows of each head's state, of each sequence. */
static int emit_recurrence(struct halo_hip_compiler *c, uint32_t n_rows, uint32_t n_head, struct halo_hip_emission e)
{
    e.type = HALO_HIP_TYPE_ANY;
    e.grid[0] = halo_hip_fixed(HALO_HIP_CEIL(n_rows, HALO_RECURRENCE_ROWS));
    e.grid[1] = halo_hip_fixed(n_head);
    e.grid[2] = halo_hip_per_sequence(1);
    return halo_hip_emit(c, &e);
}

int halo_hip_emit_delta_rule(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_delta_rule *u = &op->u.delta_rule;
    struct halo_delta_rule_args args = {.state = halo_hip_state_arg(c, &u->state),
                                        .qkv = halo_hip_value(c->model, u->qkv),
                                        .alpha = halo_hip_value(c->model, u->alpha),
                                        .beta = halo_hip_value(c->model, u->beta),
                                        .a = halo_hip_vector(c->model, u->a),
                                        .dt_bias = halo_hip_vector(c->model, u->dt_bias),
                                        .out = halo_hip_value(c->model, u->out),
                                        .n_head_k = u->n_head_k,
                                        .n_head_v = u->n_head_v,
                                        .dim_k = u->dim_k,
                                        .dim_v = u->dim_v,
                                        .gate_stride = u->gate_stride,
                                        .alpha_first = u->alpha_first,
                                        .beta_first = u->beta_first,
                                        .grouped = u->grouped,
                                        .eps = u->eps,
                                        .scale = u->scale};
    return emit_recurrence(c, u->dim_v, u->n_head_v,
                           (struct halo_hip_emission){.op = HALO_HIP_DELTA_RULE,
                                                      .rows = u->dim_k,
                                                      HALO_HIP_ARGS(args),
                                                      HALO_HIP_PATCHES(HALO_HIP_STATE_INPUTS(
                                                          struct halo_delta_rule_args, u->state.kv_group))});
}

int halo_hip_emit_ssm_scan(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_ssm_scan *u = &op->u.ssm_scan;
    struct halo_ssm_scan_args args = {.state = halo_hip_state_arg(c, &u->state),
                                      .xbc = halo_hip_value(c->model, u->xbc),
                                      .dt = halo_hip_value(c->model, u->dt),
                                      .a = halo_hip_vector(c->model, u->a),
                                      .d = halo_hip_vector(c->model, u->d),
                                      .dt_bias = halo_hip_vector(c->model, u->dt_bias),
                                      .out = halo_hip_value(c->model, u->out),
                                      .n_head = u->n_head,
                                      .head_dim = u->head_dim,
                                      .n_group = u->n_group,
                                      .n_state = u->n_state};
    return emit_recurrence(c, u->head_dim, u->n_head,
                           (struct halo_hip_emission){
                               .op = HALO_HIP_SSM_SCAN,
                               .rows = u->n_state,
                               HALO_HIP_ARGS(args),
                               HALO_HIP_PATCHES(HALO_HIP_STATE_INPUTS(struct halo_ssm_scan_args, u->state.kv_group))});
}
