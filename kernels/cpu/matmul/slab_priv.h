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
    float sub[2]; /* integers, but for NVFP4, whose scales of 16 weights have 4 significant bits */
    int32_t sub_min[2];
};

/* The slabs of one block in the layout of the file: one for each 32 weights. `block` is aligned to 8 bytes. */
void halo_slab_expand(enum halo_type type, const void *block, struct halo_slab *ret_slabs);

/* The types with code books and those of one and two bits (slab_codes.c). */
typedef void halo_slab_fn(const void *block, struct halo_slab *ret_slabs);
halo_slab_fn halo_slab_iq1_s, halo_slab_iq1_m, halo_slab_iq2_xxs, halo_slab_iq2_xs, halo_slab_iq2_s, halo_slab_iq3_xxs;
halo_slab_fn halo_slab_iq3_s, halo_slab_tq1_0, halo_slab_tq2_0, halo_slab_q1_0, halo_slab_q2_0, halo_slab_nvfp4;

#endif
