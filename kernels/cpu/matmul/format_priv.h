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

#define HALO_CPU_SEGMENTS 5
#define HALO_CPU_BLOCK_MAX 256 /* no file block is larger: bytes, and weights */

/* How the words of a unit are turned so that the bits of columns 4q .. 4q + 3 lie in the four bytes of a word, at the
 * same place of each: one shift then serves a whole quad. Every turn but that of the scales has an inverse. */
enum halo_cpu_turn {
    HALO_TURN_NONE,
    HALO_TURN_BITS,   /* a word: bit i of column i */
    HALO_TURN_PAIRS,  /* a word: bits 2i, 2i + 1 of column i */
    HALO_TURN_SIGNS,  /* a word: four sign indices of 7 bits; the 4 bits above go where the eighth signs would be */
    HALO_TURN_IQ2_XS, /* two words: the low bytes of four grid indices; their signs, with the ninth bits of the indices
                         where the eighth signs would be */
    HALO_TURN_E4M3    /* a word: four scales; 0x7f, which stands for 0, becomes 0 */
};

struct halo_cpu_segment {
    uint8_t offset; /* of the first unit in the file block */
    uint8_t unit;   /* bytes: 1, 2, 4, or 8 for two words */
    uint8_t count;  /* 0 ends the list */
    uint8_t turn;   /* enum halo_cpu_turn; units of 4 and 8 bytes only */
    uint8_t stride; /* from unit to unit in the file block; 0: they follow each other */
};

struct halo_cpu_format {
    uint16_t block_weights, block_bytes;
    struct halo_cpu_segment segments[HALO_CPU_SEGMENTS];
};

/* Turns n units, given by their words, and turns one back. `high`, the second words, counts for HALO_TURN_IQ2_XS. */
void halo_cpu_turn(enum halo_cpu_turn turn, uint32_t n, uint32_t *low, uint32_t *high);
void halo_cpu_turn_back(enum halo_cpu_turn turn, uint32_t *low, uint32_t *high);

static inline uint32_t halo_cpu_unit_stride(const struct halo_cpu_segment *s)
{
    return s->stride ? s->stride : s->unit;
}

/* NULL for an id that is no type. */
const struct halo_cpu_format *halo_cpu_format_of(enum halo_type type);

/* Copies the block of row `row` (0..15) out of a packed block, back into its layout in the file: the same weights. */
void halo_cpu_block_gather(const struct halo_cpu_format *format, const uint8_t *packed, uint32_t row, void *ret_block);

/* The block as floats, in the layout of the file. */
void halo_cpu_block_dequantize(enum halo_type type, const void *block, float *out);

/* Rows laid end to end are read side by side: with an odd number of cache lines each they lie in different sets. */
static inline uint64_t halo_cpu_spread_bytes(uint64_t row_bytes)
{
    return ((row_bytes + 63) / 64 | 1) * 64;
}

#endif
