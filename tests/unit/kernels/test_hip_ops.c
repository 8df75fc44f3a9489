/* test_hip_ops.c: each op of the HIP device but attention (test_hip_attend.c) against the CPU device (hip_compare.h).
 * Argument: a pattern of the tests to run.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hip_compare.h"
#include "run_priv.h"
/* The types to test: all, or those of fixture_types(). */
static const enum halo_type *types;
static uint32_t n_types;

static void embed_of_every_type(void **state)
{
    for (uint32_t t = 0; t < n_types; t++) {
        struct fixture f;
        struct halo_type_info info = halo_type_info(types[t]);
        uint32_t width = info.block_weights == 1 ? 37 : 3 * info.block_weights;
        fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
        uint16_t out = fixture_value(&f, width);
        uint32_t table = fixture_weight(&f, types[t], HALO_WEIGHT_MATRIX, width, N_VOCAB, 1, 1);
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_EMBED, .u.embed = {table, out, 0.5f}});
        both(&f, info.name, HALO_OP_EMBED, out, few, N_FEW);
        fixture_finish(&f);
    }
}

static void rmsnorm_add_and_glu(void **state)
{
    static const uint32_t widths[] = {5, 32, 257, 1024, 4100};
    for (uint32_t w = 0; w < 5; w++) {
        struct fixture f;
        fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
        uint16_t x = fixture_input(&f, widths[w], 2), add = fixture_input(&f, widths[w], 1),
                 out = fixture_value(&f, widths[w]);
        uint16_t glu = fixture_value(&f, widths[w]);
        uint32_t weight = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, widths[w], 1, 1, 1);
        fixture_rmsnorm(&f, weight, x, w % 2 ? add : HALO_NONE, out);
        both(&f, "rmsnorm", HALO_OP_RMSNORM, out, few, N_FEW);
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_GLU, .u.glu = {out, add, glu, HALO_GLU_SILU}});
        both(&f, "glu", HALO_OP_GLU, glu, few, N_FEW);
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_ADD, .u.add = {add, x}});
        both(&f, "add", HALO_OP_ADD, add, few, N_FEW);
        fixture_finish(&f);
    }
}

static void norms_and_activations(void **state)
{
    static const uint32_t widths[] = {5, 32, 257, 1024, 4100};
    for (uint32_t w = 0; w < 5; w++) {
        struct fixture f;
        fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
        uint16_t x = fixture_input(&f, widths[w], 9), add = fixture_input(&f, widths[w], 9);
        uint32_t weight = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, widths[w], 1, 1, 1);
        uint32_t bias = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, widths[w], 1, 1, 1);
        for (int act = 0; act < HALO_GLU_ACTS; act++) {
            uint16_t out = fixture_value(&f, widths[w]), up = act == HALO_GLU_CLAMPED || w % 2 ? add : HALO_NONE;
            fixture_op(&f, (struct halo_op){.kind = HALO_OP_GLU, .u.glu = {x, up, out, (enum halo_glu_act)act}});
            both(&f, "glu", HALO_OP_GLU, out, few, N_FEW);
        }
        for (uint32_t c = 0; c < 4; c++) {
            uint16_t out = c == 1 ? x : fixture_value(&f, widths[w]), more = c >= 2 ? add : HALO_NONE;
            uint32_t scales = c % 2 ? weight : HALO_WEIGHT_NONE, shifts = c == 3 ? bias : HALO_WEIGHT_NONE;
            struct halo_op_rmsnorm norm = {scales, x, more, out, 1e-6f, 0.4f, c != 2, shifts, c == 2 ? 0.75f : 0};
            fixture_op(&f, (struct halo_op){.kind = HALO_OP_RMSNORM, .u.rmsnorm = norm});
            both(&f, "norm", HALO_OP_RMSNORM, norm.out, few, N_FEW);
        }
        fixture_finish(&f);
    }
}

/* In double; raises *squares to the sum of squares of the terms. */
static float product(const float *w, const float *x, uint32_t n, double *squares)
{
    double sum = 0, own = 0;
    for (uint32_t k = 0; k < n; k++) {
        double term = (double)w[k] * (double)x[k];
        sum += term;
        own += term * term;
    }
    *squares = fmax(*squares, own);
    return (float)sum;
}

/* x peeked from the device times the weight in double, and the bias if there is one. */
static void compare_exact(struct fixture *f, const char *what, uint32_t weight, uint32_t bias, const float *x,
                          const float *have, uint32_t n_rows)
{
    const struct halo_weight *w = &f->weights[weight];
    float *floats = fixture_floats(f, weight), *want = calloc(w->n_rows, sizeof(*want));
    float *added = bias == HALO_WEIGHT_NONE ? NULL : fixture_floats(f, bias);
    assert_non_null(want);
    for (uint32_t r = 0; r < n_rows; r++) {
        double squares = 0;
        for (uint32_t i = 0; i < w->n_rows; i++)
            want[i] = product(floats + (size_t)i * w->n_cols, x + (size_t)r * w->n_cols, w->n_cols, &squares) +
                      (added ? added[i] : 0);
        compare_row(what, have + (size_t)r * w->n_rows, want, w->n_rows, bound_f16, 4 * sqrt(squares));
    }
    free(floats);
    free(added);
    free(want);
}

/* Whether the open HIP device multiplies these rows in f16: in tiles, or in strips where the GPU has them for the
 * type. */
static bool is_f16_product(const struct fixture *f, enum halo_type type, uint32_t n_rows, uint32_t n_cols)
{
    return n_cols % 32 == 0 && (n_rows > 8 || halo_hip_kernel_find(f->device, HALO_HIP_STRIP, type, n_rows) >= 0);
}

static void matmul_of(enum halo_type type, uint32_t n_cols, uint32_t n_rows)
{
    static const uint32_t counts[] = {1, 3, 4, 5, 8, 9, 33, MAX_ROWS};
    enum { N_COUNTS = sizeof(counts) / sizeof(counts[0]) };
    float *want[N_COUNTS];
    struct fixture f;
    char what[64];
    fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
    uint16_t x = fixture_input(&f, n_cols, 1), out = fixture_value(&f, n_rows), beside = fixture_value(&f, 3);
    uint32_t weight = fixture_weight(&f, type, HALO_WEIGHT_MATRIX, n_cols, n_rows, 1, 1);
    uint32_t other = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_MATRIX, n_cols, 3, 1, 1);
    snprintf(what, sizeof(what), "matmul %s %u x %u", halo_type_info(type).name, n_cols, n_rows);
    fixture_op(
        &f, (struct halo_op){.kind = HALO_OP_MATMUL,
                             .u.matmul = {x, 2, {weight, other}, {HALO_WEIGHT_NONE, HALO_WEIGHT_NONE}, {out, beside}}});
    use_cpu(&f);
    for (uint32_t i = 0; i < N_COUNTS; i++)
        want[i] = run_and_peek(&f, out, counts[i], 0);
    use_hip(&f);
    for (uint32_t i = 0; i < N_COUNTS; i++) {
        float *have = run_and_peek(&f, out, counts[i], 0), *rows = calloc((size_t)counts[i] * n_cols, sizeof(*rows));
        for (uint32_t r = 0; r < counts[i]; r++)
            fixture_peek(&f, x, r, rows + (size_t)r * n_cols);
        if (is_f16_product(&f, type, counts[i], n_cols))
            compare_exact(&f, what, weight, HALO_WEIGHT_NONE, rows, have, counts[i]);
        else
            compare_rows(what, have, want[i], counts[i], n_rows, bounds[HALO_OP_MATMUL]);
        free(want[i]);
        free(have);
        free(rows);
    }
    fixture_finish(&f);
}

/* Three matrices of one type side by side and a single row of x: more rows of weights than the emulated GPU holds at
 * once (64), and rows of less than a stage, and of a stage and a part; then numbers of columns with which blocks of
 * plain weights are not persistent. */
static void one_row_goes_on(enum halo_type type)
{
    static const uint32_t n_cols[] = {512, 2304, 516, 2309}, n_rows[] = {131, 19, 81}, one[] = {1};
    for (uint32_t c = 0; c < (halo_type_info(type).block_weights == 1 ? 4 : 2); c++) {
        struct fixture f;
        struct halo_op_matmul u = {.n = 3};
        char what[64];
        fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
        u.x = fixture_input(&f, n_cols[c], 1);
        for (uint32_t k = 0; k < 3; k++) {
            u.weight[k] = fixture_weight(&f, type, HALO_WEIGHT_MATRIX, n_cols[c], n_rows[k], 1, 1);
            u.bias[k] =
                k == 1 ? HALO_WEIGHT_NONE : fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n_rows[k], 1, 1, 1);
            u.out[k] = fixture_value(&f, n_rows[k]);
        }
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = u});
        for (uint32_t k = 0; k < 3; k++) {
            snprintf(what, sizeof(what), "matrix %u of three, %s of %u", k, halo_type_info(type).name, n_cols[c]);
            both(&f, what, HALO_OP_MATMUL, u.out[k], one, 1);
        }
        fixture_finish(&f);
    }
}

static void matmul_of_every_type(void **state)
{
    for (uint32_t t = 0; t < n_types; t++) {
        uint32_t block = halo_type_info(types[t]).block_weights;
        one_row_goes_on(types[t]);
        matmul_of(types[t], block == 1 ? 37 : block, 1);
        matmul_of(types[t], block == 1 ? 96 : 3 * block, 17);
        matmul_of(types[t], 512, 131);
    }
}

enum { N_EXPERT = 7, N_USED = 3, WIDTH = 256 };

/* The whole mixture for one row in double: what the chosen experts give, weighted. */
static void mixture(float *const floats[3], const float *x, const float *choice, float *ret, double *squares)
{
    int32_t experts[N_USED];
    memcpy(experts, choice + N_USED, sizeof(experts));
    memset(ret, 0, WIDTH * sizeof(*ret));
    for (uint32_t s = 0; s < N_USED; s++) {
        size_t at = (size_t)experts[s] * WIDTH * WIDTH;
        float hidden[WIDTH];
        double unused = 0;
        assert_true(experts[s] >= 0 && experts[s] < N_EXPERT);
        for (uint32_t i = 0; i < WIDTH; i++) {
            double gate = (double)product(floats[0] + at + i * WIDTH, x, WIDTH, &unused);
            double up = (double)product(floats[1] + at + i * WIDTH, x, WIDTH, &unused);
            hidden[i] = (float)(gate / (1 + exp(-gate)) * up);
        }
        for (uint32_t i = 0; i < WIDTH; i++)
            ret[i] += choice[s] * product(floats[2] + at + i * WIDTH, hidden, WIDTH, squares);
    }
}

static void compare_mixture(struct fixture *f, const char *what, const uint32_t weights[3], uint16_t x, uint16_t choice,
                            uint16_t out)
{
    float *floats[3], *have = run_and_peek(f, out, MAX_ROWS, 0);
    for (uint32_t i = 0; i < 3; i++)
        floats[i] = fixture_floats(f, weights[i]);
    for (uint32_t r = 0; r < MAX_ROWS; r++) {
        float row[WIDTH], picks[2 * N_USED], want[WIDTH];
        double squares = 0;
        fixture_peek(f, x, r, row);
        fixture_peek(f, choice, r, picks);
        mixture(floats, row, picks, want, &squares);
        /* Two products in f16, one after the other, with the activation between them. */
        compare_row(what, have + (size_t)r * WIDTH, want, WIDTH, 3 * bound_f16, 4 * sqrt(squares));
    }
    for (uint32_t i = 0; i < 3; i++)
        free(floats[i]);
    free(have);
}

static void experts_of(enum halo_type type)
{
    struct fixture f;
    fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
    uint16_t x = fixture_input(&f, WIDTH, 1), logits = fixture_input(&f, N_EXPERT, 4),
             choice = fixture_value(&f, 2 * N_USED);
    uint16_t gate = fixture_value(&f, N_USED * WIDTH), up = fixture_value(&f, N_USED * WIDTH);
    uint16_t down = fixture_value(&f, N_USED * WIDTH), out = fixture_value(&f, WIDTH);
    const char *what = halo_type_info(type).name;
    uint32_t weights[3];
    for (uint32_t i = 0; i < 3; i++)
        weights[i] = fixture_weight(&f, type, HALO_WEIGHT_EXPERTS, WIDTH, WIDTH, N_EXPERT, 0.1);
    fixture_op(&f,
               (struct halo_op){.kind = HALO_OP_MOE_ROUTE,
                                .u.moe_route = {logits, choice, N_EXPERT, N_USED, true, 1, .bias = HALO_WEIGHT_NONE}});
    both(&f, what, HALO_OP_MOE_ROUTE, choice, few, N_FEW);
    fixture_op(&f, (struct halo_op){
                       .kind = HALO_OP_MOE_MATMUL,
                       .u.moe_matmul = {
                           x, choice, 2, false, {weights[0], weights[1]}, {gate, up}, N_USED, HALO_WEIGHTS_NONE}});
    both(&f, what, HALO_OP_MOE_MATMUL, up, few, N_FEW);
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_GLU, .u.glu = {gate, up, gate, HALO_GLU_SILU}});
    fixture_op(
        &f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL,
                             .u.moe_matmul = {gate, choice, 1, true, {weights[2]}, {down}, N_USED, HALO_WEIGHTS_NONE}});
    fixture_op(
        &f, (struct halo_op){.kind = HALO_OP_MOE_SUM, .u.moe_sum = {down, choice, out, N_USED, HALO_NONE, HALO_NONE}});
    use_hip(&f);
    compare_mixture(&f, what, weights, x, choice, out);
    /* Few rows: the second product's inputs differ by float rounding, which can move one of its int8 activations by
     * one. */
    float *have = run_and_peek(&f, out, 5, 0);
    use_cpu(&f);
    float *want = run_and_peek(&f, out, 5, 0);
    for (uint32_t r = 0; r < 5; r++)
        compare_row(what, have + (size_t)r * WIDTH, want + (size_t)r * WIDTH, WIDTH, 2e-3, 0);
    free(have);
    free(want);
    fixture_finish(&f);
}

/* Two matrices of unlike sizes for each of 1 .. 8 slots: more blocks than the emulated GPU holds at once (4), rows of
 * less than half a stage, and of a stage and a part; of plain types also numbers of columns with which blocks are not
 * persistent, and more rows of x than one launch takes. */
static void experts_go_on(enum halo_type type, uint32_t n_cols, uint32_t n_used, bool per_slot, bool biased)
{
    static const uint32_t n_rows[] = {67, 19}, counts[] = {1, 3, 11};
    enum { N = 9 };
    struct fixture f;
    struct halo_op_moe_matmul u = {.n = 2, .per_slot = per_slot, .n_used = n_used, .bias = HALO_WEIGHTS_NONE};
    char what[64];
    fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
    uint16_t logits = fixture_input(&f, N, 4);
    u.x = fixture_input(&f, per_slot ? n_used * n_cols : n_cols, 1);
    u.choice = fixture_value(&f, 2 * n_used);
    for (uint32_t k = 0; k < 2; k++) {
        u.weight[k] = fixture_weight(&f, type, HALO_WEIGHT_EXPERTS, n_cols, n_rows[k], N, 1);
        u.out[k] = fixture_value(&f, n_used * n_rows[k]);
    }
    for (uint32_t k = 0; k < 2 && biased; k++)
        u.bias[k] = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n_rows[k], N, 1, 3);
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_MOE_ROUTE,
                                    .u.moe_route = {logits, u.choice, N, n_used, true, 1, .bias = HALO_WEIGHT_NONE}});
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .u.moe_matmul = u});
    for (uint32_t k = 0; k < 2; k++) {
        snprintf(what, sizeof(what), "matrix %u of two, %u slots, %s of %u", k, n_used, halo_type_info(type).name,
                 n_cols);
        both(&f, what, HALO_OP_MOE_MATMUL, u.out[k], counts, n_cols % 32 ? 3 : 2);
    }
    fixture_finish(&f);
}

static void experts_of_every_type(void **state)
{
    static const uint32_t n_cols[] = {256, 2304, 40, 100};
    for (uint32_t t = 0; t < n_types; t++) {
        experts_of(types[t]);
        for (uint32_t c = 0; c < (halo_type_info(types[t]).block_weights == 1 ? 4 : 2); c++)
            experts_go_on(types[t], n_cols[c], (t + 5 * c) % 8 + 1, (t + c) % 2, (t + c) % 3 != 0);
    }
}

/* Every gate, with bias (1) and groups: the same experts in the same order as on the CPU. Row 0: ties. */
static void routing_of_every_kind(void **state)
{
    static const struct halo_op_moe_route kinds[] = {
        {0, 0, 8, 3, false, 2.5f, HALO_MOE_SIGMOID, 0, 1, 1},  {0, 0, 16, 4, true, 2.5f, HALO_MOE_SIGMOID, 1, 4, 2},
        {0, 0, 256, 8, true, 2.5f, HALO_MOE_SIGMOID, 1, 8, 4}, {0, 0, 160, 6, false, 1, HALO_MOE_SOFTMAX, 0, 8, 3},
        {0, 0, 12, 4, true, 1, HALO_MOE_SOFTMAX, 1, 1, 1},     {0, 0, 33, 5, true, 1, HALO_MOE_SQRT_SOFTPLUS, 1, 1, 1},
        {0, 0, 64, 33, true, 1, HALO_MOE_SIGMOID, 0, 32, 17},  {0, 0, 5, 5, false, 1, HALO_MOE_SQRT_SOFTPLUS, 0, 1, 1}};
    for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct fixture f;
        struct halo_op_moe_route u = kinds[i];
        fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
        u.logits = fixture_input(&f, u.n_expert, 4);
        u.choice = fixture_value(&f, 2 * u.n_used);
        uint32_t bias = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, u.n_expert, 1, 1, 0.5);
        u.bias = u.bias ? bias : HALO_WEIGHT_NONE;
        for (uint32_t e = 0; e < u.n_expert; e++)
            ((float *)(void *)f.bytes[0])[e] = 0.25f;
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_MOE_ROUTE, .u.moe_route = u});
        both(&f, "routing", HALO_OP_MOE_ROUTE, u.choice, few, N_FEW);
        use_cpu(&f);
        float *want = run_and_peek(&f, u.choice, MAX_ROWS, 0);
        use_hip(&f);
        float *have = run_and_peek(&f, u.choice, MAX_ROWS, 0);
        for (uint32_t r = 0; r < MAX_ROWS; r++)
            assert_memory_equal(have + (2 * r + 1) * u.n_used, want + (2 * r + 1) * u.n_used, u.n_used * 4);
        free(want);
        free(have);
        fixture_finish(&f);
    }
}

/* The expert that every row takes, gated and as it is, behind a product of one row. */
static void shared_expert(void **state)
{
    enum { ODD = 37 };
    for (uint32_t gated = 0; gated < 2; gated++) {
        struct fixture f;
        fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
        uint16_t x = fixture_input(&f, N_USED * ODD, 1), choice = fixture_input(&f, 2 * N_USED, 1),
                 add = fixture_input(&f, ODD, 1), in = fixture_input(&f, 64, 1), gate = fixture_value(&f, 1),
                 out = fixture_value(&f, ODD);
        uint32_t weight = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_MATRIX, 64, 1, 1, 0.3);
        fixture_op(&f,
                   (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = {in, 1, {weight}, {HALO_WEIGHT_NONE}, {gate}}});
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_MOE_SUM,
                                        .u.moe_sum = {x, choice, out, N_USED, add, gated ? gate : HALO_NONE}});
        both(&f, "shared expert", gated ? HALO_OP_MATMUL : HALO_OP_MOE_SUM, out, few, N_FEW);
        many(&f, "shared expert", out, ODD, gated ? bound_f16 : bounds[HALO_OP_MOE_SUM]);
        fixture_finish(&f);
    }
}

/* Parts of heads beside each other, and a matrix for each head. */
static void heads_of_latent_attention(void **state)
{
    enum { N = 5, A = 40, B = 9, PART = 32, OUT = 24 };
    static const uint32_t counts[] = {1, 3, 8, MAX_ROWS};
    for (uint32_t i = 0; i < 4; i++) {
        struct fixture f;
        fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
        uint16_t a = fixture_input(&f, N * A, 1), b = fixture_input(&f, i % 2 ? B : N * B, 1), out[3];
        for (uint32_t k = 0; k < 3; k++)
            out[k] = fixture_value(&f, N * (uint32_t[]){PART + B, PART, OUT}[k]);
        uint32_t w = fixture_weight(&f, i < 2 ? HALO_TYPE_F16 : HALO_TYPE_Q8_0, HALO_WEIGHT_EXPERTS, PART, OUT, N, 0.3);
        struct halo_op_moe_matmul each = {out[1], HALO_NONE, 1, true, {w}, {out[2]}, N, HALO_WEIGHTS_NONE};
        fixture_op(&f, (struct halo_op){HALO_OP_CONCAT, .u.concat = {a, b, out[0], N, 8, PART, B, i % 2}});
        fixture_op(&f, (struct halo_op){HALO_OP_CONCAT, .u.concat = {a, HALO_NONE, out[1], N, 8, PART, 0, false}});
        both(&f, "concat", HALO_OP_CONCAT, out[0], counts, 4);
        fixture_op(&f, (struct halo_op){HALO_OP_MOE_MATMUL, .u.moe_matmul = each});
        both(&f, "a matrix for each head", HALO_OP_MOE_MATMUL, out[2], counts, 3);
        many(&f, "a matrix for each head", out[2], N * OUT, i < 2 ? bound_f16 : 2e-2); /* int8 on the CPU */
        fixture_finish(&f);
    }
}

/* Factors of matrices and of each expert, of types whose packed rows have no room for them, wherever one is used. */
static void scales_of_weights(void **state)
{
    enum { N = 5, USED = 3, COLS = 64, OUT = 37 };
    static const float factors[N] = {0.5f, 3, -0.7f, 1, 1.3f};
    static const enum halo_type of[] = {HALO_TYPE_F16, HALO_TYPE_Q8_0};
    for (uint32_t t = 0; t < 2; t++) {
        struct fixture f;
        struct halo_op_moe_matmul u = {.n = 2, .n_used = USED, .bias = HALO_WEIGHTS_NONE};
        fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
        uint16_t embedded = fixture_value(&f, COLS), logits = fixture_input(&f, N, 4), out[2];
        uint32_t table = fixture_weight(&f, of[t], HALO_WEIGHT_MATRIX, COLS, N_VOCAB, 1, 1), matrix[2];
        f.weights[table].scales = factors + 1;
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_EMBED, .u.embed = {table, embedded, 0.5f}});
        both(&f, "embed with a factor", HALO_OP_EMBED, embedded, few, N_FEW);
        for (uint32_t k = 0; k < 2; k++) {
            out[k] = fixture_value(&f, OUT);
            matrix[k] = fixture_weight(&f, of[t], HALO_WEIGHT_MATRIX, COLS, OUT, 1, 1);
            u.out[k] = fixture_value(&f, USED * OUT);
            u.weight[k] = fixture_weight(&f, of[t], HALO_WEIGHT_EXPERTS, COLS, OUT, N, 1);
        }
        f.weights[matrix[1]].scales = factors + 2;
        f.weights[u.weight[0]].scales = factors;
        fixture_op(
            &f, (struct halo_op){
                    .kind = HALO_OP_MATMUL,
                    .u.matmul = {
                        embedded, 2, {matrix[0], matrix[1]}, {HALO_WEIGHT_NONE, HALO_WEIGHT_NONE}, {out[0], out[1]}}});
        for (uint32_t k = 0; k < 2; k++)
            both(&f, "matrix with a factor", HALO_OP_MATMUL, out[k], few, 2);
        u.x = embedded;
        u.choice = fixture_value(&f, 2 * USED);
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_MOE_ROUTE,
                                        .u.moe_route = {logits, u.choice, N, USED, true, 1, .bias = HALO_WEIGHT_NONE}});
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .u.moe_matmul = u});
        for (uint32_t k = 0; k < 2; k++) {
            both(&f, "experts with factors", HALO_OP_MOE_MATMUL, u.out[k], few, 2);
            many(&f, "experts with factors", u.out[k], USED * OUT, 2e-2);
        }
        fixture_finish(&f);
    }
}

static void logits_of(enum halo_type type, uint32_t n_cols)
{
    static const uint32_t counts[] = {1, 4, 5, 8, 9, MAX_ROWS};
    struct fixture f;
    fixture_init(&f, N_VOCAB, MAX_ROWS, CONTEXT);
    uint16_t x = fixture_input(&f, n_cols, 1);
    uint32_t head = fixture_weight(&f, type, HALO_WEIGHT_MATRIX, n_cols, N_VOCAB, 1, 1);
    uint32_t bias = type == HALO_TYPE_F16 ? HALO_WEIGHT_NONE
                                          : fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, N_VOCAB, 1, 1, 10);
    bool plain = n_cols % 32 == 0; /* the others are always compared with the CPU device */
    struct halo_op_logits op = {.weight = head, .x = x, .bias = bias, .scale = plain ? 1 : 0.3f, .cap = plain ? 0 : 4};
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_LOGITS, .u.logits = op});
    use_hip(&f);
    for (uint32_t c = 0; c < 6; c++) {
        int32_t tokens[MAX_ROWS];
        float *logits = aligned_alloc(64, (MAX_ROWS * N_VOCAB * sizeof(float) + 63) / 64 * 64),
              *rows = calloc((size_t)MAX_ROWS * n_cols, sizeof(float));
        for (uint32_t r = 0; r < counts[c]; r++)
            tokens[r] = (int32_t)((r * 7 + c) % N_VOCAB);
        fixture_run(&f, 1, tokens, counts[c], 0, logits);
        for (uint32_t r = 0; r < counts[c]; r++)
            fixture_peek(&f, x, r, rows + (size_t)r * n_cols);
        if (is_f16_product(&f, type, counts[c], n_cols))
            compare_exact(&f, "logits", head, bias, rows, logits, counts[c]);
        else {
            float *have = calloc(MAX_ROWS * N_VOCAB, sizeof(float));
            memcpy(have, logits, counts[c] * N_VOCAB * sizeof(float));
            use_cpu(&f);
            fixture_run(&f, 1, tokens, counts[c], 0, logits);
            compare_rows("logits", have, logits, counts[c], N_VOCAB, bounds[HALO_OP_LOGITS]);
            use_hip(&f);
            free(have);
        }
        free(logits);
        free(rows);
    }
    fixture_finish(&f);
}

/* The head: all rows wanted and the gathered rows of a large batch, through the logits of the batch itself. */
static void logits_of_few_and_many(void **state)
{
    logits_of(HALO_TYPE_Q6_K, 256);
    logits_of(HALO_TYPE_F16, 256);
    logits_of(HALO_TYPE_BF16, 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed_of_every_type),       cmocka_unit_test(rmsnorm_add_and_glu),
        cmocka_unit_test(norms_and_activations),     cmocka_unit_test(matmul_of_every_type),
        cmocka_unit_test(experts_of_every_type),     cmocka_unit_test(logits_of_few_and_many),
        cmocka_unit_test(routing_of_every_kind),     cmocka_unit_test(shared_expert),
        cmocka_unit_test(heads_of_latent_attention), cmocka_unit_test(scales_of_weights),
    };
    types = fixture_types(&n_types);
    return compare_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
