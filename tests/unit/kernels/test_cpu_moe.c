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
    bool normalise, biased;
    enum halo_type up, down;
    struct fixture f;
    uint16_t x, choice, hidden[2], out, sum;
    float *rows, *logits, *weight[3];
    float *bias[2]; /* of weights 0 and 1, or NULL */
};

static void init(struct mixture *m)
{
    struct fixture *f = &m->f;
    fixture_init(f, N_VOCAB, N_ROWS, 32);
    m->x = fixture_input(f, m->n_cols, 1);
    uint16_t logits = fixture_input(f, m->n_expert, 4);
    m->choice = fixture_value(f, 2 * m->n_used);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_ROUTE,
                                   .u.moe_route = {logits, m->choice, m->n_expert, m->n_used, m->normalise, 1.5f,
                                                   .bias = HALO_WEIGHT_NONE}});
    struct halo_op_moe_matmul up = {
        .x = m->x, .choice = m->choice, .n = 2, .n_used = m->n_used, .bias = HALO_WEIGHTS_NONE};
    for (uint32_t k = 0; k < 2; k++) {
        up.weight[k] = fixture_weight(f, k == 0 ? m->up : HALO_TYPE_F16, HALO_WEIGHT_EXPERTS, m->n_cols, m->n_rows,
                                      m->n_expert, 1);
        up.out[k] = m->hidden[k] = fixture_value(f, m->n_used * m->n_rows);
    }
    for (uint32_t k = 0; k < 2 && m->biased; k++)
        up.bias[k] = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, m->n_rows, m->n_expert, 1, 3);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .u.moe_matmul = up});
    struct halo_op_moe_matmul down = {.x = m->hidden[0],
                                      .choice = m->choice,
                                      .n = 1,
                                      .per_slot = true,
                                      .n_used = m->n_used,
                                      .bias = HALO_WEIGHTS_NONE};
    down.weight[0] = fixture_weight(f, m->down, HALO_WEIGHT_EXPERTS, m->n_rows, m->n_cols, m->n_expert, 1);
    down.out[0] = m->out = fixture_value(f, m->n_used * m->n_cols);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .u.moe_matmul = down});
    m->sum = fixture_value(f, m->n_cols);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_SUM,
                                   .u.moe_sum = {m->out, m->choice, m->sum, m->n_used, HALO_NONE, HALO_NONE}});
    m->rows = fixture_floats(f, 0);
    m->logits = fixture_floats(f, 1);
    for (uint32_t i = 0; i < 3; i++)
        m->weight[i] = fixture_floats(f, i < 2 ? 2 + i : down.weight[0]);
    for (uint32_t k = 0; k < 2; k++)
        m->bias[k] = m->biased ? fixture_floats(f, up.bias[k]) : NULL;
}

static void finish(struct mixture *m)
{
    fixture_finish(&m->f);
    free(m->rows);
    free(m->logits);
    for (uint32_t i = 0; i < 3; i++)
        free(m->weight[i]);
    free(m->bias[0]);
    free(m->bias[1]);
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

/* out = one expert times x, plus the bias if there is one, with the error that 8-bit activations may have for these
 * magnitudes. */
static void check_product(const float *weight, uint32_t n_rows, uint32_t n_cols, const float *x, const float *out,
                          double relative, const float *bias)
{
    for (uint32_t n = 0; n < n_rows; n++) {
        double sum = 0, magnitude = 0;
        for (uint32_t i = 0; i < n_cols; i++) {
            sum += (double)weight[(size_t)n * n_cols + i] * (double)x[i];
            magnitude += fabs((double)weight[(size_t)n * n_cols + i] * (double)x[i]);
        }
        sum += bias ? (double)bias[n] : 0;
        assert_true(fabs((double)out[n] - sum) <= relative * magnitude + 2e-6);
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
        const float *x = m->rows + (size_t)token * m->n_cols, *slot = hidden[0] + s * m->n_rows;
        const float *bias[2] = {NULL, NULL};
        for (uint32_t k = 0; k < 2 && m->biased; k++)
            bias[k] = m->bias[k] + (size_t)expert[s] * m->n_rows;
        check_product(m->weight[0] + expert[s] * n, m->n_rows, m->n_cols, x, slot, bound_of(m->up), bias[0]);
        check_product(m->weight[1] + expert[s] * n, m->n_rows, m->n_cols, x, hidden[1] + s * m->n_rows, 1e-6, bias[1]);
        check_product(m->weight[2] + expert[s] * n, m->n_cols, m->n_rows, slot, out + s * m->n_cols, bound_of(m->down),
                      NULL);
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
    try_mixture((struct mixture){.n_expert = 9,
                                 .n_used = 3,
                                 .n_cols = 64,
                                 .n_rows = 33,
                                 .biased = true,
                                 .up = HALO_TYPE_MXFP4,
                                 .down = HALO_TYPE_F16});
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

struct routing {
    uint32_t n_expert, n_used, n_groups, n_groups_used;
    enum halo_moe_gate gate;
    bool normalise, biased;
};

static double score_of(const struct routing *t, const float *logits, uint32_t e)
{
    double x = (double)logits[e], all = 0;
    if (t->gate == HALO_MOE_SIGMOID)
        return 1 / (1 + exp(-x));
    if (t->gate == HALO_MOE_SQRT_SOFTPLUS)
        return sqrt(x > 30 ? x : log1p(exp(x)));
    for (uint32_t i = 0; i < t->n_expert; i++)
        all += exp((double)logits[i] - x);
    return 1 / all;
}

/* How many of n keys rank before key i: larger, or equal with a lower index. */
static uint32_t n_before(const double *key, uint32_t n, uint32_t i)
{
    uint32_t before = 0;
    for (uint32_t k = 0; k < n; k++)
        before += key[k] > key[i] || (key[k] == key[i] && k < i);
    return before;
}

static void check_routing(const struct routing *t, const float *logits, const float *bias, const float *choice)
{
    enum { EXPERTS_MAX = 512 };
    double key[EXPERTS_MAX], group[HALO_MOE_GROUPS_MAX], sum = 0;
    uint32_t size = t->n_groups > 1 ? t->n_expert / t->n_groups : t->n_expert;
    int32_t expert[64];
    for (uint32_t e = 0; e < t->n_expert; e++)
        key[e] = (double)((float)score_of(t, logits, e) + (t->biased ? bias[e] : 0));
    for (uint32_t g = 0; t->n_groups > 1 && g < t->n_groups; g++) {
        group[g] = 0;
        for (uint32_t e = 0; e < size; e++)
            group[g] += n_before(key + (size_t)g * size, size, e) < 2 ? key[g * size + e] : 0;
    }
    for (uint32_t e = 0; t->n_groups > 1 && e < t->n_expert; e++)
        key[e] = n_before(group, t->n_groups, e / size) < t->n_groups_used ? key[e] : -INFINITY;
    memcpy(expert, choice + t->n_used, t->n_used * sizeof(expert[0]));
    for (uint32_t s = 0; s < t->n_used; s++) {
        assert_in_range(expert[s], 0, t->n_expert - 1);
        assert_int_equal(n_before(key, t->n_expert, (uint32_t)expert[s]), s);
        sum += score_of(t, logits, (uint32_t)expert[s]);
    }
    for (uint32_t s = 0; s < t->n_used; s++) {
        double want = 2.5 * score_of(t, logits, (uint32_t)expert[s]);
        want /= t->normalise ? fmax(sum, (double)HALO_MOE_SUM_MIN) : 1;
        assert_true(fabs((double)choice[s] - want) <= 1e-6 * want + 1e-30);
    }
}

/* Scores, bias, groups and the floor of the sum, against double. Row 0: all equal; row 1: so low that the sum is below
 * the floor; row 2: a NaN, which makes all weights one. */
static void try_routing(struct routing t, const char *variant)
{
    struct fixture f;
    int32_t tokens[N_ROWS];
    float choice[128];
    fixture_init(&f, N_VOCAB, N_ROWS, 32);
    uint16_t logits = fixture_input(&f, t.n_expert, 4), value = fixture_value(&f, 2 * t.n_used);
    uint32_t bias = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, t.n_expert, 1, 1, 0.5);
    float *table = (float *)(void *)f.bytes[0], *biases = (float *)(void *)f.bytes[bias];
    for (uint32_t e = 0; e < t.n_expert; e++) {
        table[e] = 0.25f;
        table[t.n_expert + e] = -30 - (float)(e % 7);
    }
    table[2 * t.n_expert + t.n_expert / 2] = NAN;
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_MOE_ROUTE,
                                    .u.moe_route = {logits, value, t.n_expert, t.n_used, t.normalise, 2.5f, t.gate,
                                                    t.biased ? bias : HALO_WEIGHT_NONE, t.n_groups, t.n_groups_used}});
    fixture_open(&f, variant, 2);
    for (uint32_t r = 0; r < N_ROWS; r++)
        tokens[r] = (int32_t)r;
    fixture_run(&f, 0, tokens, N_ROWS, 0, NULL);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        fixture_peek(&f, value, r, choice);
        for (uint32_t s = 0; r == 2 && s < t.n_used; s++)
            assert_true(isnan(choice[s]));
        if (r != 2)
            check_routing(&t, table + (size_t)r * t.n_expert, biases, choice);
    }
    fixture_finish(&f);
}

static void routing_of_every_kind(void **state)
{
    static const struct routing kinds[] = {
        {8, 3, 1, 1, HALO_MOE_SIGMOID, false, false},        {12, 3, 0, 0, HALO_MOE_SIGMOID, true, true},
        {16, 4, 4, 2, HALO_MOE_SIGMOID, true, true},         {256, 8, 8, 4, HALO_MOE_SIGMOID, true, true},
        {160, 6, 8, 3, HALO_MOE_SOFTMAX, false, false},      {12, 4, 1, 1, HALO_MOE_SOFTMAX, true, true},
        {8, 3, 1, 1, HALO_MOE_SQRT_SOFTPLUS, true, true},    {64, 33, 32, 17, HALO_MOE_SIGMOID, true, false},
        {33, 5, 1, 1, HALO_MOE_SQRT_SOFTPLUS, false, false}, {5, 5, 1, 1, HALO_MOE_SIGMOID, true, true}};
    for (uint32_t v = 0; v < 3; v++)
        for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && fixture_has(variants[v]); i++)
            try_routing(kinds[i], variants[v]);
}

/* What is added to the experts' sum: with a gate, and as it is. */
static void shared_experts(void **state)
{
    enum { USED = 2, WIDTH = 37 };
    struct fixture f;
    static const int32_t tokens[] = {3, 1, 4, 1, 5};
    fixture_init(&f, N_VOCAB, N_ROWS, 32);
    uint16_t x = fixture_input(&f, USED * WIDTH, 1), choice = fixture_input(&f, 2 * USED, 1),
             add = fixture_input(&f, WIDTH, 1), gate = fixture_input(&f, 1, 3);
    uint16_t out[] = {fixture_value(&f, WIDTH), fixture_value(&f, WIDTH), fixture_value(&f, WIDTH)};
    fixture_op(&f, (struct halo_op){HALO_OP_MOE_SUM, .u.moe_sum = {x, choice, out[0], USED, HALO_NONE, HALO_NONE}});
    fixture_op(&f, (struct halo_op){HALO_OP_MOE_SUM, .u.moe_sum = {x, choice, out[1], USED, add, HALO_NONE}});
    fixture_op(&f, (struct halo_op){HALO_OP_MOE_SUM, .u.moe_sum = {x, choice, out[2], USED, add, gate}});
    fixture_open(&f, NULL, 2);
    fixture_run(&f, 0, tokens, 5, 0, NULL);
    for (uint32_t r = 0; r < 5; r++) {
        float sum[3][WIDTH], shared[WIDTH], logit;
        for (uint32_t i = 0; i < 3; i++)
            fixture_peek(&f, out[i], r, sum[i]);
        fixture_peek(&f, add, r, shared);
        fixture_peek(&f, gate, r, &logit);
        for (uint32_t i = 0; i < WIDTH; i++) {
            assert_true(fabs((double)sum[1][i] - ((double)sum[0][i] + (double)shared[i])) < 1e-6);
            double gated = (double)shared[i] / (1 + exp(-(double)logit));
            assert_true(fabs((double)sum[2][i] - ((double)sum[0][i] + gated)) < 1e-6);
        }
    }
    fixture_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_of_every_shape),
        cmocka_unit_test(ties_and_nans),
        cmocka_unit_test(routing_of_every_kind),
        cmocka_unit_test(shared_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
