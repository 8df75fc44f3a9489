/* test_matmul.c: matmul of every type against two references, and what its header promises about bits.
 *
 * First reference: halo_dequantize() and a double dot product with the activations quantized here as the header
 * states; the tolerance is the rounding of a short f32 sum. Second: the same with the activations as given; the
 * tolerance is half a quantization step of each activation.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <matmul/matmul.h>

#include "blocks.h"

static const enum halo_cpu_isa all_isas[] = {HALO_CPU_REFERENCE, HALO_CPU_AVX2, HALO_CPU_AVX512};
#define N_ISAS 3
#define MAX_X 40
#define MAX_MANY_X 200

struct product {
    struct halo_cpu_matrix w;
    uint8_t *file, *packed;
    float *weights; /* dequantized, [n_rows][n_cols] */
    float *x;       /* [n_x][n_cols] */
    uint32_t n_x;
    uint8_t *act;
    const void *acts[MAX_MANY_X];
    float *out, *outs[MAX_MANY_X]; /* [n_x][n_rows] */
    float *bias;
};

static void product_init(struct product *p, enum halo_type type, uint32_t n_cols, uint32_t n_rows, uint32_t n_x,
                         enum ops_scales scales, uint64_t seed)
{
    *p = (struct product){.n_x = n_x};
    size_t row_bytes = halo_type_row_bytes(type, n_cols),
           act_bytes = halo_cpu_act_bytes(halo_cpu_act_kind(type), n_cols);
    void *scratch = ops_alloc(halo_cpu_matrix_scratch_bytes(type, n_cols));
    p->file = ops_alloc(row_bytes * n_rows);
    p->packed = ops_alloc(halo_cpu_matrix_bytes(type, n_cols, n_rows));
    p->weights = ops_alloc((size_t)n_rows * n_cols * sizeof(float));
    p->x = ops_alloc((size_t)n_x * n_cols * sizeof(float));
    p->act = ops_alloc(act_bytes * n_x);
    p->out = ops_alloc((size_t)n_x * n_rows * sizeof(float));
    p->bias = ops_alloc(n_rows * sizeof(float));
    ops_fill_blocks(type, scales, (uint64_t)n_cols * n_rows, &seed, p->file);
    halo_dequantize(type, p->file, (uint64_t)n_cols * n_rows, p->weights);
    halo_cpu_matrix_pack(type, n_cols, n_rows, p->file, p->packed, scratch);
    halo_cpu_matrix_init(&p->w, type, n_cols, n_rows, p->packed);
    for (size_t i = 0; i < (size_t)n_x * n_cols; i++) /* blocks of different size, some zero */
        p->x[i] = ops_uniform(&seed, -1, 1) * ldexpf(1, (int)(i / 32 % 7) - 4) * (float)(i / 32 % 11 != 3);
    for (uint32_t r = 0; r < n_rows; r++)
        p->bias[r] = ops_uniform(&seed, -4, 4);
    for (uint32_t i = 0; i < n_x; i++) {
        p->acts[i] = p->act + i * act_bytes;
        p->outs[i] = p->out + (size_t)i * n_rows;
    }
    free(scratch);
}

static void product_finish(struct product *p)
{
    free(p->file);
    free(p->packed);
    free(p->weights);
    free(p->x);
    free(p->act);
    free(p->out);
    free(p->bias);
}

static void product_run(struct product *p, enum halo_cpu_isa isa, bool bias)
{
    for (uint32_t i = 0; i < p->n_x; i++)
        halo_cpu_act_prepare(isa, halo_cpu_act_kind(p->w.type), p->w.n_cols, p->x + (size_t)i * p->w.n_cols,
                             p->act + i * halo_cpu_act_bytes(halo_cpu_act_kind(p->w.type), p->w.n_cols));
    for (size_t i = 0; i < (size_t)p->n_x * p->w.n_rows; i++)
        p->out[i] = -12345;
    halo_cpu_matmul(isa, &p->w, 0, p->w.n_groups, p->acts, p->n_x, p->outs, bias ? p->bias : NULL);
}

/* x quantized as the header states: int8 in blocks of 32, scale amax / 127, to nearest. */
static void quantize(const float *x, uint32_t n, double *ret, double *ret_half_step)
{
    for (uint32_t b = 0; b < n; b += 32) {
        float amax = 0;
        for (uint32_t i = b; i < b + 32; i++)
            amax = fmaxf(amax, fabsf(x[i]));
        for (uint32_t i = b; i < b + 32; i++) {
            ret[i] = amax == 0 ? 0 : (double)rintf(x[i] * (127 / amax)) * (double)(amax / 127);
            ret_half_step[i] = 0.5001 * (double)amax / 127;
        }
    }
}

static void check_row(const struct product *p, uint32_t i)
{
    uint32_t n = p->w.n_cols;
    const float *x = p->x + (size_t)i * n;
    double *quantized = ops_alloc(n * sizeof(double)), *half_step = ops_alloc(n * sizeof(double));
    if (halo_cpu_act_kind(p->w.type) == HALO_CPU_ACT_Q8) {
        quantize(x, n, quantized, half_step);
    } else {
        for (uint32_t k = 0; k < n; k++) {
            quantized[k] = (double)x[k];
            half_step[k] = 0;
        }
    }
    for (uint32_t r = 0; r < p->w.n_rows; r++) {
        double near = (double)p->bias[r], far = near, size = fabs(near), step = 0;
        for (uint32_t k = 0; k < n; k++) {
            double w = (double)p->weights[(size_t)r * n + k];
            near += w * quantized[k];
            far += w * (double)x[k];
            size += fabs(w * quantized[k]);
            step += fabs(w) * half_step[k];
        }
        double out = (double)p->outs[i][r];
        /* A minimum is added separately from the quants, so that the terms are up to 4 times as large as the weight. */
        double rounding = 0x1p-24 * (4 + n / 32) * 4 * size + 0x1p-140;
        assert_true(fabs(out - near) <= rounding);
        assert_true(fabs(out - far) <= rounding + step);
    }
    free(quantized);
    free(half_step);
}

/* Runs f(type, n_cols, n_rows, n_x) over the odd shapes; returns how many. */
static unsigned each_shape(void (*f)(enum halo_type type, uint32_t n_cols, uint32_t n_rows, uint32_t n_x))
{
    static const uint32_t blocks[] = {1, 2, 3, 5}, rows[] = {1, 15, 16, 17, 33};
    unsigned n_run = 0;
    for (unsigned t = 0; t < ops_n_types; t++)
        for (unsigned b = 0; b < 4; b++)
            for (unsigned r = 0; r < 5; r++, n_run++)
                f(ops_types[t], blocks[b] * halo_type_info(ops_types[t]).block_weights, rows[r], 1 + (t + b + r) % 9);
    for (unsigned t = 0; t < 3; t++) /* floats: chunks of 32 and a rest */
        for (uint32_t n_cols = 31; n_cols < 300; n_cols += 67, n_run++)
            f((const enum halo_type[]){HALO_TYPE_F32, HALO_TYPE_F16, HALO_TYPE_BF16}[t], n_cols, 17, 1 + n_cols % 9);
    return n_run;
}

static void check_reference(enum halo_type type, uint32_t n_cols, uint32_t n_rows, uint32_t n_x)
{
    struct product p;
    product_init(&p, type, n_cols, n_rows, n_x, OPS_SCALES_USUAL, (uint64_t)type * 1000 + n_cols + n_rows);
    product_run(&p, HALO_CPU_REFERENCE, true);
    for (uint32_t i = 0; i < n_x; i++)
        check_row(&p, i);
    product_finish(&p);
}

static void reference_equals_the_oracles(void **state)
{
    assert_int_equal(each_shape(check_reference), (int)ops_n_types * 20 + 15);
}

static bool same_floats(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void check_variants_with(struct product *p, bool bias)
{
    size_t n = (size_t)p->n_x * p->w.n_rows;
    float *expected = ops_alloc(n * sizeof(float));
    product_run(p, HALO_CPU_REFERENCE, bias);
    memcpy(expected, p->out, n * sizeof(float));
    for (unsigned v = 1; v < N_ISAS; v++) {
        if (!halo_cpu_isa_supported(all_isas[v]))
            continue;
        product_run(p, all_isas[v], bias);
        if (!same_floats(p->out, expected, n))
            fail_msg("%s differs from the reference: %s %u x %u, %u rows", halo_cpu_isa_name(all_isas[v]),
                     halo_type_info(p->w.type).name, p->w.n_cols, p->w.n_rows, p->n_x);
    }
    free(expected);
}

static void check_variants(enum halo_type type, uint32_t n_cols, uint32_t n_rows, uint32_t n_x)
{
    for (int scales = OPS_SCALES_USUAL; scales <= OPS_SCALES_EXTREME; scales++) {
        struct product p;
        product_init(&p, type, n_cols, n_rows, n_x, (enum ops_scales)scales, (uint64_t)type * 77 + n_cols + n_rows);
        check_variants_with(&p, scales == OPS_SCALES_USUAL); /* a bias would hide the smallest */
        product_finish(&p);
    }
}

static void variants_give_the_same_bits(void **state)
{
    assert_int_equal(each_shape(check_variants), (int)ops_n_types * 20 + 15);
    for (unsigned t = 0; t < ops_n_types; t++)
        for (uint32_t n_x = 1; n_x <= MAX_X; n_x++)
            check_variants(ops_types[t], 512, 33, n_x);
}

/* Weights are widened once for many rows: up to the rows of a pass and more, columns that fill no chunk; signed weights
 * of 8 bits for several groups, of which some are left. */
static void many_rows_give_the_same_bits(void **state)
{
    static const enum halo_type types[] = {HALO_TYPE_F32, HALO_TYPE_F16, HALO_TYPE_BF16};
    static const uint32_t n_xs[] = {95, 96, 97, 150, MAX_MANY_X};
    for (unsigned t = 0; t < sizeof types / sizeof *types; t++)
        for (unsigned i = 0; i < sizeof n_xs / sizeof *n_xs; i++)
            check_variants(types[t], 150, 17, n_xs[i]);
    for (uint32_t n_x = 48; n_x <= 49; n_x++)
        check_variants(HALO_TYPE_Q8_0, 96, 81, n_x);
}

/* All quants at the end of their range, all activations too: where 16-bit sums would saturate. */
static void largest_sums_do_not_saturate(void **state)
{
    static const uint8_t fills[] = {0x00, 0x7f, 0x80, 0x88, 0xff};
    for (unsigned t = 0; t < ops_n_types; t++) {
        if (halo_cpu_act_kind(ops_types[t]) != HALO_CPU_ACT_Q8)
            continue;
        for (unsigned f = 0; f < sizeof fills * 2; f++) {
            struct product p;
            product_init(&p, ops_types[t], 512, 16, 5, OPS_SCALES_USUAL, t);
            size_t n_bytes = halo_cpu_matrix_bytes(ops_types[t], 512, 16);
            uint8_t *rows = ops_alloc(n_bytes);
            memset(rows, fills[f % sizeof fills], n_bytes);
            uint64_t seed = f;
            ops_set_scales(ops_types[t], OPS_SCALES_USUAL, 512 * 16, &seed, rows);
            void *scratch = ops_alloc(halo_cpu_matrix_scratch_bytes(ops_types[t], 512));
            halo_cpu_matrix_pack(ops_types[t], 512, 16, rows, p.packed, scratch);
            for (size_t i = 0; i < 5 * 512; i++)
                p.x[i] = f < sizeof fills ? 3 : i / 512 % 2 ? -3 : (i & 2 ? 3 : -3);
            check_variants_with(&p, false);
            product_finish(&p);
            free(rows);
            free(scratch);
        }
    }
}

/* The scale multiplies the sum of a row, before the bias. */
static void scale_multiplies_the_sums(void **state)
{
    enum { N = 3 * 33 };
    for (unsigned t = 0; t < ops_n_types; t++)
        for (unsigned v = 0; v < N_ISAS; v++) {
            if (!halo_cpu_isa_supported(all_isas[v]))
                continue;
            struct product p;
            float plain[N];
            product_init(&p, ops_types[t], 512, 33, 3, OPS_SCALES_USUAL, 3 + t);
            product_run(&p, all_isas[v], false);
            memcpy(plain, p.out, sizeof plain);
            p.w.scale = 0.37f;
            product_run(&p, all_isas[v], true);
            for (uint32_t i = 0; i < N; i++)
                assert_true(p.out[i] == plain[i] * 0.37f + p.bias[i % 33]);
            float row[512];
            halo_cpu_matrix_row(&p.w, 20, row);
            for (uint32_t k = 0; k < 512; k++)
                assert_true(row[k] == p.weights[20 * 512 + k] * 0.37f);
            product_finish(&p);
        }
}

static void row_does_not_depend_on_its_company(void **state)
{
    for (unsigned t = 0; t < ops_n_types; t++)
        for (unsigned v = 0; v < N_ISAS; v++) {
            if (!halo_cpu_isa_supported(all_isas[v]))
                continue;
            struct product p;
            product_init(&p, ops_types[t], 768, 33, 37, OPS_SCALES_USUAL, 5 + t);
            product_run(&p, all_isas[v], true);
            float alone[33];
            float *out = alone;
            for (uint32_t i = 0; i < p.n_x; i++) { /* alone, group by group, from the last */
                for (uint32_t g = p.w.n_groups; g-- > 0;)
                    halo_cpu_matmul(all_isas[v], &p.w, g, 1, &p.acts[i], 1, &out, p.bias);
                assert_memory_equal(alone, p.outs[i], sizeof alone);
            }
            product_finish(&p);
        }
}

static void bad_activations_reach_the_output(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (unsigned t = 0; t < ops_n_types; t++)
        for (unsigned k = 0; k < 3; k++) {
            struct product p;
            product_init(&p, ops_types[t], 512, 17, 3, OPS_SCALES_USUAL, 9 + t);
            p.x[512 + 300] = bad[k];
            for (unsigned v = 0; v < N_ISAS; v++) {
                if (!halo_cpu_isa_supported(all_isas[v]))
                    continue;
                product_run(&p, all_isas[v], false);
                for (uint32_t r = 0; r < 17; r++) {
                    assert_true(isfinite(p.outs[0][r]) && isfinite(p.outs[2][r]));
                    assert_false(isfinite(p.outs[1][r]));
                }
            }
            check_variants_with(&p, false);
            product_finish(&p);
        }
}

static void prepared_activations_have_the_same_bits(void **state)
{
    enum { N = 320 };
    uint64_t seed = 3;
    size_t n_bytes = halo_cpu_act_bytes(HALO_CPU_ACT_Q8, N);
    assert_int_equal(n_bytes % 64, 0);
    uint8_t *expected = ops_alloc(n_bytes), *act = ops_alloc(n_bytes);
    for (int round = 0; round < 2000; round++) {
        float x[N];
        for (int i = 0; i < N; i++) {
            uint32_t bits = ops_random(&seed);
            memcpy(&x[i], &bits, sizeof bits); /* any float at all */
            if (round % 2)
                x[i] =
                    ldexpf(rintf(ops_uniform(&seed, -254, 254)), i / 32 * 28 - 150) / 2; /* ties, and down to nothing */
        }
        memset(expected, 0, n_bytes);
        halo_cpu_act_prepare(HALO_CPU_REFERENCE, HALO_CPU_ACT_Q8, N, x, expected);
        for (unsigned v = 1; v < N_ISAS; v++) {
            if (!halo_cpu_isa_supported(all_isas[v]))
                continue;
            memset(act, 0, n_bytes);
            halo_cpu_act_prepare(all_isas[v], HALO_CPU_ACT_Q8, N, x, act);
            assert_memory_equal(act, expected, n_bytes);
        }
    }
    free(expected);
    free(act);
}

int main(void)
{
    for (unsigned v = 0; v < N_ISAS; v++)
        print_message("%s: %s\n", halo_cpu_isa_name(all_isas[v]),
                      halo_cpu_isa_supported(all_isas[v]) ? "tested" : "SKIPPED, no such processor");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_equals_the_oracles),       cmocka_unit_test(variants_give_the_same_bits),
        cmocka_unit_test(many_rows_give_the_same_bits),       cmocka_unit_test(largest_sums_do_not_saturate),
        cmocka_unit_test(row_does_not_depend_on_its_company), cmocka_unit_test(scale_multiplies_the_sums),
        cmocka_unit_test(bad_activations_reach_the_output),   cmocka_unit_test(prepared_activations_have_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
