/* test_cpu_lanes.c: the lane kernels: accuracy against libm and double, and the same bits from every variant. */
#include <half_priv.h>
#include <lanes_priv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <matmul/matmul.h>

#include "cpu_fixture.h"

static const struct halo_cpu_lanes *variants[3];
static uint32_t n_variants;

static const uint32_t sizes[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 48, 63, 64, 65, 80, 100, 128, 200, 1024};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define N_MAX 1024

static void fill(float *x, uint32_t n, double size, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(fixture_random(&seed) * size);
}

/* Distance in representable floats. */
static double ulps(float have, double want)
{
    if (isnan(want) || isinf((float)want))
        return (isnan(want) && isnan(have)) || have == (float)want ? 0 : INFINITY;
    double step = ldexp(1, ilogb(fabs((double)(float)want) > 0x1p-126 ? (double)(float)want : 0x1p-126) - 23);
    return fabs((double)have - want) / step;
}

static void exp_is_within_an_ulp(void **state)
{
    enum { N = 4096 };
    float x[N], y[N], shifted[N];
    double worst = 0;
    uint64_t seed = 1;
    for (uint32_t block = 0; block < 400; block++) {
        for (uint32_t i = 0; i < N; i++)
            x[i] = (float)(fixture_random(&seed) * (block % 4 == 0 ? 1 : 106));
        for (uint32_t v = 0; v < n_variants; v++) {
            variants[v]->exp(N, x, 0, v == 0 ? y : shifted);
            if (v > 0)
                assert_memory_equal(y, shifted, sizeof(y));
        }
        for (uint32_t i = 0; i < N; i++)
            worst = fmax(worst, ulps(y[i], exp((double)x[i])));
    }
    print_message("exp: %.3f ulp\n", worst);
    assert_true(worst < 1.0 && worst > 0.4);
}

static void exp_at_the_ends(void **state)
{
    static const float in[] = {0,      -0.0f,   88.72283f, 88.73f, 1e30f,     INFINITY,
                               -87.4f, -103.9f, -104.0f,   -1e30f, -INFINITY, NAN};
    float out[12];
    for (uint32_t v = 0; v < n_variants; v++) {
        variants[v]->exp(12, in, 0, out);
        assert_true(out[0] == 1 && out[1] == 1);
        assert_true(isfinite(out[2]) && out[2] > 3.4e38f && isinf(out[3]) && isinf(out[4]) && isinf(out[5]));
        assert_true(ulps(out[6], exp((double)in[6])) < 1 && out[7] == 0x1p-149f);
        assert_true(out[8] == 0 && out[9] == 0 && out[10] == 0 && isnan(out[11]));
    }
}

static void silu_is_within_its_bound(void **state)
{
    float gate[N_MAX], up[N_MAX], first[N_MAX], out[N_MAX];
    for (uint32_t s = 0; s < N_SIZES; s++) {
        fill(gate, sizes[s], 20, s + 5);
        fill(up, sizes[s], 3, s + 6);
        for (uint32_t v = 0; v < n_variants; v++) {
            variants[v]->glu(HALO_GLU_SILU, sizes[s], gate, up, v == 0 ? first : out);
            assert_true(v == 0 || memcmp(first, out, sizes[s] * sizeof(float)) == 0);
        }
        for (uint32_t i = 0; i < sizes[s]; i++) {
            double want = (double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i];
            assert_true(fabs((double)first[i] - want) <= 1e-36 + 3 * 0x1p-23 * fabs(want));
        }
    }
    float odd[3] = {-200, INFINITY, NAN}, one[3] = {1, 1, 1};
    for (uint32_t v = 0; v < n_variants; v++) {
        variants[v]->glu(HALO_GLU_SILU, 3, odd, one, out);
        assert_true(out[0] == 0 && isinf(out[1]) && isnan(out[2]));
    }
}

/* out = act(gate) * up in double, as op.h has it. */
static double activated(enum halo_glu_act act, double gate, double up)
{
    switch (act) {
    case HALO_GLU_GELU: return gate / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (gate + 0.044715 * gate * gate * gate))) * up;
    case HALO_GLU_RELU2: return gate > 0 ? gate * gate * up : 0;
    case HALO_GLU_CLAMPED: gate = fmin(gate, 7); return gate / (1 + exp(-1.702 * gate)) * (fmax(-7, fmin(7, up)) + 1);
    case HALO_GLU_LINEAR: return gate * up;
    case HALO_GLU_SIGMOID: return up / (1 + exp(-gate));
    default: return gate / (1 + exp(-gate)) * up;
    }
}

static void activations_are_close_and_the_same(void **state)
{
    float gate[N_MAX], up[N_MAX], first[N_MAX], out[N_MAX];
    for (uint32_t c = 0; c < N_SIZES * HALO_GLU_ACTS * 2; c++) {
        uint32_t s = c % N_SIZES;
        enum halo_glu_act act = (enum halo_glu_act)(c / N_SIZES % HALO_GLU_ACTS);
        const float *factor = c < N_SIZES * HALO_GLU_ACTS || act == HALO_GLU_CLAMPED ? up : NULL;
        fill(gate, sizes[s], 12, s + 5);
        fill(up, sizes[s], 9, s + 6);
        for (uint32_t v = 0; v < n_variants; v++) {
            variants[v]->glu(act, sizes[s], gate, factor, v == 0 ? first : out);
            assert_true(v == 0 || memcmp(first, out, sizes[s] * sizeof(float)) == 0);
        }
        for (uint32_t i = 0; i < sizes[s]; i++) {
            double want = activated(act, (double)gate[i], factor ? (double)up[i] : 1);
            assert_true(fabs((double)first[i] - want) <= 2e-5 + 1e-5 * fabs(want));
        }
    }
    float odd[4] = {-1e30f, 1e30f, -INFINITY, NAN}, one[4] = {1, 1, 1, 1};
    for (uint32_t v = 0; v < n_variants; v++)
        for (int act = 0; act < HALO_GLU_ACTS; act++) {
            variants[v]->glu((enum halo_glu_act)act, 4, odd, one, out);
            assert_true(out[0] == (act == HALO_GLU_LINEAR ? odd[0] : 0) && isnan(out[3]));
            assert_true(act == HALO_GLU_SIGMOID ? out[1] == 1 : out[1] > 10);
        }
}

static void layernorm_is_close_and_the_same(void **state)
{
    float x[N_MAX], weight[N_MAX], bias[N_MAX], first[N_MAX], out[N_MAX];
    for (uint32_t c = 0; c < 2 * N_SIZES; c++) {
        uint32_t n = sizes[c / 2];
        const float *w = c % 2 ? weight : NULL, *b = c % 2 ? bias : NULL;
        double mean = 0, squares = 0;
        fill(x, n, 3, 7 + c);
        fill(weight, n, 2, 9);
        fill(bias, n, 2, 10);
        for (uint32_t i = 0; i < n; i++) {
            x[i] += 100; /* the mean has all the digits */
            mean += (double)x[i] / n;
        }
        for (uint32_t v = 0; v < n_variants; v++) {
            variants[v]->layernorm(n, x, w, b, 1e-5f, v == 0 ? first : out);
            assert_true(v == 0 || memcmp(first, out, n * sizeof(float)) == 0);
        }
        for (uint32_t i = 0; i < n; i++)
            squares += pow((double)x[i] - mean, 2) / n;
        for (uint32_t i = 0; i < n && n > 1; i++) {
            double want = ((double)x[i] - mean) / sqrt(squares + 1e-5);
            want = want * (w ? (double)w[i] : 1) + (b ? (double)b[i] : 0);
            assert_true(fabs((double)first[i] - want) <= 1e-4);
        }
    }
}

static void numbers_are_capped(void **state)
{
    float x[N_MAX], first[N_MAX], out[N_MAX];
    for (uint32_t c = 0; c < 2 * N_SIZES; c++) {
        uint32_t n = sizes[c / 2];
        float cap = c % 2 ? 30 : 0;
        fill(x, n, 300, c);
        for (uint32_t v = 0; v < n_variants; v++) {
            memcpy(out, x, sizeof(x));
            variants[v]->limit(n, 0.25f, cap, out);
            if (v == 0)
                memcpy(first, out, sizeof(out));
            assert_memory_equal(first, out, n * sizeof(float));
        }
        for (uint32_t i = 0; i < n; i++) {
            double want = (double)x[i] * 0.25;
            want = cap > 0 ? (double)cap * tanh(want / (double)cap) : want;
            assert_true(fabs((double)first[i] - want) <= 30 * 2e-7);
        }
    }
}

static void rmsnorm_is_close_and_the_same(void **state)
{
    float x[N_MAX], add[N_MAX], weight[N_MAX], first[2][N_MAX], out[2][N_MAX];
    for (uint32_t s = 0; s < N_SIZES; s++) {
        uint32_t n = sizes[s];
        for (uint32_t with_add = 0; with_add < 2; with_add++) {
            fill(add, n, 2, 8);
            fill(weight, n, 2, 9);
            for (uint32_t v = 0; v < n_variants; v++) {
                fill(x, n, 3, 7 + s);
                variants[v]->rmsnorm(n, x, with_add ? add : NULL, weight, 1e-5f, out[0]);
                memcpy(out[1], x, sizeof(x));
                if (v == 0)
                    memcpy(first, out, sizeof(out));
                assert_memory_equal(first[0], out[0], n * sizeof(float));
                assert_memory_equal(first[1], out[1], n * sizeof(float));
            }
            double sum = 0;
            fill(x, n, 3, 7 + s);
            for (uint32_t i = 0; i < n; i++) {
                float y = with_add ? x[i] + add[i] : x[i];
                assert_true(y == first[1][i]);
                sum += (double)y * (double)y;
            }
            for (uint32_t i = 0; i < n; i++) {
                double want = (double)first[1][i] / sqrt(sum / n + (double)1e-5f) * (double)weight[i];
                assert_true(fabs((double)first[0][i] - want) <= 4e-7 * fabs(want));
            }
        }
    }
}

static void sums_and_quotients(void **state)
{
    float x[N_MAX], y[N_MAX], z[N_MAX];
    for (uint32_t s = 0; s < N_SIZES; s++) {
        for (uint32_t v = 0; v < n_variants; v++) {
            uint32_t n = sizes[s];
            fill(x, n, 3, 1);
            fill(y, n, 3, 2);
            variants[v]->divide(n, x, 3.0f, z);
            for (uint32_t i = 0; i < n; i++)
                assert_true(z[i] == x[i] / 3.0f);
            memcpy(z, y, sizeof(y));
            variants[v]->axpy(n, 0.7f, x, z);
            for (uint32_t i = 0; i < n; i++)
                assert_true(z[i] == fmaf(0.7f, x[i], y[i]));
            variants[v]->add(n, x, y);
            for (uint32_t i = 0; i < n; i++)
                assert_true(x[i] == (float)(fill(z, n, 3, 1), z[i]) + y[i]);
        }
    }
}

/* Every f16 value, and floats around and between them. */
static void halves_round_as_the_hardware_does(void **state)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = halo_half_load((uint16_t)h), want;
        halo_dequantize(HALO_TYPE_F16, &(uint16_t){(uint16_t)h}, 1, &want);
        assert_true(isnan(f) ? isnan(want) : memcmp(&f, &want, sizeof(f)) == 0);
        uint16_t back = halo_half_store(f);
        assert_true(isnan(f) ? (back & 0x7fff) > 0x7c00 : back == h);
        if ((h & 0x7fff) >= 0x7c00)
            continue;
        /* Ties between two magnitudes go to the even one; a value just beside a tie to the nearer. */
        uint16_t next = (uint16_t)(h + 1);
        double a = (double)f, b = (next & 0x7fff) == 0x7c00 ? copysign(65536, a) : (double)halo_half_load(next);
        float middle = (float)((a + b) / 2);
        assert_int_equal(halo_half_store(middle), h % 2 == 0 ? h : next);
        assert_int_equal(halo_half_store(nextafterf(middle, 0)), h);
        assert_int_equal(halo_half_store(nextafterf(middle, copysignf(INFINITY, middle))), next);
    }
}

static void rows_survive_the_cache(void **state)
{
    static const enum halo_kv_type types[] = {HALO_KV_F32, HALO_KV_F16, HALO_KV_Q8, HALO_KV_Q4};
    static const double bound[] = {0, 0x1p-11, 0.5 / 127 + 0x1p-10, 1.0 / 8 + 0x1p-8};
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t s = 0; s < N_SIZES; s++) {
            uint32_t dim = sizes[s], bytes = halo_kv_row_bytes(types[t], dim), stride = halo_cpu_stride(dim);
            float *x = malloc(3 * dim * sizeof(float)), *y = malloc(3 * stride * sizeof(float));
            uint8_t *rows = malloc(3 * bytes), *first = malloc(3 * bytes);
            assert_true(x && y && rows && first);
            fill(x, 3 * dim, 5, s);
            for (uint32_t v = 0; v < n_variants; v++) {
                for (uint32_t r = 0; r < 3; r++)
                    variants[v]->kv_store(types[t], dim, x + r * dim, rows + r * bytes);
                if (v == 0)
                    memcpy(first, rows, 3 * bytes);
                assert_memory_equal(first, rows, 3 * bytes);
                memset(y, 0x55, 3 * stride * sizeof(float));
                variants[v]->kv_load(types[t], dim, 3, rows, first, y);
                for (uint32_t r = 0; r < 3; r++)
                    for (uint32_t i = 0; i < stride; i++)
                        assert_true(i >= dim
                                        ? y[r * stride + i] == 0
                                        : fabs((double)y[r * stride + i] - (double)x[r * dim + i]) <=
                                              bound[t] * (types[t] >= HALO_KV_Q8 ? 5 : fabs((double)x[r * dim + i])));
            }
            free(x);
            free(y);
            free(rows);
            free(first);
        }
    }
}

static void q8_keeps_what_is_not_finite(void **state)
{
    float x[64], y[64];
    uint8_t row[68];
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (uint32_t v = 0; v < n_variants; v++) {
        for (uint32_t k = 0; k < 4; k++) {
            fill(x, 64, 1, 3);
            x[40] = odd[k];
            variants[v]->kv_store(HALO_KV_Q8, 64, x, row);
            variants[v]->kv_load(HALO_KV_Q8, 64, 1, row, NULL, y);
            assert_false(isfinite(y[40]));
            assert_true(isfinite(y[31]));
        }
        memset(x, 0, sizeof(x));
        x[63] = 1e-9f; /* its scale is below the smallest f16 */
        variants[v]->kv_store(HALO_KV_Q8, 64, x, row);
        variants[v]->kv_load(HALO_KV_Q8, 64, 1, row, NULL, y);
        for (uint32_t i = 0; i < 64; i++)
            assert_true(y[i] == 0);
    }
}

int main(void)
{
    if (fixture_has("reference"))
        variants[n_variants++] = &halo_cpu_lanes_reference;
    if (fixture_has("avx2"))
        variants[n_variants++] = &halo_cpu_lanes_avx2;
    if (fixture_has("avx512"))
        variants[n_variants++] = &halo_cpu_lanes_avx512;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_an_ulp),
        cmocka_unit_test(exp_at_the_ends),
        cmocka_unit_test(silu_is_within_its_bound),
        cmocka_unit_test(rmsnorm_is_close_and_the_same),
        cmocka_unit_test(activations_are_close_and_the_same),
        cmocka_unit_test(layernorm_is_close_and_the_same),
        cmocka_unit_test(numbers_are_capped),
        cmocka_unit_test(sums_and_quotients),
        cmocka_unit_test(halves_round_as_the_hardware_does),
        cmocka_unit_test(rows_survive_the_cache),
        cmocka_unit_test(q8_keeps_what_is_not_finite),
    };
    return n_variants == 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
