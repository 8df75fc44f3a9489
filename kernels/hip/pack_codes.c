/* pack_codes.c: packs the types of one and two bits, whose digits become pairs of bits, and NVFP4 (contract in
 * pack_priv.h, forms in gfx/layout.h).
 */
#include <string.h>

#include <kernels/quant.h>

#include "pack_priv.h"

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
    [HALO_TYPE_TQ1_0] = pack_tq1_0, [HALO_TYPE_TQ2_0] = pack_tq2_0, [HALO_TYPE_Q2_0] = pack_q2_0,
    [HALO_TYPE_Q1_0] = pack_q1_0,   [HALO_TYPE_NVFP4] = pack_nvfp4,
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
