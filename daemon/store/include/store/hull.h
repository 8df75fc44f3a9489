/* hull.h: the whole pages that a direct read of a byte range takes.
 *
 * O_DIRECT reads begin and end on boundaries of the device's blocks, and memory and file offset must be congruent.
 * Pages of HALO_HULL_ALIGN bytes satisfy every drive and file system in use. The hull of [offset, offset + n_bytes) is
 * that range widened to whole pages: a reader needs memory for the hull, and the first byte of the range lies
 * `offset % HALO_HULL_ALIGN` bytes into it. Pure; any thread.
 */
#ifndef HALO_STORE_HULL_H
#define HALO_STORE_HULL_H

#include <stdbool.h>
#include <stdint.h>

#define HALO_HULL_ALIGN 4096

static inline uint64_t halo_hull_begin(uint64_t offset)
{
    return offset & ~(uint64_t)(HALO_HULL_ALIGN - 1);
}

/* Of the range that ends before `end`. */
static inline uint64_t halo_hull_end(uint64_t end)
{
    return halo_hull_begin(end + HALO_HULL_ALIGN - 1);
}

static inline uint64_t halo_hull_bytes(uint64_t offset, uint64_t n_bytes)
{
    return halo_hull_end(offset + n_bytes) - halo_hull_begin(offset);
}

/* Whether `dest` can take the byte at `offset` by a direct read. */
static inline bool halo_hull_fits(const void *dest, uint64_t offset)
{
    return (((uintptr_t)dest ^ offset) & (HALO_HULL_ALIGN - 1)) == 0;
}

#endif
