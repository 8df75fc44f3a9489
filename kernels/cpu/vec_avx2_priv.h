/* vec_avx2_priv.h: sixteen floats in two 256-bit registers. Included by vec_priv.h only, which states the contract. */
#ifndef HALO_CPU_VEC_AVX2_PRIV_H
#define HALO_CPU_VEC_AVX2_PRIV_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

struct vec {
    __m256 lo, hi;
};

static inline struct vec vec_zero(void)
{
    return (struct vec){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
static inline struct vec vec_splat(float x)
{
    return (struct vec){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
static inline struct vec vec_load(const float *p)
{
    return (struct vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void vec_store(float *p, struct vec a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}

static inline struct vec vec_load_n(const float *p, uint32_t n)
{
    float buffer[16] = {0};
    memcpy(buffer, p, n * sizeof(float));
    return vec_load(buffer);
}

static inline void vec_store_n(float *p, struct vec a, uint32_t n)
{
    float buffer[16];
    vec_store(buffer, a);
    memcpy(p, buffer, n * sizeof(float));
}

#define VEC_BINARY(name, instruction)                                                                                  \
    static inline struct vec vec_##name(struct vec a, struct vec b)                                                    \
    {                                                                                                                  \
        return (struct vec){instruction(a.lo, b.lo), instruction(a.hi, b.hi)};                                         \
    }
VEC_BINARY(add, _mm256_add_ps)
VEC_BINARY(sub, _mm256_sub_ps)
VEC_BINARY(mul, _mm256_mul_ps)
VEC_BINARY(div, _mm256_div_ps)
VEC_BINARY(max, _mm256_max_ps)
VEC_BINARY(min, _mm256_min_ps)
#undef VEC_BINARY

static inline struct vec vec_abs(struct vec a)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (struct vec){_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}

static inline struct vec vec_fma(struct vec a, struct vec b, struct vec c)
{
    return (struct vec){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

static inline __m256 vec_power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* Two factors, the first exact, so that a denormal result is rounded once. */
static inline __m256 vec_scale_half(__m256 p, __m256 n)
{
    __m256i whole = _mm256_cvtps_epi32(n), first = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, vec_power_of_two(first)), vec_power_of_two(_mm256_sub_epi32(whole, first)));
}

static inline struct vec vec_scale(struct vec p, struct vec n)
{
    return (struct vec){vec_scale_half(p.lo, n.lo), vec_scale_half(p.hi, n.hi)};
}

static inline struct vec vec_from_f16(const uint16_t *p)
{
    const __m128i *from = (const __m128i *)(const void *)p;
    return (struct vec){_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from + 1))};
}

static inline void vec_to_f16(uint16_t *p, struct vec a)
{
    __m128i *to = (__m128i *)(void *)p;
    _mm_storeu_si128(to, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(to + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}

static inline struct vec vec_from_i8(const int8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (struct vec){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)),
                        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)))};
}

static inline void vec_to_i8(int8_t *p, struct vec a)
{
    __m256i lo = _mm256_cvtps_epi32(a.lo), hi = _mm256_cvtps_epi32(a.hi);
    __m128i first = _mm_packs_epi32(_mm256_castsi256_si128(lo), _mm256_extracti128_si256(lo, 1));
    __m128i second = _mm_packs_epi32(_mm256_castsi256_si128(hi), _mm256_extracti128_si256(hi, 1));
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packs_epi16(first, second));
}

static inline __m128 vec_fold(struct vec a)
{
    __m256 half = _mm256_add_ps(a.lo, a.hi);
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

static inline float vec_sum(struct vec a)
{
    __m128 q = vec_fold(a);
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

static inline void vec_sum4(const struct vec a[4], float ret[4])
{
    __m128 s0 = vec_fold(a[0]), s1 = vec_fold(a[1]), s2 = vec_fold(a[2]), s3 = vec_fold(a[3]);
    __m128 s01 = _mm_add_ps(_mm_movelh_ps(s0, s1), _mm_movehl_ps(s1, s0));
    __m128 s23 = _mm_add_ps(_mm_movelh_ps(s2, s3), _mm_movehl_ps(s3, s2));
    _mm_storeu_ps(ret, _mm_hadd_ps(s01, s23));
}

static inline float vec_max_all(struct vec a)
{
    __m256 half = _mm256_max_ps(a.lo, a.hi);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

#endif
