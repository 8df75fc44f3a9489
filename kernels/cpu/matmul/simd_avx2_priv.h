/* simd_avx2_priv.h: the operations of simd_priv.h on 256 bits: AVX2, FMA, F16C. */
#ifndef HALO_CPU_SIMD_AVX2_PRIV_H
#define HALO_CPU_SIMD_AVX2_PRIV_H

#define HALO_LANES 8
#define HALO_SIMD(name) name##_avx2

typedef __m256i halo_vint;
typedef __m256 halo_vfloat;

HALO_INLINE halo_vint v_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
HALO_INLINE halo_vint v_zero(void)
{
    return _mm256_setzero_si256();
}
HALO_INLINE halo_vint v_set8(int x)
{
    return _mm256_set1_epi8((char)x);
}
HALO_INLINE halo_vint v_set32(int32_t x)
{
    return _mm256_set1_epi32(x);
}
HALO_INLINE halo_vint v_and(halo_vint a, halo_vint b)
{
    return _mm256_and_si256(a, b);
}
HALO_INLINE halo_vint v_or(halo_vint a, halo_vint b)
{
    return _mm256_or_si256(a, b);
}
HALO_INLINE halo_vint v_xor(halo_vint a, halo_vint b)
{
    return _mm256_xor_si256(a, b);
}
HALO_INLINE halo_vint v_add32(halo_vint a, halo_vint b)
{
    return _mm256_add_epi32(a, b);
}
HALO_INLINE halo_vint v_sub32(halo_vint a, halo_vint b)
{
    return _mm256_sub_epi32(a, b);
}
HALO_INLINE halo_vint v_srl16(halo_vint a, unsigned n)
{
    return _mm256_srl_epi16(a, _mm_cvtsi32_si128((int)n));
}
HALO_INLINE halo_vint v_sll16(halo_vint a, unsigned n)
{
    return _mm256_sll_epi16(a, _mm_cvtsi32_si128((int)n));
}
HALO_INLINE halo_vint v_srl32(halo_vint a, unsigned n)
{
    return _mm256_srl_epi32(a, _mm_cvtsi32_si128((int)n));
}
HALO_INLINE halo_vint v_sll32(halo_vint a, unsigned n)
{
    return _mm256_sll_epi32(a, _mm_cvtsi32_si128((int)n));
}
HALO_INLINE halo_vint v_sra32(halo_vint a, unsigned n)
{
    return _mm256_sra_epi32(a, _mm_cvtsi32_si128((int)n));
}
/* Sums of products of neighbouring 16-bit numbers. */
HALO_INLINE halo_vint v_madd16(halo_vint a, halo_vint b)
{
    return _mm256_madd_epi16(a, b);
}
HALO_INLINE halo_vint v_u8(const void *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
HALO_INLINE halo_vint v_u16(const void *p)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}

HALO_INLINE halo_vfloat v_fload(const float *p)
{
    return _mm256_loadu_ps(p);
}
HALO_INLINE void v_fstore(float *p, halo_vfloat x)
{
    _mm256_storeu_ps(p, x);
}
HALO_INLINE halo_vfloat v_fzero(void)
{
    return _mm256_setzero_ps();
}
HALO_INLINE halo_vfloat v_fset(float x)
{
    return _mm256_set1_ps(x);
}
HALO_INLINE halo_vfloat v_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
HALO_INLINE halo_vfloat v_float(halo_vint x)
{
    return _mm256_cvtepi32_ps(x);
}
HALO_INLINE halo_vfloat v_from_bits(halo_vint x)
{
    return _mm256_castsi256_ps(x);
}
HALO_INLINE halo_vfloat v_fadd(halo_vfloat a, halo_vfloat b)
{
    return _mm256_add_ps(a, b);
}
HALO_INLINE halo_vfloat v_fneg(halo_vfloat a)
{
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}
HALO_INLINE halo_vfloat v_fmul(halo_vfloat a, halo_vfloat b)
{
    return _mm256_mul_ps(a, b);
}
HALO_INLINE halo_vfloat v_fma(halo_vfloat a, halo_vfloat b, halo_vfloat c)
{
    return _mm256_fmadd_ps(a, b, c);
}
HALO_INLINE halo_vfloat v_fnma(halo_vfloat a, halo_vfloat b, halo_vfloat c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

/* table[x] for every byte x < 16. */
HALO_INLINE halo_vint v_lookup(const int8_t table[16], halo_vint x)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), x);
}

/* 2^(e - 128): see halo_e8m0_float_half(). */
HALO_INLINE halo_vfloat v_e8m0_half(halo_vint e)
{
    __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

HALO_INLINE halo_vint v_add8(halo_vint a, halo_vint b)
{
    return _mm256_add_epi8(a, b);
}
/* a - b, or 0 where b is larger: unsigned bytes. */
HALO_INLINE halo_vint v_sub_or_0(halo_vint a, halo_vint b)
{
    return _mm256_subs_epu8(a, b);
}
HALO_INLINE halo_vint v_min_u8(halo_vint a, halo_vint b)
{
    return _mm256_min_epu8(a, b);
}
/* table[x] for every 32-bit lane. */
HALO_INLINE halo_vint v_gather(const uint32_t *table, halo_vint x)
{
    return _mm256_i32gather_epi32((const int *)table, x, 4);
}
/* The bytes of x, negated where the top bit of the byte of `signs` is set. */
HALO_INLINE halo_vint v_negate(halo_vint x, halo_vint signs)
{
    return _mm256_sign_epi8(x, _mm256_or_si256(signs, _mm256_set1_epi8(1)));
}
/* The low half of each lane, an f16. */
HALO_INLINE halo_vfloat v_low_f16(halo_vint x)
{
    __m256i words = _mm256_packus_epi32(x, x);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(words, 0x08)));
}

#endif
