/* test_gfx_moe.c: launches of a mixture that do what two others do: they leave the same bits, and no counter behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <kernels/op.h>

#include "gfx_fixture.h"

enum { ROWS = 3, SHARED = 1 };

struct router {
    uint32_t n_expert, n_used, n_cols, n_shared, n_groups;
    bool scored, biased;
};

/* The launches by themselves: a product for each row, and their routing. */
static void route_apart(const struct halo_moe_router_args *a, bool scored)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        struct halo_gemv_args gemv = {
            .x = a->x + (size_t)r * a->n_cols, .n_matrices = HALO_ROUTER_MATRICES, .n_cols = a->n_cols, .n_rows = 1};
        for (uint32_t k = 0; k < HALO_ROUTER_MATRICES; k++) {
            gemv.matrix[k] = a->matrix[k];
            gemv.matrix[k].out += (size_t)r * a->matrix[k].n_rows;
            gemv.n_blocks += HALO_HIP_CEIL(a->matrix[k].n_rows, HALO_GEMV_ROWS(true, 1));
        }
        gemv.n_grid = gemv.n_blocks;
        gfx_run("gemv_f32_x1", gemv.n_grid, 1, 1, &gemv);
    }
    struct halo_moe_route_args route = a->route;
    gfx_run(scored ? "moe_route_scored" : "moe_route", ROWS, 1, 1, &route);
}

static void router_case(const struct router *s)
{
    const size_t n_choice = (size_t)ROWS * 2 * s->n_used * 4, n_logits = (size_t)ROWS * s->n_expert * 4;
    float *weight = gfx_floats(s->n_expert * s->n_cols, 1), *shared = gfx_floats(SHARED * s->n_cols, 2),
          *bias = gfx_floats(s->n_expert, 3), *x = gfx_floats(ROWS * s->n_cols, 4), *order = gfx_floats(s->n_expert, 5);
    float *logits = gfx_zeros(n_logits), *gate = gfx_zeros(ROWS * 4), *choice = gfx_zeros(n_choice),
          *want_logits = gfx_zeros(n_logits), *want_gate = gfx_zeros(ROWS * 4), *want = gfx_zeros(n_choice);
    uint32_t *counter = gfx_zeros(ROWS * sizeof(*counter));
    struct halo_moe_router_args args = {
        .route = {.logits = want_logits,
                  .choice = want,
                  .bias = s->scored ? order : NULL,
                  .n_expert = s->n_expert,
                  .n_used = s->n_used,
                  .normalise = 1,
                  .gate = s->scored ? HALO_MOE_SIGMOID : HALO_MOE_SOFTMAX,
                  .n_groups = s->n_groups,
                  .n_groups_used = s->n_groups / 2,
                  .scale = 1.5f},
        .matrix = {{weight, s->biased ? bias : NULL, want_logits, s->n_expert, s->n_expert},
                   {shared, NULL, want_gate, s->n_shared, s->n_shared}},
        .x = x,
        .counter = counter,
        .n_cols = s->n_cols};
    route_apart(&args, s->scored);
    args.route.logits = args.matrix[0].out = logits;
    args.route.choice = choice;
    args.matrix[1].out = gate;
    for (uint32_t again = 0; again < 2; again++) {
        memset(choice, 0x55, n_choice);
        gfx_run(s->scored ? "moe_router_scored" : "moe_router",
                HALO_HIP_CEIL(s->n_expert + s->n_shared, HALO_ROUTER_ROWS), ROWS, 1, &args);
        assert_memory_equal(logits, want_logits, n_logits);
        assert_memory_equal(gate, want_gate, ROWS * 4);
        assert_memory_equal(choice, want, n_choice);
        for (uint32_t r = 0; r < ROWS; r++)
            assert_int_equal(counter[r], 0);
    }
    void *buffers[] = {weight, shared, bias, x, order, logits, gate, choice, want_logits, want_gate, want, counter};
    for (uint32_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        free(buffers[i]);
}

static void routers(void **state)
{
    (void)state;
    static const struct router cases[] = {
        {1, 1, 4, 0, 0, false, false},      {8, 2, 96, 0, 0, false, true},     {31, 3, 1028, 1, 0, false, false},
        {128, 8, 2048, 0, 0, false, false}, {160, 40, 36, 1, 0, false, false}, {7, 2, 64, 1, 0, true, false},
        {64, 6, 2052, 0, 8, true, false},   {256, 8, 128, 1, 0, true, true},
    };
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        router_case(&cases[i]);
}

struct sum_norm {
    uint32_t n_cols, n_used;
    bool joins, add, gated;
};

static void sum_norm_case(const struct sum_norm *s)
{
    const uint32_t n = s->n_cols;
    const size_t n_row = (size_t)ROWS * n * 4, n_act = (size_t)ROWS * halo_hip_act_bytes(n);
    float *slots = gfx_floats(ROWS * s->n_used * n, 1), *choice = gfx_floats(ROWS * 2 * s->n_used, 2),
          *add = gfx_floats(ROWS * n, 3), *gate = gfx_floats(ROWS, 4), *weight = gfx_floats(n, 5);
    float *x = gfx_floats(ROWS * n, 6), *want_x = gfx_floats(ROWS * n, 6), *sum = gfx_zeros(n_row),
          *out = gfx_zeros(n_row), *want = gfx_zeros(n_row);
    uint8_t *act = gfx_zeros(n_act), *want_act = gfx_zeros(n_act);
    uint16_t *half = gfx_zeros(n_row / 2), *want_half = gfx_zeros(n_row / 2);
    float scale[ROWS] = {0}, want_scale[ROWS] = {0};
    const bool quantize = n % HALO_HIP_UNIT == 0;
    struct halo_moe_sum_args sums = {slots, choice, s->add ? add : NULL, s->gated ? gate : NULL, sum, n, s->n_used};
    struct halo_rmsnorm_args norm = {.x = s->joins ? want_x : sum,
                                     .add = s->joins ? sum : NULL,
                                     .weight = weight,
                                     .out = want,
                                     .act = quantize ? want_act : NULL,
                                     .n_cols = n,
                                     .eps = 1e-5f,
                                     .add_scale = 0.5f,
                                     .x_scale = s->joins ? 0.75f : 1,
                                     .half = quantize ? want_half : NULL,
                                     .half_scale = want_scale};
    gfx_run("moe_sum", HALO_HIP_CEIL(n, HALO_QUANTIZE_COLS), ROWS, 1, &sums);
    gfx_run("rmsnorm", ROWS, 1, 1, &norm);
    struct halo_moe_sum_norm_args args = {sums, norm, s->joins};
    args.sum.out = NULL;
    args.norm.x = x;
    args.norm.add = NULL;
    args.norm.out = out;
    args.norm.act = quantize ? act : NULL;
    args.norm.half = quantize ? half : NULL;
    args.norm.half_scale = scale;
    gfx_run("moe_sum_norm", ROWS, 1, 1, &args);
    assert_memory_equal(x, s->joins ? want_x : sum, n_row);
    assert_memory_equal(out, want, n_row);
    assert_memory_equal(act, want_act, n_act);
    assert_memory_equal(half, want_half, n_row / 2);
    assert_memory_equal(scale, want_scale, sizeof(scale));
    void *buffers[] = {slots, choice, add, gate, weight, x, want_x, sum, out, want, act, want_act, half, want_half};
    for (uint32_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        free(buffers[i]);
}

static void sums_and_norms(void **state)
{
    (void)state;
    static const struct sum_norm cases[] = {
        {32, 1, true, false, false},    {100, 2, false, false, false}, {1056, 8, true, true, true},
        {2048, 10, true, true, false},  {4128, 3, true, false, false}, {4096, 9, false, true, true},
        {4100, 4, false, false, false},
    };
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        sum_norm_case(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(routers), cmocka_unit_test(sums_and_norms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
