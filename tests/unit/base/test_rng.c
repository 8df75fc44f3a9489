/* test_rng.c: the generator against the known answers of Random123, and the uniform draw built on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <base/rng.h>

/* Random123's kat_vectors, philox4x32 with 10 rounds. */
static void test_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], wanted[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint32_t words[4];
        halo_philox(vectors[i].counter, vectors[i].key, words);
        assert_memory_equal(words, vectors[i].wanted, sizeof words);
    }
}

/* The draw is defined by the words: 53 bits from the first two, seed as key, position and lane as counter. */
static void test_uniform_is_the_block_function(void **state)
{
    const uint64_t seed = 0x0123456789abcdefu, position = 0xfedcba9876543210u;
    const uint32_t counter[4] = {0x76543210, 0xfedcba98, 7, 0}, key[2] = {0x89abcdef, 0x01234567};
    uint32_t words[4];
    halo_philox(counter, key, words);
    double wanted = (double)(((uint64_t)words[0] << 32 | words[1]) >> 11) / 9007199254740992.0;
    assert_true(halo_rng_uniform(seed, position, 7) == wanted);
    assert_true(halo_rng_uniform(0, 0, 0) == (double)(0x6627e8d5e169c58du >> 11) / 9007199254740992.0);
}

static void test_uniform_is_even(void **state)
{
    enum { BINS = 64, DRAWS = 64000 };
    unsigned bins[BINS] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = halo_rng_uniform(42, i, (uint32_t)(i % 3));
        assert_true(x >= 0 && x < 1);
        bins[(int)(x * BINS)]++;
    }
    double chi2 = 0, mean = (double)DRAWS / BINS;
    for (int i = 0; i < BINS; i++)
        chi2 += ((double)bins[i] - mean) * ((double)bins[i] - mean) / mean;
    assert_true(chi2 > 30 && chi2 < 110); /* 63 degrees of freedom; fixed seed, so no chance in it */
}

static void test_every_input_matters(void **state)
{
    double base = halo_rng_uniform(1, 2, 3);
    assert_true(base != halo_rng_uniform(2, 2, 3) && base != halo_rng_uniform(1, 3, 3) &&
                base != halo_rng_uniform(1, 2, 4));
    assert_true(base != halo_rng_uniform(1 + (1ull << 32), 2, 3) && base != halo_rng_uniform(1, 2 + (1ull << 32), 3));
    assert_true(base == halo_rng_uniform(1, 2, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_uniform_is_the_block_function),
        cmocka_unit_test(test_uniform_is_even),
        cmocka_unit_test(test_every_input_matters),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
