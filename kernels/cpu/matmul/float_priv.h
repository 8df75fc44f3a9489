/* float_priv.h: the small float formats, widened exactly, for plain C: the vector kernels have instructions. */
#ifndef HALO_CPU_FLOAT_PRIV_H
#define HALO_CPU_FLOAT_PRIV_H

#include <stdint.h>
#include <string.h>

static inline float halo_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t halo_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float halo_f16_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;
    if (exponent == 0)
        return halo_bits_float(sign | halo_float_bits((float)mantissa * 0x1p-24f));
    if (exponent == 31) /* a signalling NaN becomes quiet, as the instruction does it */
        return halo_bits_float(sign | 0x7f800000 | (mantissa ? 0x400000 | mantissa << 13 : 0));
    return halo_bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline float halo_bf16_float(uint16_t brain)
{
    return halo_bits_float((uint32_t)brain << 16);
}

/* 2^(e - 128): the scale of an MXFP4 block whose elements are doubled. The two smallest are subnormal. */
static inline float halo_e8m0_float_half(uint8_t e)
{
    return halo_bits_float(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* The scale of 16 weights of NVFP4: E4M3 without a sign: the low 7 bits; 0x7f stands for 0. */
static inline float halo_e4m3_float(uint8_t e)
{
    uint32_t exponent = e >> 3 & 15, mantissa = e & 7;
    if (e == 0x7f)
        return 0;
    if (exponent == 0)
        return (float)mantissa * 0x1p-9f;
    return halo_bits_float((exponent + 120) << 23 | mantissa << 20);
}

#endif
