/* pack_super.c: packs the super-blocks of 256 weights: eight units of 32 each (contract in pack_priv.h). */
#include <string.h>

#include <kernels/quant.h>

#include "pack_priv.h"

#define UNITS 8

/* The 6-bit scale and minimum of sub-block j of Q4_K and Q5_K. */
static void scale_min(const uint8_t *s, uint32_t j, uint32_t *ret_scale, uint32_t *ret_min)
{
    if (j < 4) {
        *ret_scale = s[j] & 63u;
        *ret_min = s[j + 4] & 63u;
    } else {
        *ret_scale = (s[j + 4] & 15u) | (s[j - 4] >> 6 & 3u) << 4;
        *ret_min = (uint32_t)s[j + 4] >> 4 | (s[j] >> 6 & 3u) << 4;
    }
}

static struct halo_pack_k pack_k(uint16_t d, uint16_t dmin, const uint8_t *scales)
{
    struct halo_pack_k k = {.d = d, .dmin = dmin};
    for (uint32_t j = 0; j < UNITS; j++) {
        uint32_t scale, minimum;
        scale_min(scales, j, &scale, &minimum);
        k.sm[j] = (uint8_t)(scale | (minimum & 3) << 6);
        k.mh[j / 2] |= (uint8_t)(minimum >> 2 << j % 2 * 4);
    }
    return k;
}

/* Unit j of Q4_K and Q5_K: nibbles of the 32 bytes that it shares with its neighbour. */
static void unit_k(const uint8_t *qs, const uint8_t *qh, uint32_t j, uint8_t q[32])
{
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t nibble = qs[j / 2 * 32 + i] >> j % 2 * 4 & 15u;
        q[i] = (uint8_t)(nibble | (qh ? qh[i] >> j & 1u : 0) << 4);
    }
}

static void pack_q4_k(uint32_t b, const struct halo_block_q4_k *block, const struct halo_row_layout *at,
                      uint8_t *packed)
{
    const struct halo_pack_k k = pack_k(block->d, block->dmin, block->scales);
    memcpy(packed + at->super + b * sizeof(k), &k, sizeof(k));
    for (uint32_t j = 0; j < UNITS; j++) {
        uint8_t q[32];
        unit_k(block->qs, NULL, j, q);
        halo_pack_nibbles(q, packed + at->quants + (b * UNITS + j) * 16);
    }
}

static void pack_q5_k(uint32_t b, const struct halo_block_q5_k *block, const struct halo_row_layout *at,
                      uint8_t *packed)
{
    const struct halo_pack_k k = pack_k(block->d, block->dmin, block->scales);
    memcpy(packed + at->super + b * sizeof(k), &k, sizeof(k));
    for (uint32_t j = 0; j < UNITS; j++) {
        uint8_t q[32];
        unit_k(block->qs, block->qh, j, q);
        halo_pack_nibbles(q, packed + at->quants + (b * UNITS + j) * 16);
        halo_pack_bits(q, 4, packed + at->bits + (b * UNITS + j) * 4);
    }
}

static void pack_q6_k(uint32_t b, const struct halo_block_q6_k *block, const struct halo_row_layout *at,
                      uint8_t *packed)
{
    for (uint32_t j = 0; j < UNITS; j++) {
        const uint8_t *ql = block->ql + j / 4 * 64 + j % 2 * 32, *qh = block->qh + j / 4 * 32;
        uint8_t q[32];
        for (uint32_t i = 0; i < 32; i++)
            q[i] = (uint8_t)((ql[i] >> j % 4 / 2 * 4 & 15u) | (qh[i] >> j % 4 * 2 & 3u) << 4);
        halo_pack_nibbles(q, packed + at->quants + (b * UNITS + j) * 16);
        halo_pack_pairs(q, 4, packed + at->pairs + (b * UNITS + j) * 8);
    }
    memcpy(packed + at->scales + b * 16, block->scales, 16);
    memcpy(packed + at->super + b * 2, &block->d, 2);
}

/* Unit j of Q2_K and Q3_K: the two low bits. */
static void unit_pairs(const uint8_t *qs, uint32_t j, uint8_t q[32])
{
    for (uint32_t i = 0; i < 32; i++)
        q[i] = qs[j / 4 * 32 + i] >> j % 4 * 2 & 3;
}

static void pack_q2_k(uint32_t b, const struct halo_block_q2_k *block, const struct halo_row_layout *at,
                      uint8_t *packed)
{
    for (uint32_t j = 0; j < UNITS; j++) {
        uint8_t q[32];
        unit_pairs(block->qs, j, q);
        halo_pack_pairs(q, 0, packed + at->pairs + (b * UNITS + j) * 8);
    }
    memcpy(packed + at->scales + b * 16, block->scales, 16);
    memcpy(packed + at->super + b * 4, &block->d, 2);
    memcpy(packed + at->super + b * 4 + 2, &block->dmin, 2);
}

static void pack_q3_k(uint32_t b, const struct halo_block_q3_k *block, const struct halo_row_layout *at,
                      uint8_t *packed)
{
    for (uint32_t j = 0; j < UNITS; j++) {
        uint8_t q[32];
        unit_pairs(block->qs, j, q);
        halo_pack_pairs(q, 0, packed + at->pairs + (b * UNITS + j) * 8);
        for (uint32_t i = 0; i < 32; i++)
            q[i] = block->hmask[i] >> j & 1;
        halo_pack_bits(q, 0, packed + at->bits + (b * UNITS + j) * 4);
    }
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t low = block->scales[i % 8] >> i / 8 * 4 & 15u, high = block->scales[8 + i % 4] >> i / 4 * 2 & 3u;
        packed[at->scales + b * 16 + i] = (uint8_t)((low | high << 4) - 32);
    }
    memcpy(packed + at->super + b * 2, &block->d, 2);
}

static void pack_iq4_xs(uint32_t b, const struct halo_block_iq4_xs *block, const struct halo_row_layout *at,
                        uint8_t *packed)
{
    memcpy(packed + at->quants + b * 128, block->qs, 128); /* is in the order of units in the file */
    for (uint32_t j = 0; j < UNITS; j++) {
        uint32_t low = block->scales_l[j / 2] >> j % 2 * 4 & 15u, high = block->scales_h >> 2 * j & 3u;
        packed[at->scales + b * UNITS + j] = (uint8_t)((low | high << 4) - 32);
    }
    memcpy(packed + at->super + b * 2, &block->d, 2);
}

void halo_hip_pack_super(uint32_t type, uint32_t n_blocks, const uint8_t *file, const struct halo_row_layout *at,
                         uint8_t *packed)
{
    uint32_t block_bytes = halo_type_info(type).block_bytes;
    for (uint32_t b = 0; b < n_blocks; b++, file += block_bytes) {
        const void *block = file;
        switch (type) {
        case HALO_TYPE_Q2_K: pack_q2_k(b, block, at, packed); break;
        case HALO_TYPE_Q3_K: pack_q3_k(b, block, at, packed); break;
        case HALO_TYPE_Q4_K: pack_q4_k(b, block, at, packed); break;
        case HALO_TYPE_Q5_K: pack_q5_k(b, block, at, packed); break;
        case HALO_TYPE_Q6_K: pack_q6_k(b, block, at, packed); break;
        case HALO_TYPE_IQ4_XS: pack_iq4_xs(b, block, at, packed); break;
        default: break;
        }
    }
}
