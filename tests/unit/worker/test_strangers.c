/* test_strangers.c: how many may try to prove the key, and how long a source waits that failed. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "strangers_priv.h"

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage ret = {.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET};
    void *at = ret.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)(void *)&ret)->sin_addr
                                        : (void *)&((struct sockaddr_in6 *)(void *)&ret)->sin6_addr;
    assert_int_equal(inet_pton(ret.ss_family, text, at), 1);
    return ret;
}

static void fail_once(struct halo_strangers *s, const struct sockaddr_storage *from, uint64_t now_ms)
{
    assert_int_equal(halo_strangers_ask(s, from, now_ms), 0);
    halo_strangers_enter(s, from, 7);
    halo_strangers_leave(s, 7, now_ms);
}

static void only_so_many_at_once(void **state)
{
    struct halo_strangers s = {0};
    const struct sockaddr_storage from = address("192.0.2.1"), other = address("192.0.2.2");
    (void)state;
    for (pid_t child = 1; child <= HALO_STRANGERS_MAX; child++) {
        assert_int_equal(halo_strangers_ask(&s, &from, 0), 0);
        halo_strangers_enter(&s, &from, child);
    }
    assert_int_equal(halo_strangers_ask(&s, &other, 0), HALO_STRANGERS_E_FULL);
    halo_strangers_prove(&s, 3);
    assert_int_equal(halo_strangers_ask(&s, &other, 0), 0);
    halo_strangers_enter(&s, &other, 100);
    assert_int_equal(halo_strangers_ask(&s, &other, 0), HALO_STRANGERS_E_FULL);
    halo_strangers_leave(&s, 3, 0); /* which is no stranger any more */
    assert_int_equal(halo_strangers_ask(&s, &other, 0), HALO_STRANGERS_E_FULL);
    halo_strangers_leave(&s, 4, 0);
    assert_int_equal(halo_strangers_ask(&s, &other, 0), 0);
}

static void a_source_that_failed_waits_longer_each_time(void **state)
{
    struct halo_strangers s = {0};
    const struct sockaddr_storage from = address("192.0.2.1"), other = address("192.0.2.2");
    uint64_t now = 5000;
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        uint64_t wait = 1000u << (i < 6 ? i : 6);
        fail_once(&s, &from, now);
        assert_int_equal(halo_strangers_ask(&s, &from, now), HALO_STRANGERS_E_WAIT);
        assert_int_equal(halo_strangers_ask(&s, &from, now + wait - 1), HALO_STRANGERS_E_WAIT);
        assert_int_equal(halo_strangers_ask(&s, &other, now), 0);
        now += wait;
    }
    halo_strangers_enter(&s, &from, 9);
    halo_strangers_prove(&s, 9);
    fail_once(&s, &from, now);
    assert_int_equal(halo_strangers_ask(&s, &from, now + 1000), 0); /* its failures were forgotten */
}

static void a_network_is_one_source(void **state)
{
    struct halo_strangers s = {0};
    const struct sockaddr_storage one = address("2001:db8:1:2::1"), same = address("2001:db8:1:2:ffff::9"),
                                  other = address("2001:db8:1:3::1"), v4 = address("192.0.2.1"),
                                  mapped = address("::ffff:192.0.2.1");
    (void)state;
    fail_once(&s, &one, 0);
    assert_int_equal(halo_strangers_ask(&s, &same, 0), HALO_STRANGERS_E_WAIT);
    assert_int_equal(halo_strangers_ask(&s, &other, 0), 0);
    fail_once(&s, &v4, 0);
    assert_int_equal(halo_strangers_ask(&s, &mapped, 0), HALO_STRANGERS_E_WAIT);
}

static void the_source_that_failed_first_is_forgotten(void **state)
{
    struct halo_strangers s = {0};
    struct sockaddr_storage from;
    char text[32];
    (void)state;
    for (unsigned i = 0; i <= HALO_STRANGERS_SOURCES; i++) {
        snprintf(text, sizeof(text), "10.0.0.%u", i);
        from = address(text);
        fail_once(&s, &from, 1 + i);
    }
    from = address("10.0.0.0");
    assert_int_equal(halo_strangers_ask(&s, &from, 100), 0);
    from = address("10.0.0.1");
    assert_int_equal(halo_strangers_ask(&s, &from, 100), HALO_STRANGERS_E_WAIT);
    assert_int_equal(halo_strangers_ask(&s, &(struct sockaddr_storage){.ss_family = AF_INET}, 100), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_so_many_at_once),
        cmocka_unit_test(a_source_that_failed_waits_longer_each_time),
        cmocka_unit_test(a_network_is_one_source),
        cmocka_unit_test(the_source_that_failed_first_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
