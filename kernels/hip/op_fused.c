/* op_fused.c: launches of products of one row with the op behind them, and of products of two types (contract in
 * compile_priv.h).
 */
#include "compile_priv.h"

/* Blocks of a kernel that are launched for n_units. */
static uint32_t grid_of(const struct halo_hip_compiler *c, uint32_t op, uint32_t type, uint32_t n_units)
{
    int variant = halo_hip_kernel_find(c->model->device, op, type, 1);
    uint32_t most = variant < 0 ? 0 : c->model->device->n_resident[variant];
    return most && most < n_units ? most : n_units;
}

int halo_hip_emit_product_norm(struct halo_hip_compiler *c, const struct halo_hip_product_norm *pair)
{
    const struct halo_op_matmul *u = pair->product;
    const struct halo_op_rmsnorm *norm = pair->norm;
    const struct halo_weight *w = &c->plan->weights[u->weight[0]];
    const uint8_t *in = NULL;
    int r = halo_hip_form_act(c, u->x, halo_hip_value(c->model, u->x), halo_hip_per_row(1), w->n_cols, &in);
    if (r)
        return r;
    uint8_t *act = halo_hip_forms_take_act(c, norm->out, w->n_rows);
    float *squares = c->model->scratch.squares[c->forms.act_last];
    uint32_t n_units = w->n_rows / HALO_HIP_UNIT;
    struct halo_gemv_norm_args args = {.weight = halo_hip_weight(c->model, u->weight[0]),
                                       .in = in,
                                       .bias = halo_hip_vector(c->model, u->bias[0]),
                                       .x = halo_hip_value(c->model, norm->x),
                                       .norm = halo_hip_vector(c->model, norm->weight),
                                       .act = act,
                                       .squares = squares,
                                       .n_cols = w->n_cols,
                                       .n_rows = w->n_rows,
                                       .n_units = n_units,
                                       .n_grid = grid_of(c, HALO_HIP_GEMV_NORM, w->type, n_units),
                                       .add_scale = norm->add_scale,
                                       .x_scale = norm->x_scale != 0 ? norm->x_scale : 1};
    c->forms.act[c->forms.act_last].factor =
        (struct halo_factor_arg){.squares = squares, .n_units = n_units, .eps = norm->eps};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = HALO_HIP_GEMV_NORM, .type = w->type, .grid = {halo_hip_fixed(args.n_grid)}, HALO_HIP_ARGS(args)});
}

int halo_hip_emit_product_glu(struct halo_hip_compiler *c, const struct halo_hip_product_glu *pair)
{
    const struct halo_op_matmul *u = pair->product;
    const struct halo_weight *w = &c->plan->weights[u->weight[0]];
    const uint8_t *in = NULL;
    int r = halo_hip_form_act(c, u->x, halo_hip_value(c->model, u->x), halo_hip_per_row(1), w->n_cols, &in);
    if (r)
        return r;
    const struct halo_factor_arg factor = c->forms.act[c->forms.act_last].factor;
    uint32_t n_units = w->n_rows / HALO_HIP_UNIT;
    struct halo_gemv_glu_args args = {.gate = halo_hip_weight(c->model, u->weight[0]),
                                      .up = halo_hip_weight(c->model, u->weight[1]),
                                      .in = in,
                                      .gate_bias = halo_hip_vector(c->model, u->bias[0]),
                                      .up_bias = halo_hip_vector(c->model, u->bias[1]),
                                      .factor = factor,
                                      .act = halo_hip_forms_take_act(c, pair->glu->out, w->n_rows),
                                      .n_cols = w->n_cols,
                                      .n_rows = w->n_rows,
                                      .n_units = n_units,
                                      .n_grid = grid_of(c, HALO_HIP_GEMV_GLU, w->type, n_units),
                                      .glu = (uint32_t)pair->glu->act,
                                      .limit = pair->glu->limit};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = HALO_HIP_GEMV_GLU, .type = w->type, .grid = {halo_hip_fixed(args.n_grid)}, HALO_HIP_ARGS(args)});
}

int halo_hip_emit_glu_product(struct halo_hip_compiler *c, const struct halo_hip_glu_product *pair)
{
    const struct halo_op_moe_matmul *u = pair->product;
    const struct halo_weight *w = &c->plan->weights[u->weight[0]];
    uint32_t n_parts = HALO_HIP_CEIL(w->n_rows, HALO_MOE_GEMV_ROWS(false, w->n_cols));
    uint32_t n_blocks = grid_of(c, HALO_HIP_MOE_GEMV_GLU, w->type, n_parts * u->n_used);
    uint32_t turns = HALO_HIP_CEIL(n_parts * u->n_used, n_blocks);
    struct halo_moe_gemv_glu_args args = {.matrix = {.weight = halo_hip_weight(c->model, u->weight[0]),
                                                     .expert_bytes = halo_hip_expert_bytes(c->model, u->weight[0]),
                                                     .out = halo_hip_value(c->model, u->out[0]),
                                                     .bias = halo_hip_vector(c->model, u->bias[0]),
                                                     .n_rows = w->n_rows,
                                                     .out_stride = w->n_rows},
                                          .gate = halo_hip_value(c->model, pair->glu->gate),
                                          .up = halo_hip_value(c->model, pair->glu->up),
                                          .choice = halo_hip_value(c->model, u->choice),
                                          .n_cols = w->n_cols,
                                          .n_used = u->n_used,
                                          .n_slot_blocks = n_parts,
                                          .n_grid = HALO_HIP_CEIL(n_parts, turns), /* as many turns for each block */
                                          .glu = (uint32_t)pair->glu->act,
                                          .limit = pair->glu->limit};
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_MOE_GEMV_GLU,
                                                        .type = w->type,
                                                        .grid = {halo_hip_fixed(args.n_grid * u->n_used)},
                                                        HALO_HIP_ARGS(args)});
}

bool halo_hip_has_pair(const struct halo_hip_compiler *c, const struct halo_hip_product *first,
                       const struct halo_hip_product *second)
{
    return c->max_rows == 1 && second->type == HALO_TYPE_Q6_K &&
           halo_hip_kernel_find(c->model->device, HALO_HIP_GEMV_PAIR, first->type, 1) >= 0;
}

int halo_hip_emit_pair(struct halo_hip_compiler *c, const struct halo_hip_product *first,
                       const struct halo_hip_product *second)
{
    const uint8_t *act = NULL;
    int r = halo_hip_form_act(c, first->value, first->x, first->n_x, first->n_cols, &act);
    if (r)
        return r;
    struct halo_gemv_pair_args args = {
        .of = {halo_hip_scaled_args(c, first, act, 0), halo_hip_scaled_args(c, second, act, 0)}};
    uint32_t n_blocks = args.of[0].n_grid + args.of[1].n_grid;
    uint32_t most = grid_of(c, HALO_HIP_GEMV_PAIR, first->type, n_blocks);
    if (most < n_blocks) { /* each has its share of the blocks */
        args.of[1] = halo_hip_scaled_args(c, second, act, HALO_HIP_CEIL(most * args.of[1].n_grid, n_blocks));
        args.of[0] = halo_hip_scaled_args(c, first, act, most > args.of[1].n_grid ? most - args.of[1].n_grid : 1);
    }
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_GEMV_PAIR,
                                                        .type = first->type,
                                                        .grid = {halo_hip_fixed(args.of[0].n_grid + args.of[1].n_grid)},
                                                        HALO_HIP_ARGS(args)});
}
