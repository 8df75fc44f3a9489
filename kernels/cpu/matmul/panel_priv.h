/* panel_priv.h: 32 columns of HALO_LANES rows in registers, unpacked from any quantized type (those with
 * code books and those of one and two bits: panel_codes_priv.h).
 *
 * w[q] holds columns 4q .. 4q + 3 of every row, one row in each 32-bit lane. An unpacker takes the packed block, the
 * number of the slab of 32 columns in it, and the byte offset of its lanes in a row of units (0, or 32 for the second
 * half of a group on 256-bit registers). It is always inlined with constants, so that unused fields cost nothing.
 */
#ifndef HALO_CPU_PANEL_PRIV_H
#define HALO_CPU_PANEL_PRIV_H

#include <stdbool.h>

#include <kernels/quant.h>

#include "simd_priv.h"

#define HALO_QUADS 8 /* of a slab */

struct halo_panel {
    halo_vint w[HALO_QUADS];
    halo_vfloat scale, min; /* as in struct halo_slab, one row in each lane */
    halo_vint sub[2], sub_min[2];
    halo_vfloat float_sub[2];
};

/* What is constant about a type. */
struct halo_panel_shape {
    uint16_t block_bytes; /* of the file: the packed block is 16 times as long */
    uint8_t n_slabs;      /* of a block */
    bool is_signed;       /* w holds numbers from -top to top; otherwise from 0 to `top`, with `offset` to subtract */
    uint8_t offset_shift; /* the offset is 1 << offset_shift; 0: none */
    uint8_t top;
    bool halves; /* sub[] counts */
    bool min, min_halves;
    bool float_halves; /* with halves: float_sub[] counts instead of sub[] */
};

HALO_INLINE void put_nibble_quads(const uint8_t *p, struct halo_panel *ret)
{
    for (int q = 0; q < 4; q++) {
        halo_vint x = v_load(p + 64 * q);
        ret->w[q] = v_bits(x, 0, 15);
        ret->w[q + 4] = v_bits(x, 4, 15);
    }
}

/* One word of fifth bits for each row, spread: bit q of a byte belongs to quad q. */
HALO_INLINE void add_fifth_bit_quads(const uint8_t *p, struct halo_panel *ret)
{
    halo_vint qh = v_load(p);
    HALO_UNROLL
    for (unsigned q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_or(ret->w[q], v_moved_bits(qh, q, 4, 1));
}

HALO_INLINE void look_up_quads(const int8_t table[16], struct halo_panel *ret)
{
    for (int q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_lookup(table, ret->w[q]);
}

HALO_INLINE void panel_q4_0(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    put_nibble_quads(block + lanes, ret);
    ret->scale = v_f16(block + 256 + lanes / 2);
}

HALO_INLINE void panel_q4_1(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    put_nibble_quads(block + lanes, ret);
    ret->scale = v_f16(block + 256 + lanes / 2);
    ret->min = v_f16(block + 288 + lanes / 2);
}

HALO_INLINE void panel_q5_0(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    put_nibble_quads(block + lanes, ret);
    add_fifth_bit_quads(block + 256 + lanes, ret);
    ret->scale = v_f16(block + 320 + lanes / 2);
}

HALO_INLINE void panel_q5_1(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    put_nibble_quads(block + lanes, ret);
    add_fifth_bit_quads(block + 256 + lanes, ret);
    ret->scale = v_f16(block + 320 + lanes / 2);
    ret->min = v_f16(block + 352 + lanes / 2);
}

HALO_INLINE void panel_q8_0(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    for (int q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_load(block + 64 * q + lanes);
    ret->scale = v_f16(block + 512 + lanes / 2);
}

HALO_INLINE void panel_iq4_nl(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    static const int8_t table[16] = HALO_IQ4_NL_VALUES;
    put_nibble_quads(block + lanes, ret);
    look_up_quads(table, ret);
    ret->scale = v_f16(block + 256 + lanes / 2);
}

/* The elements plus 16: 4 .. 28. */
#define HALO_MXFP4_VALUES2_PLUS_16                                                                                     \
    {                                                                                                                  \
        16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4                                                   \
    }

HALO_INLINE void panel_mxfp4(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    static const int8_t table[16] = HALO_MXFP4_VALUES2_PLUS_16;
    put_nibble_quads(block + lanes, ret);
    look_up_quads(table, ret);
    ret->scale = v_e8m0_half(v_u8(block + 256 + lanes / 4));
}

/* Byte `index` of packed scale bytes that lie as 4-byte units. */
HALO_INLINE halo_vint scale_byte(const uint8_t *scales, unsigned index, unsigned shift, int mask)
{
    return v_and(v_srl32(v_load(scales + index / 4 * 64), index % 4 * 8 + shift), v_set32(mask));
}

HALO_INLINE void panel_q2_k(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    for (unsigned q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_bits(v_load(block + slab / 4 * 512 + 64 * q + lanes), slab % 4 * 2, 3);
    for (unsigned half = 0; half < 2; half++) {
        ret->sub[half] = scale_byte(block + 1024 + lanes, 2 * slab + half, 0, 15);
        ret->sub_min[half] = scale_byte(block + 1024 + lanes, 2 * slab + half, 4, 15);
    }
    ret->scale = v_f16(block + 1280 + lanes / 2);
    ret->min = v_f16(block + 1312 + lanes / 2);
}

HALO_INLINE void panel_q3_k(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    for (unsigned q = 0; q < HALO_QUADS; q++) {
        halo_vint low = v_bits(v_load(block + slab / 4 * 512 + 64 * q + lanes), slab % 4 * 2, 3);
        ret->w[q] = v_or(low, v_moved_bits(v_load(block + 1024 + 64 * q + lanes), slab, 2, 1));
    }
    for (unsigned half = 0; half < 2; half++) {
        unsigned i = 2 * slab + half;
        halo_vint low = scale_byte(block + 1536 + lanes, i % 8, i / 8 * 4, 15);
        halo_vint high = scale_byte(block + 1536 + lanes, 8 + i % 4, i / 4 * 2, 3);
        ret->sub[half] = v_sub32(v_or(low, v_sll32(high, 4)), v_set32(32));
    }
    ret->scale = v_f16(block + 1728 + lanes / 2);
}

/* Scale and minimum of Q4_K and Q5_K: the 12 bytes at `scales`, then d and dmin. */
HALO_INLINE void put_k_scales(const uint8_t *scales, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    const uint8_t *bytes = scales + lanes;
    halo_vint scale, min;
    if (slab < 4) {
        scale = scale_byte(bytes, slab, 0, 63);
        min = scale_byte(bytes, slab + 4, 0, 63);
    } else {
        scale = v_or(scale_byte(bytes, slab + 4, 0, 15), v_sll32(scale_byte(bytes, slab - 4, 6, 3), 4));
        min = v_or(scale_byte(bytes, slab + 4, 4, 15), v_sll32(scale_byte(bytes, slab, 6, 3), 4));
    }
    ret->scale = v_fmul(v_f16(scales + 192 + lanes / 2), v_float(scale));
    ret->min = v_fneg(v_fmul(v_f16(scales + 224 + lanes / 2), v_float(min)));
}

HALO_INLINE void panel_q4_k(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    for (unsigned q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_bits(v_load(block + slab / 2 * 512 + 64 * q + lanes), slab % 2 * 4, 15);
    put_k_scales(block + 2048, slab, lanes, ret);
}

HALO_INLINE void panel_q5_k(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    for (unsigned q = 0; q < HALO_QUADS; q++) {
        halo_vint low = v_bits(v_load(block + slab / 2 * 512 + 64 * q + lanes), slab % 2 * 4, 15);
        ret->w[q] = v_or(low, v_moved_bits(v_load(block + 2048 + 64 * q + lanes), slab, 4, 1));
    }
    put_k_scales(block + 2560, slab, lanes, ret);
}

HALO_INLINE void panel_q6_k(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    const uint8_t *ql = block + (slab / 4 * 16 + slab % 2 * 8) * 64 + lanes;
    const uint8_t *qh = block + 2048 + slab / 4 * 512 + lanes;
    for (unsigned q = 0; q < HALO_QUADS; q++) {
        halo_vint low = v_bits(v_load(ql + 64 * q), slab % 4 / 2 * 4, 15);
        ret->w[q] = v_or(low, v_moved_bits(v_load(qh + 64 * q), slab % 4 * 2, 4, 3));
    }
    for (unsigned half = 0; half < 2; half++) {
        unsigned i = 2 * slab + half;
        ret->sub[half] = v_sra32(v_sll32(v_load(block + 3072 + i / 4 * 64 + lanes), 24 - i % 4 * 8), 24);
    }
    ret->scale = v_f16(block + 3328 + lanes / 2);
}

HALO_INLINE void panel_iq4_xs(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    static const int8_t table[16] = HALO_IQ4_NL_VALUES;
    put_nibble_quads(block + slab * 256 + lanes, ret);
    look_up_quads(table, ret);
    halo_vint low = v_and(v_srl32(v_load(block + 2048 + lanes), 4 * slab), v_set32(15));
    halo_vint high = v_and(v_srl32(v_u16(block + 2144 + lanes / 2), 2 * slab), v_set32(3));
    halo_vint scale = v_sub32(v_or(low, v_sll32(high, 4)), v_set32(32));
    ret->scale = v_fmul(v_f16(block + 2112 + lanes / 2), v_float(scale));
}

#endif
