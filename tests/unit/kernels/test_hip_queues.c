/* test_hip_queues.c: how many hardware queues the runtime is told to take, before it is loaded.
 *
 * The programs of the build load a library of the tests that says so in the runtime's place; a test binary that runs
 * without them, as on a machine with a GPU, skips that part.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
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

/* Whether the program, told to use $HALO_TEST_PROBE as the runtime, loads it with so many queues. */
static bool loads_with(const char *program, const char *arguments, const char *queues)
{
    char command[1024], line[512], wanted[64], told[] = "/tmp/halo-queues-told-XXXXXX";
    bool found = false;
    int fd = mkstemp(told);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof(command), "HALO_TEST_TOLD='%s' '%s' %s --hip-lib '%s' </dev/null 2>&1; cat '%s'", told,
             program, arguments, getenv("HALO_TEST_PROBE"), told);
    snprintf(wanted, sizeof(wanted), "loaded with %s hardware queues", queues);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    while (fgets(line, sizeof(line), out))
        found = found || strstr(line, wanted);
    pclose(out);
    unlink(told);
    return found;
}

static void programs_limit_them_before_the_runtime_is_loaded(void **state)
{
    const char *engine = getenv("HALO_TEST_ENGINE"), *doctor = getenv("HALO_TEST_HALO_DOCTOR");
    const char *tiers = "--json --from-tier 1 --tier 1";
    if (!engine || !doctor || !getenv("HALO_TEST_PROBE")) {
        print_message("skipped: HALO_TEST_ENGINE, HALO_TEST_HALO_DOCTOR and HALO_TEST_PROBE must name halod-engine, "
                      "halo-doctor and libqueues_probe.so of the build\n");
        skip();
    }
    assert_int_equal(unsetenv("GPU_MAX_HW_QUEUES"), 0);
    assert_true(loads_with(engine, "--stdio --device hip", "2"));
    assert_true(loads_with(doctor, tiers, "2"));
    assert_int_equal(setenv("GPU_MAX_HW_QUEUES", "7", 1), 0);
    assert_true(loads_with(engine, "--stdio --device hip", "7"));
    assert_true(loads_with(doctor, tiers, "7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_unless_the_owner_says_otherwise),
                                       cmocka_unit_test(programs_limit_them_before_the_runtime_is_loaded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
