/* pack_priv.h: weights of a file into the layout of the kernels (gfx/layout.h), one row at a time.
 *
 * Pure functions; any thread; nothing is allocated. The two rows must not overlap.
 */
#ifndef HALO_HIP_PACK_PRIV_H
#define HALO_HIP_PACK_PRIV_H

#include <stdbool.h>

#include "gfx/layout.h"

/* Whether rows of n_cols weights of this type can be packed at all. */
bool halo_hip_pack_fits(uint32_t type, uint32_t n_cols);

/* Packs one row: halo_type_row_bytes(type, n_cols) bytes into halo_hip_row_layout(type, n_cols).stride bytes, gaps
 * zeroed. */
void halo_hip_pack_row(uint32_t type, uint32_t n_cols, const uint8_t *file, uint8_t *packed);

/* n numbers of a vector (F32, F16 or BF16) as floats; false for another type. `out` may begin at or before `file`. */
bool halo_hip_pack_vector(uint32_t type, uint64_t n, const uint8_t *file, float *out);

/* pack_super.c: units of the super-block types. The planes of the row begin at `packed` + the offsets of `at`. */
void halo_hip_pack_super(uint32_t type, uint32_t n_blocks, const uint8_t *file, const struct halo_row_layout *at,
                         uint8_t *packed);

/* pack_grid.c: n_blocks of the types with code books; false, and nothing done, for another type. */
bool halo_hip_pack_grid(uint32_t type, uint32_t n_blocks, const uint8_t *file, const struct halo_row_layout *at,
                        uint8_t *packed);
/* pack_codes.c: the types of one and two bits, and NVFP4, with a factor of 1; false, and nothing done, for another
 * type. */
bool halo_hip_pack_codes(uint32_t type, uint32_t n_cols, const uint8_t *file, const struct halo_row_layout *at,
                         uint8_t *packed);
/* Sets the factor of a packed row of NVFP4. */
void halo_hip_pack_factor(uint32_t n_cols, float factor, uint8_t *packed);

/* A unit of 32 small numbers into its planes. */
static inline void halo_pack_nibbles(const uint8_t q[32], uint8_t out[16])
{
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static inline void halo_pack_pairs(const uint8_t q[32], uint32_t shift, uint8_t out[8])
{
    for (int i = 0; i < 8; i++) {
        uint32_t byte = 0;
        for (int j = 0; j < 4; j++)
            byte |= (q[i + 8 * j] >> shift & 3u) << 2 * j;
        out[i] = (uint8_t)byte;
    }
}

static inline void halo_pack_bits(const uint8_t q[32], uint32_t shift, uint8_t out[4])
{
    for (int i = 0; i < 4; i++) {
        uint32_t byte = 0;
        for (int j = 0; j < 8; j++)
            byte |= (q[8 * i + j] >> shift & 1u) << j;
        out[i] = (uint8_t)byte;
    }
}

#endif
