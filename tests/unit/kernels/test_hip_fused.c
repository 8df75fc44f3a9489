/* test_hip_fused.c: products of one row that have the op behind them in their epilogue (gate and up with their GLU, a
 * product with the residual row and its RMS norm, whose readers bring its factor), products of two types in one launch,
 * and in mixtures the norm in front of the router and the GLU in front of the last products of the experts; of many
 * rows gate and up with their GLU. The same numbers as on the CPU device, which has none of this.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "hip_compare.h"

enum { WIDTH = 512, FF = 768, SMALL = 256, MOST = 4 };

/* An element whose eighth bit another rounding changes is off by 1 / 127 of its unit's largest. */
#define BOUND 4e-3

/* A layer behind its attention: the product of its output, two norms, the GLU, then what the next layer begins with. */
static uint16_t build(struct fixture *f, enum halo_type type, enum halo_type other, enum halo_glu_act act, bool biased,
                      uint16_t ret_out[3])
{
    const enum halo_weight_role matrix = HALO_WEIGHT_MATRIX, vector = HALO_WEIGHT_VECTOR;
    const uint32_t none = HALO_WEIGHT_NONE;
    fixture_init(f, N_VOCAB, MAX_ROWS, CONTEXT);
    uint16_t in = fixture_input(f, SMALL, 1), x = fixture_input(f, WIDTH, 3), out = fixture_value(f, WIDTH),
             y = fixture_value(f, WIDTH), gate = fixture_value(f, FF), up = fixture_value(f, FF);
    uint32_t bias[3];
    for (uint32_t i = 0; i < 3; i++)
        bias[i] = biased ? fixture_weight(f, HALO_TYPE_F32, vector, i == 0 ? WIDTH : FF, 1, 1, 1) : none;
    uint32_t w_out = fixture_weight(f, type, matrix, SMALL, WIDTH, 1, 1),
             w_gate = fixture_weight(f, type, matrix, WIDTH, FF, 1, 1),
             w_up = fixture_weight(f, type, matrix, WIDTH, FF, 1, 1),
             w_down = fixture_weight(f, other, matrix, FF, WIDTH, 1, 1), w[3];
    for (uint32_t i = 0; i < 3; i++) {
        w[i] = fixture_weight(f, i == 2 ? other : type, matrix, WIDTH, SMALL + 16 * i, 1, 1);
        ret_out[i] = fixture_value(f, SMALL + 16 * i);
    }
    fixture_op(f, (struct halo_op){HALO_OP_MATMUL, .u.matmul = {in, 1, {w_out}, {bias[0]}, {out}}});
    fixture_op(f, (struct halo_op){HALO_OP_RMSNORM,
                                   .u.rmsnorm = {.weight = fixture_weight(f, HALO_TYPE_F32, vector, WIDTH, 1, 1, 1),
                                                 .x = x,
                                                 .add = out,
                                                 .out = y,
                                                 .eps = 1e-5f,
                                                 .add_scale = biased ? 0.5f : 1,
                                                 .bias = none,
                                                 .x_scale = biased ? 3 : 0}});
    fixture_op(f, (struct halo_op){HALO_OP_MATMUL, .u.matmul = {y, 2, {w_gate, w_up}, {bias[1], bias[2]}, {gate, up}}});
    fixture_op(f, (struct halo_op){HALO_OP_GLU, .u.glu = {gate, up, gate, act, biased ? 0.75f : 0}});
    fixture_op(f, (struct halo_op){HALO_OP_MATMUL, .u.matmul = {gate, 1, {w_down}, {none}, {out}}});
    fixture_rmsnorm(f, fixture_weight(f, HALO_TYPE_F32, vector, WIDTH, 1, 1, 1), x, out, y);
    fixture_op(f,
               (struct halo_op){
                   HALO_OP_MATMUL,
                   .u.matmul = {y, 3, {w[0], w[1], w[2]}, {none, none, none}, {ret_out[0], ret_out[1], ret_out[2]}}});
    return x;
}

/* One run on each device, and these values of all rows. */
static void compare(struct fixture *f, const char *what, const uint16_t *values, uint32_t n_values, uint32_t n_rows,
                    double bound)
{
    float *want[MOST], *have[MOST];
    for (int hip = 0; hip < 2; hip++) {
        if (hip)
            use_hip(f);
        else
            use_cpu(f);
        float **to = hip ? have : want;
        to[0] = run_and_peek(f, values[0], n_rows, 0);
        for (uint32_t i = 1; i < n_values; i++) {
            uint32_t width = f->values[values[i]].width;
            to[i] = calloc((size_t)n_rows * width, sizeof(float));
            assert_non_null(to[i]);
            for (uint32_t r = 0; r < n_rows; r++)
                fixture_peek(f, values[i], r, to[i] + (size_t)r * width);
        }
    }
    for (uint32_t i = 0; i < n_values; i++) {
        char which[96];
        snprintf(which, sizeof(which), "%s, value %u of %u rows", what, i, n_rows);
        compare_rows(which, have[i], want[i], n_rows, f->values[values[i]].width, bound);
        free(want[i]);
        free(have[i]);
    }
}

static void a_layer_is_that_of_the_cpu(void **state)
{
    static const enum halo_type types[][2] = {{HALO_TYPE_Q4_K, HALO_TYPE_Q6_K},
                                              {HALO_TYPE_Q5_K, HALO_TYPE_Q6_K},
                                              {HALO_TYPE_Q6_K, HALO_TYPE_Q8_0},
                                              {HALO_TYPE_Q8_0, HALO_TYPE_Q4_K},
                                              {HALO_TYPE_Q4_K, HALO_TYPE_Q4_K}};
    for (uint32_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
        for (uint32_t biased = 0; biased < 2; biased++) {
            struct fixture f;
            uint16_t out[3];
            char what[64];
            enum halo_glu_act act = (enum halo_glu_act)((2 * t + biased) % 6);
            uint16_t x = build(&f, types[t][0], types[t][1], act, biased, out);
            const uint16_t values[] = {x, out[0], out[1], out[2]};
            snprintf(what, sizeof(what), "%s and %s, act %u%s", halo_type_info(types[t][0]).name,
                     halo_type_info(types[t][1]).name, act, biased ? ", biases" : "");
            compare(&f, what, values, MOST, 1, BOUND);
            fixture_finish(&f);
        }
}

/* Gate and up leave the rows of their GLU in f16 for the product behind it. F32 has no strips. */
static void many_rows_are_those_of_the_cpu(void **state)
{
    struct fixture f;
    uint16_t out[3];
    uint16_t x = build(&f, HALO_TYPE_F32, HALO_TYPE_F32, HALO_GLU_GELU, true, out);
    compare(&f, "gate and up of F32", &x, 1, 33, BOUND);
    fixture_finish(&f);
}

enum { EXPERTS = 9, USED = 3 };
struct mixture {
    uint16_t x, normed, choice, down;
};

/* A norm, the router behind it, and the experts up to their last products. */
static struct mixture build_mixture(struct fixture *f, enum halo_type type, uint32_t width, uint32_t ff,
                                    enum halo_glu_act act, bool joins, bool scored)
{
    const enum halo_weight_role vector = HALO_WEIGHT_VECTOR, experts = HALO_WEIGHT_EXPERTS;
    const uint32_t none = HALO_WEIGHT_NONE;
    fixture_init(f, N_VOCAB, MAX_ROWS, CONTEXT);
    uint16_t x = fixture_input(f, width, 3), add = joins ? fixture_input(f, width, 1) : HALO_NONE,
             normed = fixture_value(f, width), router = fixture_value(f, EXPERTS), choice = fixture_value(f, 2 * USED),
             gate = fixture_value(f, USED * ff), up = fixture_value(f, USED * ff),
             down = fixture_value(f, USED * width);
    uint32_t w_norm = fixture_weight(f, HALO_TYPE_F32, vector, width, 1, 1, 1),
             w_router = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_MATRIX, width, EXPERTS, 1, 1),
             w_gate = fixture_weight(f, type, experts, width, ff, EXPERTS, 1),
             w_up = fixture_weight(f, type, experts, width, ff, EXPERTS, 1),
             w_down = fixture_weight(f, type, experts, ff, width, EXPERTS, 1),
             bias = fixture_weight(f, HALO_TYPE_F32, vector, width, EXPERTS, 1, 3);
    fixture_rmsnorm(f, w_norm, x, add, normed);
    fixture_op(f, (struct halo_op){HALO_OP_MATMUL, .u.matmul = {normed, 1, {w_router}, {none}, {router}}});
    fixture_op(f, (struct halo_op){HALO_OP_MOE_ROUTE,
                                   .u.moe_route = {router, choice, EXPERTS, USED, true, 1,
                                                   scored ? HALO_MOE_SIGMOID : HALO_MOE_SOFTMAX, .bias = none}});
    fixture_op(f, (struct halo_op){
                      HALO_OP_MOE_MATMUL,
                      .u.moe_matmul = {normed, choice, 2, false, {w_gate, w_up}, {gate, up}, USED, HALO_WEIGHTS_NONE}});
    fixture_op(f, (struct halo_op){HALO_OP_GLU, .u.glu = {gate, up, gate, act, 0}});
    fixture_op(f, (struct halo_op){HALO_OP_MOE_MATMUL,
                                   .u.moe_matmul = {gate, choice, 1, true, {w_down}, {down}, USED, {bias, none}}});
    return (struct mixture){x, normed, choice, down};
}

/* Rows of experts that a wave takes four or two at a time; norms of one and of several elements a thread. */
static void a_mixture_is_that_of_the_cpu(void **state)
{
    static const enum halo_type types[] = {HALO_TYPE_Q4_K, HALO_TYPE_Q6_K, HALO_TYPE_Q8_0, HALO_TYPE_Q5_K,
                                           HALO_TYPE_MXFP4};
    static const uint32_t widths[] = {256, 1280, 512, 2304, 288}, ffs[] = {512, 256, 1280, 256, 96};
    for (uint32_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        struct fixture f;
        char what[64];
        struct mixture m = build_mixture(&f, types[t], widths[t], ffs[t], (enum halo_glu_act)t, t != 1, t == 2);
        const uint16_t values[] = {m.x, m.normed, m.choice, m.down};
        snprintf(what, sizeof(what), "experts of %s", halo_type_info(types[t]).name);
        compare(&f, what, values, MOST, 1, BOUND);
        if (t == 0)
            compare(&f, what, values, MOST, 3, BOUND);
        fixture_finish(&f);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_layer_is_that_of_the_cpu),
                                       cmocka_unit_test(many_rows_are_those_of_the_cpu),
                                       cmocka_unit_test(a_mixture_is_that_of_the_cpu)};
    return compare_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
