/* test_clock.c: the clock goes forward, at the pace of the system's, in the three units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <base/clock.h>

static void test_goes_forward(void **state)
{
    uint64_t last = halo_clock_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = halo_clock_ns();
        assert_true(now >= last);
        last = now;
    }
}

static void test_pace_and_units(void **state)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    uint64_t us = halo_clock_us(), ms = halo_clock_ms();
    assert_true(us >= ns / 1000 && us < ns / 1000 + 10000000);
    assert_true(ms >= ns / 1000000 && ms < ns / 1000000 + 10000);
    uint64_t before = halo_clock_ns();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    uint64_t slept = halo_clock_ns() - before;
    assert_true(slept >= 20000000 && slept < 10000000000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goes_forward), cmocka_unit_test(test_pace_and_units)};
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
