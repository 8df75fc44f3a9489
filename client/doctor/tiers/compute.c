/* compute.c: tiers 4 and 5: kernels run, and what they compute is what the host computes.
 *
 * Inputs and weights are such that every product and sum is exact in f32 whatever the order, also after the decode
 * kernels have rounded a row to int8: a matrix product that is off by one bit of one weight is seen.
 */
#include <math.h>

#include "trial.h"

#define N_COLS 256
#define N_ROWS 136  /* more than a block of the GEMM has columns, and no multiple of it */
#define N_INPUTS 40 /* rows that take the GEMM of large tiles */
#define EPS 1e-6

/* Cheap, and different from row to row and from column to column. */
static uint32_t hash(uint32_t a, uint32_t b)
{
    uint32_t x = a * 0x9e3779b1u ^ b * 0x85ebca6bu;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    return x ^ x >> 12;
}

/* Whole numbers; each unit of 32 holds a 127, so that rounding to int8 changes nothing. */
static double input_at(uint32_t row, uint32_t column)
{
    return column % 32 == row % 32 ? 127 : (double)(hash(row, column) % 255) - 127;
}

static double norm_at(uint32_t row, uint32_t column)
{
    (void)row;
    return 0.5 + column % 7 * 0.25;
}

static double q8_at(uint32_t row, uint32_t column)
{
    return ((double)(hash(row + 77, column) % 255) - 127) / 64;
}
static double f16_at(uint32_t row, uint32_t column)
{
    return (double)(hash(row + 7777, column) % 31) - 15;
}

/* Written so that a NaN is far. */
static bool near(double have, double want, double size)
{
    return fabs(have - want) <= 1e-5 * size + 1e-30;
}

static enum halo_doctor_failure wrong(struct halo_doctor_tier *tier, const char *kernel, uint32_t row, uint32_t column,
                                      double have, double want)
{
    return halo_doctor_tier_fail(tier, HALO_DOCTOR_WRONG, "%s: element %u of row %u is %.9g, the host computes %.9g",
                                 kernel, column, row, have, want);
}

/* ---- tier 4 ---- */

static enum halo_doctor_failure check_norm(struct halo_doctor_tier *tier, const float *x, const float *out,
                                           uint32_t row)
{
    double squares = 0;
    for (uint32_t i = 0; i < N_COLS; i++) {
        if (!near(x[i], input_at(row, i), 1))
            return wrong(tier, "embed", row, i, x[i], input_at(row, i));
        squares += input_at(row, i) * input_at(row, i);
    }
    double scale = 1 / sqrt(squares / N_COLS + EPS);
    for (uint32_t i = 0; i < N_COLS; i++) {
        double want = input_at(row, i) * scale * norm_at(0, i);
        if (!near(out[i], want, fabs(want)))
            return wrong(tier, "rmsnorm", row, i, out[i], want);
    }
    return HALO_DOCTOR_FINE;
}

enum halo_doctor_failure halo_doctor_tier_kernel(struct halo_doctor_tier *tier)
{
    static struct halo_doctor_trial trial;
    static float x[N_COLS], out[N_COLS];
    halo_doctor_trial_init(&trial, tier, 3, 3);
    uint16_t in = halo_doctor_trial_input(&trial, N_COLS, input_at), normed = halo_doctor_trial_value(&trial, N_COLS);
    uint32_t weight = halo_doctor_trial_weight(&trial, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, N_COLS, 1, norm_at);
    halo_doctor_trial_op(&trial, (struct halo_op){.kind = HALO_OP_RMSNORM,
                                                  .u.rmsnorm = {.weight = weight,
                                                                .x = in,
                                                                .add = HALO_NONE,
                                                                .out = normed,
                                                                .eps = (float)EPS,
                                                                .add_scale = 1,
                                                                .bias = HALO_WEIGHT_NONE}});
    enum halo_doctor_failure failure = halo_doctor_trial_open(&trial);
    if (!failure)
        failure = halo_doctor_trial_run(&trial, 3, 0, NULL);
    for (uint32_t row = 0; row < 3 && !failure; row++) {
        failure = halo_doctor_trial_peek(&trial, in, row, x);
        if (!failure)
            failure = halo_doctor_trial_peek(&trial, normed, row, out);
        if (!failure)
            failure = check_norm(tier, x, out, row);
    }
    if (failure)
        return failure;
    halo_doctor_finding_read(tier->finding, "embed_f32 and rmsnorm of 3 rows of %d = right", N_COLS);
    halo_doctor_finding_say(tier->finding, HALO_DOCTOR_PASS, "Kernels run and give the right results.");
    return HALO_DOCTOR_FINE;
}

/* ---- tier 5 ---- */

struct product {
    const char *kernel; /* what runs for so many rows, and on what part of a chip */
    uint16_t out;
    double (*weight_at)(uint32_t row, uint32_t column);
};

static enum halo_doctor_failure check_product(struct halo_doctor_trial *trial, const struct product *product,
                                              uint32_t n_rows)
{
    static float out[N_ROWS];
    for (uint32_t row = 0; row < n_rows; row++) {
        enum halo_doctor_failure failure = halo_doctor_trial_peek(trial, product->out, row, out);
        if (failure)
            return failure;
        for (uint32_t j = 0; j < N_ROWS; j++) {
            double want = 0, size = 0;
            for (uint32_t i = 0; i < N_COLS; i++) {
                want += input_at(row, i) * product->weight_at(j, i);
                size += fabs(input_at(row, i) * product->weight_at(j, i));
            }
            if (!near(out[j], want, size))
                return wrong(trial->tier, product->kernel, row, j, (double)out[j], want);
        }
    }
    halo_doctor_finding_read(trial->tier->finding, "%s, %u x %u by %u rows = right", product->kernel, N_ROWS, N_COLS,
                             n_rows);
    return HALO_DOCTOR_FINE;
}

enum halo_doctor_failure halo_doctor_tier_matmul(struct halo_doctor_tier *tier)
{
    static struct halo_doctor_trial trial;
    halo_doctor_trial_init(&trial, tier, N_INPUTS, N_INPUTS);
    uint16_t in = halo_doctor_trial_input(&trial, N_COLS, input_at);
    uint32_t q8 = halo_doctor_trial_weight(&trial, HALO_TYPE_Q8_0, HALO_WEIGHT_MATRIX, N_COLS, N_ROWS, q8_at);
    uint32_t f16 = halo_doctor_trial_weight(&trial, HALO_TYPE_F16, HALO_WEIGHT_MATRIX, N_COLS, N_ROWS, f16_at);
    uint16_t q8_out = halo_doctor_trial_matmul(&trial, in, q8), f16_out = halo_doctor_trial_matmul(&trial, in, f16);
    const struct {
        uint32_t n_rows;
        struct product product;
    } products[] = {
        {1, {"gemv_q8_0 (dot4)", q8_out, q8_at}},
        {1, {"gemv_f16", f16_out, f16_at}},
        {N_INPUTS, {"gemm_q8_0 (WMMA)", q8_out, q8_at}},
        {N_INPUTS, {"gemm_f16 (WMMA)", f16_out, f16_at}},
    };
    enum halo_doctor_failure failure = halo_doctor_trial_open(&trial);
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]) && !failure; i++) {
        if (i == 0 || products[i].n_rows != products[i - 1].n_rows)
            failure = halo_doctor_trial_run(&trial, products[i].n_rows, 0, NULL);
        if (!failure)
            failure = check_product(&trial, &products[i].product, products[i].n_rows);
    }
    if (!failure)
        halo_doctor_finding_say(tier->finding, HALO_DOCTOR_PASS, "Matrix products are right to the last bit of f32.");
    return failure;
}
