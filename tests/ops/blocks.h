/* blocks.h: random weights in file layout, and the bookkeeping that the op tests share. */
#ifndef HALO_OPS_BLOCKS_H
#define HALO_OPS_BLOCKS_H

#include <kernels/tensor.h>

/* X(type): all that have kernels. */
extern const enum halo_type ops_types[];
extern const unsigned ops_n_types;

/* A generator with a seed of its own in each test, so that a failure repeats. */
uint32_t ops_random(uint64_t *state);
float ops_uniform(uint64_t *state, float low, float high);

/* Scales as they occur in files, or the edges of the format: subnormal, zero, negative and largest finite f16. */
enum ops_scales { OPS_SCALES_USUAL, OPS_SCALES_EXTREME };

/* n weights of `type` (a multiple of its block) at `ret`: all quants and sub-block scales random bits, so that every
 * value occurs. */
void ops_fill_blocks(enum halo_type type, enum ops_scales scales, uint64_t n, uint64_t *state, void *ret);

/* The same for blocks that already have quants: only the floating-point scales are set. */
void ops_set_scales(enum halo_type type, enum ops_scales scales, uint64_t n, uint64_t *state, void *blocks);

/* malloc that cannot fail in a test. */
void *ops_alloc(size_t n_bytes);

#endif
