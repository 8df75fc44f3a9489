/* test_faults.c: errors that come late, a worker that dies, stalls or is not there, forks, exits, threads. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "rig.h"

#define IO_MS 3000 /* a loaded machine answers a ping within half of it */

/* The worker of programs that do something to it; a program reads its messages in the test's stead. */
static struct worker current;

static void run_on_current(void (*program)(void))
{
    /* A session counts until its process is gone, which is after its last message. */
    worker_start(&current, NULL, (const char *[]){"--max-sessions", "64", NULL});
    int status = program_status(&current, program);
    worker_stop(&current, SIGTERM);
    check_program(status);
}

static pid_t session_pid(void)
{
    int n = 0;
    pid_t pid = (pid_t)atoi(worker_await(&current, "info  session "));
    OK(hipGetDeviceCount(&n));
    CHECK(pid > 1 && n == 1);
    return pid;
}

/* ---- errors of calls without an answer ---- */

static void meet_a_late_error(void)
{
    void *module = vector_module(), *scale = vector_kernel(module, "scale"), *stream = new_stream();
    void *event = new_event(), *p = device_floats(1), *more = NULL;
    int error;
    OK(hipStreamSynchronize(stream));
    OK(launch_vector(scale, p, p, 1, 1, stream)); /* fails on the worker */
    OK(hipMalloc(&more, 64));                     /* an allocation that worked is no place for it */
    CHECK(more);
    OK(hipEventRecord(event, stream));
    while ((error = hipEventQuery(event)) == HIP_NOT_READY)
        ;
    CHECK_HIP(error, 701);
    CHECK_HIP(hipGetLastError(), 701);
    OK(hipStreamSynchronize(stream)); /* once */
    OK(launch_vector(scale, p, p, 1, 1, stream));
    OK(hipMemGetInfo(&(size_t){0}, &(size_t){0})); /* its answer brings the error along */
    CHECK_HIP(hipPeekAtLastError(), 701);
    CHECK_HIP(hipGetLastError(), 701);
    OK(hipGetLastError());
    OK(hipStreamSynchronize(stream));
}

static void a_late_error_is_reported_once(void **state)
{
    (void)state;
    run_on_worker("hipModuleLaunchKernel:1:error=701 hipModuleLaunchKernel:2:error=701", meet_a_late_error);
}

/* The emulated GPU has no dynamic LDS. */
static void capture_a_failed_launch(void)
{
    void *module = vector_module(), *scale = vector_kernel(module, "scale"), *stream = new_stream();
    void *p = device_floats(1), *graph = stream;
    struct vector_scale args = {p, p, 1, 1};
    void *params[] = {&args};
    OK(hipStreamBeginCapture(stream, 0));
    OK(hipModuleLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 16, stream, params, NULL));
    CHECK_HIP(hipStreamEndCapture(stream, &graph), HIP_INVALID_VALUE);
    CHECK(!graph);
}

static void a_graph_without_its_launch_is_none(void **state)
{
    (void)state;
    run_on_worker(NULL, capture_a_failed_launch);
}

static void run_out_of_memory(void)
{
    void *p = &p;
    CHECK_HIP(hipMalloc(&p, 4096), HIP_OUT_OF_MEMORY);
    CHECK_HIP(hipGetLastError(), HIP_OUT_OF_MEMORY);
    OK(hipMalloc(&p, 4096));
    CHECK_HIP(hipMalloc(&p, SIZE_MAX), HIP_OUT_OF_MEMORY);
}

static void a_failed_allocation_fails_at_once(void **state)
{
    (void)state;
    run_on_worker("hipMalloc:1:oom", run_out_of_memory);
}

static void lose_the_device(void)
{
    void *stream = new_stream(), *p = device_floats(1);
    OK(hipMemsetAsync(p, 0, 4, stream));
    CHECK_HIP(hipStreamSynchronize(stream), HIP_LAUNCH_FAILURE);
    CHECK_HIP(hipMalloc(&p, 64), HIP_LAUNCH_FAILURE);
    CHECK_HIP(hipFree(NULL), HIP_LAUNCH_FAILURE);
}

static void a_lost_device_stays_lost(void **state)
{
    (void)state;
    run_on_worker("hipMemsetAsync:1:lost", lose_the_device);
}

/* ---- a worker that is gone ---- */

static void use_a_killed_session(void)
{
    void *stream = new_stream(), *event = new_event(), *p = device_floats(1);
    kill(session_pid(), SIGKILL);
    int error;
    /* Requests without an answer may still be taken. */
    while ((error = hipMemsetAsync(p, 0, 4, stream)) == 0)
        ;
    CHECK_HIP(error, HIP_CONTEXT_IS_DESTROYED);
    CHECK_HIP(hipStreamSynchronize(stream), HIP_CONTEXT_IS_DESTROYED);
    CHECK_HIP(hipEventQuery(event), HIP_CONTEXT_IS_DESTROYED);
    CHECK_HIP(hipMalloc(&p, 64), HIP_CONTEXT_IS_DESTROYED);
    CHECK_HIP(hipGetLastError(), HIP_CONTEXT_IS_DESTROYED);
}

static void a_killed_session_is_an_error(void **state)
{
    (void)state;
    run_on_current(use_a_killed_session);
}

static void use_a_stopped_session(void)
{
    void *stream = new_stream(), *event = new_event();
    pid_t pid = session_pid();
    int error;
    kill(pid, SIGSTOP);
    OK(hipEventRecord(event, stream));
    while ((error = hipEventQuery(event)) == HIP_NOT_READY)
        usleep(1000);
    CHECK_HIP(error, HIP_CONTEXT_IS_DESTROYED);
    CHECK_HIP(hipDeviceSynchronize(), HIP_CONTEXT_IS_DESTROYED);
    kill(pid, SIGKILL);
}

static void send_to_a_stopped_session(void)
{
    static uint8_t bytes[1 << 20];
    void *p = NULL, *stream = new_stream();
    int error = 0;
    OK(hipMalloc(&p, sizeof(bytes)));
    pid_t pid = session_pid();
    kill(pid, SIGSTOP);
    for (int i = 0; i < 1000 && error == 0; i++)
        error = hipMemcpyAsync(p, bytes, sizeof(bytes), HIP_COPY_TO_DEVICE, stream);
    CHECK_HIP(error, HIP_CONTEXT_IS_DESTROYED);
    kill(pid, SIGKILL);
}

/* Longer than the time limit, but pings are answered. */
static void wait_for_a_long_kernel(void)
{
    void *module = vector_module(), *nap = vector_kernel(module, "nap"), *p = device_floats(1);
    for (int napped_ms = 0; napped_ms <= IO_MS; napped_ms += 900)
        OK(launch_vector(nap, p, p, 900, 0, NULL));
    OK(hipDeviceSynchronize());
}

/* What takes as long as the time limit, all at once. */
static void a_stalled_session_is_given_up_and_a_long_kernel_waited_for(void **state)
{
    static void (*const programs[])(void) = {use_a_stopped_session, send_to_a_stopped_session, wait_for_a_long_kernel};
    enum { N = sizeof(programs) / sizeof(*programs) };
    static struct worker workers[N];
    pid_t pids[N];
    int statuses[N];
    char limit[16];
    (void)state;
    snprintf(limit, sizeof(limit), "%d", IO_MS);
    setenv("HIP_REMOTE_IO_TIMEOUT_MS", limit, 1);
    for (int i = 0; i < N; i++) {
        worker_start(&workers[i], NULL, NULL);
        current = workers[i];
        pids[i] = program_start(&current, programs[i]);
    }
    unsetenv("HIP_REMOTE_IO_TIMEOUT_MS");
    for (int i = 0; i < N; i++)
        statuses[i] = program_wait(pids[i]);
    for (int i = 0; i < N; i++)
        worker_stop(&workers[i], SIGTERM);
    for (int i = 0; i < N; i++)
        check_program(statuses[i]);
}

static void look_for_a_worker(void)
{
    int n = 7;
    void *p = NULL;
    CHECK_HIP(hipGetDeviceCount(&n), HIP_NO_DEVICE);
    CHECK(n == 0);
    CHECK_HIP(hipMalloc(&p, 64), HIP_NO_DEVICE);
    CHECK_HIP(hipInit(0), HIP_NO_DEVICE);
}

static void without_a_worker_there_is_no_device(void **state)
{
    const struct worker none = {.folder = "/nonexistent"};
    (void)state;
    check_program(program_status(&none, look_for_a_worker));
}

/* ---- processes and threads ---- */

static void use_after_fork(void)
{
    void *p = device_floats(1), *stream = new_stream();
    int status, n;
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK_HIP(hipMalloc(&p, 64), HIP_NOT_INITIALIZED);
        CHECK_HIP(hipStreamSynchronize(stream), HIP_NOT_INITIALIZED);
        CHECK_HIP(hipGetDeviceCount(&n), HIP_NOT_INITIALIZED);
        exit(0); /* with its destructors */
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(hipStreamSynchronize(stream));
    OK(hipFree(p));
}

static void the_child_of_a_fork_gets_errors(void **state)
{
    (void)state;
    run_on_worker(NULL, use_after_fork);
}

static int late_error = -1;

/* The last destructor of the process: HIP is called by those of C++ programs. */
__attribute__((destructor(101))) static void call_late(void)
{
    int n;
    if (late_error >= 0 && hipGetDeviceCount(&n) != late_error)
        _exit(1);
}

static void exit_with_work(void)
{
    void *p = device_floats(1 << 20);
    OK(hipMemsetAsync(p, 1, 4 << 20, NULL));
    late_error = HIP_DEINITIALIZED;
    exit(0);
}

static void calls_after_the_end_get_an_error(void **state)
{
    (void)state;
    run_on_worker(NULL, exit_with_work);
}

static void load_and_unload(void)
{
    for (int i = 0; i < 20; i++) {
        int n = 0;
        void *p = NULL, *library = dlopen(getenv("HALO_HIP_CLIENT"), RTLD_NOW | RTLD_LOCAL);
        CHECK(library);
        int (*count)(int *) = (int (*)(int *))dlsym(library, "hipGetDeviceCount");
        int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(library, "hipMalloc");
        CHECK(count && allocate);
        OK(count(&n));
        OK(allocate(&p, 1 << 20));
        CHECK(n == 1 && p);
        dlclose(library);
        pid_t pid = fork(); /* the library's handlers are gone with it */
        if (pid == 0)
            _exit(0);
        CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
        worker_await(&current, "session ended");
        current.n_log = 0;
        memset(current.log, 0, sizeof(current.log));
    }
}

static void each_load_has_a_session_of_its_own(void **state)
{
    (void)state;
    run_on_current(load_and_unload);
}

static void *fail_alone(void *ud)
{
    void *p = NULL;
    OK(hipGetLastError());
    for (int i = 0; i < 50; i++) {
        OK(hipMalloc(&p, 4096));
        OK(hipMemset(p, 1, 4096));
        OK(hipStreamSynchronize(NULL));
        OK(hipFree(p));
    }
    CHECK_HIP(hipSetDevice(99), HIP_INVALID_DEVICE);
    CHECK_HIP(hipGetLastError(), HIP_INVALID_DEVICE);
    return ud;
}

static void work_in_threads(void)
{
    void *module = vector_module(), *nap = vector_kernel(module, "nap"), *p = device_floats(1), *stream = new_stream();
    void *event = new_event();
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, fail_alone, NULL) == 0);
    for (int i = 0; i < 5; i++) {
        OK(launch_vector(nap, p, p, 20, 0, stream));
        OK(hipEventRecord(event, stream));
        OK(hipEventSynchronize(event));
        OK(hipGetLastError());
    }
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(hipGetLastError());
}

static void threads_have_errors_of_their_own(void **state)
{
    (void)state;
    run_on_worker(NULL, work_in_threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_error_is_reported_once),
        cmocka_unit_test(a_graph_without_its_launch_is_none),
        cmocka_unit_test(a_failed_allocation_fails_at_once),
        cmocka_unit_test(a_lost_device_stays_lost),
        cmocka_unit_test(a_killed_session_is_an_error),
        cmocka_unit_test(a_stalled_session_is_given_up_and_a_long_kernel_waited_for),
        cmocka_unit_test(without_a_worker_there_is_no_device),
        cmocka_unit_test(the_child_of_a_fork_gets_errors),
        cmocka_unit_test(calls_after_the_end_get_an_error),
        cmocka_unit_test(each_load_has_a_session_of_its_own),
        cmocka_unit_test(threads_have_errors_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
