/* test_cpu_moe.c: mixtures of experts: routing, its weights, the experts' products and their sum, against plain
 * double. */
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
#define N_ROWS 17
#define WIDTH_MAX 2048

static const char *const variants[] = {"reference", "avx2", "avx512"};

struct mixture {
    uint32_t n_expert, n_used, n_cols, n_rows;
    bool normalise;
    enum halo_type up, down;
    struct fixture f;
    uint16_t x, choice, hidden[2], out, sum;
    float *rows, *logits, *weight[3];
};

static void init(struct mixture *m)
{
    struct fixture *f = &m->f;
    fixture_init(f, N_VOCAB, N_ROWS, 32);
    m->x = fixture_input(f, m->n_cols, 1);
    uint16_t logits = fixture_input(f, m->n_expert, 4);
    m->choice = fixture_value(f, 2 * m->n_used);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_ROUTE,
                                   .u.moe_route = {logits, m->choice, m->n_expert, m->n_used, m->normalise, 1.5f}});
    struct halo_op_moe_matmul up = {.x = m->x, .choice = m->choice, .n = 2, .n_used = m->n_used};
    for (uint32_t k = 0; k < 2; k++) {
        up.weight[k] = fixture_weight(f, k == 0 ? m->up : HALO_TYPE_F16, HALO_WEIGHT_EXPERTS, m->n_cols, m->n_rows,
                                      m->n_expert, 1);
        up.out[k] = m->hidden[k] = fixture_value(f, m->n_used * m->n_rows);
    }
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .u.moe_matmul = up});
    struct halo_op_moe_matmul down = {
        .x = m->hidden[0], .choice = m->choice, .n = 1, .per_slot = true, .n_used = m->n_used};
    down.weight[0] = fixture_weight(f, m->down, HALO_WEIGHT_EXPERTS, m->n_rows, m->n_cols, m->n_expert, 1);
    down.out[0] = m->out = fixture_value(f, m->n_used * m->n_cols);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .u.moe_matmul = down});
    m->sum = fixture_value(f, m->n_cols);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_SUM, .u.moe_sum = {m->out, m->choice, m->sum, m->n_used}});
    m->rows = fixture_floats(f, 0);
    m->logits = fixture_floats(f, 1);
    for (uint32_t i = 0; i < 3; i++)
        m->weight[i] = fixture_floats(f, 2 + i);
}

static void finish(struct mixture *m)
{
    fixture_finish(&m->f);
    free(m->rows);
    free(m->logits);
    for (uint32_t i = 0; i < 3; i++)
        free(m->weight[i]);
}

static void check_choice(const struct mixture *m, const float *logits, const float *choice)
{
    double all = 0, chosen = 0, top = -INFINITY;
    int32_t expert[64];
    memcpy(expert, choice + m->n_used, m->n_used * sizeof(expert[0]));
    for (uint32_t e = 0; e < m->n_expert; e++)
        top = fmax(top, (double)logits[e]);
    for (uint32_t e = 0; e < m->n_expert; e++)
        all += exp((double)logits[e] - top);
    for (uint32_t s = 0; s < m->n_used; s++) {
        assert_in_range(expert[s], 0, m->n_expert - 1);
        /* The experts that rank before it: larger, or equal with a lower id. */
        uint32_t better = 0;
        for (uint32_t e = 0; e < m->n_expert; e++)
            better += logits[e] > logits[expert[s]] || (logits[e] == logits[expert[s]] && (int32_t)e < expert[s]);
        assert_int_equal(better, s);
        chosen += exp((double)logits[expert[s]] - top);
    }
    for (uint32_t s = 0; s < m->n_used; s++) {
        double want = 1.5 * exp((double)logits[expert[s]] - top) / (m->normalise ? chosen : all);
        assert_true(fabs((double)choice[s] - want) < 1e-6 * want + 1e-12);
    }
}

/* out = one expert times x, with the error that 8-bit activations may have for these magnitudes. */
static void check_product(const float *weight, uint32_t n_rows, uint32_t n_cols, const float *x, const float *out,
                          double relative)
{
    for (uint32_t n = 0; n < n_rows; n++) {
        double sum = 0, magnitude = 0;
        for (uint32_t i = 0; i < n_cols; i++) {
            sum += (double)weight[(size_t)n * n_cols + i] * (double)x[i];
            magnitude += fabs((double)weight[(size_t)n * n_cols + i] * (double)x[i]);
        }
        assert_true(fabs((double)out[n] - sum) <= relative * magnitude + 1e-6);
    }
}

static double bound_of(enum halo_type type)
{
    return halo_type_info(type).block_weights == 1 ? 1e-6 : 0.01;
}

static void check_row(struct mixture *m, uint32_t row, int32_t token)
{
    float choice[128], hidden[2][WIDTH_MAX], out[WIDTH_MAX], sum[WIDTH_MAX];
    int32_t expert[64];
    fixture_peek(&m->f, m->choice, row, choice);
    fixture_peek(&m->f, m->hidden[0], row, hidden[0]);
    fixture_peek(&m->f, m->hidden[1], row, hidden[1]);
    fixture_peek(&m->f, m->out, row, out);
    fixture_peek(&m->f, m->sum, row, sum);
    check_choice(m, m->logits + (size_t)token * m->n_expert, choice);
    memcpy(expert, choice + m->n_used, m->n_used * sizeof(expert[0]));
    size_t n = (size_t)m->n_rows * m->n_cols;
    for (uint32_t s = 0; s < m->n_used; s++) {
        const float *x = m->rows + (size_t)token * m->n_cols;
        check_product(m->weight[0] + expert[s] * n, m->n_rows, m->n_cols, x, hidden[0] + s * m->n_rows,
                      bound_of(m->up));
        check_product(m->weight[1] + expert[s] * n, m->n_rows, m->n_cols, x, hidden[1] + s * m->n_rows, 1e-6);
        check_product(m->weight[2] + expert[s] * n, m->n_cols, m->n_rows, hidden[0] + s * m->n_rows,
                      out + s * m->n_cols, bound_of(m->down));
    }
    for (uint32_t i = 0; i < m->n_cols; i++) {
        double want = 0, magnitude = 0;
        for (uint32_t s = 0; s < m->n_used; s++) {
            want += (double)choice[s] * (double)out[s * m->n_cols + i];
            magnitude += fabs((double)choice[s] * (double)out[s * m->n_cols + i]);
        }
        assert_true(fabs((double)sum[i] - want) <= 1e-6 * magnitude);
    }
}

/* All rows at once against double; then each row alone, in every variant and with other numbers of threads, must
 * repeat its bits.
 */
static void try_mixture(struct mixture m)
{
    static float first[N_ROWS][WIDTH_MAX];
    int32_t tokens[N_ROWS];
    bool have = false;
    init(&m);
    for (uint32_t r = 0; r < N_ROWS; r++)
        tokens[r] = (int32_t)(r * 3 % N_VOCAB);
    for (uint32_t v = 0; v < 3; v++) {
        if (!fixture_has(variants[v]))
            continue;
        for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
            float row[WIDTH_MAX];
            fixture_open(&m.f, variants[v], n_threads);
            fixture_run(&m.f, 0, tokens, N_ROWS, 0, NULL);
            for (uint32_t r = 0; r < N_ROWS; r++) {
                if (!have)
                    check_row(&m, r, tokens[r]);
                fixture_peek(&m.f, m.sum, r, have ? row : first[r]);
                assert_true(!have || memcmp(first[r], row, m.n_cols * sizeof(float)) == 0);
            }
            have = true;
            for (uint32_t r = 0; r < N_ROWS; r++) {
                fixture_run(&m.f, 0, tokens + r, 1, (int32_t)r, NULL);
                fixture_peek(&m.f, m.sum, 0, row);
                assert_memory_equal(first[r], row, m.n_cols * sizeof(float));
            }
        }
    }
    assert_true(have);
    finish(&m);
}

static void experts_of_every_shape(void **state)
{
    try_mixture((struct mixture){.n_expert = 8,
                                 .n_used = 2,
                                 .n_cols = 64,
                                 .n_rows = 96,
                                 .normalise = true,
                                 .up = HALO_TYPE_Q8_0,
                                 .down = HALO_TYPE_Q4_0});
    try_mixture((struct mixture){
        .n_expert = 5, .n_used = 5, .n_cols = 33, .n_rows = 17, .up = HALO_TYPE_F32, .down = HALO_TYPE_F16});
    try_mixture((struct mixture){
        .n_expert = 40, .n_used = 4, .n_cols = 256, .n_rows = 32, .up = HALO_TYPE_Q4_K, .down = HALO_TYPE_Q8_0});
    try_mixture((struct mixture){.n_expert = 1,
                                 .n_used = 1,
                                 .n_cols = 32,
                                 .n_rows = 256,
                                 .normalise = true,
                                 .up = HALO_TYPE_Q4_0,
                                 .down = HALO_TYPE_Q6_K});
}

/* Equal logits go to the lowest ids; NaN logits make the weights NaN but leave the choice valid. */
static void ties_and_nans(void **state)
{
    for (uint32_t v = 0; v < 3; v++) {
        struct mixture m = {
            .n_expert = 8, .n_used = 3, .n_cols = 32, .n_rows = 32, .up = HALO_TYPE_F32, .down = HALO_TYPE_F32};
        float choice[6];
        int32_t expert[3];
        static const int32_t tokens[4] = {0, 1, 2, 3};
        if (!fixture_has(variants[v]))
            continue;
        init(&m);
        float *logits = (float *)(void *)m.f.bytes[1];
        memcpy(logits, (float[8]){1, 2, 1, 2, 2, 1, 1, 2}, 32);
        memcpy(logits + 8, (float[8]){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}, 32);
        memcpy(logits + 16, (float[8]){0, NAN, 5, 0, 0, 0, 0, 0}, 32);
        memcpy(logits + 24, (float[8]){-INFINITY, 3, -INFINITY, 2, 1, 1, 1, 1}, 32);
        fixture_open(&m.f, variants[v], 2);
        fixture_run(&m.f, 0, tokens, 4, 0, NULL);
        static const int32_t want[4][3] = {{1, 3, 4}, {0, 1, 2}, {2, 0, 3}, {1, 3, 4}};
        for (uint32_t r = 0; r < 4; r++) {
            fixture_peek(&m.f, m.choice, r, choice);
            memcpy(expert, choice + 3, sizeof(expert));
            for (uint32_t s = 0; s < 3; s++) {
                assert_int_equal(expert[s], want[r][s]);
                assert_int_equal(isnan(choice[s]), r == 1 || r == 2);
            }
        }
        finish(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_of_every_shape),
        cmocka_unit_test(ties_and_nans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
