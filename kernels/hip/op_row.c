/* op_row.c: launches of the ops that work on one row at a time (contract in compile_priv.h). */
#include "compile_priv.h"

static uint32_t width_of(const struct halo_hip_compiler *c, uint16_t value)
{
    return c->plan->values[value].width;
}

/* Blocks of HALO_QUANTIZE_COLS columns. */
static struct halo_hip_amount column_blocks(uint32_t n_cols)
{
    return halo_hip_fixed(HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS));
}

int halo_hip_emit_embed(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_embed *u = &op->u.embed;
    const struct halo_weight *w = &c->plan->weights[u->weight];
    struct halo_embed_args args = {.weight = halo_hip_weight(c->model, u->weight),
                                   .out = halo_hip_value(c->model, u->out),
                                   .n_cols = w->n_cols,
                                   .scale = u->scale * halo_hip_factor(w)};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){.op = HALO_HIP_EMBED,
                                       .type = w->type,
                                       .grid = {halo_hip_per_row(1)},
                                       HALO_HIP_ARGS(args),
                                       HALO_HIP_PATCHES(HALO_HIP_INPUT(struct halo_embed_args, token, token, 0))});
}

struct halo_rmsnorm_args halo_hip_rmsnorm_args(const struct halo_hip_compiler *c, const struct halo_op_rmsnorm *u)
{
    return (struct halo_rmsnorm_args){.x = halo_hip_value(c->model, u->x),
                                      .add = halo_hip_value(c->model, u->add),
                                      .weight = halo_hip_vector(c->model, u->weight),
                                      .out = c->half_alone ? NULL : halo_hip_value(c->model, u->out),
                                      .act = c->act,
                                      .n_cols = width_of(c, u->x),
                                      .eps = u->eps,
                                      .add_scale = u->add_scale,
                                      .bias = halo_hip_vector(c->model, u->bias),
                                      .x_scale = u->x_scale != 0 ? u->x_scale : 1,
                                      .half = c->half,
                                      .half_scale = c->half ? c->model->scratch.half_scale : NULL};
}

int halo_hip_emit_rmsnorm(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_rmsnorm *u = &op->u.rmsnorm;
    struct halo_rmsnorm_args args = halo_hip_rmsnorm_args(c, u);
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = u->centre ? HALO_HIP_LAYERNORM : HALO_HIP_RMSNORM,
                                                        .type = HALO_HIP_TYPE_ANY,
                                                        .grid = {halo_hip_per_row(1)},
                                                        HALO_HIP_ARGS(args)});
}

static int emit_glu_half(struct halo_hip_compiler *c, const struct halo_op_glu *u)
{
    struct halo_glu_half_args args = {.gate = halo_hip_value(c->model, u->gate),
                                      .up = halo_hip_value(c->model, u->up),
                                      .half = c->half,
                                      .scale = c->model->scratch.half_scale,
                                      .n_cols = c->half_cols,
                                      .limit = u->limit};
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_GLU_HALF_SILU + (uint32_t)u->act,
                                                        .type = HALO_HIP_TYPE_ANY,
                                                        .grid = {halo_hip_per_row(c->half_per_row)},
                                                        HALO_HIP_ARGS(args)});
}

int halo_hip_emit_half_align(struct halo_hip_compiler *c, const struct halo_hip_glu_rows *rows)
{
    const struct halo_hip_half_form *form = &c->forms.half[HALO_HIP_HALF_OF_GLU];
    struct halo_hip_amount n_rows = halo_hip_per_row(rows->per_row);
    struct halo_half_align_args args = {
        .half = form->half, .shift = c->glu.shift, .scale = form->scale, .n_cols = form->n_cols};
    return halo_hip_emit(
        c, &(struct halo_hip_emission){.op = HALO_HIP_HALF_ALIGN,
                                       .type = HALO_HIP_TYPE_ANY,
                                       .grid = {halo_hip_over(n_rows, HALO_HALF_WAVES)},
                                       HALO_HIP_ARGS(args),
                                       HALO_HIP_PATCHES(HALO_HIP_AMOUNT(struct halo_half_align_args, n_rows, n_rows))});
}

int halo_hip_emit_glu(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_glu *u = &op->u.glu;
    if (c->half)
        return emit_glu_half(c, u);
    /* Activation rows of experts are several to a row of the batch. */
    uint32_t n_cols = c->act_cols ? c->act_cols : width_of(c, u->out);
    struct halo_glu_args args = {.gate = halo_hip_value(c->model, u->gate),
                                 .up = halo_hip_value(c->model, u->up),
                                 .out = halo_hip_value(c->model, u->out),
                                 .act = c->act,
                                 .n_cols = n_cols,
                                 .limit = u->limit};
    return halo_hip_emit(c, &(struct halo_hip_emission){
                                .op = HALO_HIP_GLU_SILU + (uint32_t)u->act,
                                .type = HALO_HIP_TYPE_ANY,
                                .grid = {column_blocks(n_cols), halo_hip_per_row(c->act_cols ? c->act_per_row : 1)},
                                HALO_HIP_ARGS(args)});
}

int halo_hip_emit_add(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_add *u = &op->u.add;
    struct halo_hip_amount n = halo_hip_per_row(width_of(c, u->x));
    struct halo_add_args args = {.x = halo_hip_value(c->model, u->x), .add = halo_hip_value(c->model, u->add)};
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_ADD,
                                                        .type = HALO_HIP_TYPE_ANY,
                                                        .grid = {halo_hip_over(n, HALO_QUANTIZE_COLS)},
                                                        HALO_HIP_ARGS(args),
                                                        HALO_HIP_PATCHES(HALO_HIP_AMOUNT(struct halo_add_args, n, n))});
}

int halo_hip_emit_concat(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_concat *u = &op->u.concat;
    uint32_t n_cols = u->n_head * (u->n_a + u->n_b);
    struct halo_concat_args args = {.a = halo_hip_value(c->model, u->a),
                                    .b = halo_hip_value(c->model, u->b),
                                    .out = halo_hip_value(c->model, u->out),
                                    .n_head = u->n_head,
                                    .a_stride = width_of(c, u->a) / u->n_head,
                                    .a_first = u->a_first,
                                    .n_a = u->n_a,
                                    .b_stride = u->b_shared ? 0 : u->n_b,
                                    .n_b = u->n_b};
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_CONCAT,
                                                        .type = HALO_HIP_TYPE_ANY,
                                                        .grid = {column_blocks(n_cols), halo_hip_per_row(1)},
                                                        HALO_HIP_ARGS(args)});
}
