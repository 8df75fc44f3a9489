/* numbers.h: the arithmetic of the chip in that of the host: halves, approximate instructions, saturating conversions.
 *
 * Built for processors with F16C and FMA: half_float() and fmaf() are in every inner loop.
 */
#ifndef HALO_TEST_GFX_SIM_NUMBERS_H
#define HALO_TEST_GFX_SIM_NUMBERS_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "isa_priv.h"

/* f32 keeps denormals (launch.c checks that the kernel asks for that), approximate instructions do not. */
static inline float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* What an approximate instruction makes of a number: the nearest float or, when asked for, any of the two beside it
 * (less than 1 ulp off, as the documents allow). */
static inline float about(double d)
{
    float f = (float)d;
    if (isa_run.ulp && isfinite(f) && f != 0 && (double)f != d) {
        uint64_t h; /* the same number every time, as on a chip */
        memcpy(&h, &d, 8);
        h = (h + (uint64_t)isa_run.ulp) * 0x9e3779b97f4a7c15ull;
        if (h >> 63)
            f = nextafterf(f, (double)f > d ? -INFINITY : INFINITY);
    }
    return flush(f);
}

static inline float half_float(uint32_t h)
{
    return _cvtsh_ss((unsigned short)h);
}

static inline uint32_t float_half(float f)
{
    return _cvtss_sh(f, 0);
}

/* One rounding: to odd in f32 first, which has more than twice the bits. */
static inline uint32_t double_half(double d)
{
    float f = (float)d;
    uint32_t u = u_of(f);
    if (isfinite(f) && (double)f != d && !(u & 1))
        u += fabs(d) > fabs((double)f) ? 1 : UINT32_MAX;
    return float_half(f_of(u));
}

/* a * b + c of halves, rounded once: the sum in double, rounded to odd. */
static inline uint32_t half_fma(uint32_t a, uint32_t b, uint32_t c)
{
    double p = (double)half_float(a) * half_float(b), q = half_float(c), s = p + q;
    if (isfinite(s)) {
        double t = s - p, e = (p - (s - t)) + (q - t);
        uint64_t u;
        memcpy(&u, &s, 8);
        if (e != 0 && !(u & 1)) {
            u += (e > 0) == (s > 0) ? 1 : UINT64_MAX;
            memcpy(&s, &u, 8);
        }
    }
    return double_half(s);
}

static inline float max_float(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : a > b || (a == b && !signbit(a)) ? a : b;
}

static inline float min_float(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : a < b || (a == b && signbit(a)) ? a : b;
}

static inline int32_t to_i32(float f)
{
    return isnan(f) ? 0 : f >= 0x1p31f ? INT32_MAX : f <= -0x1p31f ? INT32_MIN : (int32_t)f;
}

static inline uint32_t to_u32(float f)
{
    return isnan(f) || f <= 0 ? 0 : f >= 0x1p32f ? UINT32_MAX : (uint32_t)f;
}

#endif
