/* test_hip_costs.c: what a launch and a copy from the host cost, on the emulated GPU: measured, without anything that
 * stays behind, and not at all where the runtime fails. On another GPU the cases are skipped: it has no scripts of
 * faults, and what it has free changes with other programs.
 *
 * Each case is a process of its own: a lost device cannot be had back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <hip/hip.h>

struct outcome {
    struct halo_device_costs costs;
    char name[sizeof(((struct halo_device_gpu *)0)->name)];
    bool is_open, frees_all;
    bool is_lost; /* afterwards */
};

static struct outcome measure_with(const char *script)
{
    struct outcome outcome = {0};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        const struct halo_device_ops *ops = halo_device_hip();
        struct halo_device_options options = {.library = getenv("HALO_HIP_LIB")};
        struct halo_device_info before, after;
        struct halo_device *device;
        char reason[HALO_DEVICE_REASON];
        if (script)
            setenv("HALO_HIP_EMU_SCRIPT", script, 1);
        outcome.is_open = ops->open(&device, &options, reason) == 0;
        if (outcome.is_open) {
            ops->describe(device, &before);
            memcpy(outcome.name, before.gpus[0].name, sizeof(outcome.name));
            ops->measure_costs(device, &outcome.costs);
            ops->describe(device, &after);
            outcome.frees_all = before.free_bytes == after.free_bytes;
            struct halo_device_costs again;
            ops->measure_costs(device, &again);
            outcome.is_lost = again.launch_s == 0;
        }
        _exit(write(ends[1], &outcome, sizeof(outcome)) != sizeof(outcome));
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &outcome, sizeof(outcome)), sizeof(outcome));
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    if (outcome.is_open && !strstr(outcome.name, "emulated GPU")) {
        print_message("skipped: %s is no emulated GPU (HALO_HIP_LIB: the runtime of tests/hip-emu)\n", outcome.name);
        skip();
    }
    return outcome;
}

static void costs_are_measured(void **state)
{
    bool discrete = getenv("HALO_HIP_EMU_DISCRETE") != NULL;
    struct outcome outcome = measure_with(NULL);
    assert_true(outcome.is_open && outcome.frees_all && !outcome.is_lost);
    assert_true(outcome.costs.launch_s > 0 && outcome.costs.launch_s < 60);
    assert_int_equal(outcome.costs.copy_bytes_s > 0, discrete); /* memory that is one is not copied */
}

static void a_runtime_that_fails_measures_nothing(void **state)
{
    struct outcome outcome = measure_with("hipMemsetAsync:5:lost");
    assert_true(outcome.is_open && outcome.is_lost);
    assert_true(outcome.costs.launch_s == 0 && outcome.costs.copy_bytes_s == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_measured),
        cmocka_unit_test(a_runtime_that_fails_measures_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
