/* wire_priv.h: numbers as they lie on the wire: little-endian, not aligned. Pure. */
#ifndef HALO_HIP_REMOTE_WIRE_PRIV_H
#define HALO_HIP_REMOTE_WIRE_PRIV_H

#include <stdint.h>

static inline void halo_remote_put(uint8_t *at, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline uint64_t halo_remote_get(const uint8_t *at, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

#endif
