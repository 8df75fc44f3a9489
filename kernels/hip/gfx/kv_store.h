/* kv_store.h: a head's K or V into its place in a page. */
#ifndef HALO_GFX_KV_STORE_H
#define HALO_GFX_KV_STORE_H

#include "kv.h"

/* int8 and scale of the 32 elements that the lanes of the wave hold: x = scale * q, the scale an f16. A group with a
 * NaN or an infinity reads back as such. */
HALO_DEVICE int8_t quantize_group(float x, uint16_t *ret_scale)
{
    float max = halo_wave_max(halo_abs(x)), nan = halo_wave_sum(x * 0);
    max = nan == 0 ? max : nan;
    *ret_scale = halo_float_half(max / 127);
    const float scale = halo_half_float(*ret_scale);
    if (!(scale > 0 && scale < 65536))
        return scale == 0 ? 0 : 1;
    const float q = halo_rint(x / scale);
    return (int8_t)(int)(q < -127 ? -127 : q > 127 ? 127 : q);
}

/* Four bits, and the scale, likewise: x = scale * (q - 8), and the element that is largest in magnitude, the first of
 * several, has q = 0. */
HALO_DEVICE uint32_t quantize_nibble(float x, uint16_t *ret_scale)
{
    const float max = halo_wave_max(halo_abs(x)), nan = halo_wave_sum(x * 0);
    const uint32_t first = halo_wave_least(halo_abs(x) == max ? halo_lane() : 31u);
    *ret_scale = halo_float_half(nan == 0 ? halo_shuffle(x, first) / -8 : nan);
    const float scale = halo_half_float(*ret_scale), most = halo_abs(scale);
    if (!(most > 0 && most < 65536))
        return scale == 0 ? 8 : 9;
    const float q = halo_rint(x / scale) + 8;
    return (uint32_t)(q < 0 ? 0 : q > 15 ? 15 : q);
}

/* Elements begin + lane, begin + step + lane, ... of the head. Element d of a K head lies in chunk d / kv_chunk, of a V
 * head in its row, of the n_rows of the page. */
template <uint32_t TYPE, bool VALUE>
HALO_DEVICE void store_head(uint8_t *head, const float *x, uint32_t dim, uint32_t position, uint32_t begin,
                            uint32_t step, uint32_t n_rows = KV_PAGE)
{
    constexpr uint32_t chunk = kv_chunk<TYPE>;
    for (uint32_t base = begin; base < dim; base += step) {
        const uint32_t d = base + halo_lane(),
                       at = VALUE ? position * dim + d : (d / chunk * KV_PAGE + position) * chunk + d % chunk;
        const float v = d < dim ? x[d] : 0;
        if constexpr (TYPE == HALO_KV_Q8) {
            uint16_t scale;
            reinterpret_cast<int8_t *>(head)[at] = quantize_group(v, &scale);
            uint16_t *scales = reinterpret_cast<uint16_t *>(head + n_rows * dim);
            if (halo_lane() == 0)
                scales[VALUE ? position * (dim / 32) + d / 32 : d / 32 * KV_PAGE + position] = scale;
        } else if constexpr (TYPE == HALO_KV_Q4) {
            uint16_t scale;
            const uint32_t q = quantize_nibble(v, &scale), next = (uint32_t)halo_xor<1>((int)q);
            uint16_t *scales = reinterpret_cast<uint16_t *>(head + kv_scales_at<TYPE>(dim));
            if (halo_lane() % 2 == 0)
                head[at / 2] = (uint8_t)(q | next << 4);
            if (halo_lane() == 0)
                scales[VALUE ? position * (dim / 32) + d / 32 : d / 32 * KV_PAGE + position] = scale;
        } else if (d < dim) {
            if constexpr (TYPE == HALO_KV_F16)
                reinterpret_cast<uint16_t *>(head)[at] = halo_float_half(v);
            else
                reinterpret_cast<float *>(head)[at] = v;
        }
    }
}

#endif
