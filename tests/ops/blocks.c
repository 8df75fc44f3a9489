/* blocks.c: random weights in file layout. */
#include "blocks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <kernels/quant.h>

const enum halo_type ops_types[] = {
#define X(id, gguf_id, weights, bytes) HALO_TYPE_##id,
    HALO_TYPE_LIST(X)
#undef X
};
const unsigned ops_n_types = sizeof ops_types / sizeof *ops_types;

uint32_t ops_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

float ops_uniform(uint64_t *state, float low, float high)
{
    return low + (high - low) * (float)(ops_random(state) >> 8) * 0x1p-24f;
}

void *ops_alloc(size_t n_bytes)
{
    void *p = aligned_alloc(64, (n_bytes + 63) / 64 * 64 + 64);
    assert(p);
    return p;
}

static uint16_t random_f16(enum ops_scales scales, uint64_t *state)
{
    static const uint16_t edges[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3c00};
    uint32_t bits = ops_random(state);
    if (scales == OPS_SCALES_EXTREME)
        return edges[bits % (sizeof edges / sizeof *edges)];
    return (uint16_t)((bits & 0x83ff) | (6 + (bits >> 16) % 6) << 10); /* magnitudes of 2^-9 .. 2^-3 */
}

/* Offsets of the f16 fields of a block: -1 ends the list. */
static const int8_t *f16_offsets(enum halo_type type)
{
    static const int8_t first[] = {0, -1}, first_two[] = {0, 2, -1}, none[] = {-1};
    static const int8_t q2_k[] = {offsetof(struct halo_block_q2_k, d), offsetof(struct halo_block_q2_k, dmin), -1};
    static const int8_t q3_k[] = {offsetof(struct halo_block_q3_k, d), -1};
    static const int8_t tq1_0[] = {offsetof(struct halo_block_tq1_0, d), -1};
    static const int8_t tq2_0[] = {offsetof(struct halo_block_tq2_0, d), -1};
    switch (type) {
    case HALO_TYPE_F16:
    case HALO_TYPE_Q4_0:
    case HALO_TYPE_Q5_0:
    case HALO_TYPE_Q8_0:
    case HALO_TYPE_IQ4_NL:
    case HALO_TYPE_IQ4_XS:
    case HALO_TYPE_IQ1_S:
    case HALO_TYPE_IQ2_XXS:
    case HALO_TYPE_IQ2_XS:
    case HALO_TYPE_IQ2_S:
    case HALO_TYPE_IQ3_XXS:
    case HALO_TYPE_IQ3_S:
    case HALO_TYPE_Q1_0:
    case HALO_TYPE_Q2_0: return first;
    case HALO_TYPE_Q4_1:
    case HALO_TYPE_Q5_1:
    case HALO_TYPE_Q4_K:
    case HALO_TYPE_Q5_K: return first_two;
    case HALO_TYPE_Q2_K: return q2_k;
    case HALO_TYPE_Q3_K: return q3_k;
    case HALO_TYPE_TQ1_0: return tq1_0;
    case HALO_TYPE_TQ2_0: return tq2_0;
    default: return none;
    }
}

static void set_scales(enum halo_type type, enum ops_scales scales, uint64_t *state, uint8_t *block)
{
    uint16_t half;
    for (const int8_t *at = f16_offsets(type); *at >= 0; at++) {
        half = random_f16(scales, state);
        memcpy(block + *at, &half, sizeof half);
    }
    if (type == HALO_TYPE_Q6_K) {
        half = random_f16(scales, state);
        memcpy(block + offsetof(struct halo_block_q6_k, d), &half, sizeof half);
    } else if (type == HALO_TYPE_IQ1_M) {
        struct halo_block_iq1_m *b = (struct halo_block_iq1_m *)(void *)block;
        half = random_f16(scales, state);
        for (int i = 0; i < 4; i++) /* four bits in each of the numbers that hold the scales */
            b->sc[i] = (uint16_t)((b->sc[i] & 0xfff) | (half >> 4 * i & 15) << 12);
    } else if (type == HALO_TYPE_MXFP4) {
        static const uint8_t edges[] = {0, 1, 2, 3, 127, 254, 255};
        block[0] = scales == OPS_SCALES_USUAL ? (uint8_t)(115 + block[0] % 16) : edges[block[0] % sizeof edges];
    } else if (type == HALO_TYPE_BF16 || type == HALO_TYPE_F32) {
        float value = scales == OPS_SCALES_USUAL ? ops_uniform(state, -1, 1) : (block[0] & 1 ? 0x1p-140f : -0x1.fp60f);
        memcpy(block, (uint8_t *)&value + (type == HALO_TYPE_BF16 ? 2 : 0), type == HALO_TYPE_BF16 ? 2 : 4);
    }
}

void ops_fill_blocks(enum halo_type type, enum ops_scales scales, uint64_t n, uint64_t *state, void *ret)
{
    struct halo_type_info info = halo_type_info(type);
    assert(n % info.block_weights == 0);
    uint8_t *block = ret;
    for (uint64_t k = 0; k < n / info.block_weights * info.block_bytes; k++)
        block[k] = (uint8_t)ops_random(state);
    ops_set_scales(type, scales, n, state, ret);
}

void ops_set_scales(enum halo_type type, enum ops_scales scales, uint64_t n, uint64_t *state, void *blocks)
{
    struct halo_type_info info = halo_type_info(type);
    uint8_t *block = blocks;
    for (uint64_t i = 0; i < n; i += info.block_weights, block += info.block_bytes)
        set_scales(type, scales, state, block);
}
