/* test_several.c: one program and two workers: their GPUs stand beside each other, each with memory, streams, modules
 * and events of its own, also where both give out the same addresses.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

#define N 1000

static struct worker one, other;

/* A child whose HIP_REMOTE_WORKER names both. */
static int run_on_both(void (*program)(void))
{
    char workers[160];
    snprintf(workers, sizeof(workers), "unix:%s/s, unix:%s/s", one.folder, other.folder);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HIP_REMOTE_WORKER", workers, 1);
        alarm(120);
        program();
        _exit(0);
    }
    return program_wait(pid);
}

static void on_both(void (*program)(void))
{
    worker_start(&one, NULL, NULL);
    worker_start(&other, NULL, NULL);
    int status = run_on_both(program);
    worker_stop(&one, SIGTERM);
    worker_stop(&other, SIGTERM);
    check_program(status);
}

/* Factor times 0, 1, 2 ... by the thread's GPU. */
static void compute(void *kernel, float *memory, void *stream, float factor)
{
    static float numbers[N], got[N];
    for (int i = 0; i < N; i++)
        numbers[i] = (float)i;
    OK(hipMemcpyAsync(memory, numbers, sizeof(numbers), 1, stream));
    OK(launch_vector(kernel, memory, memory, N, factor, stream));
    OK(hipMemcpyAsync(got, memory, sizeof(got), 2, stream));
    OK(hipStreamSynchronize(stream));
    for (int i = 0; i < N; i++)
        CHECK(got[i] == factor * (float)i);
}

/* What halod asks for by its name. */
extern void halo_hip_remote_worker(int device, char *ret, size_t n);

static void check_worker(int device, const char *folder)
{
    char name[128] = "?", wanted[128] = "";
    if (folder)
        snprintf(wanted, sizeof(wanted), "unix:%s/s", folder);
    halo_hip_remote_worker(device, name, sizeof(name));
    CHECK(strcmp(name, wanted) == 0);
}

static void use_both(void)
{
    void *kernel[2], *stream[2], *event[2];
    float *memory[2];
    int n = 0, device = -1;
    char name[64];
    OK(hipInit(0));
    OK(hipGetDeviceCount(&n));
    CHECK(n == 2);
    for (int i = 0; i < 2; i++) {
        OK(hipDeviceGetName(name, sizeof(name), i));
        CHECK(strcmp(name, "emulated GPU 0") == 0); /* what its worker calls it */
        OK(hipSetDevice(i));
        OK(hipGetDevice(&device));
        CHECK(device == i);
        kernel[i] = vector_kernel(vector_module(), "scale");
        stream[i] = new_stream();
        event[i] = new_event();
        memory[i] = device_floats(N);
    }
    CHECK_HIP(hipSetDevice(2), 101);
    check_worker(0, one.folder);
    check_worker(1, other.folder);
    check_worker(2, NULL);
    OK(hipGetDevice(&device)); /* the thread has kept its own */
    CHECK(device == 1);
    CHECK(memory[0] == memory[1]); /* HALO_HIP_EMU_MEMORY_AT: the thread's device says which is meant */
    for (int i = 1; i >= 0; i--) {
        OK(hipSetDevice(i));
        compute(kernel[i], memory[i], stream[i], (float)(2 + i));
        OK(hipEventRecord(event[i], stream[i]));
        OK(hipEventSynchronize(event[i]));
    }
    float first = 0;
    for (int i = 0; i < 2; i++) { /* each still has its own numbers */
        OK(hipSetDevice(i));
        OK(hipMemcpy(&first, memory[i] + 1, sizeof(first), 2));
        CHECK(first == (float)(2 + i));
    }
    /* With the second device. */
    CHECK_HIP(hipStreamSynchronize(stream[0]), 400);
    CHECK_HIP(hipEventRecord(event[0], stream[1]), 400);
    CHECK_HIP(hipModuleLaunchKernel(kernel[0], 1, 1, 1, 1, 1, 1, 0, stream[1], NULL, NULL), 400);
    CHECK_HIP(hipMemcpyPeer(memory[1], 1, memory[0], 0, N), 801);
    OK(hipFree(memory[1]));
    OK(hipSetDevice(0));
    OK(hipMemcpy(&first, memory[0] + 1, sizeof(first), 2));
    CHECK(first == 2);
    OK(hipFree(memory[0]));
}

static void two_workers_are_two_devices(void **state)
{
    (void)state;
    on_both(use_both);
}

static void lose_the_second(void)
{
    size_t n_free, n_total;
    void *memory;
    OK(hipSetDevice(1));
    OK(hipMalloc(&memory, N));
    kill(other.pid, SIGKILL); /* and its session with it */
    while (hipMemGetInfo(&n_free, &n_total) == 0)
        usleep(10000);
    CHECK_HIP(hipMemGetInfo(&n_free, &n_total), 709);
    OK(hipSetDevice(0));
    OK(hipMalloc(&memory, N));
    OK(hipFree(memory));
}

static void a_lost_worker_leaves_the_other_alone(void **state)
{
    (void)state;
    on_both(lose_the_second);
}

static void miss_the_second(void)
{
    int n = 7;
    CHECK_HIP(hipGetDeviceCount(&n), 100);
    CHECK(n == 0);
    CHECK_HIP(hipSetDevice(0), 100);
}

static void a_missing_worker_is_no_device_at_all(void **state)
{
    (void)state;
    worker_start(&one, NULL, NULL);
    worker_start(&other, NULL, NULL);
    worker_stop(&other, SIGTERM);
    int status = run_on_both(miss_the_second);
    worker_stop(&one, SIGTERM);
    check_program(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_workers_are_two_devices),
        cmocka_unit_test(a_lost_worker_leaves_the_other_alone),
        cmocka_unit_test(a_missing_worker_is_no_device_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
