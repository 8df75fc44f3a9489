/* layout.h: how weights, activations and the cache lie in device memory.
 *
 * Weights. A matrix keeps its rows; a row is split into *planes* so that every load of a wave is contiguous: lane l
 * takes unit u = l, l + 32, ... of a row, and a *unit* is 32 weights, whatever the type. In a plane the units
 * follow each other.
 *
 *   nibbles  16 bytes a unit: byte i holds weight i (low half) and weight i + 16 (high half), as Q4_0 has it in the
 *            file. The 4-bit K types are brought to this order, so that one 128-bit load meets the two 16-byte halves
 *            of an activation unit.
 *   bytes    Q8_0: weights 0..15 of all units in one plane, weights 16..31 in the next: two contiguous 128-bit loads.
 *   pairs    8 bytes a unit: bits 2j, 2j + 1 of byte i hold weight i + 8 j: 2 bits each (Q2_K, Q3_K, Q2_0; the upper
 *            two bits of Q6_K).
 *   bits     4 bytes a unit: bit i belongs to weight i (the fifth bit of Q5_0, Q5_1, Q5_K; the third of Q3_K; all of
 *            Q1_0).
 *   scales   see the table. They stand apart because 16-byte loads of the weights need the alignment, and because the
 *            lanes of a super-block then share one load.
 *
 *   type     planes in order                          scales of a unit                     bytes per 256: file, here
 *   Q8_0     bytes low, bytes high, d                 f16 d                                272, 272
 *   Q4_0     nibbles, d                               f16 d                                144, 144
 *   Q4_1     nibbles, dm                              f16 d, f16 m                         160, 160
 *   Q5_0     nibbles, bits, d                         f16 d                                176, 176
 *   Q5_1     nibbles, bits, dm                        f16 d, f16 m                         192, 192
 *   IQ4_NL   nibbles, d                               f16 d                                144, 144
 *   MXFP4    nibbles, e                               u8 e                                 136, 136
 *   Q4_K     nibbles, k                               struct halo_pack_k for 8 units       144, 144
 *   Q5_K     nibbles, bits, k                         struct halo_pack_k for 8 units       176, 176
 *   Q6_K     nibbles, pairs, s, d                     i8 s[2] a unit, f16 d for 8 units    210, 210
 *   Q2_K     pairs, s, dm                             u8 s[2] a unit, f16 d, dmin for 8     84, 84
 *   Q3_K     pairs, bits, s, d                        i8 s[2] a unit (-32 taken off), f16 d 110, 114
 *   IQ4_XS   nibbles, s, d                            i8 s a unit (-32 taken off), f16 d   136, 138
 *   IQ3_S    pairs, bits, high, d                     u8 high a unit, f16 d, u8 s[4]       110, 110
 *   IQ3_XXS  pairs, bits, d                           f16 d                                 98, 98
 *   IQ2_S    pairs, high, s, d                        u8 high, u8 s a unit, f16 d           82, 82
 *   IQ2_XS   pairs, s, d                              u8 s a unit, f16 d                    74, 74
 *   IQ2_XXS  pairs, d                                 f16 d                                 66, 66
 *   IQ1_M    bits, high, d                            u16 high a unit, f16 d, u48 s         56, 56
 *   IQ1_S    bits, high, d                            u16 high a unit, f16 d                50, 50
 *   Q2_0     pairs, d                                 f16 d                                 72, 80
 *   Q1_0     bits, d                                  f16 d                                 36, 48
 *   NVFP4    nibbles, e, factor                       u8 e[2] a unit, f32 for the row      144, 144
 *   F32 F16 BF16: rows as in the file
 *
 * TQ1_0 and TQ2_0 share the form of Q2_0 (halo_hip_form()).
 *
 * Grid types have indices into a code book (gfx/books.h) in the planes of pairs or bits: a byte each, the low eight
 * bits; eight in pairs of IQ3, for four weights each; four for eight weights each in the first half of pairs of IQ2 and
 * in bits of IQ1. The rest of pairs of IQ2 and bits of IQ3 are the signs: bit 8 j + i is set where weight 4 i + j is
 * negative. In IQ2_XXS, IQ2_XS and IQ3_XXS weights 8 l .. 8 l + 7 have an even number of minus signs: the sign of
 * weight 9 l follows from the others, and its bit, 10 l, holds something else. m: the magnitude in the book.
 *   IQ3_S    high: bit k is the ninth of index k. s: a nibble for each unit. Weight = d * (2 s + 1) * m.
 *   IQ3_XXS  bit 10 l: bit l of s. Weight = d / 4 * (2 s + 1) * m.
 *   IQ2_S    high: bits 2 l, 2 l + 1 are the upper two of index l. s: a nibble for each half.
 *            Weight = d / 8 * (2 s + 1) * m.
 *   IQ2_XS   bit 10 l: the ninth of index l. s and weight as IQ2_S.
 *   IQ2_XXS  bit 10 l: bit l of s. Weight = d / 8 * (2 s + 1) * m.
 *   IQ1_M    high: bits 4 l .. 4 l + 2 are the upper three of index l; bit 4 l + 3: of the l-th 8 weights the eighth is
 *            added, not taken off. s: three bits for each half. Weight = d * (2 s + 1) * (-1, 0 or 1, +- 1 / 8).
 *   IQ1_S    high: bits 3 l .. 3 l + 2 are the upper three of index l; bits 12 .. 14 are s; bit 15: the eighth is
 *            added. Weight as IQ1_M.
 *
 * Q3_K pays 4 bytes and IQ4_XS 2 bytes per 256 weights so that a lane finds its scale in one load. Every plane begins
 * at a multiple of 16 bytes of the row, and so does every row: rows whose units are few pay up to 15 bytes a plane. A
 * row of quantized weights has n_cols % block == 0; of the plain types any n_cols (what stands behind a row up to its
 * stride is zero). The experts of a 3-D weight follow each other like more rows.
 *
 * Plain arithmetic on sizes; any thread; cannot fail.
 */
#ifndef HALO_HIP_LAYOUT_H
#define HALO_HIP_LAYOUT_H

#include <kernels/tensor.h>

#if defined(__HIP__) || defined(__CUDACC__) || defined(__CUDA__)
#define HALO_HIP_BOTH static inline __attribute__((host)) __attribute__((device))
#else
#define HALO_HIP_BOTH static inline
#endif

#define HALO_HIP_UNIT 32

/* Scales of a super-block of Q4_K and Q5_K: sub-block j has scale sm[j] & 63 and minimum sm[j] >> 6 | nibble j of mh <<
 * 2 (nibble j of mh: low half of mh[j / 2] when j is even). Weight = d * scale * q - dmin * minimum. */
struct halo_pack_k {
    uint16_t d, dmin;
    uint8_t sm[8];
    uint8_t mh[4];
};

/* Byte offsets of the planes in a row, and the stride of rows. Planes a type does not have are empty. */
struct halo_row_layout {
    uint32_t quants; /* nibbles or bytes low; 0. Some types have none */
    uint32_t high;   /* bytes high of Q8_0 */
    uint32_t pairs;
    uint32_t bits;
    uint32_t scales; /* d, dm, e, k, or s */
    uint32_t super;  /* d or dm of 8 units; of NVFP4 the factor of the row */
    uint32_t stride;
};

HALO_HIP_BOTH uint32_t halo_hip_align(uint32_t n)
{
    return (n + 15) & ~15u;
}

/* Bytes per unit of each plane, in the order of struct halo_row_layout; super: bytes per 8 units. A packed number so
 * that device code folds it away: quants, high, pairs, bits, scales, super, 5 bits each. */
#define HALO_PLANES(quants, high, pairs, bits, scales, super_)                                                         \
    ((quants) | (high) << 5 | (pairs) << 10 | (bits) << 15 | (scales) << 20 | (super_) << 25)

/* The type in whose layout a type is packed, and whose kernels it uses. */
HALO_HIP_BOTH uint32_t halo_hip_form(uint32_t type)
{
    switch (type) {
    case HALO_TYPE_TQ1_0:
    case HALO_TYPE_TQ2_0: return HALO_TYPE_Q2_0;
    default: return type;
    }
}

HALO_HIP_BOTH uint32_t halo_hip_planes(uint32_t type)
{
    switch (halo_hip_form(type)) {
    case HALO_TYPE_Q8_0: return HALO_PLANES(16u, 16u, 0u, 0u, 2u, 0u);
    case HALO_TYPE_Q4_0:
    case HALO_TYPE_IQ4_NL: return HALO_PLANES(16u, 0u, 0u, 0u, 2u, 0u);
    case HALO_TYPE_Q4_1: return HALO_PLANES(16u, 0u, 0u, 0u, 4u, 0u);
    case HALO_TYPE_Q5_0: return HALO_PLANES(16u, 0u, 0u, 4u, 2u, 0u);
    case HALO_TYPE_Q5_1: return HALO_PLANES(16u, 0u, 0u, 4u, 4u, 0u);
    case HALO_TYPE_MXFP4: return HALO_PLANES(16u, 0u, 0u, 0u, 1u, 0u);
    case HALO_TYPE_Q4_K: return HALO_PLANES(16u, 0u, 0u, 0u, 0u, 16u);
    case HALO_TYPE_Q5_K: return HALO_PLANES(16u, 0u, 0u, 4u, 0u, 16u);
    case HALO_TYPE_Q6_K: return HALO_PLANES(16u, 0u, 8u, 0u, 2u, 2u);
    case HALO_TYPE_Q2_K: return HALO_PLANES(0u, 0u, 8u, 0u, 2u, 4u);
    case HALO_TYPE_Q3_K: return HALO_PLANES(0u, 0u, 8u, 4u, 2u, 2u);
    case HALO_TYPE_IQ4_XS: return HALO_PLANES(16u, 0u, 0u, 0u, 1u, 2u);
    case HALO_TYPE_IQ3_S: return HALO_PLANES(0u, 0u, 8u, 4u, 1u, 6u);
    case HALO_TYPE_IQ3_XXS: return HALO_PLANES(0u, 0u, 8u, 4u, 0u, 2u);
    case HALO_TYPE_IQ2_S: return HALO_PLANES(0u, 0u, 8u, 0u, 2u, 2u);
    case HALO_TYPE_IQ2_XS: return HALO_PLANES(0u, 0u, 8u, 0u, 1u, 2u);
    case HALO_TYPE_IQ2_XXS: return HALO_PLANES(0u, 0u, 8u, 0u, 0u, 2u);
    case HALO_TYPE_IQ1_M: return HALO_PLANES(0u, 0u, 0u, 4u, 2u, 8u);
    case HALO_TYPE_IQ1_S: return HALO_PLANES(0u, 0u, 0u, 4u, 2u, 2u);
    case HALO_TYPE_Q2_0: return HALO_PLANES(0u, 0u, 8u, 0u, 2u, 0u);
    case HALO_TYPE_Q1_0: return HALO_PLANES(0u, 0u, 0u, 4u, 2u, 0u);
    case HALO_TYPE_NVFP4: return HALO_PLANES(16u, 0u, 0u, 0u, 2u, 0u);
    default: return 0;
    }
}

HALO_HIP_BOTH uint32_t halo_hip_plain_bytes(uint32_t type)
{
    return type == HALO_TYPE_F32 ? 4 : type == HALO_TYPE_F16 || type == HALO_TYPE_BF16 ? 2 : 0;
}

HALO_HIP_BOTH struct halo_row_layout halo_hip_row_layout(uint32_t type, uint32_t n_cols)
{
    uint32_t planes = halo_hip_planes(type), n = n_cols / HALO_HIP_UNIT;
    struct halo_row_layout r = {0, 0, 0, 0, 0, 0, 0};
    r.high = halo_hip_align(n * (planes & 31));
    r.pairs = r.high + halo_hip_align(n * (planes >> 5 & 31));
    r.bits = r.pairs + halo_hip_align(n * (planes >> 10 & 31));
    r.scales = r.bits + halo_hip_align(n * (planes >> 15 & 31));
    r.super = r.scales + halo_hip_align(n * (planes >> 20 & 31));
    r.stride = r.super + halo_hip_align(type == HALO_TYPE_NVFP4 ? 4 : n / 8 * (planes >> 25 & 31));
    if (planes == 0)
        r.stride = halo_hip_align(n_cols * halo_hip_plain_bytes(type));
    return r;
}

/* Bytes of n_rows packed rows (for experts: of all of them). Vectors (norms, biases) are f32, n_cols * 4 bytes, and not
 * packed. */
HALO_HIP_BOTH uint64_t halo_hip_weight_bytes(uint32_t type, uint32_t n_cols, uint64_t n_rows)
{
    return (uint64_t)halo_hip_row_layout(type, n_cols).stride * n_rows;
}

/* An activation row: int8 q of the first halves of all units, q of the second halves, then for each unit its struct. x
 * = d * q; sum[h]: sum of the 16 q of half h, for types with a minimum. d = max |x| / 127; q to nearest, ties to even.
 * A unit with a NaN or an infinity has d = NaN; one whose maximum is below HALO_HIP_ACT_TINY is all zero. */
struct halo_act_unit {
    float d;
    int16_t sum[2];
};
#define HALO_HIP_ACT_TINY 1e-30f

HALO_HIP_BOTH uint32_t halo_hip_act_units(uint32_t n_cols) /* offset of the structs */
{
    return n_cols;
}

HALO_HIP_BOTH uint32_t halo_hip_act_bytes(uint32_t n_cols) /* stride of rows */
{
    return halo_hip_align(n_cols + n_cols / HALO_HIP_UNIT * (uint32_t)sizeof(struct halo_act_unit));
}

/* Rows of x in f16 for strips of quantized weights: chunks of 8 halves, chunk p of four neighbouring units after each
 * other, so that lanes with a unit each read neighbours. Index of the first half of chunk p (0 .. 3) of unit u, and the
 * stride of rows in halves. */
HALO_HIP_BOTH uint32_t halo_strip_at(uint32_t u, uint32_t p)
{
    return (u / 4 * 16 + p * 4 + u % 4) * 8;
}
HALO_HIP_BOTH uint32_t halo_hip_strip_stride(uint32_t n_cols)
{
    return (n_cols + 127) & ~127u;
}

/* A page of the cache holds HALO_KV_PAGE_TOKENS positions of one layer: for each kv head its K, then for each kv head
 * its V.
 *
 * K is stored in chunks of 16 bytes of a row, chunk c of all 32 positions after each other: [chunk][position][16
 * bytes], so that with one position to a lane every load of a wave is 512 contiguous bytes. V is stored row by row:
 * [position][head_dim]: its loads have one element (or a few) to a lane. Q8: the scales (f16, one for 32 elements)
 * stand behind the int8 of the head: K: [group][position]; V: [position][group]. Q4: likewise, with elements 2i and
 * 2i + 1 of the rotated row (hadamard.h) in byte i.
 * Head rows take exactly halo_kv_row_bytes() for each position: head_dim % 8 == 0 for F16, % 32 for Q8 and Q4, % 4 for
 * F32.
 *
 * A latent page has nothing but K, whose first elements are V: stored row by row, as V is, with head_dim_k % 8 == 0.
 * One of compressed blocks has fewer rows than 32, in the same order, and is padded to 16 bytes.
 */
HALO_HIP_BOTH uint32_t halo_hip_kv_head_bytes(uint32_t kv_type, uint32_t head_dim)
{
    uint32_t row = kv_type == HALO_KV_F32   ? head_dim * 4
                   : kv_type == HALO_KV_F16 ? head_dim * 2
                   : kv_type == HALO_KV_Q8  ? head_dim + head_dim / 32 * 2
                                            : head_dim / 2 + head_dim / 32 * 2;
    return row * 32;
}

/* One layer's part of a page; head_dim_v is 0 where the page is latent. */
HALO_HIP_BOTH uint64_t halo_hip_kv_layer_page_bytes(uint32_t kv_type, uint32_t n_head_kv, uint32_t head_dim_k,
                                                    uint32_t head_dim_v)
{
    return (uint64_t)n_head_kv *
           (halo_hip_kv_head_bytes(kv_type, head_dim_k) + halo_hip_kv_head_bytes(kv_type, head_dim_v));
}

#endif
