/* act_priv.h: 32 activations as the integer kernels read them: one cache line. */
#ifndef HALO_CPU_ACT_PRIV_H
#define HALO_CPU_ACT_PRIV_H

#include <kernels/quant.h>

#include <matmul/matmul.h>

struct halo_act_block {
    int8_t q[HALO_QK];    /* x[i] is about q[i] * d */
    float d;              /* amax / 127 */
    float dsum;           /* d * sum of q: for minima of 32 weights */
    int32_t neg_sum;      /* - sum of q: for offsets of 32 weights, as the start of an integer sum */
    int32_t neg_sum16[2]; /* the same for each half: for types whose scales cover 16 weights */
    int16_t sum16[2];     /* the sums of the halves, read as one 32-bit pair */
    uint8_t unused[8];
};
_Static_assert(sizeof(struct halo_act_block) == 64, "an activation block is a cache line");

/* A block whose largest magnitude is smaller than this is zero: 127 / amax stays finite. */
#define HALO_ACT_TINY 0x1p-120f

/* One block from 32 floats, by one instruction set. */
typedef void halo_act_block_fn(const float *x, struct halo_act_block *ret);
void halo_act_block_reference(const float *x, struct halo_act_block *ret);
void halo_act_block_avx2(const float *x, struct halo_act_block *ret);

/* The block for NaN or infinity among the inputs: whatever the weights, the product is NaN. */
static inline void halo_act_block_poison(struct halo_act_block *ret)
{
    *ret = (struct halo_act_block){.d = __builtin_nanf(""), .dsum = __builtin_nanf("")};
}

#endif
