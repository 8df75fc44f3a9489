/* test_remarks.c: a list of sentences that never overflows and never ends inside a character. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <base/remarks.h>

static void test_add(void **state)
{
    struct halo_remarks remarks = {0}, more = {0};
    halo_remarks_add(&remarks, "%d of %s", 3, "four");
    assert_int_equal(remarks.n, 1);
    assert_string_equal(remarks.text[0], "3 of four");
    halo_remarks_append(&more, &remarks);
    halo_remarks_append(&more, &remarks);
    assert_int_equal(more.n, 2);
    assert_string_equal(more.text[1], "3 of four");
}

static void test_full(void **state)
{
    struct halo_remarks remarks = {0};
    for (int i = 0; i < HALO_REMARKS; i++)
        halo_remarks_add(&remarks, "%d", i);
    assert_string_equal(remarks.text[HALO_REMARKS - 1], "7");
    halo_remarks_add(&remarks, "one more");
    assert_int_equal(remarks.n, HALO_REMARKS);
    assert_string_equal(remarks.text[HALO_REMARKS - 1], "there are more remarks than the 8 that are kept");
}

static void test_cut(void **state)
{
    struct halo_remarks remarks = {0};
    char text[400] = "x";
    for (int i = 0; i < 150; i++)
        strcat(text, "\303\251");
    halo_remarks_add(&remarks, "%s", text);
    assert_int_equal(strlen(remarks.text[0]), HALO_REMARK_BYTES - 1); /* 1 + 127 * 2 */
    halo_remarks_add(&remarks, "x%s", text);
    assert_int_equal(strlen(remarks.text[1]), HALO_REMARK_BYTES - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_add), cmocka_unit_test(test_full),
                                       cmocka_unit_test(test_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
