/* test_cpu_states.c: ops with a state: their formulas in double, and that a row has the same bits however its sequence
 * is divided into batches, whatever stands beside it, in every variant and on any number of threads.
 *
 * Compiled with HALO_TEST_HIP the same holds for the bits of the HIP device over the runtime that $HALO_HIP_LIB names,
 * which are compared with those of the CPU device under the op's bound. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu_fixture.h"
#if defined(HALO_TEST_HIP)
#include "hip_compare.h"
#endif

#define TOKEN_IDS 97
#define N_TOKENS 23
#define MOST_ROWS 64
#define WIDTH_MAX 128 /* of an op's result */

static int32_t tokens[N_TOKENS];

/* An op and what it is made of. */
struct subject {
    struct fixture f;
    uint16_t x, out;
    uint32_t weight, bias, width;
    struct halo_op op;
};
typedef void build_fn(struct subject *s, uint32_t form);

static struct halo_state_part part_of(uint32_t group, uint32_t offset)
{
    return (struct halo_state_part){.kv_group = group, .kv_layer = 1, .offset = offset};
}

/* What the op gives for each token of one prompt, in one batch: plain C on one thread. */
static void reference(struct subject *s, build_fn *build, uint32_t form, float *ret)
{
    for (int32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (i * i * 7 + 3 * i + 5) % TOKEN_IDS;
    *s = (struct subject){0};
    fixture_init(&s->f, TOKEN_IDS, MOST_ROWS, 128);
    build(s, form);
    assert_true(s->width <= WIDTH_MAX);
    fixture_op(&s->f, s->op);
    fixture_open(&s->f, "reference", 1);
    fixture_run(&s->f, 2, tokens, N_TOKENS, 0, NULL);
    for (uint32_t r = 0; r < N_TOKENS; r++)
        fixture_peek(&s->f, s->out, r, ret + r * s->width);
}

static void rows_equal(struct subject *s, const float *want, uint32_t first, uint32_t n, uint32_t row)
{
    float have[WIDTH_MAX];
    for (uint32_t i = 0; i < n; i++) {
        fixture_peek(&s->f, s->out, row + i, have);
        assert_memory_equal(want + (first + i) * s->width, have, s->width * sizeof(*have));
    }
}

/* One sequence, divided at `cut`, in a slot that another one has left full. */
static void divided(struct subject *s, const float *want, uint32_t cut)
{
    fixture_run(&s->f, cut % 8, tokens + 5, 9, 0, NULL);
    fixture_run(&s->f, cut % 8, tokens, cut, 0, NULL);
    rows_equal(s, want, 0, cut, 0);
    fixture_run(&s->f, cut % 8, tokens + cut, N_TOKENS - cut, (int32_t)cut, NULL);
    rows_equal(s, want, cut, N_TOKENS - cut, 0);
}

/* Eight sequences that step together, each some steps behind the one before: rows of prompts of 1 to 7 tokens. */
static void together(struct subject *s, const float *want, uint32_t group)
{
    struct halo_batch_seq seqs[8];
    uint32_t done[8] = {0}, slot[8];
    char reason[HALO_DEVICE_REASON] = "";
    for (uint32_t i = 0; i < 8; i++) {
        slot[i] = (i * 3 + 1) % 8;
        seqs[i].pages[0] = fixture_pages(&s->f, i, &seqs[i].n_pages);
        seqs[i].pages[group] = &slot[i];
    }
    for (uint32_t step = 0; done[7] < N_TOKENS; step++) {
        int32_t token[MOST_ROWS], pos[MOST_ROWS];
        uint32_t seq[MOST_ROWS], n = 0;
        for (uint32_t i = 0; i < 8; i++)
            for (uint32_t k = (step + i) % 4 == 0 ? 7 : 1; k > 0 && done[i] < N_TOKENS && step >= i; k--, n++) {
                token[n] = tokens[done[i]];
                pos[n] = (int32_t)done[i]++;
                seq[n] = i;
            }
        const struct halo_batch batch = {
            .n_rows = n, .token = token, .pos = pos, .seq = seq, .n_seqs = 8, .seqs = seqs};
        assert_int_equal(s->f.device_ops->run(s->f.model, &batch, NULL, reason), 0);
        for (uint32_t r = 0; r < n; r++)
            rows_equal(s, want, (uint32_t)pos[r], 1, r);
    }
}

#if defined(HALO_TEST_HIP)
/* The HIP device: close to the CPU device for each token of one prompt, and these bits everywhere. */
static void same_bits_everywhere(struct subject *s, const float *want, uint32_t group)
{
    static float bits[N_TOKENS * WIDTH_MAX];
    use_hip(&s->f);
    fixture_run(&s->f, 2, tokens, N_TOKENS, 0, NULL);
    for (uint32_t r = 0; r < N_TOKENS; r++)
        fixture_peek(&s->f, s->out, r, bits + r * s->width);
    compare_rows(halo_op_name(s->op.kind), bits, want, N_TOKENS, s->width, bounds[s->op.kind]);
    for (uint32_t cut = 1; cut < N_TOKENS; cut++)
        divided(s, bits, cut);
    for (uint32_t pos = 0; pos < N_TOKENS; pos++) {
        fixture_run(&s->f, 5, tokens + pos, 1, (int32_t)pos, NULL);
        rows_equal(s, bits, pos, 1, 0);
    }
    together(s, bits, group);
    use_cpu(&s->f);
}
#else
static void same_bits_everywhere(struct subject *s, const float *want, uint32_t group)
{
    static const char *const variants[] = {"reference", "avx2", "avx512"};
    for (uint32_t v = 0; v < 3; v++)
        for (uint32_t n_threads = 1; n_threads <= 3 && fixture_has(variants[v]); n_threads += 2) {
            fixture_open(&s->f, variants[v], n_threads);
            for (uint32_t cut = 1; cut < N_TOKENS; cut++)
                divided(s, want, cut);
            for (uint32_t pos = 0; pos < N_TOKENS; pos++) {
                fixture_run(&s->f, 5, tokens + pos, 1, (int32_t)pos, NULL);
                rows_equal(s, want, pos, 1, 0);
            }
            together(s, want, group);
        }
}
#endif

/* Taps, with a bias and an activation or without. */
static const struct {
    uint32_t n_taps, width;
    bool bias, silu;
} convolutions[] = {{3, 37, false, false}, {4, 80, true, true}, {2, 1, false, true}, {8, 16, true, false}};

static void convolution(struct subject *s, uint32_t form)
{
    uint32_t n_taps = convolutions[form].n_taps, width = convolutions[form].width;
    s->width = width;
    s->x = fixture_input(&s->f, width, 2);
    s->out = fixture_value(&s->f, width);
    s->weight = fixture_weight(&s->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n_taps, width, 1, 1);
    s->bias = convolutions[form].bias ? fixture_weight(&s->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, width, 1, 1, 1)
                                      : HALO_WEIGHT_NONE;
    uint32_t group = fixture_states(&s->f, 2, 3 + (n_taps - 1) * width);
    s->op = (struct halo_op){
        HALO_OP_CONV1D, .u.conv1d = {s->x, s->out, s->weight, s->bias, convolutions[form].silu, part_of(group, 3)}};
}

static void convolution_is_its_formula(void **state)
{
    static float got[N_TOKENS * WIDTH_MAX], x[N_TOKENS][WIDTH_MAX];
    static struct subject s;
    for (uint32_t form = 0; form < sizeof(convolutions) / sizeof(convolutions[0]); form++) {
        reference(&s, convolution, form, got);
        float *taps = fixture_floats(&s.f, s.weight), *bias = NULL;
        if (s.bias != HALO_WEIGHT_NONE)
            bias = fixture_floats(&s.f, s.bias);
        uint32_t n_taps = convolutions[form].n_taps;
        for (uint32_t r = 0; r < N_TOKENS; r++) {
            fixture_peek(&s.f, s.x, r, x[r]);
            for (uint32_t c = 0; c < s.width; c++) {
                double y = bias ? (double)bias[c] : 0;
                for (uint32_t k = 0; k < n_taps; k++)
                    if (r + k + 1 >= n_taps)
                        y += (double)taps[c * n_taps + k] * (double)x[r + k + 1 - n_taps][c];
                y = convolutions[form].silu ? y / (1 + exp(-y)) : y;
                assert_true(fabs((double)got[r * s.width + c] - y) <= 2e-6);
            }
        }
        free(taps);
        free(bias);
        same_bits_everywhere(&s, got, s.op.u.conv1d.state.kv_group);
        fixture_finish(&s.f);
    }
}

/* Heads of q and k, of v; where the gates lie. */
enum { DELTA_DIM_MAX = 40, DELTA_HEADS_MAX = 6, DELTA_QKV_MAX = 300 };
static const struct {
    uint32_t n_head_k, n_head_v, dim_k, dim_v, stride, alpha, beta;
    bool grouped, one_value;
} rules[] = {
    {1, 1, 1, 1, 1, 0, 0, false, false}, {2, 4, 32, 16, 2, 0, 0, false, false}, {2, 4, 16, 32, 4, 2, 0, true, true},
    {3, 3, 17, 5, 3, 1, 2, false, true}, {2, 6, 40, 21, 5, 0, 2, true, false},
};

static struct delta_inputs {
    uint16_t alpha, beta;
    uint32_t a, dt_bias;
} delta;

static void delta_rule(struct subject *s, uint32_t form)
{
    uint32_t n_k = rules[form].n_head_k, n_v = rules[form].n_head_v, dim_k = rules[form].dim_k,
             dim_v = rules[form].dim_v, gates = n_k * rules[form].stride;
    s->width = n_v * dim_v;
    s->x = fixture_input(&s->f, 2 * n_k * dim_k + n_v * dim_v, 2);
    delta.alpha = fixture_input(&s->f, gates, 3);
    delta.beta = rules[form].one_value ? delta.alpha : fixture_input(&s->f, gates, 3);
    delta.a = fixture_weight(&s->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n_v, 1, 1, 0.7);
    delta.dt_bias = fixture_weight(&s->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n_v, 1, 1, 2);
    for (uint32_t h = 0; h < n_v; h++) { /* a state that grows has no bound */
        float *a = (float *)(void *)s->f.bytes[delta.a] + h;
        *a = -fabsf(*a);
    }
    s->out = fixture_value(&s->f, s->width);
    uint32_t group = fixture_states(&s->f, 2, 3 + n_v * dim_v * dim_k);
    s->op = (struct halo_op){HALO_OP_DELTA_RULE, .u.delta_rule = {.qkv = s->x,
                                                                  .alpha = delta.alpha,
                                                                  .beta = delta.beta,
                                                                  .out = s->out,
                                                                  .a = delta.a,
                                                                  .dt_bias = delta.dt_bias,
                                                                  .n_head_k = n_k,
                                                                  .n_head_v = n_v,
                                                                  .dim_k = dim_k,
                                                                  .dim_v = dim_v,
                                                                  .gate_stride = rules[form].stride,
                                                                  .alpha_first = rules[form].alpha,
                                                                  .beta_first = rules[form].beta,
                                                                  .grouped = rules[form].grouped,
                                                                  .eps = 1e-6f,
                                                                  .scale = 0.25f,
                                                                  .state = part_of(group, 3)}};
}

static double length(const float *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return fmax(sqrt(sum), 1e-6);
}

/* One head's state after one more row, and its result, in double. */
static void delta_step(const struct halo_op_delta_rule *u, const float *q, const float *k, const float *v, double decay,
                       double beta, double *state, double *ret)
{
    double norm_q = length(q, u->dim_k), norm_k = length(k, u->dim_k);
    for (uint32_t i = 0; i < u->dim_v; i++, state += u->dim_k) {
        double kept = 0;
        for (uint32_t j = 0; j < u->dim_k; j++)
            kept += (state[j] *= decay) * (double)k[j] / norm_k;
        ret[i] = 0;
        for (uint32_t j = 0; j < u->dim_k; j++) {
            state[j] += beta * ((double)v[i] - kept) * (double)k[j] / norm_k;
            ret[i] += state[j] * (double)q[j] / norm_q * (double)u->scale;
        }
    }
}

static void delta_rule_is_its_formula(void **state)
{
    static float got[N_TOKENS * WIDTH_MAX];
    static double s_want[DELTA_HEADS_MAX][DELTA_DIM_MAX * DELTA_DIM_MAX];
    static struct subject s;
    for (uint32_t form = 0; form < sizeof(rules) / sizeof(rules[0]); form++) {
        reference(&s, delta_rule, form, got);
        const struct halo_op_delta_rule *u = &s.op.u.delta_rule;
        float *a = fixture_floats(&s.f, delta.a), *dt_bias = fixture_floats(&s.f, delta.dt_bias);
        uint32_t per_k = u->n_head_v / u->n_head_k;
        memset(s_want, 0, sizeof(s_want));
        for (uint32_t r = 0; r < N_TOKENS; r++) {
            float qkv[DELTA_QKV_MAX], alphas[16], betas[16];
            fixture_peek(&s.f, u->qkv, r, qkv);
            fixture_peek(&s.f, u->alpha, r, alphas);
            fixture_peek(&s.f, u->beta, r, betas);
            for (uint32_t h = 0; h < u->n_head_v; h++) {
                uint32_t of_k = u->grouped ? h / per_k : h % u->n_head_k, gate = h / per_k * u->gate_stride + h % per_k;
                double alpha = (double)alphas[gate + u->alpha_first], want[DELTA_DIM_MAX];
                double decay = exp((double)a[h] * log(1 + exp(alpha + (double)dt_bias[h])));
                double beta = 1 / (1 + exp(-(double)betas[gate + u->beta_first]));
                const float *q = qkv + of_k * u->dim_k, *k = q + u->n_head_k * u->dim_k,
                            *v = qkv + 2 * u->n_head_k * u->dim_k + h * u->dim_v;
                delta_step(u, q, k, v, decay, beta, s_want[h], want);
                for (uint32_t i = 0; i < u->dim_v; i++)
                    assert_true(fabs((double)got[r * s.width + h * u->dim_v + i] - want[i]) <= 3e-6);
            }
        }
        free(a);
        free(dt_bias);
        same_bits_everywhere(&s, got, u->state.kv_group);
        fixture_finish(&s.f);
    }
}

/* Heads of x, groups of B and C. */
enum { SSM_STATE_MAX = 40, SSM_HEADS_MAX = 8, SSM_XBC_MAX = 300 };
static const struct {
    uint32_t n_head, head_dim, n_group, n_state;
} scans[] = {{1, 1, 1, 1}, {8, 16, 2, 16}, {6, 8, 3, 40}, {4, 21, 1, 17}, {2, 5, 2, 32}};

static struct ssm_inputs {
    uint16_t dt;
    uint32_t a, d, dt_bias;
} ssm;

static void ssm_scan(struct subject *s, uint32_t form)
{
    uint32_t n = scans[form].n_head, inner = n * scans[form].head_dim,
             shared = scans[form].n_group * scans[form].n_state;
    s->width = inner;
    s->x = fixture_input(&s->f, inner + 2 * shared, 1);
    ssm.dt = fixture_input(&s->f, n, 3);
    ssm.a = fixture_weight(&s->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, 1, n, 1, 0.7);
    ssm.d = fixture_weight(&s->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, 1, n, 1, 1);
    ssm.dt_bias = fixture_weight(&s->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n, 1, 1, 2);
    for (uint32_t h = 0; h < n; h++) { /* a state that grows has no bound */
        float *a = (float *)(void *)s->f.bytes[ssm.a] + h;
        *a = -fabsf(*a);
    }
    s->out = fixture_value(&s->f, inner);
    uint32_t group = fixture_states(&s->f, 2, 3 + inner * scans[form].n_state);
    s->op = (struct halo_op){HALO_OP_SSM_SCAN, .u.ssm_scan = {.xbc = s->x,
                                                              .dt = ssm.dt,
                                                              .out = s->out,
                                                              .a = ssm.a,
                                                              .d = ssm.d,
                                                              .dt_bias = ssm.dt_bias,
                                                              .n_head = n,
                                                              .head_dim = scans[form].head_dim,
                                                              .n_group = scans[form].n_group,
                                                              .n_state = scans[form].n_state,
                                                              .state = part_of(group, 3)}};
}

/* One head's state after one more row, and its result, in double. */
static void ssm_step(const struct halo_op_ssm_scan *u, const float *x, const float *b, const float *c, double t,
                     double a, double d, double *state, double *ret)
{
    for (uint32_t i = 0; i < u->head_dim; i++, state += u->n_state) {
        ret[i] = d * (double)x[i];
        for (uint32_t j = 0; j < u->n_state; j++) {
            state[j] = state[j] * exp(t * a) + t * (double)x[i] * (double)b[j];
            ret[i] += state[j] * (double)c[j];
        }
    }
}

static void ssm_scan_is_its_formula(void **state)
{
    static float got[N_TOKENS * WIDTH_MAX];
    static double s_want[SSM_HEADS_MAX][SSM_STATE_MAX * SSM_STATE_MAX];
    static struct subject s;
    for (uint32_t form = 0; form < sizeof(scans) / sizeof(scans[0]); form++) {
        reference(&s, ssm_scan, form, got);
        const struct halo_op_ssm_scan *u = &s.op.u.ssm_scan;
        float *a = fixture_floats(&s.f, ssm.a), *d = fixture_floats(&s.f, ssm.d),
              *dt_bias = fixture_floats(&s.f, ssm.dt_bias);
        memset(s_want, 0, sizeof(s_want));
        for (uint32_t r = 0; r < N_TOKENS; r++) {
            float xbc[SSM_XBC_MAX], dt[SSM_HEADS_MAX];
            fixture_peek(&s.f, u->xbc, r, xbc);
            fixture_peek(&s.f, u->dt, r, dt);
            for (uint32_t h = 0; h < u->n_head; h++) {
                double want[SSM_STATE_MAX], t = log(1 + exp((double)dt[h] + (double)dt_bias[h]));
                const float *x = xbc + h * u->head_dim, *b = xbc + s.width + h / (u->n_head / u->n_group) * u->n_state,
                            *c = b + u->n_group * u->n_state;
                ssm_step(u, x, b, c, t, (double)a[h], (double)d[h], s_want[h], want);
                for (uint32_t i = 0; i < u->head_dim; i++)
                    assert_true(fabs((double)got[r * s.width + h * u->head_dim + i] - want[i]) <= 3e-5);
            }
        }
        free(a);
        free(d);
        free(dt_bias);
        same_bits_everywhere(&s, got, u->state.kv_group);
        fixture_finish(&s.f);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_is_its_formula),
        cmocka_unit_test(delta_rule_is_its_formula),
        cmocka_unit_test(ssm_scan_is_its_formula),
    };
#if defined(HALO_TEST_HIP)
    return compare_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
#else
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
