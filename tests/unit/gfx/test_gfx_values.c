/* test_gfx_values.c: the other activations, layer norms, caps and the joining of heads, with odd widths, against plain
 * loops in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <kernels/op.h>

#include "gfx_fixture.h"

static const uint32_t widths[] = {1, 30, 96, 1376, 4130};
enum { N_WIDTHS = sizeof(widths) / sizeof(widths[0]), ROWS = 3 };

static double gelu(double gate, double up)
{
    return gate / (1 + exp(-2 * sqrt(2 / 3.14159265358979323846) * (gate + 0.044715 * gate * gate * gate))) * up;
}

static double relu2(double gate, double up)
{
    return gate > 0 ? gate * gate * up : 0;
}

static double clamped(double gate, double up)
{
    gate = fmin(gate, (double)HALO_GLU_CLAMP);
    up = fmax(fmin(up, (double)HALO_GLU_CLAMP), -(double)HALO_GLU_CLAMP);
    return gate / (1 + exp(-(double)HALO_GLU_CLAMP_ALPHA * gate)) * (up + 1);
}

static double linear(double gate, double up)
{
    return gate * up;
}

static double sigmoid(double gate, double up)
{
    return up / (1 + exp(-gate));
}

static void activations(void **state)
{
    (void)state;
    static const struct {
        const char *kernel;
        double (*act)(double gate, double up);
    } kinds[] = {{"glu_gelu", gelu},
                 {"glu_relu2", relu2},
                 {"glu_clamped", clamped},
                 {"glu_linear", linear},
                 {"glu_sigmoid", sigmoid}};
    for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (uint32_t w = 0; w < N_WIDTHS; w++) {
            const uint32_t n = widths[w];
            float *gate = gfx_floats(ROWS * n, k), *up = gfx_floats(ROWS * n, k + 9), *out = gfx_zeros(ROWS * n * 4);
            for (uint32_t i = 0; i < ROWS * n; i++) {
                gate[i] *= 10; /* beyond the clamp, on both sides */
                up[i] *= 10;
            }
            struct halo_glu_args args = {.gate = gate, .up = up, .out = out, .n_cols = n};
            gfx_run(kinds[k].kernel, HALO_HIP_CEIL(n, HALO_QUANTIZE_COLS), ROWS, 1, &args);
            for (uint32_t i = 0; i < ROWS * n; i++) {
                const double want = kinds[k].act((double)gate[i], (double)up[i]);
                gfx_near((double)out[i], want, 2e-6, fabs(want) + 1, kinds[k].kernel, i);
            }
            free(gate);
            free(up);
            free(out);
        }
}

/* A mean that is large beside what is left costs no digits: it is exact, and so is the difference. */
static void layernorm_width(uint32_t n, bool bias)
{
    float *x = gfx_floats(ROWS * n, 1), *more = gfx_floats(ROWS * n, 2), *weight = gfx_floats(n, 3),
          *shift = gfx_floats(n, 4), *out = gfx_zeros(ROWS * n * 4), *sums = gfx_zeros(ROWS * n * 4);
    for (uint32_t i = 0; i < ROWS * n; i++)
        sums[i] = x[i] + more[i];
    struct halo_rmsnorm_args args = {.x = x,
                                     .add = more,
                                     .weight = weight,
                                     .out = out,
                                     .n_cols = n,
                                     .eps = 1e-5f,
                                     .add_scale = 1,
                                     .x_scale = 1,
                                     .bias = bias ? shift : NULL};
    gfx_run("layernorm", ROWS, 1, 1, &args);
    for (uint32_t r = 0; r < ROWS; r++) {
        double mean = 0, squares = 0;
        for (uint32_t i = r * n; i < r * n + n; i++) {
            assert_true(x[i] == sums[i]);
            mean += (double)x[i] / n;
        }
        for (uint32_t i = r * n; i < r * n + n; i++)
            squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        const double scale = 1 / sqrt(squares / n + 1e-5);
        for (uint32_t i = 0; i < n; i++)
            gfx_near((double)out[r * n + i],
                     ((double)x[r * n + i] - mean) * scale * (double)weight[i] + (bias ? (double)shift[i] : 0), 4e-6, 4,
                     "layernorm", i);
    }
    free(x);
    free(more);
    free(weight);
    free(shift);
    free(out);
    free(sums);
}

static void layernorm(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < N_WIDTHS; i++) { /* of one element nothing is left but rounding */
        layernorm_width(widths[i], false);
        layernorm_width(widths[i], true);
    }
}

static void limit(void **state)
{
    (void)state;
    static const float caps[] = {0, 15};
    for (uint32_t k = 0; k < 2 * N_WIDTHS; k++) {
        const uint32_t n = widths[k / 2];
        const float cap = caps[k % 2];
        float *x = gfx_floats(n, k), *want = gfx_floats(n, k);
        struct halo_limit_args args = {.x = x, .n = n, .scale = 40, .cap = cap};
        gfx_run("limit", HALO_HIP_CEIL(n, HALO_QUANTIZE_COLS), 1, 1, &args);
        for (uint32_t i = 0; i < n; i++) {
            const double scaled = 40 * (double)want[i];
            gfx_near((double)x[i], cap > 0 ? (double)cap * tanh(scaled / (double)cap) : scaled, 2e-6, 40, "limit", i);
        }
        free(x);
        free(want);
    }
}

static void concat(void **state)
{
    (void)state;
    enum { HEADS = 5, A_STRIDE = 40, A_FIRST = 3, N_A = 29, N_B = 17 };
    static const uint32_t strides[] = {0, 21}; /* one b for all heads, or one for each */
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t b_stride = strides[k], b_row = b_stride ? HEADS * b_stride : N_B, width = N_A + N_B;
        float *a = gfx_floats(ROWS * HEADS * A_STRIDE, 1), *b = gfx_floats(ROWS * b_row, 2),
              *out = gfx_zeros(ROWS * HEADS * width * 4);
        struct halo_concat_args args = {a, b, out, HEADS, A_STRIDE, A_FIRST, N_A, b_stride, N_B};
        gfx_run("concat", HALO_HIP_CEIL(HEADS * width, HALO_QUANTIZE_COLS), ROWS, 1, &args);
        for (uint32_t i = 0; i < ROWS * HEADS; i++) {
            const float *from_b = b + i / HEADS * b_row + i % HEADS * b_stride;
            assert_memory_equal(out + i * width, a + i * A_STRIDE + A_FIRST, N_A * 4);
            assert_memory_equal(out + i * width + N_A, from_b, N_B * 4);
        }
        free(a);
        free(b);
        free(out);
    }
}

/* Each slot times the number of its expert, with a choice and without; odd widths. */
static void moe_scale(void **state)
{
    (void)state;
    enum { N = 3, USED = 4, EXPERTS = 9 };
    static const uint32_t sizes[] = {5, 64, 1100};
    for (uint32_t w = 0; w < 6; w++) {
        const uint32_t n = sizes[w / 2], chosen = w % 2;
        float *x = gfx_floats(N * USED * n, 1), *want = gfx_floats(N * USED * n, 1),
              *choice = gfx_floats(N * 2 * USED, 2), *scale = gfx_floats(EXPERTS, 3);
        for (uint32_t i = 0; i < N * USED; i++) {
            const uint32_t slot = i % USED, expert = chosen ? (5 * i + 2) % EXPERTS : slot;
            memcpy(choice + i / USED * 2 * USED + USED + slot, &expert, sizeof(expert));
            for (uint32_t k = 0; k < n; k++)
                want[i * n + k] *= scale[expert];
        }
        struct halo_moe_scale_args args = {x, chosen ? choice : NULL, scale, n, USED};
        gfx_run("moe_scale", HALO_HIP_CEIL(n, HALO_QUANTIZE_COLS), USED, N, &args);
        assert_memory_equal(x, want, N * USED * n * sizeof(*x));
        free(x);
        free(want);
        free(choice);
        free(scale);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations), cmocka_unit_test(layernorm), cmocka_unit_test(limit),
        cmocka_unit_test(concat),      cmocka_unit_test(moe_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
