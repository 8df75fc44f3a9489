/* test_utf8.c: every code point written, judged and read again; what is no character, and how long the bad part is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <base/utf8.h>

static void every_code_point(void **state)
{
    for (uint32_t point = 0; point <= 0x10FFFF; point++) {
        char bytes[4];
        size_t n = halo_utf8_encode(bytes, point), length = 0;
        bool surrogate = point >= 0xD800 && point <= 0xDFFF;
        if (n != (point < 0x80      ? 1
                  : point < 0x800   ? 2
                  : point < 0x10000 ? 3
                                    : 4) ||
            halo_utf8_scan(bytes, n, &length) != (surrogate ? HALO_UTF8_BAD : HALO_UTF8_VALID) ||
            length != (surrogate ? 1 : n) || (!surrogate && halo_utf8_decode(bytes, n) != point))
            fail_msg("U+%04X: %zu bytes, %zu of them judged", (unsigned)point, n, length);
    }
}

static void what_is_no_character(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        enum halo_utf8 verdict;
        size_t length;
    } cases[] = {
        {"\x80", 1, HALO_UTF8_BAD, 1},             /* no lead byte */
        {"\xC0\x80", 2, HALO_UTF8_BAD, 1},         /* overlong */
        {"\xE0\x9F\xBF", 3, HALO_UTF8_BAD, 1},     /* overlong */
        {"\xF4\x90\x80\x80", 4, HALO_UTF8_BAD, 1}, /* past U+10FFFF */
        {"\xE2\x82(", 3, HALO_UTF8_BAD, 2},        /* the part that began well */
        {"\xE2\x82", 2, HALO_UTF8_PARTIAL, 2},     /* more may come */
        {"\xF0\x9F\xA6", 3, HALO_UTF8_PARTIAL, 3},
        {"\xF0\x9F\xA6\x8A", 4, HALO_UTF8_VALID, 4},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        size_t length = 0;
        assert_int_equal(halo_utf8_scan(cases[i].bytes, cases[i].n, &length), cases[i].verdict);
        assert_int_equal(length, cases[i].length);
    }
    assert_int_equal(halo_utf8_valid_run("a\xC3\xA4"
                                         "b\xC3",
                                         5),
                     4);
    assert_int_equal(halo_utf8_valid_run("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_code_point), cmocka_unit_test(what_is_no_character)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
