/* test_hip_queues.c: how many hardware queues the runtime is told to take, before it is loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <hip/hip.h>

static void two_unless_the_owner_says_otherwise(void **state)
{
    assert_int_equal(unsetenv("GPU_MAX_HW_QUEUES"), 0);
    halo_hip_limit_queues();
    assert_non_null(getenv("GPU_MAX_HW_QUEUES"));
    assert_string_equal(getenv("GPU_MAX_HW_QUEUES"), "2");
    assert_int_equal(setenv("GPU_MAX_HW_QUEUES", "5", 1), 0);
    halo_hip_limit_queues();
    assert_string_equal(getenv("GPU_MAX_HW_QUEUES"), "5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_unless_the_owner_says_otherwise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
