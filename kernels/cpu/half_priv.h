/* half_priv.h: f16 bit patterns to f32 and back, in plain C: exact one way, round-to-nearest-even the other, as F16C
 * does it. */
#ifndef HALO_CPU_HALF_PRIV_H
#define HALO_CPU_HALF_PRIV_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float halo_half_load(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ff, bits;
    float f;
    if (exponent == 0) {
        f = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &f, sizeof(bits));
        bits |= sign;
    } else if (exponent == 31) {
        bits = sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0);
    } else {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    }
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static inline uint16_t halo_half_store(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        /* Below the smallest normal: adding 0.5 makes the float unit round at 2^-24, the step of the f16 denormals. */
        float shifted, positive;
        memcpy(&positive, &magnitude, sizeof(positive));
        shifted = positive + 0.5f;
        memcpy(&bits, &shifted, sizeof(bits));
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - (112 << 10)));
}

#endif
