/* test_quota.c: charges per user and in all, to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <serve/quota.h>

static void charges_users(void **state)
{
    struct halo_quota quota;
    halo_quota_init(&quota, 250, 100);
    struct halo_quota_user *a = halo_quota_acquire(&quota, 1), *b = halo_quota_acquire(&quota, 2),
                           *c = halo_quota_acquire(&quota, 3);
    assert_ptr_equal(halo_quota_acquire(&quota, 1), a);
    assert_int_equal(halo_quota_charge(&quota, a, 100), 0); /* to the brim */
    assert_int_equal(halo_quota_charge(&quota, a, 1), HALO_QUOTA_E_USER);
    assert_int_equal(halo_quota_charge(&quota, a, 0), 0);
    assert_int_equal(halo_quota_charge(&quota, b, 100), 0);
    assert_int_equal(halo_quota_charge(&quota, c, 51), HALO_QUOTA_E_ALL);
    assert_int_equal(halo_quota_charge(&quota, c, 50), 0);
    assert_int_equal(quota.bytes, 250);
    halo_quota_give_back(&quota, a, 100);
    assert_int_equal(halo_quota_charge(&quota, c, 50), 0);
    assert_int_equal(halo_quota_charge(&quota, c, 1), HALO_QUOTA_E_USER);
    halo_quota_give_back(&quota, b, 100);
    halo_quota_give_back(&quota, c, 100);
    halo_quota_release(&quota, a);
    assert_int_equal(halo_quota_charge(&quota, a, 1), 0); /* still held once */
    halo_quota_give_back(&quota, a, 1);
    halo_quota_release(&quota, a);
    halo_quota_release(&quota, b);
    halo_quota_release(&quota, c);
    halo_quota_release(&quota, NULL);
    assert_null(quota.users);
    halo_quota_finish(&quota);
}

static void survives_huge_charges(void **state)
{
    struct halo_quota quota;
    halo_quota_init(&quota, INT64_MAX, INT64_MAX);
    struct halo_quota_user *a = halo_quota_acquire(&quota, 1);
    assert_int_equal(halo_quota_charge(&quota, a, (size_t)INT64_MAX), 0);
    assert_int_equal(halo_quota_charge(&quota, a, (size_t)INT64_MAX), HALO_QUOTA_E_USER);
    halo_quota_give_back(&quota, a, (size_t)INT64_MAX);
    halo_quota_release(&quota, a);
    halo_quota_finish(&quota);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(charges_users), cmocka_unit_test(survives_huge_charges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
