/* pack_grid.c: packs the grid types: the bits of the file, in other places (contract in pack_priv.h, forms in
 * gfx/layout.h).
 */
#include <string.h>

#include <kernels/quant.h>

#include "pack_priv.h"

#define UNITS 8

/* Bit i of eight signs l is that of weight 8 l + i; here they are at the places of the kernels. */
static uint32_t place_signs(uint32_t l, uint32_t signs)
{
    uint32_t word = 0;
    for (uint32_t i = 0; i < 8; i++)
        word |= (signs >> i & 1) << (8 * (i % 4) + 2 * l + i / 4);
    return word;
}

static uint32_t all_signs(const uint8_t signs[4])
{
    uint32_t word = 0;
    for (uint32_t l = 0; l < 4; l++)
        word |= place_signs(l, signs[l]);
    return word;
}

/* Seven signs, of which the eighth follows; sign l is left out for `other`, one bit. */
static uint32_t seven_signs(uint32_t l, uint32_t signs, uint32_t other)
{
    signs |= (uint32_t)__builtin_parity(signs) << 7;
    return place_signs(l, (signs & ~(1u << l)) | other << l);
}

static uint8_t *pairs_of(const struct halo_row_layout *at, uint8_t *packed, uint32_t u)
{
    return packed + at->pairs + 8 * u;
}

static void pack_iq2_xxs(uint32_t b, const struct halo_block_iq2_xxs *block, const struct halo_row_layout *at,
                         uint8_t *packed)
{
    memcpy(packed + at->super + b * 2, &block->d, 2);
    for (uint32_t j = 0; j < UNITS; j++) {
        const uint16_t *qs = block->qs + 4 * j;
        const uint32_t word = qs[2] | (uint32_t)qs[3] << 16;
        uint32_t signs = 0;
        for (uint32_t l = 0; l < 4; l++)
            signs |= seven_signs(l, word >> 7 * l & 127, word >> (28 + l) & 1);
        memcpy(pairs_of(at, packed, b * UNITS + j), qs, 4);
        memcpy(pairs_of(at, packed, b * UNITS + j) + 4, &signs, 4);
    }
}

static void pack_iq2_xs(uint32_t b, const struct halo_block_iq2_xs *block, const struct halo_row_layout *at,
                        uint8_t *packed)
{
    memcpy(packed + at->super + b * 2, &block->d, 2);
    memcpy(packed + at->scales + b * UNITS, block->scales, UNITS);
    for (uint32_t j = 0; j < UNITS; j++) {
        uint8_t *unit = pairs_of(at, packed, b * UNITS + j);
        uint32_t signs = 0;
        for (uint32_t l = 0; l < 4; l++) {
            const uint32_t number = block->qs[4 * j + l];
            unit[l] = (uint8_t)number;
            signs |= seven_signs(l, number >> 9, number >> 8 & 1);
        }
        memcpy(unit + 4, &signs, 4);
    }
}

static void pack_iq2_s(uint32_t b, const struct halo_block_iq2_s *block, const struct halo_row_layout *at,
                       uint8_t *packed)
{
    memcpy(packed + at->super + b * 2, &block->d, 2);
    for (uint32_t j = 0; j < UNITS; j++) {
        const uint32_t u = b * UNITS + j, signs = all_signs(block->signs + 4 * j);
        memcpy(pairs_of(at, packed, u), block->qs + 4 * j, 4);
        memcpy(pairs_of(at, packed, u) + 4, &signs, 4);
        packed[at->scales + 2 * u] = block->qh[j];
        packed[at->scales + 2 * u + 1] = block->scales[j];
    }
}

static void pack_iq3_xxs(uint32_t b, const struct halo_block_iq3_xxs *block, const struct halo_row_layout *at,
                         uint8_t *packed)
{
    memcpy(packed + at->super + b * 2, &block->d, 2);
    memcpy(pairs_of(at, packed, b * UNITS), block->qs, sizeof(block->qs));
    for (uint32_t j = 0; j < UNITS; j++) {
        uint32_t word, signs = 0;
        memcpy(&word, block->words + 4 * j, 4);
        for (uint32_t l = 0; l < 4; l++)
            signs |= seven_signs(l, word >> 7 * l & 127, word >> (28 + l) & 1);
        memcpy(packed + at->bits + 4 * (b * UNITS + j), &signs, 4);
    }
}

static void pack_iq3_s(uint32_t b, const struct halo_block_iq3_s *block, const struct halo_row_layout *at,
                       uint8_t *packed)
{
    memcpy(packed + at->super + b * 6, &block->d, 2);
    memcpy(packed + at->super + b * 6 + 2, block->scales, 4);
    memcpy(packed + at->scales + b * UNITS, block->qh, UNITS);
    memcpy(pairs_of(at, packed, b * UNITS), block->qs, sizeof(block->qs));
    for (uint32_t j = 0; j < UNITS; j++) {
        const uint32_t signs = all_signs(block->signs + 4 * j);
        memcpy(packed + at->bits + 4 * (b * UNITS + j), &signs, 4);
    }
}

/* A set bit of the file's takes an eighth off, one of the packed form's adds it. */
static void pack_iq1_s(uint32_t b, const struct halo_block_iq1_s *block, const struct halo_row_layout *at,
                       uint8_t *packed)
{
    memcpy(packed + at->super + b * 2, &block->d, 2);
    memcpy(packed + at->bits + b * 32, block->qs, 32);
    for (uint32_t j = 0; j < UNITS; j++) {
        const uint16_t high = block->qh[j] ^ 0x8000;
        memcpy(packed + at->scales + 2 * (b * UNITS + j), &high, 2);
    }
}

static void pack_iq1_m(uint32_t b, const struct halo_block_iq1_m *block, const struct halo_row_layout *at,
                       uint8_t *packed)
{
    uint64_t super = 0; /* d, then six bits for each unit */
    for (uint32_t i = 0; i < 4; i++)
        super |= (uint64_t)(block->sc[i] >> 12) << 4 * i | (uint64_t)(block->sc[i] & 0xfff) << (16 + 12 * i);
    memcpy(packed + at->super + b * 8, &super, 8);
    memcpy(packed + at->bits + b * 32, block->qs, 32);
    for (uint32_t i = 0; i < 16; i++)
        packed[at->scales + b * 16 + i] = block->qh[i] ^ 0x88;
}

bool halo_hip_pack_grid(uint32_t type, uint32_t n_blocks, const uint8_t *file, const struct halo_row_layout *at,
                        uint8_t *packed)
{
    const uint32_t block_bytes = halo_type_info(type).block_bytes;
    for (uint32_t b = 0; b < n_blocks; b++, file += block_bytes) {
        const void *block = file;
        switch (type) {
        case HALO_TYPE_IQ1_S: pack_iq1_s(b, block, at, packed); break;
        case HALO_TYPE_IQ1_M: pack_iq1_m(b, block, at, packed); break;
        case HALO_TYPE_IQ2_XXS: pack_iq2_xxs(b, block, at, packed); break;
        case HALO_TYPE_IQ2_XS: pack_iq2_xs(b, block, at, packed); break;
        case HALO_TYPE_IQ2_S: pack_iq2_s(b, block, at, packed); break;
        case HALO_TYPE_IQ3_XXS: pack_iq3_xxs(b, block, at, packed); break;
        case HALO_TYPE_IQ3_S: pack_iq3_s(b, block, at, packed); break;
        default: return false;
        }
    }
    return true;
}
