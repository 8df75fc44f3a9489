/* slab.c: blocks of every quantized type -> slabs. Pure.
 *
 * Plain C, written apart from dequant.c so that the two check each other.
 */
#include <assert.h>

#include "float_priv.h"
#include "slab_priv.h"

static const int8_t iq4_nl_values[16] = HALO_IQ4_NL_VALUES;
static const int8_t mxfp4_values2[16] = HALO_MXFP4_VALUES2;

static struct halo_slab plain_slab(float scale)
{
    return (struct halo_slab){.scale = scale, .sub = {1, 1}};
}

static struct halo_slab min_slab(float scale, float min)
{
    return (struct halo_slab){.scale = scale, .min = min, .minimum = HALO_SLAB_MIN, .sub = {1, 1}};
}

/* 16 bytes: the low nibbles are weights 0..15, the high ones 16..31. */
static void put_nibbles(struct halo_slab *s, const uint8_t qs[16], int offset)
{
    for (int i = 0; i < 16; i++) {
        s->q[i] = (int8_t)((qs[i] & 15) - offset);
        s->q[i + 16] = (int8_t)((qs[i] >> 4) - offset);
    }
}

static void add_fifth_bits(struct halo_slab *s, const uint8_t qh[4])
{
    for (int i = 0; i < HALO_QK; i++)
        s->q[i] = (int8_t)(s->q[i] + (qh[i / 8] >> i % 8 & 1) * 16);
}

static void put_table(struct halo_slab *s, const uint8_t qs[16], const int8_t table[16])
{
    put_nibbles(s, qs, 0);
    for (int i = 0; i < HALO_QK; i++)
        s->q[i] = table[s->q[i]];
}

/* `mask` bits from `shift` on, of 32 bytes; `over` is added to the bits already there. */
static void put_bits(struct halo_slab *s, const uint8_t qs[32], int shift, int mask, int over, int offset)
{
    for (int i = 0; i < HALO_QK; i++)
        s->q[i] = (int8_t)(s->q[i] + ((qs[i] >> shift & mask) << over) - offset);
}

static void expand_q4_0(const struct halo_block_q4_0 *b, struct halo_slab *s)
{
    *s = plain_slab(halo_f16_float(b->d));
    put_nibbles(s, b->qs, 8);
}

static void expand_q4_1(const struct halo_block_q4_1 *b, struct halo_slab *s)
{
    *s = min_slab(halo_f16_float(b->d), halo_f16_float(b->m));
    put_nibbles(s, b->qs, 0);
}

static void expand_q5_0(const struct halo_block_q5_0 *b, struct halo_slab *s)
{
    *s = plain_slab(halo_f16_float(b->d));
    put_nibbles(s, b->qs, 16);
    add_fifth_bits(s, b->qh);
}

static void expand_q5_1(const struct halo_block_q5_1 *b, struct halo_slab *s)
{
    *s = min_slab(halo_f16_float(b->d), halo_f16_float(b->m));
    put_nibbles(s, b->qs, 0);
    add_fifth_bits(s, b->qh);
}

static void expand_q8_0(const struct halo_block_q8_0 *b, struct halo_slab *s)
{
    *s = plain_slab(halo_f16_float(b->d));
    memcpy(s->q, b->qs, sizeof s->q);
}

static void expand_iq4_nl(const struct halo_block_iq4_nl *b, struct halo_slab *s)
{
    *s = plain_slab(halo_f16_float(b->d));
    put_table(s, b->qs, iq4_nl_values);
}

static void expand_mxfp4(const struct halo_block_mxfp4 *b, struct halo_slab *s)
{
    *s = plain_slab(halo_e8m0_float_half(b->e));
    put_table(s, b->qs, mxfp4_values2);
}

static void expand_q2_k(const struct halo_block_q2_k *b, struct halo_slab *s)
{
    for (int j = 0; j < 8; j++, s++) {
        const uint8_t *scales = b->scales + 2 * j;
        *s = (struct halo_slab){.scale = halo_f16_float(b->d),
                                .min = halo_f16_float(b->dmin),
                                .minimum = HALO_SLAB_MIN_HALVES,
                                .sub = {(float)(scales[0] & 15), (float)(scales[1] & 15)},
                                .sub_min = {scales[0] >> 4, scales[1] >> 4}};
        put_bits(s, b->qs + j / 4 * 32, j % 4 * 2, 3, 0, 0);
    }
}

static void expand_q3_k(const struct halo_block_q3_k *b, struct halo_slab *s)
{
    int32_t scales[16];
    for (int i = 0; i < 8; i++) { /* low nibbles, then high; the high bits in 4 groups of 4 */
        scales[i] = (b->scales[i] & 15) + ((b->scales[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32;
        scales[i + 8] = (b->scales[i] >> 4) + ((b->scales[8 + i % 4] >> (4 + i / 4 * 2) & 3) << 4) - 32;
    }
    for (int j = 0; j < 8; j++, s++) {
        *s = (struct halo_slab){.scale = halo_f16_float(b->d), .sub = {(float)scales[2 * j], (float)scales[2 * j + 1]}};
        put_bits(s, b->qs + j / 4 * 32, j % 4 * 2, 3, 0, 4);
        put_bits(s, b->hmask, j, 1, 2, 0);
    }
}

/* The 8 scales and 8 minima of 6 bits of Q4_K and Q5_K. */
static void k_scales(const uint8_t b[12], int scale[8], int min[8])
{
    for (int i = 0; i < 4; i++) {
        scale[i] = b[i] & 63;
        min[i] = b[4 + i] & 63;
        scale[4 + i] = (b[8 + i] & 15) + (b[i] >> 6) * 16;
        min[4 + i] = (b[8 + i] >> 4) + (b[4 + i] >> 6) * 16;
    }
}

static void expand_q4_k(const struct halo_block_q4_k *b, struct halo_slab *s)
{
    int scale[8], min[8];
    float d = halo_f16_float(b->d), dmin = halo_f16_float(b->dmin);
    k_scales(b->scales, scale, min);
    for (int j = 0; j < 8; j++, s++) {
        *s = min_slab(d * (float)scale[j], -(dmin * (float)min[j]));
        put_bits(s, b->qs + j / 2 * 32, j % 2 * 4, 15, 0, 0);
    }
}

static void expand_q5_k(const struct halo_block_q5_k *b, struct halo_slab *s)
{
    int scale[8], min[8];
    float d = halo_f16_float(b->d), dmin = halo_f16_float(b->dmin);
    k_scales(b->scales, scale, min);
    for (int j = 0; j < 8; j++, s++) {
        *s = min_slab(d * (float)scale[j], -(dmin * (float)min[j]));
        put_bits(s, b->qs + j / 2 * 32, j % 2 * 4, 15, 0, 0);
        put_bits(s, b->qh, j, 1, 4, 0);
    }
}

static void expand_q6_k(const struct halo_block_q6_k *b, struct halo_slab *s)
{
    for (int j = 0; j < 8; j++, s++) {
        *s = (struct halo_slab){.scale = halo_f16_float(b->d),
                                .sub = {(float)b->scales[2 * j], (float)b->scales[2 * j + 1]}};
        put_bits(s, b->ql + j / 4 * 64 + j % 2 * 32, j % 4 / 2 * 4, 15, 0, 32);
        put_bits(s, b->qh + j / 4 * 32, j % 4 * 2, 3, 4, 0);
    }
}

static void expand_iq4_xs(const struct halo_block_iq4_xs *b, struct halo_slab *s)
{
    for (int j = 0; j < 8; j++, s++) {
        int scale = (b->scales_l[j / 2] >> j % 2 * 4 & 15) + (b->scales_h >> 2 * j & 3) * 16 - 32;
        *s = plain_slab(halo_f16_float(b->d) * (float)scale);
        put_table(s, b->qs + 16 * j, iq4_nl_values);
    }
}

void halo_slab_expand(enum halo_type type, const void *block, struct halo_slab *ret_slabs)
{
    switch (type) {
#define X(ID, id)                                                                                                      \
    case HALO_TYPE_##ID: expand_##id(block, ret_slabs); return;
        X(Q4_0, q4_0)
        X(Q4_1, q4_1)
        X(Q5_0, q5_0)
        X(Q5_1, q5_1)
        X(Q8_0, q8_0)
        X(IQ4_NL, iq4_nl)
        X(MXFP4, mxfp4)
        X(Q2_K, q2_k)
        X(Q3_K, q3_k)
        X(Q4_K, q4_k)
        X(Q5_K, q5_k)
        X(Q6_K, q6_k)
        X(IQ4_XS, iq4_xs)
#undef X
#define X(ID, id)                                                                                                      \
    case HALO_TYPE_##ID: halo_slab_##id(block, ret_slabs); return;
        X(IQ1_S, iq1_s)
        X(IQ1_M, iq1_m)
        X(IQ2_XXS, iq2_xxs)
        X(IQ2_XS, iq2_xs)
        X(IQ2_S, iq2_s)
        X(IQ3_XXS, iq3_xxs)
        X(IQ3_S, iq3_s)
        X(TQ1_0, tq1_0)
        X(TQ2_0, tq2_0)
        X(NVFP4, nvfp4)
        X(Q1_0, q1_0)
        X(Q2_0, q2_0)
#undef X
    default: assert(!"a quantized type");
    }
}
