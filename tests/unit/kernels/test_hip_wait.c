/* test_hip_wait.c: how the host waits for the GPU: without pauses around the time at which a step should end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <common/clock.h>

#include "device_priv.h"

#define US 1000ull
#define MS (1000 * US)

static unsigned n_polls, n_wanted; /* the event is done at poll n_wanted */

static int query(void *event)
{
    return ++n_polls < n_wanted ? HIP_ERROR_NOT_READY : 0;
}

static int query_fails(void *event)
{
    return HIP_ERROR_NOT_FOUND;
}

static struct halo_device device;
static char reason[HALO_DEVICE_REASON];

static int set_up(void **state)
{
    device = (struct halo_device){.api.EventQuery = query, .deadline_ms = 600000};
    n_polls = n_wanted = 0;
    return 0;
}

static void no_pauses_around_the_expected_time(void **state)
{
    assert_false(halo_hip_wait_is_close(0, 2 * MS));
    assert_false(halo_hip_wait_is_close(1700 * US, 2 * MS));
    assert_true(halo_hip_wait_is_close(1900 * US, 2 * MS)); /* a pause may last 100 us and more */
    assert_true(halo_hip_wait_is_close(2 * MS, 2 * MS));
    assert_true(halo_hip_wait_is_close(2100 * US, 2 * MS));
    assert_false(halo_hip_wait_is_close(3 * MS, 2 * MS)); /* a step that is late does not keep a core busy */
}

static void no_pauses_at_first_where_nothing_is_known(void **state)
{
    assert_true(halo_hip_wait_is_close(0, 0));
    assert_true(halo_hip_wait_is_close(100 * US, 0));
    assert_false(halo_hip_wait_is_close(1 * MS, 0));
}

static void a_wait_remembers_how_long_it_took(void **state)
{
    uint64_t took_ns = 5 * MS, begin = halo_monotonic_ns();
    n_wanted = 4; /* the first of them with pauses: 5 ms are expected */
    assert_int_equal(halo_hip_wait_like(&device, NULL, &took_ns, "a step", reason), 0);
    assert_int_equal(n_polls, 4);
    assert_true(took_ns > 0 && took_ns != 5 * MS && took_ns <= halo_monotonic_ns() - begin);
}

static void an_error_ends_the_wait(void **state)
{
    uint64_t took_ns = 5 * MS;
    device.api.EventQuery = query_fails;
    assert_true(halo_hip_wait_like(&device, NULL, &took_ns, "a step", reason) < 0);
    assert_true(halo_hip_wait(&device, NULL, "a step", reason) < 0);
}

static void the_deadline_ends_the_wait_and_loses_the_device(void **state)
{
    uint64_t took_ns = 0;
    device.deadline_ms = 1;
    n_wanted = UINT32_MAX;
    assert_int_equal(halo_hip_wait_like(&device, NULL, &took_ns, "a step", reason), -ETIME);
    assert_int_not_equal(halo_hip_usable(&device, reason), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_pauses_around_the_expected_time, set_up),
        cmocka_unit_test_setup(no_pauses_at_first_where_nothing_is_known, set_up),
        cmocka_unit_test_setup(a_wait_remembers_how_long_it_took, set_up),
        cmocka_unit_test_setup(an_error_ends_the_wait, set_up),
        cmocka_unit_test_setup(the_deadline_ends_the_wait_and_loses_the_device, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
