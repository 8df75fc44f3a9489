/* test_gfx_fused.c: products of one row with the op behind them, and routers with the norm in front, leave what the
 * launches leave that they stand for, but for roundings; and no counter behind.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <kernels/op.h>

#include "gfx_fixture.h"

#define BOUND 1e-5
#define EPS 1e-5f
enum { ROWS = 96, UNITS = ROWS / HALO_HIP_UNIT };

static const struct gfx_type fused[] = {{HALO_TYPE_Q8_0, "q8_0", 32},
                                        {HALO_TYPE_Q4_K, "q4_k", 256},
                                        {HALO_TYPE_Q5_K, "q5_k", 256},
                                        {HALO_TYPE_Q6_K, "q6_k", 256}};
enum { N_FUSED = sizeof(fused) / sizeof(fused[0]) };

static const char *const activations[] = {"silu", "gelu", "relu2", "clamped", "linear", "sigmoid"};

/* The kernel's name is that of a type, between these. */
static void run(uint32_t n_blocks, void *args, const char *before, const char *type, const char *behind)
{
    char name[48];
    snprintf(name, sizeof(name), "%s%s%s", before, type, behind);
    gfx_run(name, n_blocks, 1, 1, args);
}

static uint8_t *input(uint32_t n_cols, uint32_t seed)
{
    float *x = gfx_floats(n_cols, seed);
    uint8_t *act = gfx_zeros(halo_hip_act_bytes(n_cols));
    gfx_quantize(x, n_cols, act);
    free(x);
    return act;
}

static void near(const float *have, const float *want, uint32_t n, const char *what)
{
    double scale = 0.1;
    for (uint32_t i = 0; i < n; i++)
        scale = fmax(scale, fabs((double)want[i]));
    for (uint32_t i = 0; i < n; i++)
        gfx_near((double)have[i], (double)want[i], BOUND, scale, what, i);
}

/* An element whose eighth bit another rounding changes is off by 1 / 127 of its unit's largest. */
static void near_act(const uint8_t *have, const uint8_t *want, uint32_t n, const char *what)
{
    for (uint32_t unit = 0; unit < n; unit += HALO_HIP_UNIT) {
        double scale = 1e-9;
        for (uint32_t i = unit; i < unit + HALO_HIP_UNIT; i++)
            scale = fmax(scale, fabs(gfx_act(want, n, i)));
        for (uint32_t i = unit; i < unit + HALO_HIP_UNIT; i++)
            gfx_near(gfx_act(have, n, i), gfx_act(want, n, i), 1.01 / 127, scale, what, i);
    }
}

/* The product of one matrix by itself. */
static void product(const struct gfx_type *type, const struct halo_matrix_arg *matrix, const void *in, uint32_t n_cols)
{
    const uint32_t n = HALO_HIP_CEIL(matrix->n_rows, HALO_GEMV_ROWS(false, 1));
    struct halo_gemv_args args = {
        .matrix[0] = *matrix, .x = in, .n_matrices = 1, .n_cols = n_cols, .n_rows = 1, .n_blocks = n, .n_grid = n};
    run(n, &args, "gemv_", type->name, "_x1");
}

/* Units whose squares add up to ones for `factor` to be 1 / sqrt(sum / n_cols + EPS), or none and 1. */
static struct halo_factor_arg factor_make(bool has_one, float *squares, uint32_t n_units, uint32_t n_cols,
                                          float *ret_factor)
{
    double sum = 0;
    for (uint32_t i = 0; i < n_units; i++)
        sum += (double)(squares[i] = 0.25f + (float)i);
    *ret_factor = has_one ? (float)(1 / sqrt(sum / n_cols + (double)EPS)) : 1;
    return (struct halo_factor_arg){has_one ? squares : NULL, n_units, EPS};
}

/* ---- rows of x that lack their factor ---- */

/* gemv_scaled of two matrices, or of one in a launch with one of Q6_K. */
static void scaled_case(const struct gfx_type *type, bool is_pair)
{
    const struct gfx_type *second = is_pair ? &fused[N_FUSED - 1] : type;
    const uint32_t n_cols = 768, n_rows[2] = {37, 21};
    const struct gfx_type *of[2] = {type, second};
    uint8_t *in = input(n_cols, 1), *weight[2];
    float squares[40], factor, *bias = gfx_floats(n_rows[0], 2), out[2][37] = {{0}}, want[2][37] = {{0}};
    struct halo_gemv_scaled_args args[2];
    for (uint32_t i = 0; i < 2; i++) {
        weight[i] = gfx_weights(of[i]->type, n_cols, n_rows[i], i + 3);
        struct halo_matrix_arg matrix = {weight[i], NULL, want[i], n_rows[i], n_rows[i]};
        product(of[i], &matrix, in, n_cols);
        matrix.out = out[i];
        matrix.bias = i == 0 ? bias : NULL;
        args[i] = (struct halo_gemv_scaled_args){
            .gemv = {.matrix[0] = matrix, .x = in, .n_matrices = 1, .n_cols = n_cols, .n_rows = 1, .n_grid = 2},
            .factor = factor_make(true, squares, 40, n_cols, &factor),
            .n_cols = n_cols,
            .n_grid = 2};
        args[i].gemv.n_blocks = HALO_HIP_CEIL(n_rows[i], HALO_GEMV_ROWS(false, 1));
    }
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t r = 0; r < n_rows[i]; r++)
            want[i][r] = want[i][r] * factor + (i == 0 ? bias[r] : 0);
    if (is_pair) {
        struct halo_gemv_pair_args pair = {{args[0], args[1]}};
        run(4, &pair, "gemv_pair_", type->name, "_q6_k");
    } else {
        struct halo_gemv_scaled_args both = args[0];
        both.gemv.matrix[1] = args[1].gemv.matrix[0];
        both.gemv.n_matrices = 2;
        both.gemv.n_blocks += args[1].gemv.n_blocks;
        run(2, &both, "gemv_scaled_", type->name, "");
    }
    for (uint32_t i = 0; i < 2; i++) {
        near(out[i], want[i], n_rows[i], type->name);
        free(weight[i]);
    }
    free(in);
    free(bias);
}

static void scaled(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < N_FUSED; t++)
        scaled_case(&fused[t], false);
    scaled_case(&fused[1], true);
    scaled_case(&fused[2], true);
}

/* ---- epilogues ---- */

/* A norm behind a product, of as many blocks. */
static void norm_case(const struct gfx_type *type, uint32_t n_grid)
{
    const uint32_t n_cols = 512;
    const bool biased = n_grid == 1;
    uint8_t *in = input(n_cols, 1), *weight = gfx_weights(type->type, n_cols, ROWS, 2);
    float *bias = gfx_floats(ROWS, 3), *x = gfx_floats(ROWS, 4), *want = gfx_floats(ROWS, 4),
          *norm = gfx_floats(ROWS, 5), sum[ROWS], out[ROWS], want_out[ROWS], squares[UNITS] = {0},
          want_squares[UNITS] = {0};
    uint8_t *act = gfx_zeros(halo_hip_act_bytes(ROWS)), *want_act = gfx_zeros(halo_hip_act_bytes(ROWS));
    product(type, &(struct halo_matrix_arg){weight, NULL, sum, ROWS, ROWS}, in, n_cols);
    struct halo_gemv_norm_args args = {
        weight, in,   biased ? bias : NULL, x, biased ? norm : NULL, out, act, squares, n_cols, ROWS, UNITS,
        n_grid, 0.5f, biased ? 0.75f : 1};
    for (uint32_t i = 0; i < ROWS; i++) {
        want[i] = ((sum[i] + (biased ? bias[i] : 0)) * 0.5f + want[i]) * args.x_scale;
        want_squares[i / HALO_HIP_UNIT] += want[i] * want[i];
        want_out[i] = want[i] * (biased ? norm[i] : 1);
    }
    gfx_quantize(want_out, ROWS, want_act);
    run(n_grid, &args, "gemv_norm_", type->name, "");
    near(x, want, ROWS, "x");
    near(out, want_out, ROWS, "out");
    near(squares, want_squares, UNITS, "squares");
    near_act(act, want_act, ROWS, "act");
    void *buffers[] = {in, weight, bias, x, want, norm, act, want_act};
    for (uint32_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        free(buffers[i]);
}

static void norms(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < N_FUSED; t++)
        for (uint32_t n_grid = 1; n_grid <= UNITS; n_grid += UNITS - 1)
            norm_case(&fused[t], n_grid);
}

/* Gate and up with their GLU. */
static void glu_case(const struct gfx_type *type, uint32_t act, uint32_t n_grid)
{
    const uint32_t n_cols = 256;
    const bool biased = n_grid == 1;
    uint8_t *in = input(n_cols, 1), *have = gfx_zeros(halo_hip_act_bytes(ROWS)),
            *want = gfx_zeros(halo_hip_act_bytes(ROWS)), *weight[2];
    float *bias[2], sum[2][ROWS], squares[9], factor;
    const struct halo_factor_arg by = factor_make(!biased, squares, 9, n_cols, &factor);
    for (uint32_t i = 0; i < 2; i++) {
        weight[i] = gfx_weights(type->type, n_cols, ROWS, i + 2);
        bias[i] = gfx_floats(ROWS, i + 4);
        product(type, &(struct halo_matrix_arg){weight[i], NULL, sum[i], ROWS, ROWS}, in, n_cols);
        for (uint32_t r = 0; r < ROWS; r++)
            sum[i][r] = sum[i][r] * factor + (biased ? bias[i][r] : 0);
    }
    struct halo_glu_args apart = {sum[0], sum[1], NULL, want, ROWS, 0.5f};
    run(1, &apart, "glu_", activations[act], "");
    struct halo_gemv_glu_args args = {.gate = weight[0],
                                      .up = weight[1],
                                      .in = in,
                                      .gate_bias = biased ? bias[0] : NULL,
                                      .up_bias = biased ? bias[1] : NULL,
                                      .factor = by,
                                      .act = have,
                                      .n_cols = n_cols,
                                      .n_rows = ROWS,
                                      .n_units = UNITS,
                                      .n_grid = n_grid,
                                      .glu = act,
                                      .limit = 0.5f};
    run(n_grid, &args, "gemv_glu_", type->name, "");
    near_act(have, want, ROWS, activations[act]);
    void *buffers[] = {in, have, want, weight[0], weight[1], bias[0], bias[1]};
    for (uint32_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        free(buffers[i]);
}

static void glus(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < N_FUSED; t++)
        for (uint32_t n_grid = 1; n_grid <= UNITS; n_grid += UNITS - 1)
            glu_case(&fused[t], (2 * t + (n_grid > 1)) % 6, n_grid);
}

/* ---- mixtures ---- */

/* The last products of the experts of two slots, of rows of one stage and of more. */
static void experts_case(const struct gfx_type *type, uint32_t n_cols, uint32_t act)
{
    enum { EXPERTS = 3, USED = 2 };
    const uint32_t n_rows = 70, n_parts = HALO_HIP_CEIL(n_rows, HALO_MOE_GEMV_ROWS(false, n_cols));
    const uint64_t expert_bytes = (uint64_t)n_rows * halo_hip_row_layout(type->type, n_cols).stride;
    float *gate = gfx_floats(USED * n_cols, 1), *up = gfx_floats(USED * n_cols, 2),
          *bias = gfx_floats(EXPERTS * n_rows, 3), *out = gfx_zeros(USED * n_rows * 4),
          *want = gfx_zeros(USED * n_rows * 4), choice[2 * USED] = {0.5f, 0.5f};
    const uint32_t experts[USED] = {2, 0};
    memcpy(choice + USED, experts, sizeof(experts));
    uint8_t *weight = gfx_weights(type->type, n_cols, EXPERTS * n_rows, 4),
            *rows = gfx_zeros(USED * halo_hip_act_bytes(n_cols));
    for (uint32_t s = 0; s < USED; s++) {
        struct halo_glu_args glu = {
            gate + s * n_cols, up + s * n_cols, NULL, rows + s * halo_hip_act_bytes(n_cols), n_cols, 0.5f};
        run(HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS), &glu, "glu_", activations[act], "");
    }
    struct halo_expert_arg matrix = {weight, expert_bytes, want, bias, n_rows, n_rows};
    struct halo_moe_gemv_args apart = {.matrix[0] = matrix,
                                       .x = rows,
                                       .choice = choice,
                                       .n_cols = n_cols,
                                       .n_used = USED,
                                       .per_slot = 1,
                                       .n_slot_blocks = n_parts,
                                       .n_blocks = n_parts * USED,
                                       .n_grid = n_parts * USED};
    run(apart.n_grid, &apart, "moe_gemv_", type->name, "");
    matrix.out = out;
    struct halo_moe_gemv_glu_args args = {matrix, gate, up, choice, n_cols, USED, n_parts, HALO_HIP_CEIL(n_parts, 2),
                                          act,    0.5f};
    run(args.n_grid * USED, &args, "moe_gemv_glu_", type->name, "");
    near(out, want, USED * n_rows, "experts");
    void *buffers[] = {gate, up, bias, out, want, weight, rows};
    for (uint32_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        free(buffers[i]);
}

static void experts(void **state)
{
    (void)state;
    static const struct gfx_type mxfp4 = {HALO_TYPE_MXFP4, "mxfp4", 32};
    for (uint32_t t = 0; t <= N_FUSED; t++) {
        const struct gfx_type *type = t < N_FUSED ? &fused[t] : &mxfp4;
        experts_case(type, 256, t);
        experts_case(type, 1280, (t + 3) % 6);
    }
}

/* Two rows; the last block leaves what the norm is of. */
static void router_case(uint32_t n_cols, bool joins, bool is_scored)
{
    enum { N = 2, EXPERTS = 21, USED = 3 };
    const size_t n_act = halo_hip_act_bytes(n_cols);
    float *weight = gfx_floats(EXPERTS * n_cols, 1), *norm = gfx_floats(n_cols, 2), *add = gfx_floats(N * n_cols, 3),
          *x = gfx_floats(N * n_cols, 4), *want_x = gfx_floats(N * n_cols, 4), *out = gfx_zeros(N * n_cols * 4),
          *want = gfx_zeros(N * n_cols * 4), choice[N][2 * USED], want_choice[N][2 * USED], logits[N][EXPERTS],
          want_logits[N][EXPERTS];
    uint8_t *act = gfx_zeros(N * n_act), *want_act = gfx_zeros(N * n_act);
    uint32_t counter[N] = {0};
    struct halo_rmsnorm_args rmsnorm = {.x = want_x,
                                        .add = joins ? add : NULL,
                                        .weight = norm,
                                        .out = want,
                                        .act = want_act,
                                        .n_cols = n_cols,
                                        .eps = EPS,
                                        .add_scale = 0.5f,
                                        .x_scale = joins ? 0.75f : 1};
    struct halo_moe_router_args router = {.route = {.logits = want_logits[0],
                                                    .choice = want_choice[0],
                                                    .n_expert = EXPERTS,
                                                    .n_used = USED,
                                                    .normalise = 1,
                                                    .gate = is_scored ? HALO_MOE_SIGMOID : HALO_MOE_SOFTMAX,
                                                    .scale = 1},
                                          .matrix[0] = {weight, NULL, want_logits[0], EXPERTS, EXPERTS},
                                          .x = want,
                                          .counter = counter,
                                          .n_cols = n_cols};
    const uint32_t n_blocks = HALO_HIP_CEIL(EXPERTS, HALO_ROUTER_ROWS);
    gfx_run("rmsnorm", N, 1, 1, &rmsnorm);
    gfx_run(is_scored ? "moe_router_scored" : "moe_router", n_blocks, N, 1, &router);
    struct halo_moe_router_norm_args args = {router, rmsnorm};
    args.router.x = NULL;
    args.router.route.logits = args.router.matrix[0].out = logits[0];
    args.router.route.choice = choice[0];
    args.norm.x = x;
    args.norm.out = out;
    args.norm.act = act;
    gfx_run(is_scored ? "moe_router_norm_scored" : "moe_router_norm", n_blocks + 1, N, 1, &args);
    near(x, want_x, N * n_cols, "x");
    near(out, want, N * n_cols, "out");
    near(logits[0], want_logits[0], N * EXPERTS, "logits");
    for (uint32_t r = 0; r < N; r++) {
        near_act(act + r * n_act, want_act + r * n_act, n_cols, "act");
        near(choice[r], want_choice[r], USED, "weights");
        assert_memory_equal(choice[r] + USED, want_choice[r] + USED, USED * sizeof(float));
        assert_int_equal(counter[r], 0);
    }
    void *buffers[] = {weight, norm, add, x, want_x, out, want, act, want_act};
    for (uint32_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        free(buffers[i]);
}

static void routers(void **state)
{
    (void)state;
    router_case(96, true, false);
    router_case(2080, false, false);
    router_case(1312, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scaled),  cmocka_unit_test(norms),   cmocka_unit_test(glus),
        cmocka_unit_test(experts), cmocka_unit_test(routers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
