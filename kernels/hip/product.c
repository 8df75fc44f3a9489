/* product.c: products of weights and rows: which form the rows need, and which kernel takes them.
 *
 * Up to eight rows: GEMV, over rows quantized to int8 (quantized weights) or as they are; from five on strips, where
 * the code object has them, over rows in f16. More: GEMM over rows in f16.
 * Both forms are kept while they are of use, so that q, k and v, or gate and up, share one conversion. Device thread.
 */
#include <string.h>

#include "run_priv.h"

bool halo_hip_uses_gemm(uint32_t n_rows, uint32_t n_cols)
{
    return n_rows > HALO_HIP_GEMV_ROWS_MAX && n_cols % HALO_HIP_UNIT == 0;
}

void halo_hip_wrote(struct halo_hip_run *run, uint16_t value)
{
    if (run->act_value == value)
        run->act_value = HALO_NONE;
    if (run->half_value == value)
        run->half_value = HALO_NONE;
    if (run->grouped_choice == value)
        run->grouped_choice = HALO_NONE;
}

int halo_hip_act(struct halo_hip_run *run, uint16_t value, const float *x, uint32_t n_rows, uint32_t n_cols)
{
    if (value != HALO_NONE && run->act_value == value && run->act_cols == n_cols)
        return 0;
    struct halo_quantize_args args = {.x = x, .act = run->model->scratch.act, .n_cols = n_cols};
    run->act_value = value;
    run->act_cols = n_cols;
    return halo_hip_launch(run, HALO_HIP_QUANTIZE, HALO_HIP_TYPE_ANY, n_rows,
                           (struct halo_hip_grid){HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS), n_rows, 1}, &args);
}

int halo_hip_half(struct halo_hip_run *run, uint16_t value, const float *x, uint32_t n_rows, uint32_t n_cols,
                  bool strips)
{
    const struct halo_hip_scratch *scratch = &run->model->scratch;
    if (value != HALO_NONE && run->half_value == value && run->half_cols == n_cols && run->half_strips == strips)
        return 0;
    struct halo_half_args args = {
        .x = x, .half = scratch->half, .scale = scratch->half_scale, .n_cols = n_cols, .strips = strips};
    run->half_value = value;
    run->half_cols = n_cols;
    run->half_strips = strips;
    return halo_hip_launch(run, HALO_HIP_HALF_ROWS, HALO_HIP_TYPE_ANY, n_rows, (struct halo_hip_grid){n_rows, 1, 1},
                           &args);
}

static int gemm(struct halo_hip_run *run, const struct halo_hip_product *p, int variant)
{
    const struct halo_hip_scratch *scratch = &run->model->scratch;
    uint32_t tile = halo_hip_variants[variant].max_rows ? halo_hip_variants[variant].max_rows : 128;
    int r = halo_hip_half(run, p->value, p->x, p->n_rows, p->n_cols, false);
    for (uint32_t i = 0; i < p->n_matrices && !r; i++) {
        struct halo_gemm_args args = {.matrix = p->matrix[i],
                                      .half = scratch->half,
                                      .scale = scratch->half_scale,
                                      .n_cols = p->n_cols,
                                      .n_rows = p->n_rows};
        struct halo_hip_grid grid = {HALO_HIP_CEIL(p->n_rows, tile), HALO_HIP_CEIL(p->matrix[i].n_rows, HALO_GEMM_COLS),
                                     1};
        r = halo_hip_launch(run, HALO_HIP_GEMM, p->type, p->n_rows, grid, &args);
    }
    return r;
}

/* Whether rows go through strips. */
static bool uses_strips(const struct halo_hip_run *run, uint32_t type, uint32_t n_rows, uint32_t n_cols)
{
    return n_cols % HALO_HIP_UNIT == 0 && halo_hip_kernel_find(run->model->device, HALO_HIP_STRIP, type, n_rows) >= 0;
}

static int strips(struct halo_hip_run *run, const struct halo_hip_product *p)
{
    const struct halo_hip_scratch *scratch = &run->model->scratch;
    bool quantized = halo_hip_quantized(p->type);
    struct halo_strip_args args = {.half = scratch->half,
                                   .scale = scratch->half_scale,
                                   .row_index = p->row_index,
                                   .n_matrices = p->n_matrices,
                                   .n_cols = p->n_cols,
                                   .n_rows = p->n_rows,
                                   .x_stride = quantized ? halo_hip_strip_stride(p->n_cols) : p->n_cols};
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < p->n_matrices; i++) {
        args.matrix[i] = p->matrix[i];
        blocks += HALO_HIP_CEIL(p->matrix[i].n_rows, HALO_STRIP_COLS);
    }
    struct halo_hip_grid grid = {blocks, 1, 1};
    int r = halo_hip_half(run, p->value, p->x, p->n_x, p->n_cols, quantized);
    return r ? r : halo_hip_launch(run, HALO_HIP_STRIP, p->type, p->n_rows, grid, &args);
}

uint32_t halo_hip_walk_grid(const struct halo_hip_run *run, uint32_t op, uint32_t type, uint32_t n_cols,
                            uint32_t n_blocks)
{
    int variant = HALO_GEMV_WALKS(n_cols) ? halo_hip_kernel_find(run->model->device, op, type, 1) : -1;
    uint32_t n_resident = variant < 0 ? 0 : run->model->device->n_resident[variant];
    return n_resident > 0 && n_resident < n_blocks ? n_resident : n_blocks;
}

/* Eight rows at a time. */
static int gemv(struct halo_hip_run *run, const struct halo_hip_product *p)
{
    bool quantized = halo_hip_quantized(p->type);
    const uint8_t *x = quantized ? run->model->scratch.act : (const uint8_t *)(const void *)p->x;
    uint64_t x_stride = quantized ? halo_hip_act_bytes(p->n_cols) : p->n_cols * sizeof(float);
    int error = quantized ? halo_hip_act(run, p->value, p->x, p->n_x, p->n_cols) : 0;
    for (uint32_t r = 0; r < p->n_rows && !error; r += HALO_HIP_GEMV_ROWS_MAX) {
        uint32_t n = p->n_rows - r < HALO_HIP_GEMV_ROWS_MAX ? p->n_rows - r : HALO_HIP_GEMV_ROWS_MAX;
        struct halo_gemv_args args = {.x = p->row_index ? x : x + r * x_stride,
                                      .row_index = p->row_index ? p->row_index + r : NULL,
                                      .n_matrices = p->n_matrices,
                                      .n_cols = p->n_cols,
                                      .n_rows = n};
        for (uint32_t i = 0; i < p->n_matrices; i++) {
            args.matrix[i] = p->matrix[i];
            args.matrix[i].out += (uint64_t)r * p->matrix[i].out_stride;
            args.n_blocks += HALO_HIP_CEIL(p->matrix[i].n_rows, HALO_GEMV_ROWS(!quantized, n));
        }
        args.n_grid = args.n_blocks;
        if (n == 1)
            args.n_grid = halo_hip_walk_grid(run, HALO_HIP_GEMV, p->type, p->n_cols, args.n_blocks);
        error = halo_hip_launch(run, HALO_HIP_GEMV, p->type, n, (struct halo_hip_grid){args.n_grid, 1, 1}, &args);
    }
    return error;
}

int halo_hip_product_run(struct halo_hip_run *run, const struct halo_hip_product *product)
{
    if (uses_strips(run, product->type, product->n_rows, product->n_cols))
        return strips(run, product);
    int variant = halo_hip_uses_gemm(product->n_rows, product->n_cols)
                      ? halo_hip_kernel_find(run->model->device, HALO_HIP_GEMM, product->type, product->n_rows)
                      : -1;
    return variant >= 0 ? gemm(run, product, variant) : gemv(run, product);
}

/* The row length and the number of rows to a batch row when the next op takes `out` as activation rows. */
uint32_t halo_hip_act_wanted(const struct halo_hip_run *run, uint16_t out, uint32_t *ret_per_row)
{
    const struct halo_plan *plan = run->model->plan;
    const struct halo_op *next = run->op + 1 < plan->n_ops ? &plan->ops[run->op + 1] : NULL;
    *ret_per_row = 1;
    if (!next || run->n_rows > HALO_HIP_GEMV_ROWS_MAX)
        return 0;
    uint32_t weight;
    if (next->kind == HALO_OP_MATMUL && next->u.matmul.x == out) {
        weight = next->u.matmul.weight[0];
    } else if (next->kind == HALO_OP_MOE_MATMUL && next->u.moe_matmul.x == out) {
        weight = next->u.moe_matmul.weight[0];
        *ret_per_row = next->u.moe_matmul.per_slot ? next->u.moe_matmul.n_used : 1;
    } else {
        return 0;
    }
    const struct halo_weight *w = &plan->weights[weight];
    bool strips = next->kind == HALO_OP_MATMUL && uses_strips(run, w->type, run->n_rows, w->n_cols);
    return halo_hip_quantized(w->type) && !strips ? w->n_cols : 0;
}
