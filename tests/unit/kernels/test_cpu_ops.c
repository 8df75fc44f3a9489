/* test_cpu_ops.c: each op of the CPU device against a plain double-precision evaluation, in every variant, which must
 * agree bit for bit among themselves. Attention and mixtures of experts have files of their own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cpu/cpu.h>

#include "cpu_fixture.h"

#define N_VOCAB 37
#define N_ROWS 9
#define WIDTH_MAX 1024

static const char *const variants[] = {"reference", "avx2", "avx512"};

/* Values of all rows under the variant that ran first; the other variants must repeat them. */
struct first {
    float rows[4][N_ROWS][WIDTH_MAX];
    bool have;
};

/* Runs the fixture's plan in each variant with 1 and 3 threads and 1..N_ROWS rows; calls check for each row of the
 * first, and compares the others with it. */
static void run_all(struct fixture *f, uint32_t n_values, const uint16_t *values,
                    void (*check)(void *ud, uint32_t which, int32_t token, int32_t pos, const float *row), void *ud,
                    int32_t first_pos)
{
    static struct first first;
    first.have = false;
    int32_t tokens[N_ROWS];
    for (uint32_t r = 0; r < N_ROWS; r++)
        tokens[r] = (int32_t)(r * 5 % N_VOCAB);
    for (uint32_t v = 0; v < 3; v++) {
        if (!fixture_has(variants[v]))
            continue;
        for (uint32_t n_threads = 1; n_threads <= 3; n_threads += 2) {
            fixture_open(f, variants[v], n_threads);
            for (uint32_t n_rows = N_ROWS; n_rows > 0; n_rows = n_rows == N_ROWS ? 2 : n_rows - 1) {
                fixture_run(f, 3, tokens, n_rows, first_pos, NULL);
                for (uint32_t i = 0; i < n_values; i++) {
                    for (uint32_t r = 0; r < n_rows; r++) {
                        float row[WIDTH_MAX];
                        uint32_t width = f->values[values[i]].width;
                        fixture_peek(f, values[i], r, row);
                        if (!first.have) {
                            check(ud, i, tokens[r], first_pos + (int32_t)r, row);
                            memcpy(first.rows[i][r], row, width * sizeof(float));
                        }
                        assert_memory_equal(first.rows[i][r], row, width * sizeof(float));
                    }
                }
                first.have = true;
            }
        }
    }
    assert_true(first.have);
    fixture_finish(f);
}

static void close_to(double have, double want, double absolute, double relative)
{
    if (!(fabs(have - want) <= absolute + relative * fabs(want)))
        fail_msg("%.9g, wanted %.9g", have, want);
}

struct table {
    float *rows, *weight[4];
    uint32_t width;
};

static float *input_of(const struct table *t, int32_t token)
{
    return t->rows + (size_t)token * t->width;
}

static void check_embed(void *ud, uint32_t which, int32_t token, int32_t pos, const float *row)
{
    struct table *t = ud;
    for (uint32_t i = 0; i < t->width; i++)
        assert_true(row[i] == input_of(t, token)[i] * 0.5f);
}

static void embed_looks_up_every_type(void **state)
{
    static const struct {
        enum halo_type type;
        uint32_t width;
    } cases[] = {{HALO_TYPE_F32, 5},   {HALO_TYPE_F16, 17},   {HALO_TYPE_BF16, 48},
                 {HALO_TYPE_Q8_0, 96}, {HALO_TYPE_Q4_K, 256}, {HALO_TYPE_Q6_K, 512}};
    for (uint32_t c = 0; c < 6; c++) {
        struct fixture f;
        fixture_init(&f, N_VOCAB, N_ROWS, 32);
        uint16_t out = fixture_value(&f, cases[c].width);
        uint32_t table = fixture_weight(&f, cases[c].type, HALO_WEIGHT_MATRIX, cases[c].width, N_VOCAB, 1, 1);
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_EMBED, .u.embed = {table, out, 0.5f}});
        struct table t = {.rows = fixture_floats(&f, table), .width = cases[c].width};
        run_all(&f, 1, &out, check_embed, &t, 0);
        free(t.rows);
    }
}

static void check_rmsnorm(void *ud, uint32_t which, int32_t token, int32_t pos, const float *row)
{
    struct table *t = ud;
    const float *x = input_of(t, token), *add = t->weight[1] ? t->weight[1] + (size_t)token * t->width : NULL;
    double sum = 0;
    for (uint32_t i = 0; i < t->width; i++)
        sum += pow((double)x[i] + (add ? (double)add[i] : 0), 2);
    for (uint32_t i = 0; i < t->width; i++) {
        double y = (double)x[i] + (add ? (double)add[i] : 0);
        close_to((double)row[i], which == 1 ? y : y / sqrt(sum / t->width + 1e-6) * (double)t->weight[0][i], 2e-7,
                 1e-6);
    }
}

static void rmsnorm_with_and_without_the_sum(void **state)
{
    static const uint32_t widths[] = {4, 32, 72, 1000};
    for (uint32_t c = 0; c < 8; c++) {
        struct fixture f;
        struct table t = {.width = widths[c / 2]};
        fixture_init(&f, N_VOCAB, N_ROWS, 32);
        uint16_t x = fixture_input(&f, t.width, 3), add = fixture_input(&f, t.width, 1),
                 out = fixture_value(&f, t.width);
        uint32_t weight =
            fixture_weight(&f, c % 2 ? HALO_TYPE_F16 : HALO_TYPE_F32, HALO_WEIGHT_VECTOR, t.width, 1, 1, 2);
        fixture_rmsnorm(&f, weight, x, c % 2 ? add : HALO_NONE, out);
        t.rows = fixture_floats(&f, 0);
        t.weight[0] = fixture_floats(&f, weight);
        t.weight[1] = c % 2 ? fixture_floats(&f, 1) : NULL;
        run_all(&f, 2, (uint16_t[]){out, x}, check_rmsnorm, &t, 0);
        free(t.rows);
        free(t.weight[0]);
        free(t.weight[1]);
    }
}

/* A layer norm in place, of x plus three times the other, and a root mean square without weight. */
static void check_norms(void *ud, uint32_t which, int32_t token, int32_t pos, const float *row)
{
    struct table *t = ud;
    const float *x = input_of(t, token), *add = t->weight[1] + (size_t)token * t->width;
    double mean = 0, sum = 0;
    for (uint32_t i = 0; i < t->width; i++)
        mean += 0.625 * ((double)x[i] + 3 * (double)add[i]) / t->width;
    if (which == 1)
        mean = 0;
    for (uint32_t i = 0; i < t->width; i++)
        sum += pow(0.625 * ((double)x[i] + 3 * (double)add[i]) - mean, 2) / t->width;
    for (uint32_t i = 0; i < t->width; i++) {
        double y = (0.625 * ((double)x[i] + 3 * (double)add[i]) - mean) / sqrt(sum + 1e-6);
        close_to((double)row[i], which == 1 ? y : y * (double)t->weight[0][i] + (double)t->weight[2][i], 1e-6, 2e-6);
    }
}

static void layernorm_and_norm_without_weight(void **state)
{
    static const uint32_t widths[] = {4, 32, 72, 1000};
    for (uint32_t c = 0; c < 4; c++) {
        struct fixture f;
        struct table t = {.width = widths[c]};
        fixture_init(&f, N_VOCAB, N_ROWS, 32);
        uint16_t x = fixture_input(&f, t.width, 3), add = fixture_input(&f, t.width, 1),
                 plain = fixture_value(&f, t.width);
        uint32_t weight = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, t.width, 1, 1, 2);
        uint32_t bias = fixture_weight(&f, HALO_TYPE_F16, HALO_WEIGHT_VECTOR, t.width, 1, 1, 1);
        struct halo_op_rmsnorm rms = {.weight = HALO_WEIGHT_NONE,
                                      .x = x,
                                      .add = add,
                                      .out = plain,
                                      .eps = 1e-6f,
                                      .add_scale = 3,
                                      .bias = HALO_WEIGHT_NONE,
                                      .x_scale = 0.625f};
        struct halo_op_rmsnorm layer = {.weight = weight,
                                        .x = x,
                                        .add = HALO_NONE,
                                        .out = x,
                                        .eps = 1e-6f,
                                        .add_scale = 1,
                                        .centre = true,
                                        .bias = bias};
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_RMSNORM, .u.rmsnorm = rms});
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_RMSNORM, .u.rmsnorm = layer});
        t.rows = fixture_floats(&f, 0);
        t.weight[0] = fixture_floats(&f, weight);
        t.weight[1] = fixture_floats(&f, 1);
        t.weight[2] = fixture_floats(&f, bias);
        run_all(&f, 2, (uint16_t[]){x, plain}, check_norms, &t, 0);
        free(t.rows);
        for (uint32_t i = 0; i < 3; i++)
            free(t.weight[i]);
    }
}

static void check_squares(void *ud, uint32_t which, int32_t token, int32_t pos, const float *row)
{
    struct table *t = ud;
    for (uint32_t i = 0; i < t->width; i++) {
        double x = fmax(0, (double)input_of(t, token)[i]);
        close_to((double)row[i], x * x, 1e-6, 1e-6);
    }
}

static void activation_without_a_factor(void **state)
{
    struct fixture f;
    struct table t = {.width = 72};
    fixture_init(&f, N_VOCAB, N_ROWS, 32);
    uint16_t x = fixture_input(&f, t.width, 3), out = fixture_value(&f, t.width);
    fixture_op(&f, (struct halo_op){.kind = HALO_OP_GLU, .u.glu = {x, HALO_NONE, out, HALO_GLU_RELU2}});
    t.rows = fixture_floats(&f, 0);
    run_all(&f, 1, &out, check_squares, &t, 0);
    free(t.rows);
}

struct heads {
    float *q, *k, *q_weight, *k_weight;
    uint32_t n_head, n_head_kv, dim, n_rot;
    uint32_t q_step; /* from the weight of a head of q to that of the next */
    enum halo_rope_pairing pairing;
};

static void check_qk_norm(void *ud, uint32_t which, int32_t token, int32_t pos, const float *row)
{
    struct heads *h = ud;
    uint32_t n = which == 0 ? h->n_head : h->n_head_kv;
    const float *x = (which == 0 ? h->q : h->k) + (size_t)token * n * h->dim,
                *weight = which == 0 ? h->q_weight : h->k_weight;
    for (uint32_t i = 0; i < n; i++, weight += which == 0 ? h->q_step : 0) {
        double sum = 0;
        for (uint32_t j = 0; j < h->dim; j++)
            sum += (double)x[i * h->dim + j] * (double)x[i * h->dim + j];
        for (uint32_t j = 0; j < h->dim; j++)
            close_to((double)row[i * h->dim + j],
                     (double)x[i * h->dim + j] / sqrt(sum / h->dim + 1e-5) * (double)weight[j], 1e-9, 1e-6);
    }
}

static void check_rope(void *ud, uint32_t which, int32_t token, int32_t pos, const float *row)
{
    struct heads *h = ud;
    uint32_t n = which == 0 ? h->n_head : h->n_head_kv;
    const float *x = (which == 0 ? h->q : h->k) + (size_t)token * n * h->dim;
    for (uint32_t i = 0; i < n; i++, x += h->dim, row += h->dim) {
        for (uint32_t j = 0; j < h->n_rot / 2; j++) {
            uint32_t a = h->pairing == HALO_ROPE_NORM ? 2 * j : j,
                     b = h->pairing == HALO_ROPE_NORM ? a + 1 : j + h->n_rot / 2;
            double angle = pos * pow(10000, -2.0 * j / h->n_rot), c = 1.25 * cos(angle), s = 1.25 * sin(angle);
            close_to((double)row[a], (double)x[a] * c - (double)x[b] * s, 1e-6, 0);
            close_to((double)row[b], (double)x[a] * s + (double)x[b] * c, 1e-6, 0);
        }
        assert_memory_equal(row + h->n_rot, x + h->n_rot, (h->dim - h->n_rot) * sizeof(float));
    }
}

/* The norm and the rotation of q alone, with no weight, one that has a factor, or one for each head. */
static void one_value_without_its_pair(void **state)
{
    static const float factor = 0.375f;
    for (uint32_t c = 0; c < 4; c++) {
        struct fixture f;
        struct heads h = {.n_head = 3, .q_step = c == 3 ? 48 : 0, .dim = 48, .n_rot = 48, .pairing = HALO_ROPE_NEOX};
        fixture_init(&f, N_VOCAB, N_ROWS, 32);
        uint16_t q = fixture_input(&f, h.n_head * h.dim, 1);
        h.q = fixture_floats(&f, 0);
        if (c == 2) {
            uint32_t rope = fixture_rope(&f, h.pairing, h.n_rot, 1.25f, 10000);
            fixture_op(&f, (struct halo_op){.kind = HALO_OP_ROPE, .u.rope = {q, HALO_NONE, h.n_head, 0, h.dim, rope}});
        } else {
            uint32_t n = c == 3 ? h.n_head : 1;
            uint32_t weight = fixture_weight(&f, HALO_TYPE_F16, HALO_WEIGHT_VECTOR, h.dim, n, 1, 1);
            h.q_weight = fixture_floats(&f, weight);
            f.weights[weight].scales = &factor;
            for (uint32_t i = 0; i < h.dim * n; i++)
                h.q_weight[i] = c == 0 ? 1 : h.q_weight[i] * factor;
            struct halo_op_qk_norm norm = {
                q, HALO_NONE, c == 0 ? HALO_WEIGHT_NONE : weight, HALO_WEIGHT_NONE, h.n_head, 0, h.dim, 1e-5f};
            fixture_op(&f, (struct halo_op){.kind = HALO_OP_QK_NORM, .u.qk_norm = norm});
        }
        run_all(&f, 1, &q, c == 2 ? check_rope : check_qk_norm, &h, 7);
        free(h.q);
        free(h.q_weight);
    }
}

static void heads_are_normed_and_rotated(void **state)
{
    static const uint32_t dims[] = {8, 16, 48, 80, 128};
    for (uint32_t c = 0; c < 20; c++) {
        struct fixture f;
        struct heads h = {.n_head = 1 + c % 3 * 2, .n_head_kv = 1 + c % 2, .dim = dims[c / 4]};
        h.n_rot = c % 4 == 3 ? h.dim / 4 * 2 : h.dim;
        h.pairing = c % 2 ? HALO_ROPE_NEOX : HALO_ROPE_NORM;
        fixture_init(&f, N_VOCAB, N_ROWS, 100000);
        f.plan.kv[0].n_pages = 25001;
        uint16_t q = fixture_input(&f, h.n_head * h.dim, 1), k = fixture_input(&f, h.n_head_kv * h.dim, 1);
        h.q = fixture_floats(&f, 0);
        h.k = fixture_floats(&f, 1);
        if (c % 4 == 0) {
            uint32_t weight = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, h.dim, 1, 1, 1);
            fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, h.dim, 1, 1, 1);
            struct halo_op_qk_norm norm = {q, k, weight, weight + 1, h.n_head, h.n_head_kv, h.dim, 1e-5f};
            fixture_op(&f, (struct halo_op){.kind = HALO_OP_QK_NORM, .u.qk_norm = norm});
            h.q_weight = fixture_floats(&f, weight);
            h.k_weight = fixture_floats(&f, weight + 1);
        } else {
            uint32_t rope = fixture_rope(&f, h.pairing, h.n_rot, 1.25f, 10000);
            fixture_op(&f,
                       (struct halo_op){.kind = HALO_OP_ROPE, .u.rope = {q, k, h.n_head, h.n_head_kv, h.dim, rope}});
        }
        run_all(&f, 2, (uint16_t[]){q, k}, c % 4 == 0 ? check_qk_norm : check_rope, &h,
                c % 4 == 1 ? 99000 : (int32_t)c);
        free(h.q);
        free(h.k);
        free(h.q_weight);
        free(h.k_weight);
    }
}

static void check_glu(void *ud, uint32_t which, int32_t token, int32_t pos, const float *row)
{
    struct table *t = ud;
    const float *gate = input_of(t, token), *up = t->weight[0] + (size_t)token * t->width;
    for (uint32_t i = 0; i < t->width; i++) {
        double want = (double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i];
        close_to((double)row[i], which == 0 ? want : want + (double)up[i], 1e-6, 4e-7);
    }
}

static void glu_and_add(void **state)
{
    static const uint32_t widths[] = {1, 24, 96, 770};
    for (uint32_t c = 0; c < 4; c++) {
        struct fixture f;
        struct table t = {.width = widths[c]};
        fixture_init(&f, N_VOCAB, N_ROWS, 32);
        uint16_t gate = fixture_input(&f, t.width, 12), up = fixture_input(&f, t.width, 2);
        uint16_t out = fixture_value(&f, t.width), sum = fixture_value(&f, t.width);
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_GLU, .u.glu = {gate, up, out, HALO_GLU_SILU}});
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_GLU, .u.glu = {gate, up, sum, HALO_GLU_SILU}});
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_ADD, .u.add = {sum, up}});
        t.rows = fixture_floats(&f, 0);
        t.weight[0] = fixture_floats(&f, 1);
        run_all(&f, 2, (uint16_t[]){out, sum}, check_glu, &t, 0);
        free(t.rows);
        free(t.weight[0]);
    }
}

struct product {
    struct table t;
    uint32_t n_rows[3];
    float *bias[3];
    double relative[3]; /* error allowed, of the sum of magnitudes */
    double scale, cap;  /* of logits, 0: none */
};

static void check_matmul(void *ud, uint32_t which, int32_t token, int32_t pos, const float *row)
{
    struct product *p = ud;
    const float *x = input_of(&p->t, token);
    for (uint32_t n = 0; n < p->n_rows[which]; n++) {
        double sum = 0, magnitude = 0;
        for (uint32_t i = 0; i < p->t.width; i++) {
            double term = (double)p->t.weight[which][(size_t)n * p->t.width + i] * (double)x[i];
            sum += term;
            magnitude += fabs(term);
        }
        sum += p->bias[which] ? (double)p->bias[which][n] : 0;
        sum *= p->scale > 0 ? p->scale : 1;
        sum = p->cap > 0 ? p->cap * tanh(sum / p->cap) : sum;
        close_to((double)row[n], sum, 1e-6 + p->relative[which] * magnitude, 1e-6);
    }
}

/* Three weights of different types and heights over one input: some quantized, some not, with and without a bias. */
static void matmul_shares_its_input(void **state)
{
    static const struct {
        uint32_t width;
        enum halo_type type[3];
        uint32_t n_rows[3];
    } cases[] = {
        {32, {HALO_TYPE_F32, HALO_TYPE_F32, HALO_TYPE_F32}, {1, 16, 33}},
        {96, {HALO_TYPE_Q8_0, HALO_TYPE_F16, HALO_TYPE_Q4_0}, {40, 17, 15}},
        {512, {HALO_TYPE_Q4_K, HALO_TYPE_Q4_K, HALO_TYPE_Q6_K}, {1000, 64, 130}},
        {256, {HALO_TYPE_BF16, HALO_TYPE_Q5_K, HALO_TYPE_F32}, {48, 100, 64}},
    };
    for (uint32_t c = 0; c < 4; c++) {
        struct fixture f;
        struct product p = {.t.width = cases[c].width};
        struct halo_op_matmul op = {.n = 3};
        fixture_init(&f, N_VOCAB, N_ROWS, 32);
        op.x = fixture_input(&f, p.t.width, 1);
        p.t.rows = fixture_floats(&f, 0);
        for (uint32_t k = 0; k < 3; k++) {
            p.n_rows[k] = cases[c].n_rows[k];
            op.weight[k] = fixture_weight(&f, cases[c].type[k], HALO_WEIGHT_MATRIX, p.t.width, p.n_rows[k], 1, 1);
            op.out[k] = fixture_value(&f, p.n_rows[k]);
            p.t.weight[k] = fixture_floats(&f, op.weight[k]);
            op.bias[k] = k == 1 ? fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, p.n_rows[k], 1, 1, 10)
                                : HALO_WEIGHT_NONE;
            p.bias[k] = k == 1 ? fixture_floats(&f, op.bias[k]) : NULL;
            /* An activation of 8 bits is off by up to 1/254 of the largest of its block. */
            bool exact = halo_type_info(cases[c].type[k]).block_weights == 1;
            p.relative[k] = exact ? 1e-6 : 0.01;
        }
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = op});
        run_all(&f, 3, op.out, check_matmul, &p, 0);
        free(p.t.rows);
        for (uint32_t k = 0; k < 3; k++) {
            free(p.t.weight[k]);
            free(p.bias[k]);
        }
    }
}

/* Wanted rows only, in the caller's memory, and nothing beside them: the vocabulary is no multiple of the kernels'
 * groups. With and without a bias. */
static void logits_of_the_wanted_rows(void **state)
{
    static const enum halo_type types[] = {HALO_TYPE_F32, HALO_TYPE_Q8_0};
    for (uint32_t c = 0; c < 12; c++) {
        struct fixture f;
        struct product p = {.t.width = 64,
                            .n_rows = {N_VOCAB},
                            .relative = {c % 2 ? 0.01 : 1e-6},
                            .scale = c % 3 ? 0.5 : 0,
                            .cap = c % 4 ? 5 : 0};
        fixture_init(&f, N_VOCAB, N_ROWS, 64);
        uint16_t x = fixture_input(&f, 64, 1);
        uint32_t head = fixture_weight(&f, types[c % 2], HALO_WEIGHT_MATRIX, 64, N_VOCAB, 1, 1);
        bool biased = c >= 6;
        uint32_t bias =
            biased ? fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, N_VOCAB, 1, 1, 10) : HALO_WEIGHT_NONE;
        fixture_op(&f, (struct halo_op){.kind = HALO_OP_LOGITS,
                                        .u.logits = {.weight = head,
                                                     .x = x,
                                                     .bias = bias,
                                                     .scale = p.scale > 0 ? (float)p.scale : 1,
                                                     .cap = (float)p.cap}});
        p.bias[0] = biased ? fixture_floats(&f, bias) : NULL;
        p.t.rows = fixture_floats(&f, 0);
        p.t.weight[0] = fixture_floats(&f, head);
        if (fixture_has(variants[c % 6 / 2])) {
            char reason[HALO_DEVICE_REASON];
            static const int32_t token[5] = {3, 1, 4, 1, 5}, pos[5] = {0, 1, 2, 3, 4};
            static const uint32_t zero[5], output[3] = {0, 3, 4};
            float logits[4 * N_VOCAB];
            struct halo_batch_seq seq;
            fixture_open(&f, variants[c % 6 / 2], 2);
            seq.pages[0] = fixture_pages(&f, 0, &seq.n_pages);
            struct halo_batch batch = {5, token, pos, zero, 1, &seq, 3, output, logits};
            logits[3 * N_VOCAB] = 123;
            assert_int_equal(f.device_ops->run(f.model, &batch, NULL, reason), 0);
            for (uint32_t i = 0; i < 3; i++)
                check_matmul(&p, 0, token[output[i]], 0, logits + i * N_VOCAB);
            assert_true(logits[3 * N_VOCAB] == 123);
        }
        free(p.t.rows);
        free(p.t.weight[0]);
        free(p.bias[0]);
        fixture_finish(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embed_looks_up_every_type),
        cmocka_unit_test(rmsnorm_with_and_without_the_sum),
        cmocka_unit_test(layernorm_and_norm_without_weight),
        cmocka_unit_test(activation_without_a_factor),
        cmocka_unit_test(heads_are_normed_and_rotated),
        cmocka_unit_test(one_value_without_its_pair),
        cmocka_unit_test(glu_and_add),
        cmocka_unit_test(matmul_shares_its_input),
        cmocka_unit_test(logits_of_the_wanted_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
