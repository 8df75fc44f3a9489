/* dequant.c: blocks in the layout of the file -> floats. The oracle: plain, one function for each type, no vector code;
 * the types with code books are in dequant_codes.c.
 *
 * Source of the formulas: the published block layouts of ggml, as in kernels/quant.h. The order of the multiplications
 * (d * scale) * q - d * min is part of the result: reference logits are made with it.
 */
#include <assert.h>

#include "dequant_priv.h"
#include "float_priv.h"
#include "format_priv.h"

static const int8_t iq4_nl_values[16] = HALO_IQ4_NL_VALUES;
static const int8_t mxfp4_values2[16] = HALO_MXFP4_VALUES2;

static void dequant_f32(const void *block, float *y)
{
    memcpy(y, block, sizeof *y);
}

static void dequant_f16(const void *block, float *y)
{
    uint16_t half;
    memcpy(&half, block, sizeof half);
    *y = halo_f16_float(half);
}

static void dequant_bf16(const void *block, float *y)
{
    uint16_t brain;
    memcpy(&brain, block, sizeof brain);
    *y = halo_bf16_float(brain);
}

static void dequant_q4_0(const void *block, float *y)
{
    const struct halo_block_q4_0 *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)((b->qs[i] & 15) - 8) * d;
        y[i + 16] = (float)((b->qs[i] >> 4) - 8) * d;
    }
}

static void dequant_q4_1(const void *block, float *y)
{
    const struct halo_block_q4_1 *b = block;
    float d = halo_f16_float(b->d), m = halo_f16_float(b->m);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)(b->qs[i] & 15) * d + m;
        y[i + 16] = (float)(b->qs[i] >> 4) * d + m;
    }
}

/* Bit i of qh is the fifth bit of weight i. */
static int fifth_bit(const uint8_t qh[4], int i)
{
    return (qh[i / 8] >> i % 8 & 1) << 4;
}

static void dequant_q5_0(const void *block, float *y)
{
    const struct halo_block_q5_0 *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)(((b->qs[i] & 15) | fifth_bit(b->qh, i)) - 16) * d;
        y[i + 16] = (float)(((b->qs[i] >> 4) | fifth_bit(b->qh, i + 16)) - 16) * d;
    }
}

static void dequant_q5_1(const void *block, float *y)
{
    const struct halo_block_q5_1 *b = block;
    float d = halo_f16_float(b->d), m = halo_f16_float(b->m);
    for (int i = 0; i < 16; i++) {
        y[i] = (float)((b->qs[i] & 15) | fifth_bit(b->qh, i)) * d + m;
        y[i + 16] = (float)((b->qs[i] >> 4) | fifth_bit(b->qh, i + 16)) * d + m;
    }
}

static void dequant_q8_0(const void *block, float *y)
{
    const struct halo_block_q8_0 *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 32; i++)
        y[i] = (float)b->qs[i] * d;
}

static void dequant_iq4_nl(const void *block, float *y)
{
    const struct halo_block_iq4_nl *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)iq4_nl_values[b->qs[i] & 15];
        y[i + 16] = d * (float)iq4_nl_values[b->qs[i] >> 4];
    }
}

static void dequant_mxfp4(const void *block, float *y)
{
    const struct halo_block_mxfp4 *b = block;
    float d = halo_e8m0_float_half(b->e);
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)mxfp4_values2[b->qs[i] & 15];
        y[i + 16] = d * (float)mxfp4_values2[b->qs[i] >> 4];
    }
}

/* In the 2-bit types a half of 128 weights shares 32 bytes; sub-block of 32 number p of the half has the bits 2p, 2p
 * + 1. */
static void dequant_q2_k(const void *block, float *y)
{
    const struct halo_block_q2_k *b = block;
    float d = halo_f16_float(b->d), dmin = halo_f16_float(b->dmin);
    for (int i = 0; i < 256; i++) {
        int q = b->qs[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
        uint8_t scale = b->scales[i / 16];
        y[i] = d * (float)(scale & 15) * (float)q - dmin * (float)(scale >> 4);
    }
}

/* 16 scales of 6 bits: bytes 0..7 hold the low 4 bits (low nibbles: scales 0..7, high: 8..15), bytes 8..11 the high 2
 * bits. */
static int q3_k_scale(const uint8_t s[12], int i)
{
    int low = s[i % 8] >> i / 8 * 4 & 15, high = s[8 + i % 4] >> i / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

static void dequant_q3_k(const void *block, float *y)
{
    const struct halo_block_q3_k *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 256; i++) {
        int q = b->qs[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
        int high = b->hmask[i % 32] >> i / 32 & 1;
        y[i] = d * (float)q3_k_scale(b->scales, i / 16) * (float)(q - (high ? 0 : 4));
    }
}

/* 8 scales and 8 minima of 6 bits. Bytes 0..3: scales 0..3, 4..7: minima 0..3, each with 2 bits of the later ones on
 * top; bytes 8..11: the low 4 bits of scales 4..7 (low nibble) and of minima 4..7 (high nibble). */
static void q4_k_scale(const uint8_t s[12], int i, int *ret_scale, int *ret_min)
{
    if (i < 4) {
        *ret_scale = s[i] & 63;
        *ret_min = s[i + 4] & 63;
        return;
    }
    *ret_scale = (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
    *ret_min = s[i + 4] >> 4 | s[i] >> 6 << 4;
}

static void dequant_q4_k(const void *block, float *y)
{
    const struct halo_block_q4_k *b = block;
    float d = halo_f16_float(b->d), dmin = halo_f16_float(b->dmin);
    for (int i = 0; i < 256; i++) {
        int scale, min, q = b->qs[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
        q4_k_scale(b->scales, i / 32, &scale, &min);
        y[i] = d * (float)scale * (float)q - dmin * (float)min;
    }
}

static void dequant_q5_k(const void *block, float *y)
{
    const struct halo_block_q5_k *b = block;
    float d = halo_f16_float(b->d), dmin = halo_f16_float(b->dmin);
    for (int i = 0; i < 256; i++) {
        int scale, min, q = b->qs[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
        q4_k_scale(b->scales, i / 32, &scale, &min);
        q |= (b->qh[i % 32] >> i / 32 & 1) << 4;
        y[i] = d * (float)scale * (float)q - dmin * (float)min;
    }
}

/* A half of 128 weights: 64 bytes of ql (sub-blocks 0 and 1 low nibbles, 2 and 3 high), 32 of qh (2 bits each). */
static void dequant_q6_k(const void *block, float *y)
{
    const struct halo_block_q6_k *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, part = i % 128 / 32;
        int low = b->ql[half * 64 + part % 2 * 32 + i % 32] >> part / 2 * 4 & 15;
        int high = b->qh[half * 32 + i % 32] >> part * 2 & 3;
        y[i] = d * (float)b->scales[i / 16] * (float)((low | high << 4) - 32);
    }
}

static void dequant_iq4_xs(const void *block, float *y)
{
    const struct halo_block_iq4_xs *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 256; i++) {
        int j = i / 32, scale = (b->scales_l[j / 2] >> j % 2 * 4 & 15) | (b->scales_h >> 2 * j & 3) << 4;
        int q = b->qs[j * 16 + i % 16] >> i / 16 % 2 * 4 & 15;
        y[i] = d * (float)(scale - 32) * (float)iq4_nl_values[q];
    }
}

static halo_dequant_fn *const dequant_fns[HALO_TYPE_END] = {
    [HALO_TYPE_F32] = dequant_f32,
    [HALO_TYPE_F16] = dequant_f16,
    [HALO_TYPE_BF16] = dequant_bf16,
    [HALO_TYPE_Q4_0] = dequant_q4_0,
    [HALO_TYPE_Q4_1] = dequant_q4_1,
    [HALO_TYPE_Q5_0] = dequant_q5_0,
    [HALO_TYPE_Q5_1] = dequant_q5_1,
    [HALO_TYPE_Q8_0] = dequant_q8_0,
    [HALO_TYPE_IQ4_NL] = dequant_iq4_nl,
    [HALO_TYPE_MXFP4] = dequant_mxfp4,
    [HALO_TYPE_Q2_K] = dequant_q2_k,
    [HALO_TYPE_Q3_K] = dequant_q3_k,
    [HALO_TYPE_Q4_K] = dequant_q4_k,
    [HALO_TYPE_Q5_K] = dequant_q5_k,
    [HALO_TYPE_Q6_K] = dequant_q6_k,
    [HALO_TYPE_IQ4_XS] = dequant_iq4_xs,
    [HALO_TYPE_IQ1_S] = halo_dequant_iq1_s,
    [HALO_TYPE_IQ1_M] = halo_dequant_iq1_m,
    [HALO_TYPE_IQ2_XXS] = halo_dequant_iq2_xxs,
    [HALO_TYPE_IQ2_XS] = halo_dequant_iq2_xs,
    [HALO_TYPE_IQ2_S] = halo_dequant_iq2_s,
    [HALO_TYPE_IQ3_XXS] = halo_dequant_iq3_xxs,
    [HALO_TYPE_IQ3_S] = halo_dequant_iq3_s,
    [HALO_TYPE_TQ1_0] = halo_dequant_tq1_0,
    [HALO_TYPE_TQ2_0] = halo_dequant_tq2_0,
    [HALO_TYPE_NVFP4] = halo_dequant_nvfp4,
    [HALO_TYPE_Q1_0] = halo_dequant_q1_0,
    [HALO_TYPE_Q2_0] = halo_dequant_q2_0,
};

void halo_cpu_block_dequantize(enum halo_type type, const void *block, float *out)
{
    dequant_fns[type](block, out);
}

void halo_dequantize(enum halo_type type, const void *blocks, uint64_t n, float *out)
{
    const struct halo_type_info info = halo_type_info(type);
    assert(info.name && n % info.block_weights == 0);
    /* Blocks of a file lie at any address: copy each to an aligned place. */
    _Alignas(8) uint8_t block[HALO_CPU_BLOCK_MAX];
    const uint8_t *from = blocks;
    for (uint64_t i = 0; i < n; i += info.block_weights, from += info.block_bytes) {
        memcpy(block, from, info.block_bytes);
        dequant_fns[type](block, out + i);
    }
}
