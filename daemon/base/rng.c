/* rng.c: Philox4x32-10 (Salmon and others, SC 2011, section 3.3 and table 2). Pure functions, any thread, cannot fail.
 */
#include <base/rng.h>

#define PHILOX_M0 0xd2511f53u
#define PHILOX_M1 0xcd9e8d57u
#define PHILOX_W0 0x9e3779b9u /* golden ratio */
#define PHILOX_W1 0xbb67ae85u /* sqrt(3) - 1 */
#define PHILOX_ROUNDS 10

void halo_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret_words[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    ret_words[0] = c0;
    ret_words[1] = c1;
    ret_words[2] = c2;
    ret_words[3] = c3;
}

double halo_rng_uniform(uint64_t seed, uint64_t position, uint32_t lane)
{
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), lane, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4];
    halo_philox(counter, key, words);
    uint64_t bits = (uint64_t)words[0] << 32 | words[1];
    return (double)(bits >> 11) * 0x1p-53;
}
