/* order.h: numbers as integers in their order, and the largest across a wave. */
#ifndef HALO_GFX_ORDER_H
#define HALO_GFX_ORDER_H

#include "gfx.h"

/* Numbers as integers in their order, both zeros the same; none is below 2. A NaN is anywhere. */
HALO_DEVICE uint32_t order_of_number(float x)
{
    const uint32_t bits = halo_float_bits(x);
    return bits >> 31 ? 0 - bits : bits | 0x80000000;
}

/* Logits in their order; a NaN below all numbers, what is taken (0) below everything. */
HALO_DEVICE uint32_t order_of(float logit)
{
    return (halo_float_bits(logit) & 0x7fffffff) > 0x7f800000 ? 1 : order_of_number(logit);
}

/* Logits in their order; a NaN or an infinity above all numbers. */
constexpr uint32_t BROKEN = UINT32_MAX;
HALO_DEVICE uint32_t order_or_broken(float logit)
{
    return (halo_float_bits(logit) & 0x7f800000) == 0x7f800000 ? BROKEN : order_of_number(logit);
}

/* The largest of the wave, ties to the lowest id. */
HALO_DEVICE void wave_best(uint32_t *order, uint32_t *id)
{
#define STEP(m)                                                                                                        \
    {                                                                                                                  \
        const uint32_t o = (uint32_t)halo_xor<m>((int)*order), i = (uint32_t)halo_xor<m>((int)*id);                    \
        const bool take = o > *order || (o == *order && i < *id);                                                      \
        *order = take ? o : *order;                                                                                    \
        *id = take ? i : *id;                                                                                          \
    }
    STEP(16) STEP(8) STEP(4) STEP(2) STEP(1)
#undef STEP
}

#endif
