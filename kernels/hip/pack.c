/* pack.c: packs rows of weights: the small blocks here, the super-blocks in pack_super.c, the types
 * with code books in pack_grid.c, those that change their form in pack_codes.c (contract in pack_priv.h). */
#include <string.h>

#include <kernels/quant.h>

#include "pack_priv.h"

bool halo_hip_pack_fits(uint32_t type, uint32_t n_cols)
{
    const struct halo_type_info info = halo_type_info(type);
    bool packed = halo_hip_planes(type) != 0 || halo_hip_plain_bytes(type) != 0;
    /* Offsets inside a row are 32 bits. */
    return packed && n_cols > 0 && n_cols <= 1u << 24 && n_cols % info.block_weights == 0;
}

static void pack_q8_0(uint32_t n, const struct halo_block_q8_0 *block, const struct halo_row_layout *at,
                      uint8_t *packed)
{
    for (uint32_t u = 0; u < n; u++) {
        memcpy(packed + at->quants + 16 * u, block[u].qs, 16);
        memcpy(packed + at->high + 16 * u, block[u].qs + 16, 16);
        memcpy(packed + at->scales + 2 * u, &block[u].d, 2);
    }
}

/* The other small blocks are their planes already: what lies where, in bytes of a block. */
struct parts {
    uint32_t scale, n_scale, bits, n_bits, nibbles;
};

static struct parts parts_of(uint32_t type)
{
    switch (type) {
    case HALO_TYPE_Q4_0:
    case HALO_TYPE_IQ4_NL: return (struct parts){0, 2, 0, 0, offsetof(struct halo_block_q4_0, qs)};
    case HALO_TYPE_Q4_1: return (struct parts){0, 4, 0, 0, offsetof(struct halo_block_q4_1, qs)};
    case HALO_TYPE_Q5_0:
        return (struct parts){0, 2, offsetof(struct halo_block_q5_0, qh), 4, offsetof(struct halo_block_q5_0, qs)};
    case HALO_TYPE_Q5_1:
        return (struct parts){0, 4, offsetof(struct halo_block_q5_1, qh), 4, offsetof(struct halo_block_q5_1, qs)};
    case HALO_TYPE_MXFP4: return (struct parts){0, 1, 0, 0, offsetof(struct halo_block_mxfp4, qs)};
    default: return (struct parts){0};
    }
}

static void pack_parts(const struct parts *parts, uint32_t block_bytes, uint32_t n, const uint8_t *file,
                       const struct halo_row_layout *at, uint8_t *packed)
{
    for (uint32_t u = 0; u < n; u++, file += block_bytes) {
        memcpy(packed + at->quants + 16 * u, file + parts->nibbles, 16);
        memcpy(packed + at->bits + parts->n_bits * u, file + parts->bits, parts->n_bits);
        memcpy(packed + at->scales + parts->n_scale * u, file + parts->scale, parts->n_scale);
    }
}

void halo_hip_pack_row(uint32_t type, uint32_t n_cols, const uint8_t *file, uint8_t *packed)
{
    const struct halo_type_info info = halo_type_info(type);
    const struct halo_row_layout at = halo_hip_row_layout(type, n_cols);
    const struct parts parts = parts_of(type);
    uint64_t n_bytes = halo_type_row_bytes(type, n_cols);
    memset(packed, 0, at.stride);
    if (type == HALO_TYPE_Q8_0)
        pack_q8_0(n_cols / HALO_QK, (const struct halo_block_q8_0 *)(const void *)file, &at, packed);
    else if (parts.nibbles)
        pack_parts(&parts, info.block_bytes, n_cols / HALO_QK, file, &at, packed);
    else if (halo_hip_pack_codes(type, n_cols, file, &at, packed))
        return;
    else if (halo_hip_pack_grid(type, n_cols / info.block_weights, file, &at, packed))
        return;
    else if (info.block_weights == HALO_QK_K)
        halo_hip_pack_super(type, n_cols / HALO_QK_K, file, &at, packed);
    else
        memcpy(packed, file, n_bytes);
}

static float half(uint16_t h)
{
    /* Shifted into place a half is a float whose exponent is off by 112; infinities and NaNs by twice that. */
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    f *= 0x1p112f;
    memcpy(&bits, &f, sizeof(bits));
    bits |= (h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    bits |= sign;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

bool halo_hip_pack_vector(uint32_t type, uint64_t n, const uint8_t *file, float *out)
{
    if (type == HALO_TYPE_F32) {
        memmove(out, file, n * sizeof(float));
        return true;
    }
    if (type != HALO_TYPE_F16 && type != HALO_TYPE_BF16)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, file + 2 * i, sizeof(h));
        uint32_t bits = (uint32_t)h << 16;
        float f;
        memcpy(&f, &bits, sizeof(f));
        f = type == HALO_TYPE_F16 ? half(h) : f;
        memcpy(out + i, &f, sizeof(f));
    }
    return true;
}
