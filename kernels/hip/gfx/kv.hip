/* kv.hip: stores k and v of a row into the page of its position. A block takes one kv head of one row, a thread one element. */
#include "kv.h"

/* int8 and scale of the 32 elements that the lanes of the wave hold: x = scale * q, the scale an f16. A group with a NaN or an infinity reads
 * back as such. */
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

/* Element d of a K head lies in chunk d / kv_chunk, of a V head in its row. */
template <uint32_t TYPE, bool VALUE>
HALO_DEVICE void store_head(uint8_t *head, const float *x, uint32_t dim, uint32_t position)
{
    constexpr uint32_t chunk = kv_chunk<TYPE>;
    for (uint32_t base = halo_wave() * 32; base < dim; base += 128) {
        const uint32_t d = base + halo_lane(), at = VALUE ? position * dim + d : (d / chunk * KV_PAGE + position) * chunk + d % chunk;
        const float v = d < dim ? x[d] : 0;
        if constexpr (TYPE == HALO_KV_Q8) {
            uint16_t scale;
            reinterpret_cast<int8_t *>(head)[at] = quantize_group(v, &scale);
            uint16_t *scales = reinterpret_cast<uint16_t *>(head + KV_PAGE * dim);
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

template <uint32_t TYPE> HALO_DEVICE void write(const halo_kv_write_args &a)
{
    const uint32_t head = halo_block_x(), row = halo_block_y();
    const int32_t pos = a.kv.pos[row];
    if (pos < 0)
        return;
    uint8_t *page = kv_page(a.kv, row, (uint32_t)pos);
    const uint64_t index = (uint64_t)row * a.kv.n_head_kv + head;
    store_head<TYPE, false>(kv_head_k<TYPE>(a.kv, page, head), a.k + index * a.kv.head_dim_k, a.kv.head_dim_k, (uint32_t)pos % KV_PAGE);
    store_head<TYPE, true>(kv_head_v<TYPE>(a.kv, page, head), a.v + index * a.kv.head_dim_v, a.kv.head_dim_v, (uint32_t)pos % KV_PAGE);
}

HALO_KERNEL(kv_write_f32, halo_kv_write_args, 128) { write<HALO_KV_F32>(a); }
HALO_KERNEL(kv_write_f16, halo_kv_write_args, 128) { write<HALO_KV_F16>(a); }
HALO_KERNEL(kv_write_q8, halo_kv_write_args, 128) { write<HALO_KV_Q8>(a); }
