/* format_priv.h: how a block of the file becomes a block of the packed form.
 *
 * A packed block holds the same block of 16 rows. The bytes of a file block are cut into *segments* of equal units;
 * unit i of row r goes to place i * 16 + r of its segment, and the segments follow each other in the order of the
 * table. All quants and the sub-block scales are units of 4 bytes: one 512-bit load brings the same 4 bytes of 16 rows,
 * which after shift and mask are 4 consecutive columns, as dot-product instructions want them.
 */
#ifndef HALO_CPU_FORMAT_PRIV_H
#define HALO_CPU_FORMAT_PRIV_H

#include <kernels/quant.h>

#include <matmul/matmul.h>

#define HALO_CPU_SEGMENTS 4
#define HALO_CPU_BLOCK_MAX 256 /* no file block is larger: bytes, and weights */

struct halo_cpu_segment {
    uint8_t offset; /* of the first unit in the file block */
    uint8_t unit;   /* bytes: 1, 2 or 4 */
    uint8_t count;  /* 0 ends the list */
    bool spread;    /* units are 32 bits, one for each of 32 weights: see halo_cpu_spread_bits() */
};

struct halo_cpu_format {
    uint16_t block_weights, block_bytes;
    struct halo_cpu_segment segments[HALO_CPU_SEGMENTS];
};

/* Bit 4q + b of a fifth-bit word goes to bit 8b + q: the bit of column 4q + b then lies in the byte of its column, and
 * one shift serves a whole quad. A bit matrix of 8 x 4, turned; four exchanges of bits a distance apart do it. */
static inline uint32_t halo_cpu_exchange_bits(uint32_t x, uint32_t mask, unsigned distance)
{
    uint32_t moved = (x ^ x >> distance) & mask;
    return x ^ moved ^ moved << distance;
}

static inline uint32_t halo_cpu_spread_bits(uint32_t x)
{
    x = halo_cpu_exchange_bits(x, 0x22222222, 1);
    x = halo_cpu_exchange_bits(x, 0x0a0a0a0a, 3);
    x = halo_cpu_exchange_bits(x, 0x00cc00cc, 6);
    x = halo_cpu_exchange_bits(x, 0x0000f0f0, 12);
    return x;
}

static inline uint32_t halo_cpu_gather_bits(uint32_t x)
{
    x = halo_cpu_exchange_bits(x, 0x0000f0f0, 12);
    x = halo_cpu_exchange_bits(x, 0x00cc00cc, 6);
    x = halo_cpu_exchange_bits(x, 0x0a0a0a0a, 3);
    x = halo_cpu_exchange_bits(x, 0x22222222, 1);
    return x;
}

/* NULL for an id that is no type. */
const struct halo_cpu_format *halo_cpu_format_of(enum halo_type type);

/* Copies the block of row `row` (0..15) out of a packed block, back into its layout in the file. */
void halo_cpu_block_gather(const struct halo_cpu_format *format, const uint8_t *packed, uint32_t row, void *ret_block);

/* The block as floats, in the layout of the file. */
void halo_cpu_block_dequantize(enum halo_type type, const void *block, float *out);

/* Rows laid end to end are read side by side: with an odd number of cache lines each they lie in different sets. */
static inline uint64_t halo_cpu_spread_bytes(uint64_t row_bytes)
{
    return ((row_bytes + 63) / 64 | 1) * 64;
}

#endif
