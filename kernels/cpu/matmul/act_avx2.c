/* act_avx2.c: 32 activations to int8, with AVX2 (also what the AVX-512 kernels use: one row is little work). Pure. */
#include <immintrin.h>

#include "act_priv.h"
#include "float_priv.h"

static uint32_t largest_bits(const __m256 *v)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_and_si256(_mm256_castps_si256(v[0]), magnitude);
    for (int i = 1; i < 4; i++)
        most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

static int sum_of_16(__m256i bytes_as_16)
{
    __m256i pairs = _mm256_madd_epi16(bytes_as_16, _mm256_set1_epi16(1));
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

void halo_act_block_avx2(const float *x, struct halo_act_block *ret)
{
    __m256 v[4];
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_loadu_ps(x + 8 * i);
    uint32_t amax_bits = largest_bits(v);
    if (amax_bits >= 0x7f800000) {
        halo_act_block_poison(ret);
        return;
    }
    float amax = halo_bits_float(amax_bits);
    if (amax < HALO_ACT_TINY) {
        *ret = (struct halo_act_block){0};
        return;
    }
    const __m256 scale = _mm256_set1_ps(127 / amax);
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], scale));
    /* The packs work inside 128-bit halves: put the quarters back in order. */
    __m256i first = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8);
    __m256i second = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[2], q[3]), 0xd8);
    _mm256_store_si256((__m256i *)ret->q, _mm256_permute4x64_epi64(_mm256_packs_epi16(first, second), 0xd8));
    int sum[2] = {sum_of_16(first), sum_of_16(second)};
    ret->d = amax / 127;
    ret->neg_sum = -(sum[0] + sum[1]);
    ret->dsum = ret->d * (float)-ret->neg_sum;
    for (int half = 0; half < 2; half++) {
        ret->neg_sum16[half] = -sum[half];
        ret->sum16[half] = (int16_t)sum[half];
    }
    memset(ret->unused, 0, sizeof ret->unused);
}
