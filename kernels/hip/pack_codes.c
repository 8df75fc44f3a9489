/* pack_codes.c: packs the types whose form is not that of the file: grid indices become the codes of their entries,
 * ternary digits pairs of bits (contract in pack_priv.h, forms in gfx/layout.h).
 */
#include <string.h>

#include <kernels/quant.h>

#include "pack_priv.h"

#define X(code) code,
static const uint16_t grid_iq1[] = {
#include <kernels/grid_iq1.def>
};
static const uint16_t grid_iq2_xxs[] = {
#include <kernels/grid_iq2_xxs.def>
};
static const uint16_t grid_iq2_xs[] = {
#include <kernels/grid_iq2_xs.def>
};
static const uint16_t grid_iq2_s[] = {
#include <kernels/grid_iq2_s.def>
};
static const uint16_t grid_iq3_xxs[] = {
#include <kernels/grid_iq3_xxs.def>
};
static const uint16_t grid_iq3_s[] = {
#include <kernels/grid_iq3_s.def>
};
#undef X

/* Where the parts of unit u go. */
struct unit {
    const struct halo_row_layout *at;
    uint8_t *packed;
    uint32_t u;
};

static void put_pairs(const struct unit *t, const uint8_t q[32])
{
    halo_pack_pairs(q, 0, t->packed + t->at->pairs + 8 * t->u);
}

/* The sign byte of an index of 7 bits: an even number of ones. */
static uint32_t even_signs(uint32_t index)
{
    return index | (uint32_t)__builtin_parity(index) << 7;
}

static void codes8(uint16_t entry, uint8_t q[8])
{
    for (int i = 0; i < 8; i++)
        q[i] = entry >> 2 * i & 3;
}

static void put_iq2(const struct unit *t, const uint8_t q[32], uint32_t signs, uint32_t scales, uint16_t d)
{
    put_pairs(t, q);
    memcpy(t->packed + t->at->bits + 4 * t->u, &signs, 4);
    t->packed[t->at->scales + t->u] = (uint8_t)scales;
    memcpy(t->packed + t->at->super + t->u / 8 * 2, &d, 2);
}

static void pack_iq2_xxs(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_iq2_xxs *b = block;
    const uint16_t *qs = b->qs + 4 * j;
    uint32_t word = qs[2] | (uint32_t)qs[3] << 16, signs = 0;
    uint8_t q[32];
    for (int l = 0; l < 4; l++) {
        codes8(grid_iq2_xxs[qs[l / 2] >> l % 2 * 8 & 255], q + 8 * l);
        signs |= even_signs(word >> 7 * l & 127) << 8 * l;
    }
    put_iq2(t, q, signs, (word >> 28) * 17, b->d);
}

static void pack_iq2_xs(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_iq2_xs *b = block;
    uint32_t signs = 0;
    uint8_t q[32];
    for (int l = 0; l < 4; l++) {
        uint32_t number = b->qs[4 * j + (uint32_t)l];
        codes8(grid_iq2_xs[number & 511], q + 8 * l);
        signs |= even_signs(number >> 9) << 8 * l;
    }
    put_iq2(t, q, signs, b->scales[j], b->d);
}

static void pack_iq2_s(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_iq2_s *b = block;
    uint32_t signs;
    uint8_t q[32];
    memcpy(&signs, b->signs + 4 * j, 4);
    for (int l = 0; l < 4; l++)
        codes8(grid_iq2_s[b->qs[4 * j + (uint32_t)l] | (b->qh[j] >> 2 * l & 3) << 8], q + 8 * l);
    put_iq2(t, q, signs, b->scales[j], b->d);
}

/* q: magnitudes. */
static void put_iq3(const struct unit *t, uint8_t q[32], uint32_t signs, uint32_t scale, uint16_t d)
{
    for (int i = 0; i < 32; i++)
        q[i] |= (uint8_t)((signs >> i & 1) << 3);
    halo_pack_nibbles(q, t->packed + t->at->quants + 16 * t->u);
    t->packed[t->at->scales + t->u] = (uint8_t)scale;
    memcpy(t->packed + t->at->super + t->u / 8 * 2, &d, 2);
}

static void codes4(uint16_t entry, uint8_t q[4])
{
    for (int i = 0; i < 4; i++)
        q[i] = entry >> 3 * i & 7;
}

#define IQ3_XXS_TOP 16 /* in a scale: the largest magnitude is 62 */

static void pack_iq3_xxs(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_iq3_xxs *b = block;
    uint32_t word, signs = 0;
    uint8_t q[32];
    memcpy(&word, b->words + 4 * j, 4);
    for (uint32_t k = 0; k < 8; k++)
        codes4(grid_iq3_xxs[b->qs[8 * j + k]], q + 4 * k);
    for (int l = 0; l < 4; l++)
        signs |= even_signs(word >> 7 * l & 127) << 8 * l;
    put_iq3(t, q, signs, word >> 28 | IQ3_XXS_TOP, b->d);
}

static void pack_iq3_s(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_iq3_s *b = block;
    uint32_t signs;
    uint8_t q[32];
    memcpy(&signs, b->signs + 4 * j, 4);
    for (uint32_t k = 0; k < 8; k++)
        codes4(grid_iq3_s[b->qs[8 * j + k] | (b->qh[j] >> k & 1) << 8], q + 4 * k);
    put_iq3(t, q, signs, b->scales[j / 2] >> j % 2 * 4 & 15u, b->d);
}

/* more: a bit for each 8 weights, set where an eighth is added. */
static void put_iq1(const struct unit *t, const uint8_t q[32], uint32_t scale0, uint32_t scale1, uint32_t more,
                    uint16_t d)
{
    uint16_t s = (uint16_t)((2 * scale0 + 1) | (2 * scale1 + 1) << 4 | more << 8);
    put_pairs(t, q);
    memcpy(t->packed + t->at->scales + 2 * t->u, &s, 2);
    memcpy(t->packed + t->at->super + t->u / 8 * 2, &d, 2);
}

static void pack_iq1_s(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_iq1_s *b = block;
    uint32_t qh = b->qh[j], scale = qh >> 12 & 7;
    uint8_t q[32];
    for (uint32_t l = 0; l < 4; l++)
        codes8(grid_iq1[b->qs[4 * j + l] | (qh >> 3 * l & 7) << 8], q + 8 * l);
    put_iq1(t, q, scale, scale, qh >> 15 ? 0 : 15, b->d);
}

static void pack_iq1_m(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_iq1_m *b = block;
    uint32_t d = 0, more = 0, scales = (uint32_t)b->sc[j / 2] >> j % 2 * 6;
    uint8_t q[32];
    for (uint32_t i = 0; i < 4; i++)
        d |= (uint32_t)(b->sc[i] >> 12) << 4 * i;
    for (uint32_t l = 0; l < 4; l++) {
        uint32_t nibble = b->qh[2 * j + l / 2] >> l % 2 * 4 & 15u;
        codes8(grid_iq1[b->qs[4 * j + l] | (nibble & 7) << 8], q + 8 * l);
        more |= (nibble >> 3 ^ 1) << l;
    }
    put_iq1(t, q, scales & 7, scales >> 3 & 7, more, (uint16_t)d);
}

static void put_d(const struct unit *t, uint16_t d)
{
    memcpy(t->packed + t->at->scales + 2 * t->u, &d, 2);
}

static void pack_tq1_0(const void *block, uint32_t j, const struct unit *t)
{
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    const struct halo_block_tq1_0 *b = block;
    uint8_t q[32];
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t w = 32 * j + i;
        uint32_t byte = w < 160 ? b->qs[w % 32] : w < 240 ? b->qs[32 + w % 16] : b->qh[w % 4];
        uint32_t digit = w < 160 ? w / 32 : w < 240 ? (w - 160) / 16 : (w - 240) / 4;
        q[i] = (uint8_t)((byte * powers[digit] & 255) * 3 >> 8);
    }
    put_pairs(t, q);
    put_d(t, b->d);
}

static void pack_tq2_0(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_tq2_0 *b = block;
    uint8_t q[32];
    for (uint32_t i = 0; i < 32; i++)
        q[i] = b->qs[j / 4 * 32 + i] >> j % 4 * 2 & 3;
    put_pairs(t, q);
    put_d(t, b->d);
}

static void pack_q2_0(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_q2_0 *b = block;
    uint8_t q[32];
    for (uint32_t i = 0; i < 32; i++)
        q[i] = b->qs[8 * j + i / 4] >> i % 4 * 2 & 3;
    put_pairs(t, q);
    put_d(t, b->d);
}

static void pack_q1_0(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_q1_0 *b = block;
    memcpy(t->packed + t->at->bits + 4 * t->u, b->qs + 4 * j, 4);
    put_d(t, b->d);
}

static void pack_nvfp4(const void *block, uint32_t j, const struct unit *t)
{
    const struct halo_block_nvfp4 *b = block;
    uint8_t q[32];
    for (uint32_t i = 0; i < 32; i++)
        q[i] = b->qs[16 * j + i / 16 * 8 + i % 8] >> i / 8 % 2 * 4 & 15;
    halo_pack_nibbles(q, t->packed + t->at->quants + 16 * t->u);
    for (uint32_t h = 0; h < 2; h++) {
        uint8_t e = b->e[2 * j + h];
        t->packed[t->at->scales + 2 * t->u + h] = e == 0x7f ? 0 : e;
    }
}

typedef void pack_unit_fn(const void *block, uint32_t j, const struct unit *unit);

static pack_unit_fn *const pack_unit_fns[HALO_TYPE_END] = {
    [HALO_TYPE_IQ1_S] = pack_iq1_s,   [HALO_TYPE_IQ1_M] = pack_iq1_m, [HALO_TYPE_IQ2_XXS] = pack_iq2_xxs,
    [HALO_TYPE_IQ2_XS] = pack_iq2_xs, [HALO_TYPE_IQ2_S] = pack_iq2_s, [HALO_TYPE_IQ3_XXS] = pack_iq3_xxs,
    [HALO_TYPE_IQ3_S] = pack_iq3_s,   [HALO_TYPE_TQ1_0] = pack_tq1_0, [HALO_TYPE_TQ2_0] = pack_tq2_0,
    [HALO_TYPE_Q2_0] = pack_q2_0,     [HALO_TYPE_Q1_0] = pack_q1_0,   [HALO_TYPE_NVFP4] = pack_nvfp4,
};

void halo_hip_pack_factor(uint32_t n_cols, float factor, uint8_t *packed)
{
    memcpy(packed + halo_hip_row_layout(HALO_TYPE_NVFP4, n_cols).super, &factor, sizeof(factor));
}

bool halo_hip_pack_codes(uint32_t type, uint32_t n_cols, const uint8_t *file, const struct halo_row_layout *at,
                         uint8_t *packed)
{
    pack_unit_fn *pack = type < HALO_TYPE_END ? pack_unit_fns[type] : NULL;
    const struct halo_type_info info = halo_type_info(type);
    if (!pack)
        return false;
    for (uint32_t u = 0; u < n_cols / HALO_HIP_UNIT; u++) {
        uint32_t per_block = info.block_weights / HALO_HIP_UNIT;
        pack(file + (uint64_t)(u / per_block) * info.block_bytes, u % per_block,
             &(struct unit){.at = at, .packed = packed, .u = u});
    }
    if (type == HALO_TYPE_NVFP4)
        halo_hip_pack_factor(n_cols, 1, packed);
    return true;
}
