/* order.h: the largest of numbers across a wave. */
#ifndef HALO_GFX_ORDER_H
#define HALO_GFX_ORDER_H

#include "gfx.h"

/* Logits as integers in their order, both zeros the same; a NaN below all numbers, what is taken below everything. */
HALO_DEVICE uint32_t order_of(float logit)
{
    const uint32_t bits = halo_float_bits(logit);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return 1;
    return bits >> 31 ? 0 - bits : bits | 0x80000000;
}

/* The largest of the wave, ties to the lowest id. */
HALO_DEVICE void wave_best(uint32_t *order, uint32_t *id)
{
#define STEP(m)                                                                                                                \
    {                                                                                                                          \
        const uint32_t o = (uint32_t)halo_xor<m>((int)*order), i = (uint32_t)halo_xor<m>((int)*id);                            \
        const bool take = o > *order || (o == *order && i < *id);                                                              \
        *order = take ? o : *order;                                                                                            \
        *id = take ? i : *id;                                                                                                  \
    }
    STEP(16) STEP(8) STEP(4) STEP(2) STEP(1)
#undef STEP
}

#endif
