/* kv.h: the cache's pages as device code sees them (layout.h): where the rows of a head are and how their elements
 * read. */
#ifndef HALO_GFX_KV_H
#define HALO_GFX_KV_H

#include "gfx.h"
#include <kernels/tensor.h>

constexpr uint32_t KV_PAGE = 32; /* positions of a page: one to a lane */

constexpr float LOG2_E = 1.44269504f; /* scores are in units of log2 */

/* The first position that a row at `pos` sees. */
HALO_DEVICE uint32_t kv_lowest(const halo_score_arg &score, int32_t pos)
{
    return score.window > 0 && pos >= (int32_t)score.window ? (uint32_t)pos + 1 - score.window : 0;
}

/* What q of a row at `pos` is multiplied by. */
HALO_DEVICE float kv_score_scale(const halo_score_arg &score, int32_t pos)
{
    float scale = score.scale * LOG2_E;
    if (score.temperature > 0)
        scale *= halo_fma(score.temperature / LOG2_E, halo_log2((float)(1 + (uint32_t)pos / score.period)), 1);
    return scale;
}

/* What a head's sink adds to the sum of its softmax. Beyond the range of a float it is all there is, and the quotient
 * 0. */
HALO_DEVICE float kv_sink(const halo_score_arg &score, uint32_t head, float max)
{
    return score.sinks ? halo_exp2(score.sinks[head] * LOG2_E - max) : 0;
}

/* The page of position `pos` of the row, NULL for a row that is padding. */
HALO_DEVICE uint8_t *kv_page(const halo_kv_arg &kv, uint32_t row, uint32_t pos)
{
    return kv.base + kv.pages[kv.page_first[row] + pos / KV_PAGE] * kv.page_bytes;
}

template <uint32_t TYPE> HALO_DEVICE uint8_t *kv_head_k(const halo_kv_arg &kv, uint8_t *page, uint32_t head)
{
    return page + head * halo_hip_kv_head_bytes(TYPE, kv.head_dim_k);
}

template <uint32_t TYPE> HALO_DEVICE uint8_t *kv_head_v(const halo_kv_arg &kv, uint8_t *page, uint32_t head)
{
    return page + kv.n_head_kv * halo_hip_kv_head_bytes(TYPE, kv.head_dim_k) +
           head * halo_hip_kv_head_bytes(TYPE, kv.head_dim_v);
}

/* Elements of a chunk of 16 bytes of K. */
template <uint32_t TYPE>
constexpr uint32_t kv_chunk = TYPE == HALO_KV_F32   ? 4
                              : TYPE == HALO_KV_F16 ? 8
                              : TYPE == HALO_KV_Q8  ? 16
                                                    : 32;

/* Whether 32 elements have a scale, and where the scales of a head of a page begin. */
template <uint32_t TYPE> constexpr bool kv_scaled = TYPE == HALO_KV_Q8 || TYPE == HALO_KV_Q4;
template <uint32_t TYPE> HALO_DEVICE uint32_t kv_scales_at(uint32_t dim)
{
    return KV_PAGE * dim / (TYPE == HALO_KV_Q4 ? 2 : 1);
}

template <uint32_t TYPE> HALO_DEVICE float kv_element(const halo_u4 &chunk, uint32_t i)
{
    switch (TYPE) {
    case HALO_KV_F32: return halo_bits_float(chunk.e[i]);
    case HALO_KV_F16: return halo_half_float((uint16_t)(chunk.e[i / 2] >> i % 2 * 16));
    case HALO_KV_Q8: return (float)(int8_t)(chunk.e[i / 4] >> i % 4 * 8);
    default: return (float)((int)(chunk.e[i / 8] >> i % 8 * 4 & 15) - 8);
    }
}

/* N neighbouring elements of a V row (a multiple of four) as they lie in a page of `n_rows` rows, and as numbers. */
template <uint32_t TYPE, int N> struct kv_values;
template <int N> struct kv_values<HALO_KV_F32, N> {
    halo_f4 e[N / 4];
    HALO_DEVICE_MEMBER void load(const uint8_t *head, uint32_t dim, uint32_t position, uint32_t first,
                                 uint32_t = KV_PAGE)
    {
        for (uint32_t i = 0; i < N / 4; i++)
            e[i] = halo_load<halo_f4>(head + ((uint64_t)position * dim + first) * 4, i);
    }
    HALO_DEVICE_MEMBER float get(int i) const
    {
        return e[i / 4].e[i % 4];
    }
};
template <int N> struct kv_values<HALO_KV_F16, N> {
    halo_u2 e[N / 4];
    HALO_DEVICE_MEMBER void load(const uint8_t *head, uint32_t dim, uint32_t position, uint32_t first,
                                 uint32_t = KV_PAGE)
    {
        for (uint32_t i = 0; i < N / 4; i++)
            e[i] = halo_load<halo_u2>(head + (position * dim + first) * 2, i);
    }
    HALO_DEVICE_MEMBER float get(int i) const
    {
        return halo_half_float((uint16_t)(e[i / 4].e[i / 2 % 2] >> i % 2 * 16));
    }
};
template <int N> struct kv_values<HALO_KV_Q8, N> {
    uint32_t e[N / 4];
    uint16_t scale;
    HALO_DEVICE_MEMBER void load(const uint8_t *head, uint32_t dim, uint32_t position, uint32_t first,
                                 uint32_t n_rows = KV_PAGE)
    {
        scale = halo_load<uint16_t>(head + n_rows * dim, position * (dim / 32) + first / 32);
        for (uint32_t i = 0; i < N / 4; i++)
            e[i] = halo_load<uint32_t>(head + position * dim + first, i);
    }
    HALO_DEVICE_MEMBER float get(int i) const
    {
        return (float)(int8_t)(e[i / 4] >> i % 4 * 8) * halo_half_float(scale);
    }
};
template <int N> struct kv_values<HALO_KV_Q4, N> {
    static_assert(N == 4 || N == 8 || N == 16, "one load");
    uint32_t e[N == 16 ? 2 : 1];
    uint16_t scale;
    HALO_DEVICE_MEMBER void load(const uint8_t *head, uint32_t dim, uint32_t position, uint32_t first,
                                 uint32_t n_rows = KV_PAGE)
    {
        const uint8_t *at = head + (position * dim + first) / 2;
        scale = halo_load<uint16_t>(head + n_rows * dim / 2, position * (dim / 32) + first / 32);
        if constexpr (N == 16) {
            const halo_u2 both = halo_load<halo_u2>(at);
            e[0] = both.e[0];
            e[1] = both.e[1];
        } else {
            e[0] = N == 8 ? halo_load<uint32_t>(at) : halo_load<uint16_t>(at);
        }
    }
    HALO_DEVICE_MEMBER float get(int i) const
    {
        return (float)((int)(e[i / 8] >> i % 8 * 4 & 15) - 8) * halo_half_float(scale);
    }
};

#endif
