/* order.h: numbers as integers in their order, and the largest across a wave. */
#ifndef HALO_GFX_ORDER_H
#define HALO_GFX_ORDER_H

#include "gfx.h"

/* Numbers as integers in their order, both zeros the same; none is below 2. A NaN may have any place. */
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

/* The logit of an order: +0 for both zeros, a NaN for that of a NaN. */
HALO_DEVICE float logit_of(uint32_t order)
{
    return halo_bits_float(order >> 31 ? order & 0x7fffffff : 0 - order);
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
    const uint32_t best = halo_wave_most(*order);
    *id = halo_wave_least(*order == best ? *id : UINT32_MAX);
    *order = best;
}

#endif
