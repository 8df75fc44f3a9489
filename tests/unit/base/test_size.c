/* test_size.c: numbers of bytes for people, at the edges of the units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <base/size.h>

static void by_1024(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 bytes"},
                 {1023, "1023 bytes"},
                 {1024, "1.0 KiB"},
                 {300 << 10, "300.0 KiB"},
                 {1 << 20, "1.0 MiB"},
                 {5476083302, "5.1 GiB"},
                 {UINT64_MAX, "16777216.0 TiB"}};
    char text[HALO_SIZE_TEXT];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(halo_size_text(cases[i].bytes, text), cases[i].text);
}

static void by_1000(void **state)
{
    static const struct {
        double bytes;
        const char *one, *two; /* digits of a gigabyte */
    } cases[] = {{0, "0 B", "0 B"},
                 {999, "999 B", "999 B"},
                 {1000, "1.0 kB", "1.0 kB"},
                 {49152, "49.2 kB", "49.2 kB"}, /* a slot of a small mixture is no "0.0 MB" */
                 {4.8e6, "4.8 MB", "4.8 MB"},
                 {4.99e9, "5.0 GB", "4.99 GB"},
                 {1.5e12, "1.5 TB", "1.50 TB"},
                 {2e18, "2000000.0 TB", "2000000.00 TB"}};
    char text[HALO_SIZE_TEXT];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(halo_size_decimal(cases[i].bytes, 1, text), cases[i].one);
        assert_string_equal(halo_size_decimal(cases[i].bytes, 2, text), cases[i].two);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_1024),
        cmocka_unit_test(by_1000),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
