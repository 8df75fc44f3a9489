/* panel_codes_priv.h: the panels of the types with code books, and of the types of one and two bits.
 *
 * A grid index becomes 8 codes by one gather of a word, or 4 numbers. Signs lie as format_priv.h turns them: the bits
 * of a quad at the same place of the four bytes. A scale of (0.5 + s) is taken as (2s + 1) halves, the weights of the
 * types of one and two bits are doubled: see slab_codes.c.
 */
#ifndef HALO_CPU_PANEL_CODES_PRIV_H
#define HALO_CPU_PANEL_CODES_PRIV_H

#include "grid_priv.h"
#include "panel_priv.h"

/* HALO_TURN_SIGNS, HALO_TURN_IQ2_XS: the bits that stand where the eighth signs would be, and those signs. */
#define HALO_EXTRA_BITS ((int32_t)0xaa000000)
#define HALO_EXTRA_BIT(l) (25 + 2 * (l))

/* Bytes 0 .. 255 of the word's byte number `at`. */
HALO_INLINE halo_vint byte_of(halo_vint x, unsigned at)
{
    return v_and(v_srl32(x, 8 * at), v_set32(255));
}

/* Bits `from` .. of x, moved to bit 8. */
HALO_INLINE halo_vint high_index(halo_vint x, unsigned from, int mask)
{
    return v_and(from < 8 ? v_sll32(x, 8 - from) : v_srl32(x, from - 8), v_set32(mask << 8));
}

/* The number of 4 bits whose bits lie two apart from bit `HALO_EXTRA_BIT(0)` on. */
HALO_INLINE halo_vint extra_number(halo_vint x)
{
    x = v_and(v_srl32(x, HALO_EXTRA_BIT(0)), v_set32(0x55));
    x = v_and(v_or(x, v_srl32(x, 1)), v_set32(0x33));
    return v_and(v_or(x, v_srl32(x, 2)), v_set32(15));
}

/* With the eighth signs: the minuses of 8 weights are even in number. */
HALO_INLINE halo_vint complete_signs(halo_vint x)
{
    x = v_and(x, v_set32(~HALO_EXTRA_BITS));
    halo_vint odd = v_xor(x, v_srl32(x, 16));
    odd = v_xor(odd, v_srl32(odd, 8));
    odd = v_and(v_xor(odd, v_srl32(odd, 1)), v_set32(0x55));
    return v_or(x, v_sll32(odd, HALO_EXTRA_BIT(0)));
}

HALO_INLINE void sign_quads(halo_vint signs, struct halo_panel *ret)
{
    HALO_UNROLL
    for (unsigned q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_negate(ret->w[q], v_sll16(signs, 7 - q));
}

/* 8 codes of a gathered word. */
HALO_INLINE void put_codes(halo_vint word, unsigned l, struct halo_panel *ret)
{
    ret->w[2 * l] = v_bits(word, 0, 15);
    ret->w[2 * l + 1] = v_bits(word, 4, 15);
}

HALO_INLINE halo_vfloat odd_scale(const uint8_t *d, float unit, halo_vint s)
{
    return v_fmul(v_fmul(v_f16(d), v_fset(unit)), v_float(v_or(v_add32(s, s), v_set32(1))));
}

/* The scales of two halves: a byte. */
HALO_INLINE void put_odd_halves(const uint8_t *scales, unsigned at, struct halo_panel *ret)
{
    for (unsigned half = 0; half < 2; half++) {
        halo_vint s = scale_byte(scales, at, 4 * half, 15);
        ret->sub[half] = v_or(v_add32(s, s), v_set32(1));
    }
}

HALO_INLINE void look_up_iq2(halo_vint signs, struct halo_panel *ret)
{
    static const int8_t table[16] = HALO_IQ2_VALUES;
    look_up_quads(table, ret);
    sign_quads(signs, ret);
}

HALO_INLINE void panel_iq2_xxs(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    halo_vint index = v_load(block + 64 * slab + lanes), signs = v_load(block + 512 + 64 * slab + lanes);
    for (unsigned l = 0; l < 4; l++)
        put_codes(v_gather(halo_words_iq2_xxs, byte_of(index, l)), l, ret);
    look_up_iq2(complete_signs(signs), ret);
    ret->scale = odd_scale(block + 1024 + lanes / 2, 0.125f, extra_number(signs));
}

HALO_INLINE void panel_iq2_xs(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    halo_vint index = v_load(block + 128 * slab + lanes), signs = v_load(block + 128 * slab + 64 + lanes);
    for (unsigned l = 0; l < 4; l++) {
        halo_vint ninth = high_index(signs, HALO_EXTRA_BIT(l), 1);
        put_codes(v_gather(halo_words_iq2_xs, v_or(byte_of(index, l), ninth)), l, ret);
    }
    look_up_iq2(complete_signs(signs), ret);
    put_odd_halves(block + 1024 + lanes, slab, ret);
    ret->scale = v_fmul(v_f16(block + 1152 + lanes / 2), v_fset(0.125f));
}

HALO_INLINE void panel_iq2_s(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    halo_vint index = v_load(block + 64 * slab + lanes), qh = v_load(block + 1024 + slab / 4 * 64 + lanes);
    for (unsigned l = 0; l < 4; l++) {
        halo_vint high = high_index(qh, slab % 4 * 8 + 2 * l, 3);
        put_codes(v_gather(halo_words_iq2_s, v_or(byte_of(index, l), high)), l, ret);
    }
    look_up_iq2(v_load(block + 512 + 64 * slab + lanes), ret);
    put_odd_halves(block + 1152 + lanes, slab, ret);
    ret->scale = v_fmul(v_f16(block + 1280 + lanes / 2), v_fset(0.125f));
}

HALO_INLINE void panel_iq3_xxs(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    halo_vint signs = v_load(block + 1024 + 64 * slab + lanes);
    for (unsigned half = 0; half < 2; half++) {
        halo_vint index = v_load(block + 128 * slab + 64 * half + lanes);
        for (unsigned k = 0; k < 4; k++)
            ret->w[4 * half + k] = v_gather(halo_words_iq3_xxs, byte_of(index, k));
    }
    sign_quads(complete_signs(signs), ret);
    ret->scale = odd_scale(block + 1536 + lanes / 2, 0.25f, extra_number(signs));
}

HALO_INLINE void panel_iq3_s(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    halo_vint qh = v_load(block + 1024 + slab / 4 * 64 + lanes);
    for (unsigned half = 0; half < 2; half++) {
        halo_vint index = v_load(block + 128 * slab + 64 * half + lanes);
        for (unsigned k = 0; k < 4; k++) {
            halo_vint ninth = high_index(qh, slab % 4 * 8 + 4 * half + k, 1);
            ret->w[4 * half + k] = v_gather(halo_words_iq3_s, v_or(byte_of(index, k), ninth));
        }
    }
    sign_quads(v_load(block + 1152 + 64 * slab + lanes), ret);
    ret->scale = odd_scale(block + 1728 + lanes / 2, 1, scale_byte(block + 1664 + lanes, slab / 2, slab % 2 * 4, 15));
}

/* Eighths plus 16: codes 0 .. 2 with an eighth more, 4 .. 6 with an eighth less. */
#define HALO_IQ1_EIGHTHS                                                                                               \
    {                                                                                                                  \
        9, 17, 25, 0, 7, 15, 23                                                                                        \
    }

/* Bit `from` of the lane, as bit 2 of its four bytes. */
HALO_INLINE halo_vint iq1_less(halo_vint x, unsigned from)
{
    return v_and(v_sra32(v_sll32(x, 31 - from), 31), v_set8(4));
}

HALO_INLINE void panel_iq1_s(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    static const int8_t table[16] = HALO_IQ1_EIGHTHS;
    const unsigned at = slab % 2 * 16;
    halo_vint index = v_load(block + 64 * slab + lanes), qh = v_load(block + 512 + slab / 2 * 64 + lanes);
    for (unsigned l = 0; l < 4; l++)
        put_codes(v_gather(halo_words_iq1, v_or(byte_of(index, l), high_index(qh, at + 3 * l, 7))), l, ret);
    halo_vint less = iq1_less(qh, at + 15);
    for (unsigned q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_or(ret->w[q], less);
    look_up_quads(table, ret);
    ret->scale = odd_scale(block + 768 + lanes / 2, 0.125f, v_and(v_srl32(qh, at + 12), v_set32(7)));
}

/* The f16 in the upper nibbles of the four numbers that hold the scales. */
HALO_INLINE halo_vfloat iq1_m_scale(const uint8_t *sc)
{
    halo_vint low = v_load(sc), high = v_load(sc + 64);
    halo_vint d = v_or(v_and(v_srl32(low, 12), v_set32(15)), v_and(v_srl32(low, 24), v_set32(0xf0)));
    d = v_or(d, v_and(v_srl32(high, 4), v_set32(0xf00)));
    return v_low_f16(v_or(d, v_and(v_srl32(high, 16), v_set32(0xf000))));
}

HALO_INLINE void panel_iq1_m(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    static const int8_t table[16] = HALO_IQ1_EIGHTHS;
    const unsigned at = slab % 2 * 16;
    halo_vint index = v_load(block + 64 * slab + lanes), qh = v_load(block + 512 + slab / 2 * 64 + lanes);
    halo_vint scales = v_load(block + 768 + slab / 4 * 64 + lanes);
    for (unsigned l = 0; l < 4; l++) {
        halo_vint less = iq1_less(qh, at + 4 * l + 3);
        put_codes(v_gather(halo_words_iq1, v_or(byte_of(index, l), high_index(qh, at + 4 * l, 7))), l, ret);
        ret->w[2 * l] = v_or(ret->w[2 * l], less);
        ret->w[2 * l + 1] = v_or(ret->w[2 * l + 1], less);
    }
    look_up_quads(table, ret);
    for (unsigned half = 0; half < 2; half++) {
        halo_vint s = v_and(v_srl32(scales, slab % 4 / 2 * 16 + slab % 2 * 6 + 3 * half), v_set32(7));
        ret->sub[half] = v_or(v_add32(s, s), v_set32(1));
    }
    ret->scale = v_fmul(iq1_m_scale(block + 768 + lanes), v_fset(0.125f));
}

HALO_INLINE halo_vfloat half_scale(const uint8_t *d)
{
    return v_fmul(v_f16(d), v_fset(0.5f));
}

/* Twice digit number `digit` of every byte: the byte times 3^digit, of which 256 / 3 and 512 / 3 are the thresholds. */
HALO_INLINE halo_vint twice_digit(halo_vint x, unsigned digit)
{
    for (unsigned n = 0; n < digit; n++)
        x = v_add8(v_add8(x, x), x);
    x = v_add8(v_min_u8(v_sub_or_0(x, v_set8(85)), v_set8(1)), v_min_u8(v_sub_or_0(x, v_set8((int8_t)170)), v_set8(1)));
    return v_add8(x, x);
}

HALO_INLINE void panel_tq1_0(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    HALO_UNROLL
    for (unsigned q = 0; q < HALO_QUADS; q++) {
        if (slab < 5)
            ret->w[q] = twice_digit(v_load(block + 64 * q + lanes), slab);
        else if (slab < 7 || q < 4)
            ret->w[q] = twice_digit(v_load(block + 512 + q % 4 * 64 + lanes), (slab - 5) * 2 + q / 4);
        else
            ret->w[q] = twice_digit(v_load(block + 768 + lanes), q - 4);
    }
    ret->scale = half_scale(block + 832 + lanes / 2);
}

HALO_INLINE void panel_tq2_0(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    for (unsigned q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_moved_bits(v_load(block + slab / 4 * 512 + 64 * q + lanes), slab % 4 * 2, 1, 3);
    ret->scale = half_scale(block + 1024 + lanes / 2);
}

HALO_INLINE void panel_q1_0(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    halo_vint bits = v_load(block + 64 * slab + lanes);
    HALO_UNROLL
    for (unsigned q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_moved_bits(bits, q, 2, 1);
    ret->scale = half_scale(block + 256 + lanes / 2);
}

HALO_INLINE void panel_q2_0(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    for (unsigned q = 0; q < HALO_QUADS; q++)
        ret->w[q] = v_moved_bits(v_load(block + 128 * slab + q / 4 * 64 + lanes), q % 4 * 2, 1, 3);
    ret->scale = half_scale(block + 256 + lanes / 2);
}

/* 16 weights are two words: the low halves of their bytes, then the high. An E4M3 becomes an f16 of 2^-8 times the
 * value. */
HALO_INLINE void panel_nvfp4(const uint8_t *block, unsigned slab, unsigned lanes, struct halo_panel *ret)
{
    static const int8_t table[16] = HALO_MXFP4_VALUES2_PLUS_16;
    for (unsigned half = 0; half < 2; half++) {
        for (unsigned k = 0; k < 2; k++) {
            halo_vint x = v_load(block + (4 * slab + 2 * half + k) * 64 + lanes);
            ret->w[4 * half + k] = v_bits(x, 0, 15);
            ret->w[4 * half + 2 + k] = v_bits(x, 4, 15);
        }
        halo_vint e = scale_byte(block + 512 + lanes, 2 * slab + half, 0, 0x7f);
        ret->float_sub[half] = v_fmul(v_low_f16(v_sll32(e, 7)), v_fset(256));
    }
    look_up_quads(table, ret);
    ret->scale = v_fset(0.5f);
}

#endif
