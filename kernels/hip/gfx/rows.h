/* rows.h: rows of f32 values, four neighbours to a thread, and their quantization. */
#ifndef HALO_GFX_ROWS_H
#define HALO_GFX_ROWS_H

#include "gfx.h"

/* Elements i .. i + 3 of a row of n at x; what lies beyond is 0. One load where the row is a multiple of four. */
HALO_DEVICE halo_f4 halo_load4(const float *x, uint32_t i, uint32_t n)
{
    halo_f4 v = {{0, 0, 0, 0}};
    if (n % 4 == 0) {
        if (i < n)
            v = halo_load<halo_f4>(x + i);
        return v;
    }
    for (uint32_t j = 0; j < 4; j++)
        if (i + j < n)
            v.e[j] = x[i + j];
    return v;
}

/* The same; ones where there is no row. */
HALO_DEVICE halo_f4 halo_load4_or_ones(const float *x, uint32_t i, uint32_t n)
{
    return x ? halo_load4(x, i, n) : halo_f4{{1, 1, 1, 1}};
}

HALO_DEVICE void halo_store4(float *x, uint32_t i, uint32_t n, const halo_f4 &v)
{
    if (n % 4 == 0) {
        if (i < n)
            *reinterpret_cast<halo_f4 *>(x + i) = v;
        return;
    }
    for (uint32_t j = 0; j < 4; j++)
        if (i + j < n)
            x[i + j] = v.e[j];
}

/* Quantizes elements i .. i + 3 (i % 4 == 0) of a row into its activation row (layout.h). Eight neighbouring lanes make
 * a unit; all lanes of the wave must call, those with i >= n for nothing. */
HALO_DEVICE void halo_quantize4(const halo_f4 &v, uint32_t i, uint32_t n, uint8_t *act)
{
    /* Magnitudes order like their bits, a NaN above infinity above all numbers. */
    int top = 0;
    for (int j = 0; j < 4; j++) {
        int bits = (int)(halo_float_bits(v.e[j]) & 0x7fffffff);
        top = top > bits ? top : bits;
    }
    int other = halo_xor<1>(top);
    top = top > other ? top : other;
    other = halo_xor<2>(top);
    top = top > other ? top : other;
    other = halo_xor<4>(top);
    top = top > other ? top : other;
    bool finite = top < 0x7f800000, empty = halo_bits_float((uint32_t)top) < HALO_HIP_ACT_TINY;
    float max = halo_bits_float((uint32_t)top), scale = finite && !empty ? 127 / max : 0;
    uint32_t packed = 0;
    int sum = 0;
    for (int j = 0; j < 4; j++) {
        int q = scale != 0 ? (int)halo_rint(v.e[j] * scale) : 0;
        sum += q;
        packed |= (uint32_t)(q & 255) << 8 * j;
    }
    sum += halo_xor<1>(sum);
    sum += halo_xor<2>(sum);
    int second = halo_xor<4>(sum);
    if (i >= n)
        return;
    uint32_t u = i / 32, at = i % 32;
    *reinterpret_cast<uint32_t *>(act + at / 16 * (n / 2) + u * 16 + at % 16) = packed;
    if (at == 0) {
        halo_act_unit unit = {finite ? (empty ? 0 : max / 127) : halo_bits_float(0x7fc00000),
                              {(int16_t)sum, (int16_t)second}};
        *reinterpret_cast<halo_act_unit *>(act + halo_hip_act_units(n) + u * (uint32_t)sizeof(unit)) = unit;
    }
}

/* Rows of f16 for matrix tiles: large magnitudes are divided by a power of two, so that the largest is below 2^15. */
HALO_DEVICE int halo_half_shift(float max)
{
    const int e = (int)(halo_float_bits(max) >> 23 & 255) - 127, shift = e > 14 ? e - 14 : 0;
    return shift < 126 ? shift : 126;
}

HALO_DEVICE float halo_most4(const halo_f4 &v, float most)
{
    for (int j = 0; j < 4; j++)
        most = halo_max(most, halo_abs(v.e[j]));
    return most;
}

/* Four neighbours, times `down`. */
HALO_DEVICE void halo_store4_half(uint16_t *to, const halo_f4 &v, float down)
{
    halo_u2 h;
    for (int j = 0; j < 2; j++)
        h.e[j] = halo_float_half(v.e[2 * j] * down) | (uint32_t)halo_float_half(v.e[2 * j + 1] * down) << 16;
    *reinterpret_cast<halo_u2 *>(to) = h;
}

#endif
