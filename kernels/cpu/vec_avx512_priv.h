/* vec_avx512_priv.h: sixteen floats in one 512-bit register. Included by vec_priv.h only, which states the contract. */
#ifndef HALO_CPU_VEC_AVX512_PRIV_H
#define HALO_CPU_VEC_AVX512_PRIV_H

#include <immintrin.h>
#include <stdint.h>

struct vec {
    __m512 v;
};

static inline struct vec vec_zero(void)
{
    return (struct vec){_mm512_setzero_ps()};
}
static inline struct vec vec_splat(float x)
{
    return (struct vec){_mm512_set1_ps(x)};
}
static inline struct vec vec_load(const float *p)
{
    return (struct vec){_mm512_loadu_ps(p)};
}
static inline void vec_store(float *p, struct vec a)
{
    _mm512_storeu_ps(p, a.v);
}

static inline struct vec vec_load_n(const float *p, uint32_t n)
{
    return (struct vec){_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p)};
}

static inline void vec_store_n(float *p, struct vec a, uint32_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a.v);
}

static inline struct vec vec_add(struct vec a, struct vec b)
{
    return (struct vec){_mm512_add_ps(a.v, b.v)};
}
static inline struct vec vec_sub(struct vec a, struct vec b)
{
    return (struct vec){_mm512_sub_ps(a.v, b.v)};
}
static inline struct vec vec_mul(struct vec a, struct vec b)
{
    return (struct vec){_mm512_mul_ps(a.v, b.v)};
}
static inline struct vec vec_div(struct vec a, struct vec b)
{
    return (struct vec){_mm512_div_ps(a.v, b.v)};
}
static inline struct vec vec_max(struct vec a, struct vec b)
{
    return (struct vec){_mm512_max_ps(a.v, b.v)};
}
static inline struct vec vec_min(struct vec a, struct vec b)
{
    return (struct vec){_mm512_min_ps(a.v, b.v)};
}
static inline struct vec vec_abs(struct vec a)
{
    return (struct vec){_mm512_abs_ps(a.v)};
}

static inline struct vec vec_fma(struct vec a, struct vec b, struct vec c)
{
    return (struct vec){_mm512_fmadd_ps(a.v, b.v, c.v)};
}

/* p * 2^n for an integral n, rounded once. */
static inline struct vec vec_scale(struct vec p, struct vec n)
{
    return (struct vec){_mm512_scalef_ps(p.v, n.v)};
}

static inline struct vec vec_from_f16(const uint16_t *p)
{
    return (struct vec){_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p))};
}

static inline void vec_to_f16(uint16_t *p, struct vec a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}

static inline struct vec vec_from_i8(const int8_t *p)
{
    return (struct vec){_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)))};
}

static inline void vec_to_i8(int8_t *p, struct vec a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a.v)));
}

/* Halves twice, then the four floats that are left: the same tree as everywhere. */
static inline __m128 vec_fold(struct vec a)
{
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
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
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a[0].v, a[1].v, 0x44), _mm512_shuffle_f32x4(a[0].v, a[1].v, 0xEE));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(a[2].v, a[3].v, 0x44), _mm512_shuffle_f32x4(a[2].v, a[3].v, 0xEE));
    __m512 q = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    q = _mm512_add_ps(q, _mm512_permute_ps(q, 0x4E));
    q = _mm512_add_ps(q, _mm512_permute_ps(q, 0xB1));
    _mm_storeu_ps(ret, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, q)));
}

static inline float vec_max_all(struct vec a)
{
    return _mm512_reduce_max_ps(a.v);
}

#endif
