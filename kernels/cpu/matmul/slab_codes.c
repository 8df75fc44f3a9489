/* slab_codes.c: blocks of the types with code books, and of the types of one and two bits -> slabs. Pure. Written apart
 * from dequant_codes.c so that the two check each other.
 *
 * Where a scale is (0.5 + s) times something, it is taken as (2s + 1) times half of it, and where a weight is a quarter
 * or an eighth of an integer, the scale is a quarter or an eighth: everything stays an integer, and exact. The types of
 * one and two bits are taken in halves, as the vector kernels take them, so that the smallest scales round alike.
 */
#include <stdbool.h>

#include "float_priv.h"
#include "grid_priv.h"
#include "slab_priv.h"

static const int8_t iq2_values[4] = HALO_IQ2_VALUES, iq3_xxs_values[8] = HALO_IQ3_XXS_VALUES;
static const int8_t fp4_values2[16] = HALO_MXFP4_VALUES2;

static struct halo_slab plain_slab(float scale)
{
    return (struct halo_slab){.scale = scale, .sub = {1, 1}};
}

/* Adds the signs of 8 weights: a byte. */
static void negate(int8_t q[8], uint8_t signs)
{
    for (int j = 0; j < 8; j++, signs >>= 1)
        q[j] = (int8_t)(signs & 1 ? -q[j] : q[j]);
}

/* The eighth sign makes the number of minuses even. */
static uint8_t complete_signs(uint32_t seven)
{
    uint8_t signs = seven & 127, odd = signs;
    odd ^= odd >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return (uint8_t)(signs | odd << 7);
}

static void put_levels8(int8_t q[8], uint16_t entry, const int8_t *levels)
{
    for (int j = 0; j < 8; j++, entry >>= 2)
        q[j] = levels[entry & 3];
}

static void put_levels4(int8_t q[4], uint16_t entry, const int8_t *levels)
{
    for (int j = 0; j < 4; j++, entry >>= 3)
        q[j] = levels[entry & 7];
}

void halo_slab_iq2_xxs(const void *block, struct halo_slab *s)
{
    const struct halo_block_iq2_xxs *b = block;
    for (int g = 0; g < 8; g++, s++) {
        uint8_t index[4];
        uint32_t word;
        memcpy(index, b->qs + 4 * g, sizeof index);
        memcpy(&word, b->qs + 4 * g + 2, sizeof word);
        *s = plain_slab(halo_f16_float(b->d) * 0.125f * (float)((word >> 28) * 2 + 1));
        for (int l = 0; l < 4; l++, word >>= 7) {
            put_levels8(s->q + 8 * l, halo_grid_iq2_xxs[index[l]], iq2_values);
            negate(s->q + 8 * l, complete_signs(word));
        }
    }
}

/* Two scales in a byte. */
static struct halo_slab halves_slab(uint16_t d, uint8_t scales)
{
    return (struct halo_slab){.scale = halo_f16_float(d) * 0.125f,
                              .sub = {(float)((scales & 15) * 2 + 1), (float)((scales >> 4) * 2 + 1)}};
}

void halo_slab_iq2_xs(const void *block, struct halo_slab *s)
{
    const struct halo_block_iq2_xs *b = block;
    for (int g = 0; g < 8; g++, s++) {
        *s = halves_slab(b->d, b->scales[g]);
        for (int l = 0; l < 4; l++) {
            put_levels8(s->q + 8 * l, halo_grid_iq2_xs[b->qs[4 * g + l] % 512], iq2_values);
            negate(s->q + 8 * l, complete_signs(b->qs[4 * g + l] / 512));
        }
    }
}

void halo_slab_iq2_s(const void *block, struct halo_slab *s)
{
    const struct halo_block_iq2_s *b = block;
    for (int g = 0; g < 8; g++, s++) {
        *s = halves_slab(b->d, b->scales[g]);
        uint8_t high = b->qh[g];
        for (int l = 0; l < 4; l++, high >>= 2) {
            put_levels8(s->q + 8 * l, halo_grid_iq2_s[b->qs[4 * g + l] + (high & 3) * 256], iq2_values);
            negate(s->q + 8 * l, b->signs[4 * g + l]);
        }
    }
}

void halo_slab_iq3_xxs(const void *block, struct halo_slab *s)
{
    const struct halo_block_iq3_xxs *b = block;
    for (int g = 0; g < 8; g++, s++) {
        uint32_t word;
        memcpy(&word, b->words + 4 * g, sizeof word);
        *s = plain_slab(halo_f16_float(b->d) * 0.25f * (float)((word >> 28) * 2 + 1));
        for (int k = 0; k < 8; k++)
            put_levels4(s->q + 4 * k, halo_grid_iq3_xxs[b->qs[8 * g + k]], iq3_xxs_values);
        for (int l = 0; l < 4; l++, word >>= 7)
            negate(s->q + 8 * l, complete_signs(word));
    }
}

void halo_slab_iq3_s(const void *block, struct halo_slab *s)
{
    static const int8_t levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    const struct halo_block_iq3_s *b = block;
    for (int g = 0; g < 8; g++, s++) {
        int scale = g % 2 ? b->scales[g / 2] >> 4 : b->scales[g / 2] & 15;
        *s = plain_slab(halo_f16_float(b->d) * (float)(scale * 2 + 1));
        for (int k = 0; k < 8; k++)
            put_levels4(s->q + 4 * k, halo_grid_iq3_s[b->qs[8 * g + k] + (b->qh[g] >> k & 1) * 256], levels);
        for (int l = 0; l < 4; l++)
            negate(s->q + 8 * l, b->signs[4 * g + l]);
    }
}

/* -1, 0, 1, with an eighth more or less: in eighths. */
static void put_iq1(int8_t q[8], uint32_t index, bool less)
{
    static const int8_t levels[2][3] = {{-7, 1, 9}, {-9, -1, 7}};
    put_levels8(q, halo_grid_iq1[index], levels[less]);
}

void halo_slab_iq1_s(const void *block, struct halo_slab *s)
{
    const struct halo_block_iq1_s *b = block;
    for (int g = 0; g < 8; g++, s++) {
        uint32_t qh = b->qh[g];
        *s = plain_slab(halo_f16_float(b->d) * 0.125f * (float)((qh >> 12) % 8 * 2 + 1));
        for (int l = 0; l < 4; l++)
            put_iq1(s->q + 8 * l, b->qs[4 * g + l] + (qh >> 3 * l) % 8 * 256, qh & 0x8000);
    }
}

void halo_slab_iq1_m(const void *block, struct halo_slab *s)
{
    const struct halo_block_iq1_m *b = block;
    uint16_t d = 0;
    for (int i = 3; i >= 0; i--)
        d = (uint16_t)(d << 4 | b->sc[i] >> 12);
    for (int g = 0; g < 8; g++, s++) {
        uint32_t scales = (uint32_t)b->sc[g / 2] >> g % 2 * 6;
        *s = (struct halo_slab){.scale = halo_f16_float(d) * 0.125f,
                                .sub = {(float)(scales % 8 * 2 + 1), (float)(scales / 8 % 8 * 2 + 1)}};
        for (int l = 0; l < 4; l++) {
            uint32_t nibble = b->qh[2 * g + l / 2];
            nibble = l % 2 ? nibble >> 4 : nibble & 15;
            put_iq1(s->q + 8 * l, b->qs[4 * g + l] + nibble % 8 * 256, nibble & 8);
        }
    }
}

void halo_slab_tq1_0(const void *block, struct halo_slab *s)
{
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    const struct halo_block_tq1_0 *b = block;
    int8_t q[HALO_QK_K], *to = q;
    for (int n = 0; n < 5; n++)
        for (int m = 0; m < 32; m++)
            *to++ = (int8_t)(((b->qs[m] * powers[n] & 255) * 3 >> 8) * 2 - 2);
    for (int n = 0; n < 5; n++)
        for (int m = 32; m < 48; m++)
            *to++ = (int8_t)(((b->qs[m] * powers[n] & 255) * 3 >> 8) * 2 - 2);
    for (int n = 0; n < 4; n++)
        for (int m = 0; m < 4; m++)
            *to++ = (int8_t)(((b->qh[m] * powers[n] & 255) * 3 >> 8) * 2 - 2);
    for (int g = 0; g < 8; g++) {
        s[g] = plain_slab(halo_f16_float(b->d) * 0.5f);
        memcpy(s[g].q, q + HALO_QK * g, HALO_QK);
    }
}

void halo_slab_tq2_0(const void *block, struct halo_slab *s)
{
    const struct halo_block_tq2_0 *b = block;
    for (int g = 0; g < 8; g++, s++) {
        *s = plain_slab(halo_f16_float(b->d) * 0.5f);
        for (int m = 0; m < HALO_QK; m++)
            s->q[m] = (int8_t)((b->qs[g / 4 * 32 + m] >> g % 4 * 2 & 3) * 2 - 2);
    }
}

void halo_slab_q1_0(const void *block, struct halo_slab *s)
{
    const struct halo_block_q1_0 *b = block;
    for (int g = 0; g < 4; g++, s++) {
        *s = plain_slab(halo_f16_float(b->d) * 0.5f);
        memset(s->q, 2, sizeof s->q);
        for (int l = 0; l < 4; l++)
            negate(s->q + 8 * l, (uint8_t)~b->qs[4 * g + l]);
    }
}

void halo_slab_q2_0(const void *block, struct halo_slab *s)
{
    static const int8_t levels[4] = {-2, 0, 2, 4};
    const struct halo_block_q2_0 *b = block;
    for (int g = 0; g < 2; g++, s++) {
        *s = plain_slab(halo_f16_float(b->d) * 0.5f);
        for (int l = 0; l < 4; l++)
            put_levels8(s->q + 8 * l, (uint16_t)(b->qs[8 * g + 2 * l] | b->qs[8 * g + 2 * l + 1] << 8), levels);
    }
}

void halo_slab_nvfp4(const void *block, struct halo_slab *s)
{
    const struct halo_block_nvfp4 *b = block;
    for (int g = 0; g < 2; g++, s++) {
        *s = (struct halo_slab){.scale = 0.5f, .sub = {halo_e4m3_float(b->e[2 * g]), halo_e4m3_float(b->e[2 * g + 1])}};
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 8; i++) {
                uint8_t byte = b->qs[16 * g + 8 * h + i];
                s->q[16 * h + i] = fp4_values2[byte & 15];
                s->q[16 * h + 8 + i] = fp4_values2[byte >> 4];
            }
    }
}
