/* product.c: products of weights and rows: which kernel takes them, and the launches (contract in compile_priv.h).
 *
 * Up to eight rows: GEMV, over rows quantized to int8 (quantized weights) or as they are; from five on strips, where
 * the code object has them, over rows in f16, so many rows at a time. More: GEMM over rows in f16.
 */
#include "compile_priv.h"

#define STRIP_ROWS_MAX 128 /* for which strips, so many at a time, were measured to be faster than tiles */

/* The output of matrix i goes on with the rows. `matrices`: where they are in the arguments. */
static struct halo_hip_patch step_of_out(const struct halo_hip_product *p, uint32_t i, size_t matrices)
{
    size_t at = matrices + i * sizeof(p->matrix[0]) + offsetof(struct halo_matrix_arg, out);
    return (struct halo_hip_patch){
        .kind = HALO_HIP_PATCH_STEP, .at = (uint16_t)at, .step = p->matrix[i].out_stride * (uint32_t)sizeof(float)};
}

bool halo_hip_uses_gemm(uint32_t n_rows, uint32_t n_cols)
{
    return n_rows > HALO_HIP_GEMV_ROWS_MAX && n_cols % HALO_HIP_UNIT == 0;
}

bool halo_hip_uses_strips(const struct halo_hip_compiler *c, uint32_t type, uint32_t n_rows, uint32_t n_cols)
{
    uint32_t pass = n_rows < HALO_STRIP_X_WIDE ? n_rows : HALO_STRIP_X_WIDE;
    return n_cols % HALO_HIP_UNIT == 0 && n_rows <= STRIP_ROWS_MAX &&
           halo_hip_kernel_find(c->model->device, HALO_HIP_STRIP, type, pass) >= 0;
}

static int emit_gemm(struct halo_hip_compiler *c, const struct halo_hip_product *p)
{
    uint32_t n_col_tiles = 0;
    struct halo_gemm_args args = {.n_cols = p->n_cols};
    for (uint32_t i = 0; i < p->n_matrices; i++) {
        args.matrix[i] = p->matrix[i];
        n_col_tiles += HALO_HIP_CEIL(p->matrix[i].n_rows, HALO_GEMM_COLS);
    }
    if (c->has_glu) {
        args.glu = c->glu;
        n_col_tiles = HALO_HIP_CEIL(p->matrix[0].n_rows, HALO_GEMM_COLS / 2);
    }
    int r = halo_hip_form_half(c, p->value, p->x, p->n_x, p->n_cols, false);
    const struct halo_hip_half_form *form = &c->forms.half[c->forms.half_last];
    args.half = form->half;
    args.scale = form->scale;
    return r ? r
             : halo_hip_emit(
                   c, &(struct halo_hip_emission){
                          .op = HALO_HIP_GEMM,
                          .type = p->type,
                          .grid = {halo_hip_over(halo_hip_per_span(1), HALO_GEMM_ROWS), halo_hip_fixed(n_col_tiles)},
                          HALO_HIP_ARGS(args),
                          HALO_HIP_PATCHES(HALO_HIP_AMOUNT(struct halo_gemm_args, n_rows, halo_hip_per_span(1)))});
}

/* Spans of min .. max rows, which are one variant. */
static int emit_strip_rows(struct halo_hip_compiler *c, const struct halo_hip_product *p, uint32_t min, uint32_t max)
{
    const struct halo_hip_half_form *form = &c->forms.half[c->forms.half_last];
    uint32_t x_stride = halo_hip_quantized(p->type) ? halo_hip_strip_stride(p->n_cols) : p->n_cols;
    uint32_t cols = max > HALO_STRIP_X ? HALO_STRIP_PANELS_WIDE * HALO_STRIP_COLS : HALO_STRIP_COLS;
    struct halo_strip_args args = {.half = form->half,
                                   .scale = form->scale,
                                   .n_matrices = p->n_matrices,
                                   .n_cols = p->n_cols,
                                   .x_stride = x_stride};
    struct halo_hip_patch patches[HALO_MATMUL_MAX + 5] = {
        HALO_HIP_AMOUNT(struct halo_strip_args, n_rows, halo_hip_per_span(1))};
    uint32_t blocks = 0, n = 1;
    for (uint32_t i = 0; i < p->n_matrices; i++) {
        args.matrix[i] = p->matrix[i];
        blocks += HALO_HIP_CEIL(p->matrix[i].n_rows, cols);
        if (c->loop.most)
            patches[n++] = step_of_out(p, i, offsetof(struct halo_strip_args, matrix));
    }
    if (c->loop.most) {
        patches[n++] =
            (struct halo_hip_patch)HALO_HIP_STEP(struct halo_strip_args, half, x_stride * (uint32_t)sizeof(uint16_t));
        patches[n++] = (struct halo_hip_patch)HALO_HIP_STEP(struct halo_strip_args, scale, (uint32_t)sizeof(float));
    }
    if (p->row_index)
        patches[n++] = (struct halo_hip_patch)HALO_HIP_INPUT(struct halo_strip_args, row_index, output, 0);
    patches[n] = (struct halo_hip_patch){.kind = HALO_HIP_PATCH_END};
    halo_hip_span_limit(c, min, max);
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_STRIP,
                                                        .type = p->type,
                                                        .rows = max,
                                                        .grid = {halo_hip_fixed(blocks)},
                                                        HALO_HIP_ARGS(args),
                                                        .patches = patches});
}

/* More rows than one kernel takes: so many at a time, the last of them by the kernel that is enough. */
static int emit_strips(struct halo_hip_compiler *c, const struct halo_hip_product *p)
{
    enum halo_hip_over over = c->loop.over;
    uint32_t min = c->min_span, max = c->max_span;
    int r = halo_hip_form_half(c, p->value, p->x, p->n_x, p->n_cols, halo_hip_quantized(p->type));
    if (r || max <= HALO_STRIP_X_WIDE)
        return r ? r : emit_strip_rows(c, p, min, max);
    halo_hip_loop_begin(c, over, HALO_STRIP_X_WIDE, min, max);
    r = emit_strip_rows(c, p, 1, HALO_HIP_GEMV_ROWS_MAX);
    if (!r)
        r = emit_strip_rows(c, p, HALO_HIP_GEMV_ROWS_MAX + 1, HALO_STRIP_X);
    if (!r)
        r = emit_strip_rows(c, p, HALO_STRIP_X + 1, HALO_STRIP_X_WIDE);
    halo_hip_loop_begin(c, over, 0, min, max);
    return r;
}

struct halo_hip_amount halo_hip_persistent_grid(const struct halo_hip_compiler *c, uint32_t op, uint32_t type,
                                                uint32_t n_cols, struct halo_hip_amount n_blocks)
{
    int variant = HALO_GEMV_PERSISTENT(n_cols) ? halo_hip_kernel_find(c->model->device, op, type, 1) : -1;
    n_blocks.most = variant < 0 ? 0 : c->model->device->n_resident[variant];
    return n_blocks;
}

struct halo_gemv_scaled_args halo_hip_scaled_args(const struct halo_hip_compiler *c, const struct halo_hip_product *p,
                                                  const void *x, uint32_t most)
{
    struct halo_gemv_args args = {.x = x, .n_matrices = p->n_matrices, .n_cols = p->n_cols, .n_rows = 1};
    for (uint32_t i = 0; i < p->n_matrices; i++) {
        args.matrix[i] = p->matrix[i];
        args.n_blocks += HALO_HIP_CEIL(p->matrix[i].n_rows, HALO_GEMV_ROWS(false, 1));
    }
    args.n_grid = most && most < args.n_blocks ? most : args.n_blocks;
    return (struct halo_gemv_scaled_args){
        .gemv = args, .factor = c->forms.act[c->forms.act_last].factor, .n_cols = args.n_cols, .n_grid = args.n_grid};
}

/* Of an activation row that lacks its factor. */
static int emit_scaled(struct halo_hip_compiler *c, const struct halo_hip_product *p, const void *x)
{
    int variant = halo_hip_kernel_find(c->model->device, HALO_HIP_GEMV_SCALED, p->type, 1);
    uint32_t most = variant < 0 ? 0 : c->model->device->n_resident[variant];
    struct halo_gemv_scaled_args args = halo_hip_scaled_args(c, p, x, most);
    const struct halo_hip_patch by_output[] = {HALO_HIP_INPUT(struct halo_gemv_scaled_args, gemv.row_index, output, 0),
                                               {.kind = HALO_HIP_PATCH_END}};
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_GEMV_SCALED,
                                                        .type = p->type,
                                                        .grid = {halo_hip_fixed(args.n_grid)},
                                                        HALO_HIP_ARGS(args),
                                                        .patches = p->row_index ? by_output : NULL});
}

/* Spans of min .. max rows, which are one variant. x: activation rows, or f32 rows for plain types. */
static int emit_gemv_rows(struct halo_hip_compiler *c, const struct halo_hip_product *p, const void *x, uint32_t min,
                          uint32_t max)
{
    bool quantized = halo_hip_quantized(p->type);
    uint32_t x_stride = quantized ? halo_hip_act_bytes(p->n_cols) : p->n_cols * (uint32_t)sizeof(float);
    struct halo_gemv_args args = {.x = x, .n_matrices = p->n_matrices, .n_cols = p->n_cols};
    struct halo_hip_patch patches[HALO_MATMUL_MAX + 4] = {
        HALO_HIP_AMOUNT(struct halo_gemv_args, n_rows, halo_hip_per_span(1))};
    uint32_t n = 1;
    for (uint32_t i = 0; i < p->n_matrices; i++) {
        args.matrix[i] = p->matrix[i];
        args.n_blocks += HALO_HIP_CEIL(p->matrix[i].n_rows, HALO_GEMV_ROWS(!quantized, min));
        if (c->loop.most)
            patches[n++] = step_of_out(p, i, offsetof(struct halo_gemv_args, matrix));
    }
    if (c->loop.most)
        patches[n++] = (struct halo_hip_patch)HALO_HIP_STEP(struct halo_gemv_args, x, x_stride);
    if (p->row_index)
        patches[n++] = (struct halo_hip_patch)HALO_HIP_INPUT(struct halo_gemv_args, row_index, output, 0);
    patches[n] = (struct halo_hip_patch){.kind = HALO_HIP_PATCH_END};
    struct halo_hip_amount grid = halo_hip_fixed(args.n_blocks);
    if (max == 1)
        grid = halo_hip_persistent_grid(c, HALO_HIP_GEMV, p->type, p->n_cols, grid);
    args.n_grid = grid.most && grid.most < grid.times ? grid.most : grid.times;
    halo_hip_span_limit(c, min, max);
    return halo_hip_emit(c, &(struct halo_hip_emission){.op = HALO_HIP_GEMV,
                                                        .type = p->type,
                                                        .grid = {halo_hip_fixed(args.n_grid)},
                                                        HALO_HIP_ARGS(args),
                                                        .patches = patches});
}

/* More than eight rows: eight at a time. */
static int emit_gemv(struct halo_hip_compiler *c, const struct halo_hip_product *p)
{
    enum halo_hip_over over = c->loop.over;
    uint32_t min = c->min_span, max = c->max_span;
    const uint8_t *act = NULL;
    int r = halo_hip_quantized(p->type) ? halo_hip_form_act(c, p->value, p->x, p->n_x, p->n_cols, &act) : 0;
    const void *x = halo_hip_quantized(p->type) ? (const void *)act : p->x;
    if (!r && act && c->forms.act[c->forms.act_last].factor.squares)
        return emit_scaled(c, p, act);
    if (r || max <= HALO_HIP_GEMV_ROWS_MAX)
        return r ? r : emit_gemv_rows(c, p, x, min, max);
    halo_hip_loop_begin(c, over, HALO_HIP_GEMV_ROWS_MAX, min, max);
    for (uint32_t i = 0; halo_hip_row_classes[i].max <= HALO_HIP_GEMV_ROWS_MAX && !r; i++)
        r = emit_gemv_rows(c, p, x, halo_hip_row_classes[i].min, halo_hip_row_classes[i].max);
    halo_hip_loop_begin(c, over, 0, min, max);
    return r;
}

int halo_hip_emit_product(struct halo_hip_compiler *c, const struct halo_hip_product *p)
{
    if (halo_hip_uses_strips(c, p->type, c->min_span, p->n_cols))
        return emit_strips(c, p);
    bool is_gemm = halo_hip_uses_gemm(c->min_span, p->n_cols) &&
                   halo_hip_kernel_find(c->model->device, HALO_HIP_GEMM, p->type, c->min_span) >= 0;
    return is_gemm ? emit_gemm(c, p) : emit_gemv(c, p);
}
