/* digest.h: a digest of 32-bit words that any number of threads can share, for the comparison of what two devices hold.
 *
 * The sum over all words, modulo 2^64, of a bijective mix of the word and its place: words that changed, moved or are
 * missing give another sum. No protection against an attacker. The mix is the finalizer of MurmurHash3. Pure; host and
 * GPU.
 */
#ifndef HALO_KERNELS_DIGEST_H
#define HALO_KERNELS_DIGEST_H

#include <stdint.h>

#if defined(__HIP__) || defined(__CUDACC__) || defined(__CUDA__)
#define HALO_DIGEST_FN static inline __attribute__((host)) __attribute__((device))
#else
#define HALO_DIGEST_FN static inline
#endif

/* What the word with this place adds. */
HALO_DIGEST_FN uint64_t halo_digest_word(uint32_t word, uint32_t place)
{
    uint64_t x = ((uint64_t)place << 32 | word) + 1;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

/* The digest of what came before, and of one more list of words. */
HALO_DIGEST_FN uint64_t halo_digest_join(uint64_t digest, uint64_t sum)
{
    return digest * 0x9e3779b97f4a7c15ull + sum;
}

#endif
