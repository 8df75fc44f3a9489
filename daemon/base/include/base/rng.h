/* rng.h: the counter-based generator, Philox4x32-10.
 *
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A draw is a pure function
 * of (seed, position, lane): no state, so a restarted or re-batched request draws what it would have drawn. Any thread.
 */
#ifndef HALO_BASE_RNG_H
#define HALO_BASE_RNG_H

#include <stdint.h>

/* The block function: counter (4 words) and key (2 words) in, 4 words out. */
void halo_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret_words[4]);

/* Uniform in [0, 1) with 53 bits, from (seed, position, lane). lane tells several draws at one position apart. */
double halo_rng_uniform(uint64_t seed, uint64_t position, uint32_t lane);

#endif
