/* test_cpu_latent.c: what latent attention is made of: parts of heads put beside each other, a matrix for each head, a
 * cache that keeps one row for K and V. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu_fixture.h"

#define N_VOCAB 29
#define N_ROWS 11

static const int32_t tokens[N_ROWS] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};

/* Every element comes from where the op says, with a part of b for each head and with one for all. */
static void concat(void **state)
{
    enum { HEADS = 3, A = 7, FIRST = 2, N_A = 4, N_B = 5, WIDTH = HEADS * (N_A + N_B) };
    struct fixture f;
    fixture_init(&f, N_VOCAB, N_ROWS, 32);
    uint16_t a = fixture_input(&f, HEADS * A, 1), b = fixture_input(&f, HEADS * N_B, 1),
             one = fixture_input(&f, N_B, 1);
    uint16_t out[] = {fixture_value(&f, WIDTH), fixture_value(&f, WIDTH), fixture_value(&f, HEADS * N_A)};
    fixture_op(&f, (struct halo_op){HALO_OP_CONCAT, .u.concat = {a, b, out[0], HEADS, FIRST, N_A, N_B, false}});
    fixture_op(&f, (struct halo_op){HALO_OP_CONCAT, .u.concat = {a, one, out[1], HEADS, FIRST, N_A, N_B, true}});
    fixture_op(&f, (struct halo_op){HALO_OP_CONCAT, .u.concat = {a, HALO_NONE, out[2], HEADS, FIRST, N_A, 0, false}});
    fixture_open(&f, NULL, 2);
    fixture_run(&f, 0, tokens, N_ROWS, 0, NULL);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        float from[HEADS * A], each[HEADS * N_B], all[N_B], got[3][WIDTH];
        fixture_peek(&f, a, r, from);
        fixture_peek(&f, b, r, each);
        fixture_peek(&f, one, r, all);
        for (uint32_t i = 0; i < 3; i++)
            fixture_peek(&f, out[i], r, got[i]);
        for (uint32_t h = 0; h < HEADS; h++) {
            const float *both = got[0] + (size_t)h * (N_A + N_B), *shared = got[1] + (size_t)h * (N_A + N_B);
            assert_memory_equal(both, from + h * A + FIRST, N_A * sizeof(float));
            assert_memory_equal(both + N_A, each + h * N_B, N_B * sizeof(float));
            assert_memory_equal(shared, from + h * A + FIRST, N_A * sizeof(float));
            assert_memory_equal(shared + N_A, all, N_B * sizeof(float));
            assert_memory_equal(got[2] + h * N_A, from + h * A + FIRST, N_A * sizeof(float));
        }
    }
    fixture_finish(&f);
}

/* Without a choice slot s takes matrix s. */
static void matrix_for_each_head(void **state)
{
    enum { HEADS = 5, IN = 24, OUT = 17 };
    struct fixture f;
    fixture_init(&f, N_VOCAB, N_ROWS, 32);
    uint16_t x = fixture_input(&f, HEADS * IN, 1), out = fixture_value(&f, HEADS * OUT);
    uint32_t weight = fixture_weight(&f, HALO_TYPE_F16, HALO_WEIGHT_EXPERTS, IN, OUT, HEADS, 1);
    fixture_op(&f,
               (struct halo_op){HALO_OP_MOE_MATMUL,
                                .u.moe_matmul = {x, HALO_NONE, 1, true, {weight}, {out}, HEADS, HALO_WEIGHTS_NONE}});
    fixture_open(&f, NULL, 2);
    fixture_run(&f, 0, tokens, N_ROWS, 0, NULL);
    float *w = fixture_floats(&f, weight);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        float in[HEADS * IN], got[HEADS * OUT];
        fixture_peek(&f, x, r, in);
        fixture_peek(&f, out, r, got);
        for (uint32_t i = 0; i < HEADS * OUT; i++) {
            double want = 0;
            for (uint32_t k = 0; k < IN; k++)
                want += (double)w[(size_t)i * IN + k] * (double)in[i / OUT * IN + k];
            assert_true(fabs((double)got[i] - want) < 1e-5);
        }
    }
    free(w);
    fixture_finish(&f);
}

/* Attention over a latent cache, or over one that keeps the same numbers as K and V. */
static void attend(enum halo_kv_type type, bool latent, uint32_t n_threads, float *ret)
{
    enum { HEADS = 20, K = 72, V = 64, STEPS = 9 };
    struct fixture f;
    fixture_init(&f, N_VOCAB, N_ROWS, 160);
    uint16_t q = fixture_input(&f, HEADS * K, 1), k = fixture_input(&f, K, 1), v = fixture_value(&f, V),
             out = fixture_value(&f, HEADS * V);
    fixture_kv(&f, type, 2, 1, K, V);
    f.plan.kv[0].latent = latent;
    fixture_op(&f, (struct halo_op){HALO_OP_CONCAT, .u.concat = {k, HALO_NONE, v, 1, 0, V, 0, false}});
    fixture_op(&f, (struct halo_op){HALO_OP_KV_WRITE, .u.kv_write = {k, latent ? HALO_NONE : v, 1}});
    fixture_op(&f,
               (struct halo_op){
                   HALO_OP_ATTEND,
                   .u.attend = {
                       .q = q, .out = out, .kv_layer = 1, .n_head = HEADS, .scale = 0.2f, .sinks = HALO_WEIGHT_NONE}});
    fixture_open(&f, NULL, n_threads);
    for (int32_t s = 0; s < STEPS; s++)
        fixture_run(&f, 1, tokens, N_ROWS, s * N_ROWS, NULL);
    for (uint32_t r = 0; r < N_ROWS; r++)
        fixture_peek(&f, out, r, ret + (size_t)r * HEADS * V);
    fixture_finish(&f);
}

static void one_row_for_k_and_v(void **state)
{
    enum { FLOATS = N_ROWS * 20 * 64 };
    static float latent[FLOATS], apart[FLOATS];
    for (int type = HALO_KV_F32; type <= HALO_KV_Q8; type++)
        for (uint32_t n_threads = 1; n_threads <= 3; n_threads += 2) {
            attend((enum halo_kv_type)type, true, n_threads, latent);
            attend((enum halo_kv_type)type, false, n_threads, apart);
            assert_memory_equal(latent, apart, sizeof(latent));
            assert_true(latent[0] != 0 && latent[0] != latent[1]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concat),
        cmocka_unit_test(matrix_for_each_head),
        cmocka_unit_test(one_row_for_k_and_v),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
