/* op_matmul.c: matmul and logits. Device thread. */
#include "run_priv.h"

static struct halo_matrix_arg matrix_arg(const struct halo_hip_run *run, uint32_t weight, uint32_t bias, float *out)
{
    uint32_t n_rows = run->model->plan->weights[weight].n_rows;
    return (struct halo_matrix_arg){.weight = halo_hip_weight(run->model, weight),
                                    .bias = halo_hip_vector(run->model, bias),
                                    .out = out,
                                    .n_rows = n_rows,
                                    .out_stride = n_rows};
}

int halo_hip_op_matmul(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_matmul *u = &op->u.matmul;
    const struct halo_weight *weights = run->model->plan->weights;
    bool done[HALO_MATMUL_MAX] = {false};
    int r = 0;
    for (uint32_t k = 0; k < u->n; k++)
        halo_hip_wrote(run, u->out[k]);
    /* Those of one type go together: files mix them (v is often stored finer than q and k). */
    for (uint32_t first = 0; first < u->n && !r; first++) {
        uint32_t type = weights[u->weight[first]].type;
        if (done[first])
            continue;
        struct halo_hip_product p = {.type = type,
                                     .n_cols = weights[u->weight[first]].n_cols,
                                     .n_rows = run->n_rows,
                                     .n_x = run->n_rows,
                                     .x = halo_hip_value(run->model, u->x),
                                     .value = u->x};
        for (uint32_t k = first; k < u->n; k++) {
            if (done[k] || weights[u->weight[k]].type != type)
                continue;
            p.matrix[p.n_matrices++] = matrix_arg(run, u->weight[k], u->bias[k], halo_hip_value(run->model, u->out[k]));
            done[k] = true;
        }
        r = halo_hip_product_run(run, &p);
    }
    return r;
}

int halo_hip_op_logits(struct halo_hip_run *run, const struct halo_op *op)
{
    const struct halo_op_logits *u = &op->u.logits;
    const struct halo_weight *w = &run->model->plan->weights[u->weight];
    uint32_t n_outputs = run->batch->n_outputs;
    if (n_outputs == 0)
        return 0;
    struct halo_hip_product p = {.type = w->type,
                                 .n_cols = w->n_cols,
                                 .n_matrices = 1,
                                 .n_rows = n_outputs,
                                 .n_x = n_outputs,
                                 .x = halo_hip_value(run->model, u->x),
                                 .value = HALO_NONE};
    p.matrix[0] = matrix_arg(run, u->weight, HALO_WEIGHT_NONE, run->model->logits_device);
    if (run->n_rows <= HALO_HIP_GEMV_ROWS_MAX && n_outputs <= HALO_HIP_GEMV_ROWS_MAX) {
        p.row_index = run->in.output;
        p.n_x = run->n_rows;
        p.value = u->x;
        return halo_hip_product_run(run, &p);
    }
    struct halo_gather_args args = {
        .x = p.x, .row = run->in.output, .out = run->model->scratch.gathered, .n_cols = w->n_cols};
    p.x = args.out;
    int error =
        halo_hip_launch(run, HALO_HIP_GATHER, HALO_HIP_TYPE_ANY, n_outputs,
                        (struct halo_hip_grid){HALO_HIP_CEIL(w->n_cols, HALO_QUANTIZE_COLS), n_outputs, 1}, &args);
    return error ? error : halo_hip_product_run(run, &p);
}
