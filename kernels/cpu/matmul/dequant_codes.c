/* dequant_codes.c: blocks of the types with code books, and of the types of one and two bits -> floats: the second half
 * of the oracle (dequant.c). Every product is exact in f32, so the order of multiplications is free.
 */
#include <stdbool.h>

#include "dequant_priv.h"
#include "float_priv.h"
#include "grid_priv.h"

static const uint8_t iq2_values[3] = HALO_IQ2_VALUES, iq3_xxs_values[8] = HALO_IQ3_XXS_VALUES;
static const int8_t fp4_values2[16] = HALO_MXFP4_VALUES2;

/* Code i of an entry of 8, or of 4. */
static int code8(uint16_t entry, int i)
{
    return entry >> 2 * i & 3;
}

static int code4(uint16_t entry, int i)
{
    return entry >> 3 * i & 7;
}

/* Bit j of `signs` set: weight j is negative. */
static float with_sign(float value, unsigned signs, int j)
{
    return signs >> j & 1 ? -value : value;
}

/* An index of 7 bits into the sign bytes with an even number of ones. */
static unsigned even_signs(unsigned index)
{
    return index | (unsigned)__builtin_parity(index) << 7;
}

static void put_iq2(uint16_t entry, unsigned signs, float scale, float *y)
{
    for (int j = 0; j < 8; j++)
        y[j] = with_sign(scale * (float)iq2_values[code8(entry, j)], signs, j);
}

void halo_dequant_iq2_xxs(const void *block, float *y)
{
    const struct halo_block_iq2_xxs *b = block;
    float d = halo_f16_float(b->d);
    for (int g = 0; g < 8; g++) {
        const uint16_t *q = b->qs + 4 * g;
        uint32_t word = q[2] | (uint32_t)q[3] << 16;
        float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
        for (int l = 0; l < 4; l++)
            put_iq2(halo_grid_iq2_xxs[q[l / 2] >> l % 2 * 8 & 255], even_signs(word >> 7 * l & 127), scale,
                    y + 32 * g + 8 * l);
    }
}

/* Scale of the 16 weights number i: a nibble. */
static float iq2_scale(float d, const uint8_t scales[8], int i)
{
    return d * (0.5f + (float)(scales[i / 2] >> i % 2 * 4 & 15)) * 0.25f;
}

void halo_dequant_iq2_xs(const void *block, float *y)
{
    const struct halo_block_iq2_xs *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 32; i++)
        put_iq2(halo_grid_iq2_xs[b->qs[i] & 511], even_signs(b->qs[i] >> 9), iq2_scale(d, b->scales, i / 2), y + 8 * i);
}

void halo_dequant_iq2_s(const void *block, float *y)
{
    const struct halo_block_iq2_s *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 32; i++) {
        unsigned index = b->qs[i] | (b->qh[i / 4] >> i % 4 * 2 & 3u) << 8;
        put_iq2(halo_grid_iq2_s[index], b->signs[i], iq2_scale(d, b->scales, i / 2), y + 8 * i);
    }
}

void halo_dequant_iq3_xxs(const void *block, float *y)
{
    const struct halo_block_iq3_xxs *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 256; i++) {
        uint32_t word;
        memcpy(&word, b->words + i / 32 * 4, sizeof word);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
        int value = iq3_xxs_values[code4(halo_grid_iq3_xxs[b->qs[i / 4]], i % 4)];
        y[i] = with_sign(scale * (float)value, even_signs(word >> i / 8 % 4 * 7 & 127), i % 8);
    }
}

void halo_dequant_iq3_s(const void *block, float *y)
{
    const struct halo_block_iq3_s *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 256; i++) {
        unsigned index = b->qs[i / 4] | (b->qh[i / 32] >> i / 4 % 8 & 1u) << 8;
        float scale = d * (float)(1 + 2 * (b->scales[i / 64] >> i / 32 % 2 * 4 & 15));
        y[i] = with_sign(scale * (float)(2 * code4(halo_grid_iq3_s[index], i % 4) + 1), b->signs[i / 8], i % 8);
    }
}

static void put_iq1(uint16_t entry, bool negative, float scale, float *y)
{
    for (int j = 0; j < 8; j++)
        y[j] = scale * ((float)(code8(entry, j) - 1) + (negative ? -0.125f : 0.125f));
}

void halo_dequant_iq1_s(const void *block, float *y)
{
    const struct halo_block_iq1_s *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 32; i++) {
        unsigned qh = b->qh[i / 4], index = b->qs[i] | (qh >> i % 4 * 3 & 7) << 8;
        put_iq1(halo_grid_iq1[index], qh >> 15, d * (float)(2 * (qh >> 12 & 7) + 1), y + 8 * i);
    }
}

void halo_dequant_iq1_m(const void *block, float *y)
{
    const struct halo_block_iq1_m *b = block;
    float d = halo_f16_float(
        (uint16_t)(b->sc[0] >> 12 | (b->sc[1] >> 12) << 4 | (b->sc[2] >> 12) << 8 | (b->sc[3] >> 12) << 12));
    for (int i = 0; i < 32; i++) {
        unsigned qh = b->qh[i / 2] >> i % 2 * 4 & 15u, scale = b->sc[i / 8] >> i / 2 % 4 * 3 & 7u;
        put_iq1(halo_grid_iq1[b->qs[i] | (qh & 7) << 8], qh >> 3, d * (float)(2 * scale + 1), y + 8 * i);
    }
}

/* Five ternary digits in a byte, as the digits of a fraction of 256: digit n comes out on top after n multiplications
 * by 3. */
static int ternary_digit(uint8_t byte, int n)
{
    for (; n > 0; n--)
        byte = (uint8_t)(byte * 3);
    return byte * 3 >> 8;
}

void halo_dequant_tq1_0(const void *block, float *y)
{
    const struct halo_block_tq1_0 *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 256; i++) {
        int digit = i < 160   ? ternary_digit(b->qs[i % 32], i / 32)
                    : i < 240 ? ternary_digit(b->qs[32 + i % 16], (i - 160) / 16)
                              : ternary_digit(b->qh[i % 4], (i - 240) / 4);
        y[i] = (float)(digit - 1) * d;
    }
}

void halo_dequant_tq2_0(const void *block, float *y)
{
    const struct halo_block_tq2_0 *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 256; i++)
        y[i] = (float)((b->qs[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3) - 1) * d;
}

void halo_dequant_q1_0(const void *block, float *y)
{
    const struct halo_block_q1_0 *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 128; i++)
        y[i] = b->qs[i / 8] >> i % 8 & 1 ? d : -d;
}

void halo_dequant_q2_0(const void *block, float *y)
{
    const struct halo_block_q2_0 *b = block;
    float d = halo_f16_float(b->d);
    for (int i = 0; i < 64; i++)
        y[i] = (float)((b->qs[i / 4] >> i % 4 * 2 & 3) - 1) * d;
}

void halo_dequant_nvfp4(const void *block, float *y)
{
    const struct halo_block_nvfp4 *b = block;
    for (int i = 0; i < 64; i++) {
        uint8_t byte = b->qs[i / 16 * 8 + i % 8];
        y[i] = halo_e4m3_float(b->e[i / 16]) * 0.5f * (float)fp4_values2[byte >> i / 8 % 2 * 4 & 15];
    }
}
