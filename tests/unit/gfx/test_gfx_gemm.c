/* test_gfx_gemm.c: products of many rows of every type, plain and by experts, and their fused operations, against sums
 * in double. */
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

#ifdef __SANITIZE_ADDRESS__ /* it looks at memory: every type is read in gemm, one of each kind does elsewhere */
#define TYPE_STEP 3
#else
#define TYPE_STEP 1
#endif

/* f16 rows as the kernel writes them. */
struct halves {
    uint16_t *half;
    float *scale;
    uint32_t n_cols;
};

static struct halves halves_make(const float *x, uint32_t n_cols, uint32_t n_rows)
{
    struct halves h = {gfx_zeros((size_t)n_rows * n_cols * 2), gfx_zeros(n_rows * 4), n_cols};
    struct halo_half_args args = {x, h.half, h.scale, n_cols, false, n_rows};
    gfx_run("half_rows", n_rows, 1, 1, &args);
    return h;
}

/* The same in the order of strips. Behind a row's last unit there are NaNs: nothing may read them. */
static struct halves strips_make(const float *x, uint32_t n_cols, uint32_t n_rows)
{
    const size_t n = (size_t)n_rows * halo_hip_strip_stride(n_cols);
    struct halves h = {gfx_zeros(n * 2), gfx_zeros(n_rows * 4), n_cols};
    struct halo_half_args args = {x, h.half, h.scale, n_cols, true, n_rows};
    memset(h.half, 0xff, n * 2);
    gfx_run("half_rows", n_rows, 1, 1, &args);
    return h;
}

static void halves_free(struct halves *h)
{
    free(h->half);
    free(h->scale);
}

static double dot(const struct gfx_type *type, const uint8_t *row, const float *x, uint32_t n_cols, double *ret_size)
{
    double sum = 0;
    *ret_size = 1e-30;
    for (uint32_t i = 0; i < n_cols; i++) {
        double product = gfx_weight(type->type, row, n_cols, i) * (double)x[i];
        sum += product;
        *ret_size += fabs(product);
    }
    return sum;
}

static void half_rows(void **state)
{
    (void)state;
    const uint32_t n_cols = 1056, n_rows = 3;
    float *x = gfx_floats(n_rows * n_cols, 1);
    for (uint32_t i = 0; i < n_cols; i++)
        x[n_cols + i] *= 1e6f;
    x[2 * n_cols] = 65504;
    struct halves h = halves_make(x, n_cols, n_rows);
    assert_true(h.scale[0] == 1 && h.scale[1] > 1);
    for (uint32_t i = 0; i < n_rows * n_cols; i++)
        gfx_near((double)gfx_half_float(h.half[i]) * (double)h.scale[i / n_cols], (double)x[i], 0x1p-11,
                 fabs((double)x[i]) + 1e-4 * (double)h.scale[i / n_cols], "half_rows", i);
    /* A wave for each row stores the same bits, and nothing of rows that there are not. */
    uint16_t *waves = gfx_zeros((n_rows + 1) * n_cols * 2);
    float scale[4] = {0};
    struct halo_half_args args = {x, waves, scale, n_cols, false, n_rows};
    gfx_run("half_waves", HALO_HIP_CEIL(n_rows, HALO_HALF_WAVES), 1, 1, &args);
    assert_memory_equal(waves, h.half, n_rows * n_cols * 2);
    assert_memory_equal(scale, h.scale, n_rows * sizeof(float));
    for (uint32_t i = 0; i < n_cols; i++)
        assert_int_equal(waves[n_rows * n_cols + i], 0);
    free(waves);
    halves_free(&h);
    free(x);
}

/* One matrix, of which columns behind its rows stay as they are. */
static void check_product(const struct gfx_type *type, const char *name, const struct halo_matrix_arg *matrix,
                          const float *x, const float *before, uint32_t n_cols, uint32_t n_rows)
{
    const uint32_t stride = matrix->out_stride, n = matrix->n_rows;
    for (uint32_t r = 0; r < n_rows; r++) {
        /* All of the few rows, some of the many. */
        for (uint32_t i = r % 7; i<n; i += n_rows> 40 ? 29 : 3) {
            const uint8_t *row = (const uint8_t *)matrix->weight + i * halo_hip_row_layout(type->type, n_cols).stride;
            double size, want = dot(type, row, x + r * n_cols, n_cols, &size);
            gfx_near((double)matrix->out[r * stride + i], want + (matrix->bias ? (double)matrix->bias[i] : 0), 1e-3,
                     size, name, r * stride + i);
        }
        assert_memory_equal(matrix->out + r * stride + n, before + r * stride + n, (stride - n) * sizeof(float));
    }
}

/* The matrices of one launch, of as many rows each as n_weight_rows says; the first may have a bias. */
static void gemm_shape(const struct gfx_type *type, uint32_t n_cols, uint32_t n_rows, const uint32_t n_weight_rows[3],
                       bool bias)
{
    char name[40];
    uint32_t n_tiles = 0;
    snprintf(name, sizeof(name), "gemm_%s", type->name);
    float *x = gfx_floats(n_rows * n_cols, n_cols), *b = gfx_floats(n_weight_rows[0], 8), *before[3];
    for (uint32_t i = 0; i < n_cols; i++)
        x[i] *= 3e5f; /* the first row has a scale */
    struct halves h = halves_make(x, n_cols, n_rows);
    struct halo_gemm_args args = {.half = h.half, .scale = h.scale, .n_cols = n_cols, .n_rows = n_rows};
    for (uint32_t m = 0; m < 3; m++) {
        const uint32_t n = n_weight_rows[m], stride = n + 5;
        before[m] = gfx_floats(n_rows * stride, 77);
        args.matrix[m] = (struct halo_matrix_arg){gfx_weights(type->type, n_cols, n, 4 + m), bias && m == 0 ? b : NULL,
                                                  gfx_floats(n_rows * stride, 77), n, stride};
        n_tiles += HALO_HIP_CEIL(n, HALO_GEMM_COLS);
    }
    gfx_run(name, HALO_HIP_CEIL(n_rows, HALO_GEMM_ROWS), n_tiles, 1, &args);
    for (uint32_t m = 0; m < 3; m++) {
        check_product(type, name, &args.matrix[m], x, before[m], n_cols, n_rows);
        free((void *)(uintptr_t)args.matrix[m].weight);
        free(args.matrix[m].out);
        free(before[m]);
    }
    halves_free(&h);
    free(x);
    free(b);
}

static void gemm(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < gfx_n_types; t++) {
        const uint32_t n_cols = gfx_types[t].block == 256 ? 512 : 96;
        gemm_shape(&gfx_types[t], n_cols, 9, (const uint32_t[]){130, 0, 0}, true);
        gemm_shape(&gfx_types[t], gfx_types[t].block == 256 ? 256 : 32, 33, (const uint32_t[]){31, 0, 0}, false);
    }
    gemm_shape(&gfx_types[3], 64, 200, (const uint32_t[]){257, 0, 0}, true);
    gemm_shape(&gfx_types[3], 224, 20, (const uint32_t[]){129, 5, 128}, true); /* more units than are loaded together */
    gemm_shape(&gfx_types[3], 32, 40, (const uint32_t[]){1, 256, 0}, false);
}

/* What products with a GLU in their epilogue leave, and what glu_half leaves of the same sums. */
struct glu_rows {
    uint32_t n_rows, n_cols;
    enum halo_glu_act act;
    float *gate, *up;
    struct halo_glu_arg glu;
};

static struct glu_rows glu_rows_make(uint32_t n_rows, uint32_t n_cols, enum halo_glu_act act, float limit)
{
    const size_t n = (size_t)n_rows * n_cols;
    uint8_t *shift = gfx_zeros(n / HALO_GLU_SEGMENT);
    memset(shift, 0xff, n / HALO_GLU_SEGMENT);
    return (struct glu_rows){n_rows,
                             n_cols,
                             act,
                             gfx_zeros(n * sizeof(float)),
                             gfx_zeros(n * sizeof(float)),
                             {gfx_zeros(n * sizeof(uint16_t)), shift, act, limit}};
}

/* The same bits, but for rows that were divided twice. Frees them. */
static void glu_rows_check(struct glu_rows *g, const char *name)
{
    static const char *const acts[] = {"silu", "gelu", "relu2", "clamped", "linear", "sigmoid"};
    const size_t n = (size_t)g->n_rows * g->n_cols;
    uint16_t *want = gfx_zeros(n * sizeof(*want));
    float *scale = gfx_zeros(g->n_rows * sizeof(float)), *want_scale = gfx_zeros(g->n_rows * sizeof(float));
    char act[20];
    snprintf(act, sizeof(act), "glu_half_%s", acts[g->act]);
    struct halo_glu_half_args glu = {g->gate, g->up, want, want_scale, g->n_cols, g->glu.limit};
    struct halo_half_align_args align = {g->glu.half, g->glu.shift, scale, g->n_cols, g->n_rows};
    gfx_run(act, g->n_rows, 1, 1, &glu);
    gfx_run("half_align", HALO_HIP_CEIL(g->n_rows, HALO_HALF_WAVES), 1, 1, &align);
    assert_memory_equal(scale, want_scale, g->n_rows * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        const double value = (double)gfx_half_float(want[i]);
        if (scale[i / g->n_cols] > 1)
            gfx_near((double)gfx_half_float(g->glu.half[i]), value, 1, 0x1p-24, name, (uint32_t)i);
        else if (g->glu.half[i] != want[i])
            fail_msg("%s: half %zu is %04x, wanted %04x", name, i, g->glu.half[i], want[i]);
    }
    free(g->gate);
    free(g->up);
    free(g->glu.half);
    free(g->glu.shift);
    free(want);
    free(scale);
    free(want_scale);
}

static void gemm_glu_of(const struct gfx_type *type, uint32_t n_rows, uint32_t n_out, enum halo_glu_act act)
{
    const uint32_t n_cols = 256, blocks = HALO_HIP_CEIL(n_rows, HALO_GEMM_ROWS);
    char name[40];
    snprintf(name, sizeof(name), "gemm_%s", type->name);
    float *x = gfx_floats(n_rows * n_cols, n_cols), *bias = gfx_floats(n_out, 8);
    for (uint32_t i = 0; i < n_cols; i++)
        x[i] *= 3e5f; /* squares of the first row's sums are no halves */
    struct halves h = halves_make(x, n_cols, n_rows);
    struct glu_rows g = glu_rows_make(n_rows, n_out, act, act == HALO_GLU_SILU ? 7 : 0);
    uint8_t *gate = gfx_weights(type->type, n_cols, n_out, 4), *up = gfx_weights(type->type, n_cols, n_out, 5);
    struct halo_gemm_args args = {.matrix = {{gate, bias, g.gate, n_out, n_out}, {up, NULL, g.up, n_out, n_out}},
                                  .half = h.half,
                                  .scale = h.scale,
                                  .n_cols = n_cols,
                                  .n_rows = n_rows};
    gfx_run(name, blocks, 2 * HALO_HIP_CEIL(n_out, HALO_GEMM_COLS), 1, &args);
    args.matrix[0].out = args.matrix[1].out = NULL;
    args.glu = g.glu;
    gfx_run(name, blocks, HALO_HIP_CEIL(n_out, HALO_GEMM_COLS / 2), 1, &args);
    glu_rows_check(&g, name);
    halves_free(&h);
    free(x);
    free(bias);
    free(gate);
    free(up);
}

static void gemm_glu(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < gfx_n_types; t += TYPE_STEP)
        gemm_glu_of(&gfx_types[t], t % 2 ? 9 : 140, 96, (enum halo_glu_act)(t % HALO_GLU_ACTS));
    gemm_glu_of(&gfx_types[1], 40, 160, HALO_GLU_LINEAR);
    gemm_glu_of(&gfx_types[3], 32, 32, HALO_GLU_LINEAR);
}

/* Three matrices, the rows of x by an index or in order. */
static void strip_shape(const struct gfx_type *type, uint32_t n_cols, uint32_t n_rows, const uint32_t *index)
{
    enum { N = 3, X = HALO_STRIP_X_WIDE, ROWS = X + 1, STRIDE = 40 };
    static const uint32_t n_weight_rows[N] = {33, 5, 16};
    char name[40];
    const uint32_t cols = n_rows > HALO_STRIP_X ? HALO_STRIP_PANELS_WIDE * HALO_STRIP_COLS : HALO_STRIP_COLS;
    snprintf(name, sizeof(name), "strip_%s%s", type->name, n_rows > HALO_STRIP_X ? "_x64" : n_rows > 8 ? "_x32" : "");
    float *x = gfx_floats(X * n_cols, n_cols), *bias = gfx_floats(33, 8), *out[N];
    for (uint32_t i = 0; i < n_cols; i++)
        x[i] *= 3e5f; /* the first row has a scale */
    bool quantized = halo_hip_planes(type->type) != 0;
    struct halves h = quantized ? strips_make(x, n_cols, X) : halves_make(x, n_cols, X);
    struct halo_strip_args args = {.half = h.half,
                                   .scale = h.scale,
                                   .row_index = index,
                                   .n_matrices = N,
                                   .n_cols = n_cols,
                                   .n_rows = n_rows,
                                   .x_stride = quantized ? halo_hip_strip_stride(n_cols) : n_cols};
    uint8_t *weight[N];
    uint32_t blocks = 0;
    for (uint32_t m = 0; m < N; m++) {
        weight[m] = gfx_weights(type->type, n_cols, n_weight_rows[m], 4 + m);
        out[m] = gfx_floats(ROWS * STRIDE, 77);
        args.matrix[m] = (struct halo_matrix_arg){weight[m], m ? NULL : bias, out[m], n_weight_rows[m], STRIDE};
        blocks += HALO_HIP_CEIL(n_weight_rows[m], cols);
    }
    float *before = gfx_floats(ROWS * STRIDE, 77);
    gfx_run(name, blocks, 1, 1, &args);
    for (uint32_t m = 0; m < N; m++) {
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t i = 0; i < STRIDE; i++) {
                if (r >= n_rows || i >= n_weight_rows[m]) {
                    assert_memory_equal(out[m] + r * STRIDE + i, before + r * STRIDE + i, sizeof(float));
                    continue;
                }
                double size, want = dot(type, weight[m] + i * halo_hip_row_layout(type->type, n_cols).stride,
                                        x + (index ? index[r] : r) * n_cols, n_cols, &size);
                gfx_near((double)out[m][r * STRIDE + i], want + (m ? 0 : (double)bias[i]), 1e-3, size, name,
                         r * STRIDE + i);
            }
        free(weight[m]);
        free(out[m]);
    }
    halves_free(&h);
    free(x);
    free(bias);
    free(before);
}

static void strip(void **state)
{
    (void)state;
    static const uint32_t index[8] = {7, 0, 3, 3, 1, 6, 2, 5};
    for (uint32_t t = 0; t < gfx_n_types; t++) {
        if (gfx_types[t].type == HALO_TYPE_F32)
            continue;
#ifdef HALO_TEST_GFX11 /* its code objects have no other strip (strip.hip) */
        if (gfx_types[t].type != HALO_TYPE_F16)
            continue;
#endif
        strip_shape(&gfx_types[t], gfx_types[t].block == 256 ? 256 : 96, 5, NULL);
        strip_shape(&gfx_types[t], gfx_types[t].block == 256 ? 768 : 13 * 32, 8, index);
#ifndef HALO_TEST_GFX11 /* nor one of more rows */
        strip_shape(&gfx_types[t], gfx_types[t].block == 256 ? 256 : 9 * 32, t % 2 ? 9 : 32, NULL);
        strip_shape(&gfx_types[t], gfx_types[t].block == 256 ? 256 : 9 * 32, t % 2 ? 64 : 33, NULL);
#endif
    }
}

/* Sorts the slots and multiplies them in tiles. */
static void moe_in_tiles(const char *type, const float *choice, uint32_t n_slots, uint32_t n_experts, uint32_t *slot,
                         struct halo_moe_tile *tile, struct halo_moe_gemm_args args)
{
    const uint32_t n_tiles = n_slots / HALO_GEMM_ROWS + (n_experts < n_slots ? n_experts : n_slots);
    struct halo_moe_group_args group = {choice, slot, tile, n_slots, args.n_used, n_experts, n_tiles};
    char name[40];
    snprintf(name, sizeof(name), "moe_gemm_%s", type);
    gfx_run("moe_group", n_experts, 1, 1, &group);
    const uint32_t n_plain =
        HALO_HIP_CEIL(args.matrix[0].n_rows, HALO_GEMM_COLS) + HALO_HIP_CEIL(args.matrix[1].n_rows, HALO_GEMM_COLS);
    gfx_run(name, n_tiles, args.glu.half ? HALO_HIP_CEIL(args.matrix[0].n_rows, HALO_GEMM_COLS / 2) : n_plain, 1,
            &args);
}

/* Of six experts one is idle, and expert 0 has four of nine slots. */
static void moe_choose(float *choice, uint32_t n_slots, uint32_t n_used)
{
    for (uint32_t s = 0; s < n_slots; s++) {
        int32_t expert = (int32_t)((s / n_used * s % n_used * 2 + s % n_used) % 5);
        memcpy(&choice[s / n_used * 2 * n_used + n_used + s % n_used], &expert, 4);
    }
}

static void moe_glu_of(const struct gfx_type *type)
{
    enum { ROWS = 21, USED = 3, EXPERTS = 6, COLS = 256, OUT = 96, SLOTS = ROWS * USED };
    const uint64_t expert_bytes = halo_hip_weight_bytes(type->type, COLS, OUT);
    float choice[ROWS][2 * USED];
    uint32_t slot[SLOTS];
    struct halo_moe_tile tile[SLOTS / HALO_GEMM_ROWS + EXPERTS];
    float *x = gfx_floats(ROWS * COLS, 2), *bias = gfx_floats(EXPERTS * OUT, 5);
    uint8_t *gate = gfx_weights(type->type, COLS, OUT * EXPERTS, 3),
            *up = gfx_weights(type->type, COLS, OUT * EXPERTS, 4);
    for (uint32_t i = 0; i < COLS; i++)
        x[5 * COLS + i] *= 3e5f;
    struct halves h = halves_make(x, COLS, ROWS);
    struct glu_rows g = glu_rows_make(SLOTS, OUT, HALO_GLU_SILU, 0);
    struct halo_moe_gemm_args args = {
        .matrix = {{gate, expert_bytes, g.gate, NULL, OUT, OUT}, {up, expert_bytes, g.up, bias, OUT, OUT}},
        .half = h.half,
        .scale = h.scale,
        .slot = slot,
        .tile = tile,
        .n_cols = COLS,
        .n_used = USED};
    moe_choose(&choice[0][0], SLOTS, USED);
    moe_in_tiles(type->name, &choice[0][0], SLOTS, EXPERTS, slot, tile, args);
    args.glu = g.glu;
    moe_in_tiles(type->name, &choice[0][0], SLOTS, EXPERTS, slot, tile, args);
    glu_rows_check(&g, "moe_gemm with a GLU");
    halves_free(&h);
    free(x);
    free(bias);
    free(gate);
    free(up);
}

static void moe_glu(void **state)
{
    (void)state;
    for (uint32_t t = 1; t < gfx_n_types; t += 4)
        moe_glu_of(&gfx_types[t]);
}

/* As many rows together as the kernel takes; a row of x has x_bytes. */
static void moe_few_rows(const char *name, struct halo_moe_gemv_args args, uint32_t n_rows, uint32_t x_bytes)
{
    for (uint32_t first = 0, n; first < n_rows; first += n) {
        n = n_rows - first < HALO_MOE_ROWS_MAX ? n_rows - first : HALO_MOE_ROWS_MAX;
        args.n_blocks = args.n_slot_blocks * n * args.n_used;
        args.n_grid = args.n_blocks / 2;
        gfx_run(name, args.n_grid, 1, 1, &args);
        args.x = (const uint8_t *)args.x + (size_t)n * (args.per_slot ? args.n_used : 1) * x_bytes;
        args.choice += (size_t)n * 2 * args.n_used;
        args.matrix[0].out += (size_t)n * args.n_used * args.matrix[0].out_stride;
    }
}

static void moe(void **state)
{
    (void)state;
    enum {
        ROWS = 21,
        MANY = 100, /* for experts with more slots than a tile has */
        USED = 3,
        EXPERTS = 6,
        COLS = 256,
        OUT = 40,
        SLOTS = MANY * USED,
        TILES = SLOTS / HALO_GEMM_ROWS + EXPERTS
    };
    for (uint32_t t = 0; t < gfx_n_types; t += TYPE_STEP) {
        const struct gfx_type *type = &gfx_types[t];
        const uint64_t expert_bytes = halo_hip_weight_bytes(type->type, COLS, OUT);
        const uint32_t n_rows = t == 3 ? MANY : ROWS, n_slots = n_rows * USED;
        float choice[MANY][2 * USED];
        uint32_t slot[SLOTS];
        struct halo_moe_tile tile[TILES];
        float *x = gfx_floats(SLOTS * COLS, 2), *bias = gfx_floats(EXPERTS * OUT, 5), *few = gfx_zeros(SLOTS * OUT * 4),
              *many = gfx_zeros(SLOTS * OUT * 4), *first = gfx_zeros(SLOTS * OUT * 4),
              *second = gfx_zeros(SLOTS * OUT * 4);
        uint8_t *weight = gfx_weights(type->type, COLS, OUT * EXPERTS, 3),
                *act = gfx_zeros((size_t)SLOTS * halo_hip_act_bytes(COLS));
        moe_choose(&choice[0][0], n_slots, USED);
        const uint32_t per_slot = t % 2, n_x = per_slot ? n_slots : n_rows;
        for (uint32_t r = 0; r < n_x; r++)
            gfx_quantize(x + r * COLS, COLS, act + r * halo_hip_act_bytes(COLS));
        struct halves h = halves_make(x, COLS, n_x);
        char name[40];
        struct halo_moe_gemm_args gemm_args = {
            {{weight, expert_bytes, many, NULL, OUT, OUT}}, h.half, h.scale, slot, tile, NULL, COLS, USED, per_slot};
        moe_in_tiles(type->name, &choice[0][0], n_slots, EXPERTS, slot, tile, gemm_args);
        gemm_args.matrix[0].out = first;
        gemm_args.matrix[1] = (struct halo_expert_arg){weight, expert_bytes, second, bias, OUT, OUT};
        moe_in_tiles(type->name, &choice[0][0], n_slots, EXPERTS, slot, tile, gemm_args);
        assert_memory_equal(many, first, SLOTS * OUT * 4);
        snprintf(name, sizeof(name), "moe_gemv_%s", type->name);
        const uint32_t blocks = HALO_HIP_CEIL(OUT, HALO_MOE_GEMV_ROWS(type->block == 1, COLS));
        struct halo_moe_gemv_args gemv_args = {.matrix = {{weight, expert_bytes, few, NULL, OUT, OUT}},
                                               .x = type->block == 1 ? (void *)x : act,
                                               .choice = &choice[0][0],
                                               .n_cols = COLS,
                                               .n_used = USED,
                                               .per_slot = per_slot,
                                               .n_slot_blocks = blocks};
        moe_few_rows(name, gemv_args, n_rows,
                     type->block == 1 ? COLS * (uint32_t)sizeof(float) : halo_hip_act_bytes(COLS));
        for (uint32_t s = 0; s < n_slots; s++)
            for (uint32_t i = 0; i < OUT; i++) {
                int32_t expert;
                memcpy(&expert, &choice[s / USED][USED + s % USED], 4);
                const uint8_t *row =
                    weight + (uint64_t)expert * expert_bytes + i * halo_hip_row_layout(type->type, COLS).stride;
                double size, want = dot(type, row, x + (per_slot ? s : s / USED) * COLS, COLS, &size);
                gfx_near((double)many[s * OUT + i], want, 1e-3, size, "moe_gemm", s * OUT + i);
                gfx_near((double)second[s * OUT + i], want + (double)bias[(uint32_t)expert * OUT + i], 1e-3, size,
                         "moe_gemm of two", s * OUT + i);
                gfx_near((double)few[s * OUT + i], want, 8e-3, size, name, s * OUT + i); /* int8 activations */
            }
        halves_free(&h);
        void *buffers[] = {x, bias, few, many, first, second, weight, act};
        for (uint32_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
            free(buffers[i]);
    }
}

/* Tiles for n_slots slots, the most of them of one expert. */
static void group_in(uint32_t n_slots, uint32_t n_used, uint32_t n_experts)
{
    const uint32_t n_tiles = n_slots / HALO_GEMM_ROWS + (n_experts < n_slots ? n_experts : n_slots), row = 2 * n_used;
    float *choice = gfx_zeros(n_slots * 2 * sizeof(float));
    uint32_t *slot = gfx_zeros(n_slots * sizeof(*slot)), *seen = gfx_zeros(n_slots * sizeof(*seen)), seed = 1, n = 0;
    struct halo_moe_tile *tile = gfx_zeros((n_tiles + 1) * sizeof(*tile));
    for (uint32_t s = 0; s < n_slots; s++) {
        int32_t expert = s % 5 < 2 ? (int32_t)n_experts - 1 : (int32_t)(gfx_random(&seed) % n_experts);
        memcpy(&choice[s / n_used * row + n_used + s % n_used], &expert, 4);
    }
    memset(tile, 0xff, (n_tiles + 1) * sizeof(*tile));
    struct halo_moe_group_args args = {choice, slot, tile, n_slots, n_used, n_experts, n_tiles};
    gfx_run("moe_group", n_experts, 1, 1, &args);
    for (uint32_t t = 0; t < n_tiles; t++) {
        assert_true(tile[t].n_slots <= HALO_GEMM_ROWS);
        if (tile[t].n_slots > 0)
            assert_int_equal(tile[t].first, n);
        for (uint32_t i = 0; i < tile[t].n_slots; i++, n++) {
            int32_t expert;
            assert_true(slot[n] < n_slots && (i == 0 || slot[n] > slot[n - 1])); /* in their order */
            memcpy(&expert, &choice[slot[n] / n_used * row + n_used + slot[n] % n_used], 4);
            assert_int_equal(expert, tile[t].expert);
            seen[slot[n]]++;
        }
    }
    assert_int_equal(n, n_slots);
    for (uint32_t s = 0; s < n_slots; s++)
        assert_int_equal(seen[s], 1);
    assert_int_equal(tile[n_tiles].n_slots, UINT32_MAX); /* nothing behind the array */
    free(choice);
    free(slot);
    free(seen);
    free(tile);
}

static void group(void **state)
{
    (void)state;
    group_in(140, 2, 300); /* fewer slots than experts */
    group_in(2048 * 8, 8, 16);
    group_in(777 * 3, 3, 7);
    group_in(9, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_rows), cmocka_unit_test(gemm),     cmocka_unit_test(strip),   cmocka_unit_test(moe),
        cmocka_unit_test(group),     cmocka_unit_test(gemm_glu), cmocka_unit_test(moe_glu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
