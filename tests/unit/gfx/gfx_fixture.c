/* gfx_fixture.c: see gfx_fixture.h. */
#include "gfx_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <kernels/quant.h>

const struct gfx_type gfx_types[] = {
    {HALO_TYPE_F32, "f32", 1},           {HALO_TYPE_F16, "f16", 1},           {HALO_TYPE_BF16, "bf16", 1},
    {HALO_TYPE_Q8_0, "q8_0", 32},        {HALO_TYPE_Q4_0, "q4_0", 32},        {HALO_TYPE_Q4_1, "q4_1", 32},
    {HALO_TYPE_Q5_0, "q5_0", 32},        {HALO_TYPE_Q5_1, "q5_1", 32},        {HALO_TYPE_IQ4_NL, "iq4_nl", 32},
    {HALO_TYPE_MXFP4, "mxfp4", 32},      {HALO_TYPE_Q2_K, "q2_k", 256},       {HALO_TYPE_Q3_K, "q3_k", 256},
    {HALO_TYPE_Q4_K, "q4_k", 256},       {HALO_TYPE_Q5_K, "q5_k", 256},       {HALO_TYPE_Q6_K, "q6_k", 256},
    {HALO_TYPE_IQ4_XS, "iq4_xs", 256},   {HALO_TYPE_IQ3_S, "iq3_s", 256},     {HALO_TYPE_IQ2_S, "iq2_s", 256},
    {HALO_TYPE_IQ1_M, "iq1_m", 256},     {HALO_TYPE_Q2_0, "q2_0", 32},        {HALO_TYPE_Q1_0, "q1_0", 32},
    {HALO_TYPE_NVFP4, "nvfp4", 32},      {HALO_TYPE_IQ3_XXS, "iq3_xxs", 256}, {HALO_TYPE_IQ2_XS, "iq2_xs", 256},
    {HALO_TYPE_IQ2_XXS, "iq2_xxs", 256}, {HALO_TYPE_IQ1_S, "iq1_s", 256},
};
const uint32_t gfx_n_types = sizeof(gfx_types) / sizeof(gfx_types[0]);

void gfx_run(const char *name, uint32_t x, uint32_t y, uint32_t z, void *args)
{
    char reason[HALO_HOST_REASON] = "";
    const struct halo_host_kernel *kernel = halo_host_kernel_find(name);
    if (!kernel)
        fail_msg("no kernel %s", name);
    void *list[] = {args};
    int r = halo_host_kernel_run(kernel, (uint32_t[]){x, y, z}, (uint32_t[]){kernel->block, 1, 1}, list, reason);
    if (r)
        fail_msg("%s: %d: %s", name, r, reason);
}

uint32_t gfx_random(uint32_t *state)
{
    uint32_t x = *state += 0x9e3779b9;
    x = (x ^ x >> 16) * 0x85ebca6b;
    x = (x ^ x >> 13) * 0xc2b2ae35;
    return x ^ x >> 16;
}

float gfx_random_float(uint32_t *state)
{
    return (float)(int32_t)gfx_random(state) * 0x1p-31f;
}

void *gfx_zeros(size_t n_bytes)
{
    void *p = calloc(1, n_bytes);
    assert_non_null(p);
    return p;
}

float *gfx_floats(uint32_t n, uint32_t seed)
{
    float *x = gfx_zeros(n * sizeof(*x));
    for (uint32_t i = 0; i < n; i++)
        x[i] = gfx_random_float(&seed);
    return x;
}

float gfx_half_float(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    float f = e == 31 ? (m ? NAN : INFINITY) : e == 0 ? ldexpf((float)m, -24) : ldexpf((float)(m + 1024), e - 25);
    return h >> 15 ? -f : f;
}

/* The nearest of all halves, found by trying each: slow and simple. Ties go to the even one. */
uint16_t gfx_float_half(float f)
{
    uint16_t sign = signbit(f) ? 0x8000 : 0, low = 0, high = 0x7c00;
    double x = fabs((double)f);
    if (isnan(f))
        return sign | 0x7e00;
    if (x >= 65520)
        return sign | 0x7c00;
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if ((double)gfx_half_float(middle) <= x)
            low = middle;
        else
            high = middle;
    }
    double below = x - (double)gfx_half_float(low),
           above = (high == 0x7c00 ? 65536.0 : (double)gfx_half_float(high)) - x;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

static void put_half(uint8_t *at, uint32_t *seed, float size)
{
    uint16_t half = gfx_float_half(gfx_random_float(seed) * size);
    memcpy(at, &half, sizeof(half));
}

static bool is_grid(uint32_t type)
{
    return type >= HALO_TYPE_IQ2_XXS && type <= HALO_TYPE_IQ1_M && type != HALO_TYPE_IQ4_NL && type != HALO_TYPE_IQ4_XS;
}

/* Random bytes everywhere, then finite numbers where a random pattern might be none. */
static void fill_row(uint32_t type, uint8_t *row, uint32_t n_cols, uint32_t *seed)
{
    struct halo_row_layout at = halo_hip_row_layout(type, n_cols);
    uint32_t n_units = n_cols / HALO_HIP_UNIT;
    for (uint32_t i = 0; i < at.stride; i++)
        row[i] = (uint8_t)gfx_random(seed);
    switch (type) {
    case HALO_TYPE_F32:
        memset(row, 0, at.stride);
        for (uint32_t i = 0; i < n_cols; i++)
            memcpy(row + 4 * i, &(float){gfx_random_float(seed)}, 4);
        break;
    case HALO_TYPE_F16:
        memset(row, 0, at.stride);
        for (uint32_t i = 0; i < n_cols; i++)
            put_half(row + 2 * i, seed, 1);
        break;
    case HALO_TYPE_BF16:
        memset(row, 0, at.stride);
        for (uint32_t i = 0; i < n_cols; i++)
            memcpy(row + 2 * i, (uint8_t *)&(float){gfx_random_float(seed)} + 2, 2);
        break;
    case HALO_TYPE_MXFP4:
        for (uint32_t u = 0; u < n_units; u++)
            row[at.scales + u] =
                (uint8_t)(gfx_random(seed) % 16 == 0 ? gfx_random(seed) % 3 : 118 + gfx_random(seed) % 10);
        break;
    case HALO_TYPE_NVFP4: memcpy(row + at.super, &(float){0.01f * gfx_random_float(seed)}, sizeof(float)); break;
    case HALO_TYPE_Q8_0:
    case HALO_TYPE_Q4_0:
    case HALO_TYPE_Q5_0:
    case HALO_TYPE_Q2_0:
    case HALO_TYPE_Q1_0:
    case HALO_TYPE_IQ4_NL:
        for (uint32_t u = 0; u < n_units; u++)
            put_half(row + at.scales + 2 * u, seed, 0.1f);
        break;
    case HALO_TYPE_Q4_1:
    case HALO_TYPE_Q5_1:
        for (uint32_t u = 0; u < 2 * n_units; u++)
            put_half(row + at.scales + 2 * u, seed, 0.1f);
        break;
    default: { /* the super-blocks: one or two halves at the begin of the scales of each */
        uint32_t bytes = halo_hip_planes(type) >> 25 & 31;
        for (uint32_t s = 0; s < n_units / 8; s++)
            for (uint32_t i = 0; i < (is_grid(type) || bytes < 4 ? 2u : 4u); i += 2)
                put_half(row + at.super + s * bytes + i, seed, 0.01f);
    }
    }
}

uint8_t *gfx_weights(uint32_t type, uint32_t n_cols, uint32_t n_rows, uint32_t seed)
{
    uint32_t stride = halo_hip_row_layout(type, n_cols).stride;
    uint8_t *rows = gfx_zeros((size_t)stride * n_rows);
    for (uint32_t r = 0; r < n_rows; r++)
        fill_row(type, rows + (size_t)r * stride, n_cols, &seed);
    return rows;
}

static double half_at(const uint8_t *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof(half));
    return (double)gfx_half_float(half);
}

static double plain_weight(uint32_t type, const uint8_t *row, uint32_t col)
{
    float f = 0;
    if (type == HALO_TYPE_F32)
        memcpy(&f, row + 4 * col, 4);
    if (type == HALO_TYPE_BF16)
        memcpy((uint8_t *)&f + 2, row + 2 * col, 2);
    return type == HALO_TYPE_F16 ? half_at(row + 2 * col) : (double)f;
}

static double nvfp4_scale(const uint8_t *factor, uint8_t e)
{
    float f;
    memcpy(&f, factor, sizeof(f));
    int exponent = e >> 3 & 15, mantissa = e & 7;
    return (double)f * (exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9));
}

#define X(code) code,
static const uint16_t grid_iq1[] = {
#include <kernels/grid_iq1.def>
};
static const uint16_t grid_iq2_xxs[] = {
#include <kernels/grid_iq2_xxs.def>
};
static const uint16_t grid_iq2_xs[] = {
#include <kernels/grid_iq2_xs.def>
};
static const uint16_t grid_iq2_s[] = {
#include <kernels/grid_iq2_s.def>
};
static const uint16_t grid_iq3_xxs[] = {
#include <kernels/grid_iq3_xxs.def>
};
static const uint16_t grid_iq3_s[] = {
#include <kernels/grid_iq3_s.def>
};
#undef X

/* The minus sign of weight i of a unit; even: there is an even number of them in eight weights. */
static bool grid_minus(uint32_t signs, uint32_t i, bool even)
{
    if (!even || i % 9 != 0)
        return signs >> (8 * (i % 4) + i / 4) & 1;
    bool minus = false;
    for (uint32_t k = i / 8 * 8; k < i / 8 * 8 + 8; k++)
        minus ^= k != i && grid_minus(signs, k, false);
    return minus;
}

static uint32_t spare_bits(uint32_t signs)
{
    return (signs & 1) | (signs >> 10 & 1) << 1 | (signs >> 20 & 1) << 2 | (signs >> 30) % 2 << 3;
}

static double iq3_weight(uint32_t type, const uint8_t *row, const struct halo_row_layout *at, uint32_t u, uint32_t i)
{
    static const int8_t values[8] = HALO_IQ3_XXS_VALUES;
    const uint8_t *super = row + at->super + u / 8 * (type == HALO_TYPE_IQ3_S ? 6 : 2);
    uint32_t index = row[at->pairs + 8 * u + i / 4], signs;
    memcpy(&signs, row + at->bits + 4 * u, 4);
    if (type == HALO_TYPE_IQ3_XXS) {
        const int value = values[grid_iq3_xxs[index] >> i % 4 * 3 & 7];
        return half_at(super) / 4 * (2 * (int)spare_bits(signs) + 1) * (grid_minus(signs, i, true) ? -value : value);
    }
    index |= (uint32_t)(row[at->scales + u] >> i / 4 & 1) << 8;
    const int value = 2 * (grid_iq3_s[index] >> i % 4 * 3 & 7) + 1;
    return half_at(super) * (2 * (super[2 + u % 8 / 2] >> u % 2 * 4 & 15) + 1) *
           (grid_minus(signs, i, false) ? -value : value);
}

static double iq2_weight(uint32_t type, const uint8_t *row, const struct halo_row_layout *at, uint32_t u, uint32_t i)
{
    static const int8_t values[3] = HALO_IQ2_VALUES;
    const uint8_t *scales = row + at->scales;
    uint32_t index = row[at->pairs + 8 * u + i / 8], signs, entry, scale;
    memcpy(&signs, row + at->pairs + 8 * u + 4, 4);
    if (type == HALO_TYPE_IQ2_XXS) {
        entry = grid_iq2_xxs[index];
        scale = spare_bits(signs);
    } else if (type == HALO_TYPE_IQ2_XS) {
        entry = grid_iq2_xs[index | (spare_bits(signs) >> i / 8 & 1) << 8];
        scale = scales[u] >> i / 16 * 4 & 15;
    } else {
        entry = grid_iq2_s[index | (scales[2 * u] >> i / 8 * 2 & 3u) << 8];
        scale = scales[2 * u + 1] >> i / 16 * 4 & 15;
    }
    const int value = values[entry >> i % 8 * 2 & 3];
    return half_at(row + at->super + u / 8 * 2) / 8 * (2 * (int)scale + 1) *
           (grid_minus(signs, i, type != HALO_TYPE_IQ2_S) ? -value : value);
}

static double iq1_weight(uint32_t type, const uint8_t *row, const struct halo_row_layout *at, uint32_t u, uint32_t i)
{
    uint32_t index = row[at->bits + 4 * u + i / 8], high, scale;
    const uint8_t *super = row + at->super + u / 8 * (type == HALO_TYPE_IQ1_M ? 8 : 2);
    high = row[at->scales + 2 * u] | (uint32_t)row[at->scales + 2 * u + 1] << 8;
    bool more = high >> 15;
    if (type == HALO_TYPE_IQ1_S) {
        index |= (high >> i / 8 * 3 & 7) << 8;
        scale = high >> 12 & 7;
    } else {
        uint64_t scales;
        memcpy(&scales, super, sizeof(scales));
        index |= (high >> i / 8 * 4 & 7) << 8;
        more = high >> (i / 8 * 4 + 3) & 1;
        scale = (uint32_t)(scales >> (16 + u % 8 * 6 + i / 16 * 3)) & 7;
    }
    return half_at(super) * (2 * (int)scale + 1) * ((grid_iq1[index] >> i % 8 * 2 & 3) - 1 + (more ? 0.125 : -0.125));
}

static double grid_weight(uint32_t type, const uint8_t *row, const struct halo_row_layout *at, uint32_t col)
{
    switch (type) {
    case HALO_TYPE_IQ3_S:
    case HALO_TYPE_IQ3_XXS: return iq3_weight(type, row, at, col / 32, col % 32);
    case HALO_TYPE_IQ1_S:
    case HALO_TYPE_IQ1_M: return iq1_weight(type, row, at, col / 32, col % 32);
    default: return iq2_weight(type, row, at, col / 32, col % 32);
    }
}

double gfx_weight(uint32_t type, const uint8_t *row, uint32_t n_cols, uint32_t col)
{
    static const int8_t iq4_nl[16] = HALO_IQ4_NL_VALUES, mxfp4[16] = HALO_MXFP4_VALUES2;
    struct halo_row_layout at = halo_hip_row_layout(type, n_cols);
    if (halo_hip_plain_bytes(type))
        return plain_weight(type, row, col);
    if (is_grid(type))
        return grid_weight(type, row, &at, col);
    uint32_t u = col / 32, i = col % 32, half = i / 16, s = u / 8;
    int nibble = at.high > at.quants ? row[at.quants + u * 16 + i % 16] >> 4 * half & 15 : 0;
    int pair = at.bits > at.pairs ? row[at.pairs + u * 8 + i % 8] >> i / 8 * 2 & 3 : 0;
    int bit = at.scales > at.bits ? row[at.bits + u * 4 + i / 8] >> i % 8 & 1 : 0;
    const uint8_t *scales = row + at.scales, *super = row + at.super;
    struct halo_pack_k k;
    switch (type) {
    case HALO_TYPE_Q8_0: return half_at(scales + 2 * u) * (int8_t)row[(half ? at.high : at.quants) + u * 16 + i % 16];
    case HALO_TYPE_Q4_0: return half_at(scales + 2 * u) * (nibble - 8);
    case HALO_TYPE_Q4_1: return half_at(scales + 4 * u) * nibble + half_at(scales + 4 * u + 2);
    case HALO_TYPE_Q5_0: return half_at(scales + 2 * u) * (nibble + 16 * bit - 16);
    case HALO_TYPE_Q5_1: return half_at(scales + 4 * u) * (nibble + 16 * bit) + half_at(scales + 4 * u + 2);
    case HALO_TYPE_IQ4_NL: return half_at(scales + 2 * u) * iq4_nl[nibble];
    case HALO_TYPE_MXFP4: return ldexp(mxfp4[nibble], scales[u] - 128);
    case HALO_TYPE_Q4_K:
    case HALO_TYPE_Q5_K:
        memcpy(&k, super + s * sizeof(k), sizeof(k));
        return (double)gfx_half_float(k.d) * (k.sm[u % 8] & 63) * (nibble + (type == HALO_TYPE_Q5_K ? 16 * bit : 0)) -
               (double)gfx_half_float(k.dmin) * (k.sm[u % 8] >> 6 | (k.mh[u % 8 / 2] >> u % 2 * 4 & 15) << 2);
    case HALO_TYPE_Q6_K: return half_at(super + 2 * s) * (int8_t)scales[2 * u + half] * (nibble + 16 * pair - 32);
    case HALO_TYPE_Q2_K:
        return half_at(super + 4 * s) * (scales[2 * u + half] & 15) * pair -
               half_at(super + 4 * s + 2) * (scales[2 * u + half] >> 4);
    case HALO_TYPE_Q3_K: return half_at(super + 2 * s) * (int8_t)scales[2 * u + half] * (pair + 4 * bit - 4);
    case HALO_TYPE_IQ4_XS: return half_at(super + 2 * s) * (int8_t)scales[u] * iq4_nl[nibble];
    case HALO_TYPE_Q2_0: return half_at(scales + 2 * u) * (pair - 1);
    case HALO_TYPE_Q1_0: return half_at(scales + 2 * u) * (2 * bit - 1);
    case HALO_TYPE_NVFP4: return nvfp4_scale(row + at.super, scales[2 * u + half]) * mxfp4[nibble] / 2;
    default: fail_msg("type %u", type); return 0;
    }
}

void gfx_quantize(const float *x, uint32_t n_cols, uint8_t *act)
{
    for (uint32_t u = 0; u < n_cols / 32; u++) {
        struct halo_act_unit unit = {0, {0, 0}};
        float max = 0;
        bool finite = true;
        for (uint32_t i = 0; i < 32; i++) {
            finite &= isfinite(x[32 * u + i]) != 0;
            max = fmaxf(max, fabsf(x[32 * u + i]));
        }
        for (uint32_t i = 0; i < 32; i++) {
            bool zero = !finite || max < HALO_HIP_ACT_TINY;
            int8_t q = zero ? 0 : (int8_t)lrintf(x[32 * u + i] * (127 / max));
            act[i / 16 * (n_cols / 2) + u * 16 + i % 16] = (uint8_t)q;
            unit.sum[i / 16] = (int16_t)(unit.sum[i / 16] + q);
        }
        unit.d = !finite ? NAN : max < HALO_HIP_ACT_TINY ? 0 : max / 127;
        memcpy(act + halo_hip_act_units(n_cols) + u * sizeof(unit), &unit, sizeof(unit));
    }
}

double gfx_act(const uint8_t *act, uint32_t n_cols, uint32_t col)
{
    struct halo_act_unit unit;
    memcpy(&unit, act + halo_hip_act_units(n_cols) + col / 32 * sizeof(unit), sizeof(unit));
    return (double)unit.d * (int8_t)act[col % 32 / 16 * (n_cols / 2) + col / 32 * 16 + col % 16];
}

void gfx_near(double have, double want, double bound, double scale, const char *what, uint32_t i)
{
    if (!(fabs(have - want) <= bound * scale))
        fail_msg("%s: element %u is %.9g, should be %.9g (off by %.3g of %.3g)", what, i, have, want, fabs(have - want),
                 scale);
}
