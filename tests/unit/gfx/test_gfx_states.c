/* test_gfx_states.c: kernels with a state, several sequences in one launch, against plain loops in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gfx_fixture.h"

/* Sequences of some rows each: the first begins, the others go on. */
enum { SEQUENCES = 3, SLOTS = 4 };
static const struct halo_state_run runs[SEQUENCES] = {{0, 11}, {11, 1}, {12, 9}};
static const uint32_t slots[SEQUENCES] = {2, 0, 3};
enum { ROWS = 21 };

struct states {
    struct halo_state_run *run;
    uint32_t *slot;
    int32_t *pos;
    float *bytes, *before; /* [SLOTS][width], of which an op has those from `offset` on; and as they were */
    uint32_t width, offset;
};

static struct states states_init(uint32_t width, uint32_t offset, uint32_t seed)
{
    struct states s = {.run = gfx_zeros(sizeof(runs)),
                       .slot = gfx_zeros(sizeof(slots)),
                       .pos = gfx_zeros(ROWS * sizeof(int32_t)),
                       .bytes = gfx_floats(SLOTS * width, seed),
                       .before = gfx_floats(SLOTS * width, seed),
                       .width = width,
                       .offset = offset};
    memcpy(s.run, runs, sizeof(runs));
    memcpy(s.slot, slots, sizeof(slots));
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t r = 0; r < runs[i].n_rows; r++)
            s.pos[runs[i].first + r] = (int32_t)(i * 40 + r);
    return s;
}

static struct halo_state_arg states_arg(const struct states *s)
{
    return (struct halo_state_arg){.base = (uint8_t *)(s->bytes + s->offset),
                                   .pos = s->pos,
                                   .run = s->run,
                                   .slot = s->slot,
                                   .slot_bytes = s->width * sizeof(float)};
}

/* The part of a sequence before the launch, or after it; NULL: it begins. */
static const float *part_before(const struct states *s, uint32_t sequence)
{
    return s->pos[runs[sequence].first] == 0 ? NULL : s->before + slots[sequence] * s->width + s->offset;
}

static const float *part_after(const struct states *s, uint32_t sequence)
{
    return s->bytes + slots[sequence] * s->width + s->offset;
}

/* What does not belong to the op is as it was: the slot of nobody, and n f32 of the others. */
static void states_finish(struct states *s, uint32_t n)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        const float *have = s->bytes + slot * s->width, *want = s->before + slot * s->width;
        if (slot == 1)
            assert_memory_equal(have, want, s->width * sizeof(float));
        assert_memory_equal(have, want, s->offset * sizeof(float));
        assert_memory_equal(have + s->offset + n, want + s->offset + n, (s->width - s->offset - n) * sizeof(float));
    }
    free(s->run);
    free(s->slot);
    free(s->pos);
    free(s->bytes);
    free(s->before);
}

static void convolution(uint32_t n_taps, uint32_t n, bool bias, bool silu)
{
    struct states s = states_init((n_taps - 1) * n + 9, 4, n_taps);
    float *x = gfx_floats(ROWS * n, 5), *weight = gfx_floats(n * n_taps, 6), *shift = gfx_floats(n, 7),
          *out = gfx_zeros(ROWS * n * sizeof(float));
    struct halo_conv1d_args args = {.state = states_arg(&s),
                                    .x = x,
                                    .weight = weight,
                                    .bias = bias ? shift : NULL,
                                    .out = out,
                                    .n_cols = n,
                                    .n_taps = n_taps,
                                    .silu = silu};
    gfx_run(n_taps <= 4 ? "conv1d_t4" : "conv1d_t8", HALO_HIP_CEIL(n, HALO_CONV1D_COLS), SEQUENCES, 1, &args);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t c = 0; c < n; c++) {
            double column[16 + ROWS]; /* of the state, then of x */
            const float *before = part_before(&s, i), *after = part_after(&s, i);
            const uint32_t n_rows = runs[i].n_rows;
            for (uint32_t k = 0; k + 1 < n_taps; k++)
                column[k] = before ? (double)before[k * n + c] : 0;
            for (uint32_t r = 0; r < n_rows; r++)
                column[n_taps - 1 + r] = (double)x[(runs[i].first + r) * n + c];
            for (uint32_t r = 0; r < n_rows; r++) {
                double y = bias ? (double)shift[c] : 0;
                for (uint32_t k = 0; k < n_taps; k++)
                    y += (double)weight[c * n_taps + k] * column[r + k];
                y = silu ? y / (1 + exp(-y)) : y;
                gfx_near((double)out[(runs[i].first + r) * n + c], y, 2e-6, fabs(y) + 1, "conv1d", r);
            }
            for (uint32_t k = 0; k + 1 < n_taps; k++)
                assert_true((double)after[k * n + c] == column[n_rows + k]);
        }
    states_finish(&s, (n_taps - 1) * n);
    free(x);
    free(weight);
    free(shift);
    free(out);
}

static void convolutions(void **state)
{
    (void)state;
    convolution(2, 1, false, true);
    convolution(3, 37, false, false);
    convolution(4, 300, true, true);
    convolution(5, 64, false, true);
    convolution(8, 30, true, false);
}

/* One row of the batch for a head's state of n_rows by n_cols (recurrence.h), in double. */
static void recurrence_step(double *s, uint32_t n_rows, uint32_t n_cols, const double *k, const double *q,
                            const float *v, double decay, double gain, bool delta, double direct, double *ret)
{
    for (uint32_t i = 0; i < n_rows; i++, s += n_cols) {
        double kept = 0;
        for (uint32_t j = 0; j < n_cols; j++)
            kept += (s[j] *= decay) * k[j];
        const double u = gain * ((double)v[i] - (delta ? kept : 0));
        ret[i] = direct * (double)v[i];
        for (uint32_t j = 0; j < n_cols; j++)
            ret[i] += (s[j] += u * k[j]) * q[j];
    }
}

/* x over its length, times scale. */
static void normed(const float *x, uint32_t n, double scale, double *ret)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n; i++)
        ret[i] = (double)x[i] / fmax(sqrt(sum), 1e-6) * scale;
}

static double log1pexp(double x)
{
    return x > 40 ? x : log1p(exp(x));
}

enum { COLS_MAX = 512, ROWS_MAX = 64 };

/* The rows of one sequence for head h, and its state behind them. */
static void delta_rule_head(const struct states *s, const struct halo_delta_rule_args *a, uint32_t sequence, uint32_t h)
{
    static double want[ROWS_MAX * COLS_MAX];
    const uint32_t per_k = a->n_head_v / a->n_head_k, n_state = a->dim_v * a->dim_k, n_k = a->n_head_k * a->dim_k;
    const uint32_t head_k = a->grouped ? h / per_k : h % a->n_head_k, gate = h / per_k * a->gate_stride + h % per_k;
    const float *before = part_before(s, sequence);
    for (uint32_t i = 0; i < n_state; i++)
        want[i] = before ? (double)before[h * n_state + i] : 0;
    for (uint32_t r = runs[sequence].first; r < runs[sequence].first + runs[sequence].n_rows; r++) {
        double k[COLS_MAX], q[COLS_MAX], out[ROWS_MAX];
        const float *row = a->qkv + r * (2 * n_k + a->n_head_v * a->dim_v),
                    *gates = a->alpha + r * a->n_head_k * a->gate_stride;
        normed(row + head_k * a->dim_k, a->dim_k, (double)a->scale, q);
        normed(row + n_k + head_k * a->dim_k, a->dim_k, 1, k);
        const double dt = log1pexp((double)gates[gate + a->alpha_first] + (double)a->dt_bias[h]);
        recurrence_step(want, a->dim_v, a->dim_k, k, q, row + 2 * n_k + h * a->dim_v, exp((double)a->a[h] * dt),
                        1 / (1 + exp(-(double)gates[gate + a->beta_first])), true, 0, out);
        for (uint32_t i = 0; i < a->dim_v; i++)
            gfx_near((double)a->out[(r * a->n_head_v + h) * a->dim_v + i], out[i], 4e-6, 1, "delta_rule", i);
    }
    for (uint32_t i = 0; i < n_state; i++)
        gfx_near((double)part_after(s, sequence)[h * n_state + i], want[i], 4e-6, 1, "state of delta_rule", i);
}

/* alpha and beta in one value, beta behind alpha. */
static void delta_rule(const char *kernel, uint32_t n_head_k, uint32_t n_head_v, uint32_t dim_k, uint32_t dim_v,
                       bool grouped)
{
    const uint32_t per_k = n_head_v / n_head_k, n_state = n_head_v * dim_v * dim_k;
    struct states s = states_init(n_state + 11, dim_k % 4 ? 3 : 8, dim_k);
    float *qkv = gfx_floats(ROWS * (2 * n_head_k * dim_k + n_head_v * dim_v), 1),
          *gates = gfx_floats(ROWS * n_head_k * 2 * per_k, 2), *decay = gfx_floats(n_head_v, 3),
          *dt_bias = gfx_floats(n_head_v, 4), *out = gfx_zeros(ROWS * n_head_v * dim_v * sizeof(float));
    for (uint32_t i = 0; i < n_head_v; i++)
        decay[i] = -fabsf(decay[i]);
    for (uint32_t i = 0; i < ROWS * n_head_k * 2 * per_k; i++)
        gates[i] *= 6;
    struct halo_delta_rule_args args = {.state = states_arg(&s),
                                        .qkv = qkv,
                                        .alpha = gates,
                                        .beta = gates,
                                        .a = decay,
                                        .dt_bias = dt_bias,
                                        .out = out,
                                        .n_head_k = n_head_k,
                                        .n_head_v = n_head_v,
                                        .dim_k = dim_k,
                                        .dim_v = dim_v,
                                        .gate_stride = 2 * per_k,
                                        .beta_first = per_k,
                                        .grouped = grouped,
                                        .eps = 1e-6f,
                                        .scale = 0.5f};
    assert_true(dim_k <= COLS_MAX && dim_v <= ROWS_MAX);
    gfx_run(kernel, HALO_HIP_CEIL(dim_v, HALO_RECURRENCE_ROWS), n_head_v, SEQUENCES, &args);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t h = 0; h < n_head_v; h++)
            delta_rule_head(&s, &args, i, h);
    states_finish(&s, n_state);
    free(qkv);
    free(gates);
    free(decay);
    free(dt_bias);
    free(out);
}

static void delta_rules(void **state)
{
    (void)state;
    delta_rule("delta_rule_d64", 1, 2, 17, 5, false);
    delta_rule("delta_rule_d64", 2, 4, 64, 33, true);
    delta_rule("delta_rule_d128", 2, 4, 128, 40, false);
    delta_rule("delta_rule_d128", 1, 1, 90, 64, false);
    delta_rule("delta_rule_d256", 1, 3, 200, 32, true);
    delta_rule("delta_rule_d512", 1, 2, 257, 33, true);
    delta_rule("delta_rule_d512", 1, 1, 512, 40, false);
}

static void ssm_scan_head(const struct states *s, const struct halo_ssm_scan_args *a, uint32_t sequence, uint32_t h)
{
    static double want[ROWS_MAX * COLS_MAX];
    const uint32_t n_state = a->head_dim * a->n_state, n_x = a->n_head * a->head_dim, n_b = a->n_group * a->n_state;
    const uint32_t group = h / (a->n_head / a->n_group);
    const float *before = part_before(s, sequence);
    for (uint32_t i = 0; i < n_state; i++)
        want[i] = before ? (double)before[h * n_state + i] : 0;
    for (uint32_t r = runs[sequence].first; r < runs[sequence].first + runs[sequence].n_rows; r++) {
        double b[COLS_MAX], c[COLS_MAX], out[ROWS_MAX];
        const float *row = a->xbc + r * (n_x + 2 * n_b), *of_group = row + n_x + group * a->n_state;
        for (uint32_t i = 0; i < a->n_state; i++) {
            b[i] = (double)of_group[i];
            c[i] = (double)of_group[n_b + i];
        }
        const double dt = log1pexp((double)a->dt[r * a->n_head + h] + (double)a->dt_bias[h]);
        recurrence_step(want, a->head_dim, a->n_state, b, c, row + h * a->head_dim, exp((double)a->a[h] * dt), dt,
                        false, (double)a->d[h], out);
        for (uint32_t i = 0; i < a->head_dim; i++)
            gfx_near((double)a->out[(r * a->n_head + h) * a->head_dim + i], out[i], 4e-6, fabs(out[i]) + 16, "ssm_scan",
                     i);
    }
    for (uint32_t i = 0; i < n_state; i++)
        gfx_near((double)part_after(s, sequence)[h * n_state + i], want[i], 4e-6, 4, "state of ssm_scan", i);
}

static void ssm_scan(const char *kernel, uint32_t n_head, uint32_t head_dim, uint32_t n_group, uint32_t n_state)
{
    const uint32_t n = n_head * head_dim * n_state;
    struct states s = states_init(n + 7, n_state % 4 ? 5 : 4, n_state);
    float *xbc = gfx_floats(ROWS * (n_head * head_dim + 2 * n_group * n_state), 1), *dt = gfx_floats(ROWS * n_head, 2),
          *decay = gfx_floats(n_head, 3), *direct = gfx_floats(n_head, 4), *dt_bias = gfx_floats(n_head, 5),
          *out = gfx_zeros(ROWS * n_head * head_dim * sizeof(float));
    for (uint32_t i = 0; i < n_head; i++)
        decay[i] = -fabsf(decay[i]);
    for (uint32_t i = 0; i < ROWS * n_head; i++)
        dt[i] *= 4;
    struct halo_ssm_scan_args args = {.state = states_arg(&s),
                                      .xbc = xbc,
                                      .dt = dt,
                                      .a = decay,
                                      .d = direct,
                                      .dt_bias = dt_bias,
                                      .out = out,
                                      .n_head = n_head,
                                      .head_dim = head_dim,
                                      .n_group = n_group,
                                      .n_state = n_state};
    assert_true(n_state <= COLS_MAX && head_dim <= ROWS_MAX);
    gfx_run(kernel, HALO_HIP_CEIL(head_dim, HALO_RECURRENCE_ROWS), n_head, SEQUENCES, &args);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t h = 0; h < n_head; h++)
            ssm_scan_head(&s, &args, i, h);
    states_finish(&s, n);
    free(xbc);
    free(dt);
    free(decay);
    free(direct);
    free(dt_bias);
    free(out);
}

static void ssm_scans(void **state)
{
    (void)state;
    ssm_scan("ssm_scan_d64", 2, 5, 1, 15);
    ssm_scan("ssm_scan_d64", 4, 33, 2, 64);
    ssm_scan("ssm_scan_d128", 4, 64, 2, 128);
    ssm_scan("ssm_scan_d256", 3, 40, 3, 250);
    ssm_scan("ssm_scan_d512", 2, 40, 1, 511);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(delta_rules),
        cmocka_unit_test(ssm_scans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
