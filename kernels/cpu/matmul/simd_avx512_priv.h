/* simd_avx512_priv.h: the operations of simd_priv.h on 512 bits: AVX-512 F, BW, VL, DQ, VNNI. */
#ifndef HALO_CPU_SIMD_AVX512_PRIV_H
#define HALO_CPU_SIMD_AVX512_PRIV_H

#define HALO_LANES 16
#define HALO_SIMD(name) name##_avx512

typedef __m512i halo_vint;
typedef __m512 halo_vfloat;

HALO_INLINE halo_vint v_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
HALO_INLINE halo_vint v_zero(void)
{
    return _mm512_setzero_si512();
}
HALO_INLINE halo_vint v_set8(int x)
{
    return _mm512_set1_epi8((char)x);
}
HALO_INLINE halo_vint v_set32(int32_t x)
{
    return _mm512_set1_epi32(x);
}
HALO_INLINE halo_vint v_and(halo_vint a, halo_vint b)
{
    return _mm512_and_si512(a, b);
}
HALO_INLINE halo_vint v_or(halo_vint a, halo_vint b)
{
    return _mm512_or_si512(a, b);
}
HALO_INLINE halo_vint v_xor(halo_vint a, halo_vint b)
{
    return _mm512_xor_si512(a, b);
}
HALO_INLINE halo_vint v_add32(halo_vint a, halo_vint b)
{
    return _mm512_add_epi32(a, b);
}
HALO_INLINE halo_vint v_sub32(halo_vint a, halo_vint b)
{
    return _mm512_sub_epi32(a, b);
}
HALO_INLINE halo_vint v_srl16(halo_vint a, unsigned n)
{
    return _mm512_srl_epi16(a, _mm_cvtsi32_si128((int)n));
}
HALO_INLINE halo_vint v_sll16(halo_vint a, unsigned n)
{
    return _mm512_sll_epi16(a, _mm_cvtsi32_si128((int)n));
}
HALO_INLINE halo_vint v_srl32(halo_vint a, unsigned n)
{
    return _mm512_srl_epi32(a, _mm_cvtsi32_si128((int)n));
}
HALO_INLINE halo_vint v_sll32(halo_vint a, unsigned n)
{
    return _mm512_sll_epi32(a, _mm_cvtsi32_si128((int)n));
}
HALO_INLINE halo_vint v_sra32(halo_vint a, unsigned n)
{
    return _mm512_sra_epi32(a, _mm_cvtsi32_si128((int)n));
}
/* Sums of products of neighbouring 16-bit numbers. */
HALO_INLINE halo_vint v_madd16(halo_vint a, halo_vint b)
{
    return _mm512_madd_epi16(a, b);
}
HALO_INLINE halo_vint v_u8(const void *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
HALO_INLINE halo_vint v_u16(const void *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

HALO_INLINE halo_vfloat v_fload(const float *p)
{
    return _mm512_loadu_ps(p);
}
HALO_INLINE void v_fstore(float *p, halo_vfloat x)
{
    _mm512_storeu_ps(p, x);
}
HALO_INLINE halo_vfloat v_fzero(void)
{
    return _mm512_setzero_ps();
}
HALO_INLINE halo_vfloat v_fset(float x)
{
    return _mm512_set1_ps(x);
}
HALO_INLINE halo_vfloat v_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
HALO_INLINE halo_vfloat v_float(halo_vint x)
{
    return _mm512_cvtepi32_ps(x);
}
HALO_INLINE halo_vfloat v_from_bits(halo_vint x)
{
    return _mm512_castsi512_ps(x);
}
HALO_INLINE halo_vfloat v_fadd(halo_vfloat a, halo_vfloat b)
{
    return _mm512_add_ps(a, b);
}
HALO_INLINE halo_vfloat v_fneg(halo_vfloat a)
{
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}
HALO_INLINE halo_vfloat v_fmul(halo_vfloat a, halo_vfloat b)
{
    return _mm512_mul_ps(a, b);
}
HALO_INLINE halo_vfloat v_fma(halo_vfloat a, halo_vfloat b, halo_vfloat c)
{
    return _mm512_fmadd_ps(a, b, c);
}
HALO_INLINE halo_vfloat v_fnma(halo_vfloat a, halo_vfloat b, halo_vfloat c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

/* table[x] for every byte x < 16. */
HALO_INLINE halo_vint v_lookup(const int8_t table[16], halo_vint x)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), x);
}

/* 2^(e - 128): see halo_e8m0_float_half(). */
HALO_INLINE halo_vfloat v_e8m0_half(halo_vint e)
{
    __m512i subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi32(normal, _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(2), e), subnormal));
}

HALO_INLINE halo_vint v_add8(halo_vint a, halo_vint b)
{
    return _mm512_add_epi8(a, b);
}
/* a - b, or 0 where b is larger: unsigned bytes. */
HALO_INLINE halo_vint v_sub_or_0(halo_vint a, halo_vint b)
{
    return _mm512_subs_epu8(a, b);
}
HALO_INLINE halo_vint v_min_u8(halo_vint a, halo_vint b)
{
    return _mm512_min_epu8(a, b);
}
/* table[x] for every 32-bit lane. */
HALO_INLINE halo_vint v_gather(const uint32_t *table, halo_vint x)
{
    return _mm512_i32gather_epi32(x, table, 4);
}
/* The bytes of x, negated where the top bit of the byte of `signs` is set. */
HALO_INLINE halo_vint v_negate(halo_vint x, halo_vint signs)
{
    return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(signs), _mm512_setzero_si512(), x);
}
/* The low half of each lane, an f16. */
HALO_INLINE halo_vfloat v_low_f16(halo_vint x)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
}

#endif
