/* test_unicode.c: the categories of all code points are those of the stated version of Unicode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <base/hash.h>
#include <base/unicode.h>

/* The totals that DerivedGeneralCategory-15.1.0.txt states, and the MD5 of its categories as one text, two letters for
 * each code point from U+0000 on. */
static const struct {
    const char name[3];
    uint32_t n;
} totals[] = {{"Cn", 824718}, {"Lu", 1831}, {"Ll", 2233}, {"Lt", 31},  {"Lm", 397},  {"Lo", 132234},
              {"Mn", 1985},   {"Mc", 452},  {"Me", 13},   {"Nd", 680}, {"Nl", 236},  {"No", 915},
              {"Pc", 10},     {"Pd", 26},   {"Ps", 79},   {"Pe", 77},  {"Pi", 12},   {"Pf", 10},
              {"Po", 628},    {"Sm", 948},  {"Sc", 63},   {"Sk", 125}, {"So", 6639}, {"Zs", 17},
              {"Zl", 1},      {"Zp", 1},    {"Cc", 65},   {"Cf", 170}, {"Cs", 2048}, {"Co", 137468}};
#define N_TOTALS (sizeof(totals) / sizeof(totals[0]))
static const char all_md5[] = "0e4ff50d4f3649a0ee5a59d432763917";

static void test_all(void **state)
{
    uint32_t n[HALO_UNICODE_N_CATEGORIES] = {0};
    const char *names[HALO_UNICODE_N_CATEGORIES];
    char *all = malloc(2 * (size_t)HALO_UNICODE_END), md5[HALO_MD5_HEX];
    assert_int_equal(N_TOTALS, HALO_UNICODE_N_CATEGORIES);
    for (size_t i = 0; i < N_TOTALS; i++)
        names[__builtin_ctz(halo_unicode_mask(totals[i].name, 2))] = totals[i].name;
    for (uint32_t c = 0; c < HALO_UNICODE_END; c++) {
        enum halo_unicode_category category = halo_unicode_category(c, NULL);
        n[category]++;
        memcpy(all + 2 * (size_t)c, names[category], 2);
    }
    for (size_t i = 0; i < N_TOTALS; i++) {
        uint32_t mask = halo_unicode_mask(totals[i].name, 2);
        assert_int_equal(__builtin_popcount(mask), 1);
        assert_int_equal(n[__builtin_ctz(mask)], totals[i].n);
    }
    halo_md5_hex(all, 2 * (size_t)HALO_UNICODE_END, md5);
    assert_string_equal(md5, all_md5);
    free(all);
}

/* Runs cover all code points without a gap, and each is as long as it can be. */
static void test_runs(void **state)
{
    uint32_t n = 0, last;
    for (uint32_t c = 0; c < HALO_UNICODE_END; c = last + 1, n++) {
        enum halo_unicode_category category = halo_unicode_category(c, &last);
        assert_true(last >= c && last < HALO_UNICODE_END);
        assert_int_equal(halo_unicode_category(last, NULL), category);
        assert_true(last + 1 == HALO_UNICODE_END || halo_unicode_category(last + 1, NULL) != category);
    }
    assert_true(n > 4000);
    assert_int_equal(halo_unicode_category(HALO_UNICODE_END, &last), HALO_UNICODE_CN);
    assert_int_equal(halo_unicode_category(UINT32_MAX, NULL), HALO_UNICODE_CN);
}

static void test_masks(void **state)
{
    assert_int_equal(halo_unicode_mask("L", 1), halo_unicode_mask("Lu", 2) | halo_unicode_mask("Ll", 2) |
                                                    halo_unicode_mask("Lt", 2) | halo_unicode_mask("Lm", 2) |
                                                    halo_unicode_mask("Lo", 2));
    assert_int_equal(__builtin_popcount(halo_unicode_mask("P", 1)), 7);
    assert_int_equal(halo_unicode_mask("Q", 1), 0);
    assert_int_equal(halo_unicode_mask("Lx", 2), 0);
    assert_int_equal(halo_unicode_mask("", 0), 0);
    assert_int_equal(halo_unicode_mask("Lu ", 3), 0);
    assert_true(halo_unicode_is(0x1FABF, halo_unicode_mask("So", 2))); /* goose, Unicode 15.0 */
    assert_true(halo_unicode_is(0x2EBF0, halo_unicode_mask("L", 1)));  /* ideograph, 15.1 */
    assert_false(halo_unicode_is(0x1C89, halo_unicode_mask("L", 1)));  /* a letter since 16.0 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_runs),
                                       cmocka_unit_test(test_masks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
