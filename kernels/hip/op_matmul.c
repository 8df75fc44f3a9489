/* op_matmul.c: launches of matmul and logits (contract in compile_priv.h). */
#include "compile_priv.h"

struct halo_matrix_arg halo_hip_matrix_arg(const struct halo_hip_compiler *c, uint32_t weight, uint32_t bias,
                                           float *out)
{
    uint32_t n_rows = c->plan->weights[weight].n_rows;
    return (struct halo_matrix_arg){.weight = halo_hip_weight(c->model, weight),
                                    .bias = halo_hip_vector(c->model, bias),
                                    .out = out,
                                    .n_rows = n_rows,
                                    .out_stride = n_rows};
}

/* What a matrix with a factor gave, for all rows of the batch. */
static int emit_factor(struct halo_hip_compiler *c, uint32_t weight, float *out)
{
    struct halo_hip_amount n = halo_hip_per_row(c->plan->weights[weight].n_rows);
    struct halo_limit_args args = {.x = out, .scale = halo_hip_factor(&c->plan->weights[weight])};
    if (args.scale == 1)
        return 0;
    return halo_hip_emit(c,
                         &(struct halo_hip_emission){.op = HALO_HIP_LIMIT,
                                                     .type = HALO_HIP_TYPE_ANY,
                                                     .grid = {halo_hip_over(n, HALO_QUANTIZE_COLS)},
                                                     HALO_HIP_ARGS(args),
                                                     HALO_HIP_PATCHES(HALO_HIP_AMOUNT(struct halo_limit_args, n, n))});
}

/* Of all matrices, behind launches that returned r. */
static int emit_factors(struct halo_hip_compiler *c, const struct halo_op_matmul *u, int r)
{
    for (uint32_t k = 0; k < u->n && !r; k++)
        r = emit_factor(c, u->weight[k], halo_hip_value(c->model, u->out[k]));
    return r;
}

int halo_hip_emit_matmul(struct halo_hip_compiler *c, const struct halo_op *op)
{
    const struct halo_op_matmul *u = &op->u.matmul;
    const struct halo_weight *weights = c->plan->weights;
    struct halo_hip_product products[HALO_MATMUL_MAX];
    bool done[HALO_MATMUL_MAX] = {false};
    uint32_t n_products = 0;
    int r = 0;
    /* Those of one form share a launch: files mix them (v is often stored finer than q and k). */
    for (uint32_t first = 0; first < u->n; first++) {
        uint32_t type = halo_hip_form(weights[u->weight[first]].type);
        if (done[first])
            continue;
        struct halo_hip_product p = {.type = type,
                                     .n_cols = weights[u->weight[first]].n_cols,
                                     .x = halo_hip_value(c->model, u->x),
                                     .value = u->x,
                                     .n_x = halo_hip_per_row(1)};
        for (uint32_t k = first; k < u->n; k++) {
            if (done[k] || halo_hip_form(weights[u->weight[k]].type) != type)
                continue;
            p.matrix[p.n_matrices++] =
                halo_hip_matrix_arg(c, u->weight[k], u->bias[k], halo_hip_value(c->model, u->out[k]));
            done[k] = true;
        }
        products[n_products++] = p;
    }
    if (n_products == 2 && halo_hip_has_pair(c, &products[0], &products[1]))
        return emit_factors(c, u, halo_hip_emit_pair(c, &products[0], &products[1]));
    for (uint32_t k = 0; k < n_products && !r; k++)
        r = halo_hip_emit_product(c, &products[k]);
    return emit_factors(c, u, r);
}

/* The rows whose logits are wanted, one after the other. */
static int emit_gather(struct halo_hip_compiler *c, const float *x, uint32_t n_cols)
{
    struct halo_gather_args args = {.x = x, .out = c->model->scratch.gathered, .n_cols = n_cols};
    return halo_hip_emit(c,
                         &(struct halo_hip_emission){
                             .op = HALO_HIP_GATHER,
                             .type = HALO_HIP_TYPE_ANY,
                             .grid = {halo_hip_fixed(HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS)), halo_hip_per_span(1)},
                             HALO_HIP_ARGS(args),
                             HALO_HIP_PATCHES(HALO_HIP_INPUT(struct halo_gather_args, row, output, 0))});
}

/* The same of their norm. */
static int emit_norm(struct halo_hip_compiler *c, const struct halo_op_rmsnorm *norm)
{
    struct halo_rmsnorm_args args = halo_hip_rmsnorm_args(c, norm);
    args.out = c->model->scratch.gathered;
    return halo_hip_emit(c, &(struct halo_hip_emission){
                                .op = HALO_HIP_RMSNORM,
                                .type = HALO_HIP_TYPE_ANY,
                                .grid = {halo_hip_per_span(1)},
                                HALO_HIP_ARGS(args),
                                HALO_HIP_PATCHES(HALO_HIP_INPUT(struct halo_rmsnorm_args, row_index, output, 0))});
}

/* Scale and cap of the logits of the span. */
static int emit_limit(struct halo_hip_compiler *c, const struct halo_op_logits *u, float scale)
{
    struct halo_hip_amount n = halo_hip_per_span(c->plan->weights[u->weight].n_rows);
    struct halo_limit_args args = {.x = c->model->logits_device, .scale = scale, .cap = u->cap};
    return halo_hip_emit(c,
                         &(struct halo_hip_emission){.op = HALO_HIP_LIMIT,
                                                     .type = HALO_HIP_TYPE_ANY,
                                                     .grid = {halo_hip_over(n, HALO_QUANTIZE_COLS)},
                                                     HALO_HIP_ARGS(args),
                                                     HALO_HIP_PATCHES(HALO_HIP_AMOUNT(struct halo_limit_args, n, n))});
}

/* For min .. max outputs. The product itself picks them out of few rows. norm: or NULL, that of many rows. */
static int emit_outputs(struct halo_hip_compiler *c, const struct halo_op_logits *u, const struct halo_op_rmsnorm *norm,
                        uint32_t min, uint32_t max)
{
    const struct halo_weight *w = &c->plan->weights[u->weight];
    bool gathers = c->max_rows > HALO_HIP_GEMV_ROWS_MAX;
    struct halo_hip_product p = {.type = w->type,
                                 .n_cols = w->n_cols,
                                 .n_matrices = 1,
                                 .x = gathers ? c->model->scratch.gathered : halo_hip_value(c->model, u->x),
                                 .value = gathers ? HALO_NONE : u->x,
                                 .n_x = gathers ? halo_hip_per_span(1) : halo_hip_per_row(1),
                                 .row_index = !gathers};
    p.matrix[0] = halo_hip_matrix_arg(c, u->weight, u->bias, c->model->logits_device);
    halo_hip_loop_begin(c, HALO_HIP_OVER_OUTPUTS, 0, min, max);
    int r = 0;
    if (gathers)
        r = norm ? emit_norm(c, norm) : emit_gather(c, halo_hip_value(c->model, u->x), w->n_cols);
    if (!r)
        r = halo_hip_emit_product(c, &p);
    float scale = u->scale * halo_hip_factor(w);
    return r || (scale == 1 && !(u->cap > 0)) ? r : emit_limit(c, u, scale);
}

static int emit_logits(struct halo_hip_compiler *c, const struct halo_op_logits *u, const struct halo_op_rmsnorm *norm)
{
    const struct halo_hip_forms before = c->forms;
    uint32_t most = c->plan->max_outputs < c->max_rows ? c->plan->max_outputs : c->max_rows;
    int r = 0;
    for (uint32_t i = 0; i < HALO_HIP_ROW_CLASSES && halo_hip_row_classes[i].min <= most && !r; i++) {
        uint32_t max = halo_hip_row_classes[i].max;
        c->forms = before;
        r = emit_outputs(c, u, norm, halo_hip_row_classes[i].min, max < most ? max : most);
    }
    /* What the shared buffers hold now depends on the number of outputs. */
    halo_hip_forms_init(&c->forms);
    halo_hip_loop_end(c);
    return r;
}

int halo_hip_emit_logits(struct halo_hip_compiler *c, const struct halo_op *op)
{
    return emit_logits(c, &op->u.logits, NULL);
}

int halo_hip_emit_last_norm(struct halo_hip_compiler *c, const struct halo_op_rmsnorm *norm,
                            const struct halo_op_logits *logits)
{
    return emit_logits(c, logits, norm);
}
