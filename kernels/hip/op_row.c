/* op_row.c: the ops that work on one row at a time. Device thread. */
#include <errno.h>

#include "run_priv.h"

#define ANY HALO_HIP_TYPE_ANY

static uint32_t width_of(const struct halo_hip_run *run, uint16_t value)
{
    return run->model->plan->values[value].width;
}

int halo_hip_op_embed(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_embed *u = &op->u.embed;
    const struct halo_weight *w = &run->model->plan->weights[u->weight];
    struct halo_embed_args args = {.weight = halo_hip_weight(run->model, u->weight),
                                   .token = run->in.token,
                                   .out = halo_hip_value(run->model, u->out),
                                   .n_cols = w->n_cols,
                                   .scale = u->scale};
    halo_hip_wrote(run, u->out);
    return halo_hip_launch(run, HALO_HIP_EMBED, w->type, run->n_rows, (struct halo_hip_grid){run->n_rows, 1, 1}, &args);
}

int halo_hip_op_rmsnorm(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_rmsnorm *u = &op->u.rmsnorm;
    uint32_t width = width_of(run, u->x), per_row;
    bool fused = halo_hip_act_wanted(run, u->out, &per_row) == width;
    struct halo_rmsnorm_args args = {.x = halo_hip_value(run->model, u->x),
                                     .add = halo_hip_value(run->model, u->add),
                                     .weight = halo_hip_vector(run->model, u->weight),
                                     .out = halo_hip_value(run->model, u->out),
                                     .act = fused ? run->model->scratch.act : NULL,
                                     .n_cols = width,
                                     .eps = u->eps};
    if (u->add != HALO_NONE)
        halo_hip_wrote(run, u->x);
    halo_hip_wrote(run, u->out);
    if (fused) {
        run->act_value = u->out;
        run->act_cols = width;
    }
    return halo_hip_launch(run, HALO_HIP_RMSNORM, ANY, run->n_rows, (struct halo_hip_grid){run->n_rows, 1, 1}, &args);
}

int halo_hip_op_glu(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_glu *u = &op->u.glu;
    uint32_t per_row, width = width_of(run, u->out), act_cols = halo_hip_act_wanted(run, u->out, &per_row);
    /* An expert's part of a row is a row of its own. */
    uint32_t n_cols = act_cols ? act_cols : width, n_rows = act_cols ? run->n_rows * per_row : run->n_rows;
    struct halo_glu_args args = {.gate = halo_hip_value(run->model, u->gate),
                                 .up = halo_hip_value(run->model, u->up),
                                 .out = halo_hip_value(run->model, u->out),
                                 .act = act_cols ? run->model->scratch.act : NULL,
                                 .n_cols = n_cols};
    halo_hip_wrote(run, u->out);
    if (act_cols) {
        run->act_value = u->out;
        run->act_cols = act_cols;
    }
    return halo_hip_launch(run, HALO_HIP_GLU_SILU, ANY, n_rows,
                           (struct halo_hip_grid){HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS), n_rows, 1}, &args);
}

int halo_hip_op_add(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_add *u = &op->u.add;
    uint32_t n = run->n_rows * width_of(run, u->x);
    struct halo_add_args args = {
        .x = halo_hip_value(run->model, u->x), .add = halo_hip_value(run->model, u->add), .n = n};
    halo_hip_wrote(run, u->x);
    return halo_hip_launch(run, HALO_HIP_ADD, ANY, run->n_rows,
                           (struct halo_hip_grid){HALO_HIP_CEIL(n, HALO_QUANTIZE_COLS), 1, 1}, &args);
}

int halo_hip_op_qk_norm(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_qk_norm *u = &op->u.qk_norm;
    struct halo_qk_norm_args args = {.q = halo_hip_value(run->model, u->q),
                                     .k = halo_hip_value(run->model, u->k),
                                     .q_weight = halo_hip_vector(run->model, u->q_weight),
                                     .k_weight = halo_hip_vector(run->model, u->k_weight),
                                     .n_head = u->n_head,
                                     .n_head_kv = u->n_head_kv,
                                     .head_dim = u->head_dim,
                                     .eps = u->eps};
    halo_hip_wrote(run, u->q);
    halo_hip_wrote(run, u->k);
    return halo_hip_launch(
        run, HALO_HIP_QK_NORM, ANY, run->n_rows,
        (struct halo_hip_grid){HALO_HIP_CEIL(u->n_head + u->n_head_kv, HALO_HEAD_WAVES), run->n_rows, 1}, &args);
}

int halo_hip_op_rope(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_rope *u = &op->u.rope;
    const struct halo_rope *rope = &run->model->plan->ropes[u->rope];
    struct halo_rope_args args = {.q = halo_hip_value(run->model, u->q),
                                  .k = halo_hip_value(run->model, u->k),
                                  .table = run->in.rope[u->rope],
                                  .n_head = u->n_head,
                                  .n_head_kv = u->n_head_kv,
                                  .head_dim = u->head_dim,
                                  .n_rot = rope->n_rot};
    halo_hip_wrote(run, u->q);
    halo_hip_wrote(run, u->k);
    return halo_hip_launch(
        run, rope->pairing == HALO_ROPE_NEOX ? HALO_HIP_ROPE_NEOX : HALO_HIP_ROPE_NORM, ANY, run->n_rows,
        (struct halo_hip_grid){HALO_HIP_CEIL(u->n_head + u->n_head_kv, HALO_HEAD_WAVES), run->n_rows, 1}, &args);
}
