/* slab_priv.h: 32 weights of one row as integers with scales: the common form of all quantized types.
 *
 * weight[i] = scale * sub[i / 16] * q[i], plus min (HALO_SLAB_MIN), or minus min * sub_min[i / 16]
 * (HALO_SLAB_MIN_HALVES). `scale` and `min` are exact: an f16, a power of two, or an f16 times an integer of at most 6
 * bits. sub is {1, 1} for types whose scale covers 32 weights.
 */
#ifndef HALO_CPU_SLAB_PRIV_H
#define HALO_CPU_SLAB_PRIV_H

#include <kernels/quant.h>
#include <kernels/tensor.h>

enum halo_slab_min { HALO_SLAB_NO_MIN, HALO_SLAB_MIN, HALO_SLAB_MIN_HALVES };

struct halo_slab {
    int8_t q[HALO_QK];
    enum halo_slab_min minimum;
    float scale, min;
    int32_t sub[2], sub_min[2];
};

/* The slabs of one block in the layout of the file: 1, or 8 for the types with blocks of 256. `block` is aligned to 8
 * bytes. */
void halo_slab_expand(enum halo_type type, const void *block, struct halo_slab *ret_slabs);

#endif
