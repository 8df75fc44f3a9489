/* test_gfx_matmul.c: embed, gemv and quantize of every type, with odd shapes, against sums in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gfx_fixture.h"

/* Numbers of columns: of plain types, those for which the blocks of a one-row product are persistent, and those for
 * which they are not. */
enum { SHAPES_MAX = 6 };
static uint32_t shapes(const struct gfx_type *type, uint32_t ret[SHAPES_MAX])
{
    const uint32_t plain[] = {33, 40, 100, 256, 1160, 2052}, small[] = {32, 96, 1056, 2112}, super[] = {256, 768, 2304};
    const uint32_t *from = type->block == 1 ? plain : type->block == 32 ? small : super;
    uint32_t n = type->block == 1 ? 6 : type->block == 32 ? 4 : 3;
    memcpy(ret, from, n * sizeof(*ret));
    return n;
}

static void embed(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < gfx_n_types; t++) {
        const struct gfx_type *type = &gfx_types[t];
        uint32_t cols[SHAPES_MAX], n_shapes = shapes(type, cols);
        for (uint32_t s = 0; s < n_shapes; s++) {
            char name[32];
            snprintf(name, sizeof(name), "embed_%s", type->name);
            uint32_t n = cols[s], stride = halo_hip_row_layout(type->type, n).stride;
            uint8_t *weight = gfx_weights(type->type, n, 5, t);
            int32_t token[] = {4, 0, 2};
            float *out = gfx_zeros(3 * n * sizeof(*out));
            struct halo_embed_args args = {weight, token, out, n, 1.5f};
            gfx_run(name, 3, 1, 1, &args);
            for (uint32_t i = 0; i < 3 * n; i++) {
                double want = 1.5 * gfx_weight(type->type, weight + (uint32_t)token[i / n] * stride, n, i % n);
                gfx_near((double)out[i], want, 1e-6, fabs(want) + 0.1, name, i);
            }
            free(weight);
            free(out);
        }
    }
}

/* Rows of x in the form that the type takes, and element col of row r of them. */
struct input {
    void *data;
    uint32_t n_cols;
    bool plain;
};

static struct input input_make(const struct gfx_type *type, const float *x, uint32_t n_cols, uint32_t n_rows)
{
    struct input in = {NULL, n_cols, type->block == 1};
    in.data =
        gfx_zeros(in.plain ? (size_t)n_rows * n_cols * sizeof(float) : (size_t)n_rows * halo_hip_act_bytes(n_cols));
    for (uint32_t r = 0; r < n_rows; r++) {
        if (in.plain)
            memcpy((float *)in.data + r * n_cols, x + r * n_cols, n_cols * sizeof(float));
        else
            gfx_quantize(x + r * n_cols, n_cols, (uint8_t *)in.data + r * halo_hip_act_bytes(n_cols));
    }
    return in;
}

static double input_at(const struct input *in, uint32_t row, uint32_t col)
{
    return in->plain ? (double)((const float *)in->data)[row * in->n_cols + col]
                     : gfx_act((const uint8_t *)in->data + row * halo_hip_act_bytes(in->n_cols), in->n_cols, col);
}

/* The product and, for the bound, the sum of magnitudes. */
static double dot(const struct gfx_type *type, const uint8_t *row, const struct input *in, uint32_t x_row,
                  double *ret_size)
{
    double sum = 0;
    *ret_size = 0;
    for (uint32_t i = 0; i < in->n_cols; i++) {
        double product = gfx_weight(type->type, row, in->n_cols, i) * input_at(in, x_row, i);
        sum += product;
        *ret_size += fabs(product);
    }
    return sum;
}

static void check_product(const struct gfx_type *type, const struct halo_matrix_arg *m, const struct input *in,
                          uint32_t n_rows, const uint32_t *row_index, const char *name)
{
    uint32_t stride = halo_hip_row_layout(type->type, in->n_cols).stride;
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t i = 0; i < m->n_rows; i++) {
            double size, want = dot(type, (const uint8_t *)m->weight + (size_t)i * stride, in,
                                    row_index ? row_index[r] : r, &size);
            double bias = m->bias ? (double)m->bias[i] : 0;
            gfx_near((double)m->out[r * m->out_stride + i], want + bias, 2e-6, size + fabs(bias) + 1e-30, name, i);
        }
}

static void gemv_shape(const struct gfx_type *type, uint32_t n_cols, uint32_t n_rows)
{
    char name[40];
    snprintf(name, sizeof(name), "gemv_%s_x%u", type->name,
             n_rows == 1   ? 1u
             : n_rows == 2 ? 2u
             : n_rows <= 4 ? 4u
                           : 8u);
    const uint32_t n_weight_rows[3] = {17, 32, 3}, row_index[8] = {2, 0, 1, 7, 6, 5, 4, 3};
    float *x = gfx_floats(8 * n_cols, n_cols), *bias = gfx_floats(17, 3);
    struct input in = input_make(type, x, n_cols, 8);
    struct halo_gemv_args args = {.x = in.data, .n_matrices = 3, .n_cols = n_cols, .n_rows = n_rows};
    args.row_index = n_rows % 2 ? row_index : NULL;
    for (uint32_t m = 0; m < 3; m++) {
        args.matrix[m] =
            (struct halo_matrix_arg){.weight = gfx_weights(type->type, n_cols, n_weight_rows[m], 11 * m + n_cols),
                                     .bias = m == 0 ? bias : NULL,
                                     .out = gfx_floats(n_rows * (n_weight_rows[m] + m), 1),
                                     .n_rows = n_weight_rows[m],
                                     .out_stride = n_weight_rows[m] + m};
        args.n_blocks += HALO_HIP_CEIL(n_weight_rows[m], HALO_GEMV_ROWS(halo_hip_planes(type->type) == 0, n_rows));
    }
    /* With one row of x a grid of any size computes all rows: blocks are persistent. */
    const uint32_t least = n_rows == 1 && HALO_GEMV_PERSISTENT(n_cols) ? 1 : args.n_blocks;
    for (args.n_grid = least; args.n_grid <= args.n_blocks; args.n_grid++) {
        for (uint32_t m = 0; m < 3; m++)
            memset(args.matrix[m].out, 0xff, n_rows * args.matrix[m].out_stride * sizeof(float));
        gfx_run(name, args.n_grid, 1, 1, &args);
        for (uint32_t m = 0; m < 3; m++)
            check_product(type, &args.matrix[m], &in, n_rows, args.row_index, name);
    }
    for (uint32_t m = 0; m < 3; m++) {
        free((void *)args.matrix[m].weight);
        free(args.matrix[m].out);
    }
    free(in.data);
    free(x);
    free(bias);
}

static void gemv(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < gfx_n_types; t++) {
        uint32_t cols[SHAPES_MAX], n_shapes = shapes(&gfx_types[t], cols);
        for (uint32_t s = 0; s < n_shapes; s++)
            for (uint32_t n_rows = 1; n_rows <= 8; n_rows += s == 0 ? 1 : 3)
                gemv_shape(&gfx_types[t], cols[s], n_rows);
    }
}

/* Eight rows at once, and each of them alone from a single block, which is persistent where the type allows it. */
static void rows_alone(const struct gfx_type *type, uint32_t n_cols)
{
    enum { N = 35 };
    const bool plain = type->block == 1;
    char eight_name[40], one_name[40];
    snprintf(eight_name, sizeof(eight_name), "gemv_%s_x8", type->name);
    snprintf(one_name, sizeof(one_name), "gemv_%s_x1", type->name);
    float *x = gfx_floats(8 * n_cols, 5), *one = gfx_zeros(N * sizeof(*one)), *eight = gfx_zeros(8 * N * sizeof(*one));
    uint8_t *weight = gfx_weights(type->type, n_cols, N, 6);
    struct input in = input_make(type, x, n_cols, 8);
    struct halo_gemv_args args = {
        .matrix = {{weight, NULL, eight, N, N}}, .x = in.data, .n_matrices = 1, .n_cols = n_cols, .n_rows = 8};
    args.n_grid = args.n_blocks = HALO_HIP_CEIL(N, HALO_GEMV_ROWS(plain, 8));
    gfx_run(eight_name, args.n_grid, 1, 1, &args);
    args.matrix[0].out = one;
    args.n_rows = 1;
    args.n_blocks = HALO_HIP_CEIL(N, HALO_GEMV_ROWS(plain, 1));
    args.n_grid = HALO_GEMV_PERSISTENT(n_cols) ? 1 : args.n_blocks;
    for (uint32_t r = 0; r < 8; r++) {
        args.row_index = &r;
        memset(one, 0xff, N * sizeof(*one));
        gfx_run(one_name, args.n_grid, 1, 1, &args);
        for (uint32_t i = 0; i < N; i++)
            if (memcmp(&one[i], &eight[r * N + i], sizeof(*one)) != 0)
                fail_msg("%s of %u: row %u of x alone gives %.9g for weight row %u, beside seven others %.9g",
                         type->name, n_cols, r, (double)one[i], i, (double)eight[r * N + i]);
    }
    free(x);
    free(one);
    free(eight);
    free(weight);
    free(in.data);
}

/* A row's bits do not depend on the number of rows beside it. */
static void gemv_rows_alone(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < gfx_n_types; t++) {
        uint32_t cols[SHAPES_MAX], n_shapes = shapes(&gfx_types[t], cols);
        for (uint32_t s = 0; s < n_shapes; s++)
            rows_alone(&gfx_types[t], cols[s]);
    }
}

/* The products of the experts of each slot: n_rows rows of n_used slots, two matrices of unlike sizes. */
enum { EXPERTS = 5, EXPERT_ROWS = 3, EXPERTS_USED = 8 };
static const uint32_t expert_rows[2] = {37, 5};
struct experts {
    const struct gfx_type *type;
    uint32_t n_cols, n_rows, n_used, per_slot;
    float choice[EXPERT_ROWS][2 * EXPERTS_USED]; /* [row][2 * n_used] of it */
    uint8_t *weight[2];
    struct input in;
};

static uint32_t experts_pick(struct experts *e, uint32_t slot)
{
    int32_t expert = (int32_t)((slot * 7 + slot / e->n_used) % EXPERTS);
    memcpy(&e->choice[0][0] + (slot / e->n_used + 1) * e->n_used + slot, &expert, sizeof(expert));
    return (uint32_t)expert;
}

/* The expected result of one slot: the rows of its expert times its row of x. */
static void experts_slot(const struct experts *e, uint32_t m, uint32_t slot, uint32_t expert, float *out)
{
    char name[40];
    snprintf(name, sizeof(name), "gemv_%s_x1", e->type->name);
    const uint32_t n = expert_rows[m], row = e->per_slot ? slot : slot / e->n_used;
    uint64_t expert_bytes = halo_hip_weight_bytes(e->type->type, e->n_cols, n);
    struct halo_gemv_args args = {.matrix = {{e->weight[m] + expert * expert_bytes, NULL, out, n, n}},
                                  .x = e->in.data,
                                  .row_index = &row,
                                  .n_matrices = 1,
                                  .n_cols = e->n_cols,
                                  .n_rows = 1};
    args.n_grid = args.n_blocks = HALO_HIP_CEIL(n, HALO_GEMV_ROWS(e->type->block == 1, 1));
    gfx_run(name, args.n_grid, 1, 1, &args);
}

/* With all blocks, and with few persistent ones, the last of which gets more slots than it notes at once. */
static void experts_compare(struct experts *e)
{
    char name[40];
    snprintf(name, sizeof(name), "moe_gemv_%s", e->type->name);
    const uint32_t n_slots = e->n_rows * e->n_used, grids[3] = {UINT32_MAX, 5, 1};
    const bool plain = e->type->block == 1;
    float *want[2], *have[2];
    struct halo_moe_gemv_args args = {
        .x = e->in.data, .choice = &e->choice[0][0], .n_cols = e->n_cols, .n_used = e->n_used, .per_slot = e->per_slot};
    for (uint32_t m = 0; m < 2; m++) {
        const uint32_t n = expert_rows[m];
        want[m] = gfx_zeros(n_slots * n * sizeof(float));
        have[m] = gfx_zeros(n_slots * n * sizeof(float));
        for (uint32_t s = 0; s < n_slots; s++)
            experts_slot(e, m, s, experts_pick(e, s), want[m] + s * n);
        args.matrix[m] = (struct halo_expert_arg){.weight = e->weight[m],
                                                  .expert_bytes = halo_hip_weight_bytes(e->type->type, e->n_cols, n),
                                                  .out = have[m],
                                                  .n_rows = n,
                                                  .out_stride = n};
        args.n_slot_blocks += HALO_HIP_CEIL(n, HALO_MOE_GEMV_ROWS(plain, e->n_cols));
    }
    args.n_blocks = n_slots * args.n_slot_blocks;
    for (uint32_t g = 0; g < (HALO_GEMV_PERSISTENT(e->n_cols) ? 3 : 1); g++) {
        args.n_grid = grids[g] < args.n_blocks ? grids[g] : args.n_blocks;
        for (uint32_t m = 0; m < 2; m++)
            memset(have[m], 0xff, n_slots * expert_rows[m] * sizeof(float));
        gfx_run(name, args.n_grid, 1, 1, &args);
        for (uint32_t m = 0; m < 2; m++)
            for (uint32_t i = 0; i < n_slots * expert_rows[m]; i++)
                if (memcmp(&have[m][i], &want[m][i], sizeof(float)) != 0)
                    fail_msg("%s of %u, %u rows of %u slots, %u blocks: matrix %u, slot %u, row %u is %.9g, alone %.9g",
                             name, e->n_cols, e->n_rows, e->n_used, args.n_grid, m, i / expert_rows[m],
                             i % expert_rows[m], (double)have[m][i], (double)want[m][i]);
    }
    for (uint32_t m = 0; m < 2; m++) {
        free(want[m]);
        free(have[m]);
    }
}

/* A slot's bits are those of its product alone, whatever the other slots and the number of blocks. */
static void experts_alone(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < gfx_n_types; t++) {
        uint32_t cols[SHAPES_MAX], n_shapes = shapes(&gfx_types[t], cols);
        for (uint32_t s = 0; s < n_shapes; s++) {
            struct experts e = {&gfx_types[t], cols[s], s == 0 ? EXPERT_ROWS : 1 + s % 2, (s * 3 + t) % 8 + 1, s % 2};
            e.n_used = s == 0 ? EXPERTS_USED : e.n_used;
            const uint32_t n_x = EXPERT_ROWS * EXPERTS_USED;
            float *x = gfx_floats(n_x * cols[s], 8);
            e.in = input_make(e.type, x, cols[s], n_x);
            for (uint32_t m = 0; m < 2; m++)
                e.weight[m] = gfx_weights(e.type->type, cols[s], EXPERTS * expert_rows[m], 2 + m);
            experts_compare(&e);
            for (uint32_t m = 0; m < 2; m++)
                free(e.weight[m]);
            free(e.in.data);
            free(x);
        }
    }
}

static void quantize(void **state)
{
    (void)state;
    const uint32_t n_cols = 1120, n_rows = 3, stride = halo_hip_act_bytes(n_cols);
    float *x = gfx_floats(n_rows * n_cols, 9);
    for (uint32_t i = 0; i < 32; i++)
        x[64 + i] = 0;
    x[100] = INFINITY;
    x[n_cols + 1119] = NAN;
    for (uint32_t i = 0; i < 32; i++)
        x[2 * n_cols + i] *= 1e-37f;
    uint8_t *have = gfx_zeros((size_t)n_rows * stride), *want = gfx_zeros((size_t)n_rows * stride);
    struct halo_quantize_args args = {x, have, n_cols};
    gfx_run("quantize", HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS), n_rows, 1, &args);
    for (uint32_t r = 0; r < n_rows; r++)
        gfx_quantize(x + r * n_cols, n_cols, want + r * stride);
    assert_memory_equal(have, want, (size_t)n_rows * stride);
    free(x);
    free(have);
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed),         cmocka_unit_test(gemv),     cmocka_unit_test(gemv_rows_alone),
        cmocka_unit_test(experts_alone), cmocka_unit_test(quantize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
