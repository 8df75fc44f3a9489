/* carve.h: cuts one region into arrays, or counts the bytes that they would take. Pure.
 *
 * The same code runs twice: with a NULL base to learn the size, then with the region. `n_bytes` saturates at
 * UINT64_MAX.
 */
#ifndef HALO_COMMON_CARVE_H
#define HALO_COMMON_CARVE_H

#include <stddef.h>
#include <stdint.h>

struct halo_carver {
    uint8_t *base;
    uint64_t n_bytes;
};

/* The next n * size bytes at the given alignment (a power of two, at most that of the region). NULL when counting. */
static inline void *halo_carve(struct halo_carver *carver, uint64_t n, uint64_t size, uint64_t alignment)
{
    uint64_t bytes, begin, end;
    if (__builtin_mul_overflow(n, size, &bytes) || __builtin_add_overflow(carver->n_bytes, alignment - 1, &begin) ||
        __builtin_add_overflow(begin & ~(alignment - 1), bytes, &end)) {
        carver->n_bytes = UINT64_MAX;
        return NULL;
    }
    carver->n_bytes = end;
    return carver->base ? carver->base + (begin & ~(alignment - 1)) : NULL;
}

#endif
