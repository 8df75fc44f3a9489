/* vec_reference_priv.h: sixteen floats in an array, plain C. Included by vec_priv.h only, which states the contract.
 *
 * fmaf() rounds once on every machine, in hardware or not, so this variant gives the bits of the other two.
 */
#ifndef HALO_CPU_VEC_REFERENCE_PRIV_H
#define HALO_CPU_VEC_REFERENCE_PRIV_H

#include "half_priv.h"

struct vec {
    float f[16];
};

/* Builds a vector lane by lane; `i` is the lane. */
#define VEC_EACH(expression)                                                                                           \
    struct vec r;                                                                                                      \
    for (uint32_t i = 0; i < 16; i++)                                                                                  \
        r.f[i] = (expression);                                                                                         \
    return r

static inline struct vec vec_splat(float x)
{
    VEC_EACH(x);
}
static inline struct vec vec_zero(void)
{
    return vec_splat(0);
}
static inline struct vec vec_load(const float *p)
{
    VEC_EACH(p[i]);
}
static inline struct vec vec_load_n(const float *p, uint32_t n)
{
    VEC_EACH(i < n ? p[i] : 0);
}
static inline void vec_store(float *p, struct vec a)
{
    memcpy(p, a.f, sizeof(a.f));
}
static inline void vec_store_n(float *p, struct vec a, uint32_t n)
{
    memcpy(p, a.f, n * sizeof(float));
}
static inline struct vec vec_add(struct vec a, struct vec b)
{
    VEC_EACH(a.f[i] + b.f[i]);
}
static inline struct vec vec_sub(struct vec a, struct vec b)
{
    VEC_EACH(a.f[i] - b.f[i]);
}
static inline struct vec vec_mul(struct vec a, struct vec b)
{
    VEC_EACH(a.f[i] * b.f[i]);
}
static inline struct vec vec_div(struct vec a, struct vec b)
{
    VEC_EACH(a.f[i] / b.f[i]);
}
static inline struct vec vec_max(struct vec a, struct vec b)
{
    VEC_EACH(a.f[i] > b.f[i] ? a.f[i] : b.f[i]);
}
static inline struct vec vec_min(struct vec a, struct vec b)
{
    VEC_EACH(a.f[i] < b.f[i] ? a.f[i] : b.f[i]);
}
static inline struct vec vec_abs(struct vec a)
{
    VEC_EACH(fabsf(a.f[i]));
}
static inline struct vec vec_fma(struct vec a, struct vec b, struct vec c)
{
    VEC_EACH(fmaf(a.f[i], b.f[i], c.f[i]));
}
static inline struct vec vec_scale(struct vec p, struct vec n)
{
    VEC_EACH(isnan(n.f[i]) ? n.f[i] : ldexpf(p.f[i], (int)n.f[i]));
}
static inline struct vec vec_from_f16(const uint16_t *p)
{
    VEC_EACH(halo_half_load(p[i]));
}
static inline struct vec vec_from_i8(const int8_t *p)
{
    VEC_EACH((float)p[i]);
}
#undef VEC_EACH

static inline void vec_to_f16(uint16_t *p, struct vec a)
{
    for (uint32_t i = 0; i < 16; i++)
        p[i] = halo_half_store(a.f[i]);
}

static inline void vec_to_i8(int8_t *p, struct vec a)
{
    for (uint32_t i = 0; i < 16; i++)
        p[i] = (int8_t)lrintf(a.f[i]);
}

static inline float vec_sum(struct vec a)
{
    for (uint32_t step = 8; step > 0; step /= 2)
        for (uint32_t i = 0; i < step; i++)
            a.f[i] += a.f[i + step];
    return a.f[0];
}

static inline void vec_sum4(const struct vec a[4], float ret[4])
{
    for (uint32_t i = 0; i < 4; i++)
        ret[i] = vec_sum(a[i]);
}

static inline float vec_max_all(struct vec a)
{
    float max = a.f[0];
    for (uint32_t i = 1; i < 16; i++)
        max = a.f[i] > max ? a.f[i] : max;
    return max;
}

#endif
