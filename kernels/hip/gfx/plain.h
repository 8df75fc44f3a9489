/* plain.h: F32, F16 and BF16 weights, 16 bytes of a row at a time, times f32 rows of x in f32. */
#ifndef HALO_GFX_PLAIN_H
#define HALO_GFX_PLAIN_H

#include "gfx.h"

template <uint32_t TYPE> struct gemv_plain_code;
template <> struct gemv_plain_code<HALO_TYPE_F32> {
    static constexpr uint32_t CHUNK = 4;
    HALO_DEVICE float weight(const halo_u4 &w, uint32_t i)
    {
        return halo_bits_float(w.e[i]);
    }
    HALO_DEVICE float one(const uint8_t *row, uint32_t i)
    {
        return halo_load<float>(row, i);
    }
};
template <> struct gemv_plain_code<HALO_TYPE_F16> {
    static constexpr uint32_t CHUNK = 8;
    HALO_DEVICE float weight(const halo_u4 &w, uint32_t i)
    {
        return halo_half_float((uint16_t)(w.e[i / 2] >> i % 2 * 16));
    }
    HALO_DEVICE float one(const uint8_t *row, uint32_t i)
    {
        return halo_half_float(halo_load<uint16_t>(row, i));
    }
};
template <> struct gemv_plain_code<HALO_TYPE_BF16> {
    static constexpr uint32_t CHUNK = 8;
    HALO_DEVICE float weight(const halo_u4 &w, uint32_t i)
    {
        return halo_bits_float(i % 2 ? w.e[i / 2] & 0xffff0000 : w.e[i / 2] << 16);
    }
    HALO_DEVICE float one(const uint8_t *row, uint32_t i)
    {
        return halo_bits_float((uint32_t)halo_load<uint16_t>(row, i) << 16);
    }
};

/* CHUNK products; ALIGNED: x is in memory, aligned to 16 bytes as rows are where n_cols is a multiple of four. */
template <typename CODE, bool ALIGNED> HALO_DEVICE float gemv_chunk(const halo_u4 &w, const float *x, float acc)
{
#pragma unroll
    for (uint32_t i = 0; i < CODE::CHUNK; i += 4) {
        halo_f4 v;
        if (ALIGNED)
            v = halo_load<halo_f4>(x + i);
        else
            v = halo_f4{{x[i], x[i + 1], x[i + 2], x[i + 3]}};
        for (uint32_t k = 0; k < 4; k++)
            acc = halo_fma(CODE::weight(w, i + k), v.e[k], acc);
    }
    return acc;
}

#endif
