/* kv_half.h: elements of a cache in 8 and 4 bits as halves, two at a time: a few bits below the byte 0x64 are the half
 * 1024 + n, which one packed subtraction and one packed product make the element. One rounding, that of the product. */
#ifndef HALO_GFX_KV_HALF_H
#define HALO_GFX_KV_HALF_H

#include "kv.h"

HALO_DEVICE uint32_t kv_scale_pair(uint16_t scale)
{
    return scale | (uint32_t)scale << 16;
}

/* Four bytes as whole numbers: 0 and 1, 2 and 3 share a word. */
HALO_DEVICE void kv_bytes_whole(uint32_t bytes, uint32_t *ret)
{
    const uint32_t q = bytes ^ 0x80808080;
    ret[0] = halo_pair_add(halo_permute(0x64646464, q, 0x04010400), 0xe480e480);
    ret[1] = halo_pair_add(halo_permute(0x64646464, q, 0x04030402), 0xe480e480);
}

/* Eight nibbles as whole numbers: 0 and 4, 1 and 5, 2 and 6, 3 and 7 share a word. */
HALO_DEVICE void kv_nibbles_whole(uint32_t nibbles, uint32_t *ret)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        ret[i] = halo_pair_add((nibbles >> 4 * i & 0x000f000f) | 0x64006400, 0xe408e408);
}

HALO_DEVICE void kv_bytes_half(uint32_t bytes, uint32_t scale_pair, uint32_t *ret)
{
    kv_bytes_whole(bytes, ret);
#pragma unroll
    for (int i = 0; i < 2; i++)
        ret[i] = halo_pair_fma(ret[i], scale_pair, 0);
}

HALO_DEVICE void kv_nibbles_half(uint32_t nibbles, uint32_t scale_pair, uint32_t *ret)
{
    kv_nibbles_whole(nibbles, ret);
#pragma unroll
    for (int i = 0; i < 4; i++)
        ret[i] = halo_pair_fma(ret[i], scale_pair, 0);
}

/* Where element e of eight stands among their halves. */
template <uint32_t TYPE> HALO_DEVICE uint32_t kv_half_place(uint32_t e)
{
    return TYPE == HALO_KV_Q4 ? e % 4 * 2 + e / 4 : e;
}

/* A chunk of K as halves, eight elements to each of ret. */
template <uint32_t TYPE> HALO_DEVICE void kv_chunk_half(const halo_u4 &chunk, uint16_t scale, halo_u4 *ret)
{
    static_assert(TYPE != HALO_KV_F32, "the others");
    const uint32_t pair = kv_scale_pair(scale);
    if constexpr (TYPE == HALO_KV_F16)
        *ret = chunk;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if constexpr (TYPE == HALO_KV_Q8)
            kv_bytes_half(chunk.e[i], pair, ret[i / 2].e + i % 2 * 2);
        else if constexpr (TYPE == HALO_KV_Q4)
            kv_nibbles_half(chunk.e[i], pair, ret[i].e);
}

/* The same without their scale, as whole numbers; of f16 what they are. */
template <uint32_t TYPE> HALO_DEVICE void kv_chunk_whole(const halo_u4 &chunk, halo_u4 *ret)
{
    static_assert(TYPE != HALO_KV_F32, "the others");
    if constexpr (TYPE == HALO_KV_F16)
        *ret = chunk;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if constexpr (TYPE == HALO_KV_Q8)
            kv_bytes_whole(chunk.e[i], ret[i / 2].e + i % 2 * 2);
        else if constexpr (TYPE == HALO_KV_Q4)
            kv_nibbles_whole(chunk.e[i], ret[i].e);
}

/* Eight neighbouring elements of a V row as halves. */
template <uint32_t TYPE> HALO_DEVICE halo_u4 kv_eight_half(const kv_values<TYPE, 8> &v)
{
    static_assert(TYPE != HALO_KV_F32, "the others");
    halo_u4 ret;
    if constexpr (TYPE == HALO_KV_F16) {
        ret = halo_u4{{v.e[0].e[0], v.e[0].e[1], v.e[1].e[0], v.e[1].e[1]}};
    } else if constexpr (TYPE == HALO_KV_Q8) {
        kv_bytes_half(v.e[0], kv_scale_pair(v.scale), ret.e);
        kv_bytes_half(v.e[1], kv_scale_pair(v.scale), ret.e + 2);
    } else {
        kv_nibbles_half(v.e[0], kv_scale_pair(v.scale), ret.e);
    }
    return ret;
}

/* The first halves of two words, and their second ones. */
HALO_DEVICE uint32_t kv_first_halves(uint32_t left, uint32_t right)
{
    return halo_permute(right, left, 0x05040100);
}
HALO_DEVICE uint32_t kv_second_halves(uint32_t left, uint32_t right)
{
    return halo_permute(right, left, 0x07060302);
}

/* The same N elements of two V rows as halves: element i of both shares word i. */
template <uint32_t TYPE, int N>
HALO_DEVICE void kv_rows_half(const kv_values<TYPE, N> &first, const kv_values<TYPE, N> &second, uint32_t (&ret)[N])
{
    static_assert(TYPE != HALO_KV_F32, "the others");
    if constexpr (TYPE == HALO_KV_F16) {
#pragma unroll
        for (uint32_t i = 0; i < N / 2; i++) {
            const uint32_t a = first.e[i / 2].e[i % 2], b = second.e[i / 2].e[i % 2];
            ret[2 * i] = kv_first_halves(a, b);
            ret[2 * i + 1] = kv_second_halves(a, b);
        }
    } else {
        const uint32_t scales = first.scale | (uint32_t)second.scale << 16;
#pragma unroll
        for (uint32_t i = 0; i < N / 4; i++) {
            if constexpr (TYPE == HALO_KV_Q8) {
                kv_bytes_half(halo_permute(second.e[i], first.e[i], 0x05010400), scales, ret + 4 * i);
                kv_bytes_half(halo_permute(second.e[i], first.e[i], 0x07030602), scales, ret + 4 * i + 2);
            } else {
                const uint32_t a = first.e[i / 2], b = second.e[i / 2];
                kv_nibbles_half(i % 2 ? kv_second_halves(a, b) : kv_first_halves(a, b), scales, ret + 4 * i);
            }
        }
    }
}

#endif
