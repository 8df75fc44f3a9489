/* test_quota.c: charges by user and kind, to the last one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <serve/quota.h>

static struct halo_quota quota;

/* Accounts of these user ids; the daemon is user 5. */
static void begin(struct halo_quota_limit limit, struct halo_quota_user **users, size_t n, const uid_t *uids)
{
    static const struct halo_config config;
    halo_quota_init(&quota, &config, 5);
    quota.limits[HALO_QUOTA_LINES] = limit;
    for (size_t i = 0; i < n; i++) {
        users[i] = halo_quota_acquire(&quota, uids[i]);
        assert_non_null(users[i]);
    }
}

static void end(struct halo_quota_user **users, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        halo_quota_give_back(&quota, users[i], HALO_QUOTA_LINES, (size_t)users[i]->used[HALO_QUOTA_LINES]);
        halo_quota_release(&quota, users[i]);
    }
    halo_quota_finish(&quota);
}

static int charge(struct halo_quota_user *user, size_t n)
{
    return halo_quota_charge(&quota, user, HALO_QUOTA_LINES, n);
}

static void a_fixed_share(void **state)
{
    struct halo_quota_user *u[3];
    begin((struct halo_quota_limit){.all = 250, .user = 100}, u, 3, (const uid_t[]){1, 2, 0});
    assert_ptr_equal(halo_quota_acquire(&quota, 1), u[0]);
    assert_int_equal(charge(u[0], 100), 0); /* to the brim */
    assert_int_equal(charge(u[0], 1), HALO_QUOTA_E_USER);
    assert_int_equal(charge(u[0], 0), 0);
    assert_int_equal(charge(u[1], 100), 0);
    assert_int_equal(charge(u[2], 51), HALO_QUOTA_E_ALL);
    assert_int_equal(charge(u[2], 50), 0);
    assert_int_equal(quota.used[HALO_QUOTA_LINES], 250);
    halo_quota_give_back(&quota, u[0], HALO_QUOTA_LINES, 100);
    assert_int_equal(charge(u[2], 50), 0);
    assert_int_equal(charge(u[2], 1), HALO_QUOTA_E_USER); /* root's too */
    halo_quota_release(&quota, u[0]);
    assert_int_equal(charge(u[0], 1), 0); /* still held once */
    end(u, 3);
    assert_null(quota.users);
    halo_quota_release(&quota, NULL);
}

static void half_of_what_the_others_leave(void **state)
{
    enum { A, B, C, ROOT, OWN, N };
    struct halo_quota_user *u[N];
    begin((struct halo_quota_limit){.all = 256, .reserved = 16}, u, N, (const uid_t[]){1000, 1001, 1002, 0, 5});
    assert_int_equal(halo_quota_share(&quota, u[A], HALO_QUOTA_LINES), 120);
    assert_int_equal(charge(u[A], 121), HALO_QUOTA_E_USER);
    assert_int_equal(charge(u[A], 120), 0);
    assert_int_equal(charge(u[B], 61), HALO_QUOTA_E_USER);
    assert_int_equal(charge(u[B], 60), 0);
    assert_int_equal(halo_quota_share(&quota, u[A], HALO_QUOTA_LINES), 90); /* it keeps what it has, and gets no more */
    assert_int_equal(charge(u[A], 1), HALO_QUOTA_E_USER);
    assert_int_equal(charge(u[C], 30), 0);
    halo_quota_add(&quota, u[C], HALO_QUOTA_LINES, 30); /* full, but for the reserve */
    assert_int_equal(charge(u[C], 1), HALO_QUOTA_E_ALL);
    assert_int_equal(charge(u[B], 1), HALO_QUOTA_E_ALL);
    assert_int_equal(charge(u[ROOT], 10), 0);
    assert_int_equal(charge(u[OWN], 7), HALO_QUOTA_E_ALL);
    assert_int_equal(charge(u[OWN], 6), 0);
    halo_quota_give_back(&quota, u[A], HALO_QUOTA_LINES, 120);
    assert_int_equal(charge(u[ROOT], 120), 0); /* root may have all of it */
    assert_int_equal(halo_quota_share(&quota, u[A], HALO_QUOTA_LINES), 0);
    end(u, N);
}

/* Whoever comes finds something, as long as there is anything. */
static void small_limits(void **state)
{
    struct halo_quota_user *u[4];
    begin((struct halo_quota_limit){.all = 4}, u, 4, (const uid_t[]){1, 2, 3, 4});
    assert_int_equal(charge(u[0], 3), HALO_QUOTA_E_USER);
    assert_int_equal(charge(u[0], 2), 0);
    assert_int_equal(charge(u[1], 1), 0);
    assert_int_equal(charge(u[1], 1), HALO_QUOTA_E_USER);
    assert_int_equal(charge(u[2], 1), 0);
    assert_int_equal(charge(u[3], 1), HALO_QUOTA_E_ALL);
    end(u, 4);
}

static void survives_huge_charges(void **state)
{
    struct halo_quota_user *u[1];
    begin((struct halo_quota_limit){.all = INT64_MAX, .user = INT64_MAX}, u, 1, (const uid_t[]){1});
    assert_int_equal(charge(u[0], (size_t)INT64_MAX), 0);
    assert_int_equal(charge(u[0], (size_t)INT64_MAX), HALO_QUOTA_E_USER);
    assert_int_equal(charge(u[0], 0), 0);
    end(u, 1);
}

static void limits_of_a_configuration(void **state)
{
    struct halo_config config;
    assert_int_equal(halo_config_init(&config), 0);
    halo_quota_init(&quota, &config, 5);
    assert_int_equal(quota.limits[HALO_QUOTA_CONNECTIONS].all, 256);
    assert_int_equal(quota.limits[HALO_QUOTA_CONNECTIONS].reserved, 16);
    assert_int_equal(quota.limits[HALO_QUOTA_QUEUED].reserved, 16);
    assert_int_equal(quota.limits[HALO_QUOTA_OUTPUT].user, 64 << 20);
    assert_int_equal(quota.limits[HALO_QUOTA_LINES].user, 32 << 20);
    halo_quota_finish(&quota);
    halo_config_finish(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_share),
        cmocka_unit_test(half_of_what_the_others_leave),
        cmocka_unit_test(small_limits),
        cmocka_unit_test(survives_huge_charges),
        cmocka_unit_test(limits_of_a_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
