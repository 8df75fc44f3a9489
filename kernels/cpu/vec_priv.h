/* vec_priv.h: sixteen floats as one thing, and the exponential on them.
 *
 * The lane kernels (lanes_*.c) are written once over this type and compiled once for each instruction set:
 * HALO_CPU_LANES_AVX512, HALO_CPU_LANES_AVX2, or neither for plain C. Every operation gives the same bits in all three
 * (a NaN stays a NaN, its payload aside): arithmetic is IEEE and rounds once, and vec_sum adds in one tree: lanes i and
 * i+8, then i+4, i+2, i+1. vec_max and vec_min give b when either side is a NaN. vec_load_n fills with zeros (n < 16).
 * vec_to_i8 rounds to nearest even and wants values inside -127..127. vec_scale wants p near one and an n that keeps p
 * * 2^(n/2) normal.
 */
#ifndef HALO_CPU_VEC_PRIV_H
#define HALO_CPU_VEC_PRIV_H

#if defined(HALO_CPU_LANES_AVX512)
#include "vec_avx512_priv.h"
#elif defined(HALO_CPU_LANES_AVX2)
#include "vec_avx2_priv.h"
#else
#include "vec_reference_priv.h"
#endif

/* The chunk at i of a row of n floats: zeros are read behind its end, and nothing is written there. */
static inline struct vec vec_load_chunk(const float *row, uint32_t i, uint32_t n)
{
    return n - i >= 16 ? vec_load(row + i) : vec_load_n(row + i, n - i);
}

static inline void vec_store_chunk(float *row, uint32_t i, uint32_t n, struct vec v)
{
    if (n - i >= 16)
        vec_store(row + i, v);
    else
        vec_store_n(row + i, v, n - i);
}

/* e^x, within 1 ulp over the whole range, denormal results included; inf above 88.73, 0 below -103.98, NaN for NaN.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts so that r is exact enough; e^r = 1 + r + r^2 q(r), q the
 * minimax polynomial of degree 4 (relative error 2^-28, found by Remez exchange). */
static inline struct vec vec_exp(struct vec x)
{
    const struct vec round = vec_splat(0x1.8p23f);
    x = vec_max(vec_splat(-104.5f), vec_min(vec_splat(89.0f), x));
    struct vec n = vec_sub(vec_fma(x, vec_splat(0x1.715476p+0f), round), round);
    struct vec r = vec_fma(n, vec_splat(-0x1.62e400p-1f), x);
    r = vec_fma(n, vec_splat(-0x1.7f7d1cp-20f), r);
    struct vec q = vec_splat(0.001381454018f);
    q = vec_fma(q, r, vec_splat(0.008368745109f));
    q = vec_fma(q, r, vec_splat(0.04166839078f));
    q = vec_fma(q, r, vec_splat(0.166665204f));
    q = vec_fma(q, r, vec_splat(0.4999999343f));
    return vec_scale(vec_add(vec_fma(vec_mul(r, r), q, r), vec_splat(1.0f)), n);
}

/* cap * tanh(x / cap), cap > 0; within 2e-7 of cap. */
static inline struct vec vec_capped(struct vec x, float cap)
{
    const struct vec one = vec_splat(1.0f);
    struct vec e = vec_exp(vec_mul(x, vec_splat(2 / cap)));
    return vec_mul(vec_sub(one, vec_div(vec_splat(2.0f), vec_add(e, one))), vec_splat(cap));
}

#endif
