/* test_network.c: a network that cuts, drops, stalls, delays and trickles, at each byte of a short session.
 *
 *   test_hip_client_network [STEP]     cuts at every STEP-th byte; 1: each (scripts/remote-cuts)
 *
 * Whatever happens, every call of the program returns, the first error is one of a lost or missing worker, every later
 * call has the same, and data that was said to be there is right. The session in the worker ends, and another client
 * does not notice.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "proxy.h"
#include "rig.h"

#define N 64
#define IO_MS "250" /* of programs whose worker is lost: they wait for it */
#define CONTEXT_IS_DESTROYED 709
#define NO_DEVICE 100

static struct worker worker;
static struct proxy proxy;
static int other; /* a client without a proxy */
static size_t step = 61;
static bool *was_lost; /* shared with the program */
static const char *io_ms;

/* ---- the program ---- */

static int first_error;

/* Every call that needs the worker. Whether it succeeded. */
static bool works(int error)
{
    if (first_error)
        CHECK_HIP(error, first_error);
    if (error && !first_error) {
        CHECK(error == CONTEXT_IS_DESTROYED || error == NO_DEVICE);
        first_error = error;
    }
    return error == 0;
}

static void use(void)
{
    char through[160];
    uint8_t in[N], out[N] = {0}, *kept = NULL;
    void *p = NULL, *stream = NULL, *event = NULL;
    int n = 0;
    snprintf(through, sizeof(through), "unix:%s", proxy.path);
    setenv("HIP_REMOTE_WORKER", through, 1);
    if (io_ms)
        setenv("HIP_REMOTE_IO_TIMEOUT_MS", io_ms, 1);
    CHECK(freopen("/dev/null", "w", stdout));
    for (int i = 0; i < N; i++)
        in[i] = (uint8_t)(i * 3);
    works(hipInit(0));
    works(hipGetDeviceCount(&n));
    works(hipMalloc(&p, N));
    works(hipStreamCreateWithFlags(&stream, 1));
    works(hipEventCreateWithFlags(&event, 2));
    if (!first_error) {
        CHECK(p && stream && event && n == 1);
        OK(hipHostMalloc((void **)&kept, N, 0));
        memset(kept, 0, N);
        works(hipMemcpyAsync(p, in, N, 1, stream));
        works(hipMemsetAsync(p, 7, N / 2, stream));
        works(hipMemcpyAsync(kept, p, N, 2, stream));
        works(hipEventRecord(event, stream));
        if (works(hipEventSynchronize(event)))
            for (int i = 0; i < N; i++)
                CHECK(kept[i] == (i < N / 2 ? 7 : in[i]));
        works(hipStreamSynchronize(stream));
        if (works(hipMemcpy(out, p, N, 2)))
            for (int i = 0; i < N; i++)
                CHECK(out[i] == (i < N / 2 ? 7 : in[i]));
        works(hipMemGetInfo(&(size_t){0}, &(size_t){0}));
    }
    *was_lost = first_error;
}

/* ---- one run ---- */

/* The session is gone, and its log with it. */
static void await_end_of_session(void)
{
    worker_await(&worker, "session ended");
    const char *end = strstr(worker.log, "session ended");
    end = strchr(end, '\n') + 1;
    worker.n_log -= (size_t)(end - worker.log);
    memmove(worker.log, end, worker.n_log);
    memset(worker.log + worker.n_log, 0, sizeof(worker.log) - worker.n_log); /* its reader ends at a zero */
}

static void run(struct proxy_rule rule)
{
    *was_lost = true;
    proxy_start(&proxy, worker.folder, &rule);
    int status = program_status(&worker, use);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("fault %d of way %d at byte %zu: wait status %#x", (int)rule.fault, rule.way, rule.at,
                 (unsigned)status);
    proxy_wait(&proxy);
    await_end_of_session();
}

/* How many bytes go each way when nothing happens: without a ping of a program in a hurry. */
static void measure(size_t ret[static PROXY_WAYS])
{
    const char *hurry = io_ms;
    io_ms = NULL;
    run((struct proxy_rule){0});
    io_ms = hurry;
    assert_false(*was_lost);
    memcpy(ret, proxy.n_passed, PROXY_WAYS * sizeof(*ret));
    assert_true(ret[PROXY_UP] > 200 && ret[PROXY_DOWN] > 200);
}

/* ---- tests ---- */

/* The last byte that the worker sends belongs to the last answer, so without it the program must know. */
static void at_each_byte(enum proxy_fault fault, size_t every)
{
    size_t n[PROXY_WAYS], n_runs = 0;
    measure(n);
    for (int way = 0; way < PROXY_WAYS; way++)
        for (size_t at = 0; at < n[way]; at += every, n_runs++) {
            run((struct proxy_rule){.fault = fault, .way = way, .at = at});
            if (!*was_lost)
                fail_msg("fault %d of way %d at byte %zu of %zu: nobody noticed", (int)fault, way, at, n[way]);
        }
    print_message("%zu places of %zu bytes\n", n_runs, n[PROXY_UP] + n[PROXY_DOWN]);
    union halo_remote_reply a;
    assert_int_equal(ask(other, HIP_OP_PING, &(struct halo_remote_ping){}, &a), 0);
}

static void a_cut_is_an_error(void **state)
{
    (void)state;
    at_each_byte(PROXY_CUT, step);
}

/* Each run waits for the time limit. */
static void lost_bytes_are_an_error_in_time(void **state)
{
    (void)state;
    io_ms = IO_MS;
    at_each_byte(PROXY_DROP, 5 * step);
    io_ms = NULL;
}

static void a_stall_is_an_error_in_time(void **state)
{
    (void)state;
    io_ms = IO_MS;
    at_each_byte(PROXY_STALL, 5 * step);
    io_ms = NULL;
}

static void delays_change_nothing(void **state)
{
    static const unsigned delays_us[] = {200, 5000, 130000};
    (void)state;
    for (size_t i = 0; i < sizeof(delays_us) / sizeof(*delays_us); i++) {
        run((struct proxy_rule){.delay_us = delays_us[i]});
        assert_false(*was_lost);
    }
}

static void single_bytes_change_nothing(void **state)
{
    (void)state;
    run((struct proxy_rule){.trickles = true});
    assert_false(*was_lost);
}

/* ---- both ends ---- */

static int start(void **state)
{
    (void)state;
    was_lost = mmap(NULL, sizeof(*was_lost), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    worker_start(&worker, NULL, (const char *[]){"--max-sessions", "64", NULL});
    other = connect_unix(&worker);
    return was_lost == MAP_FAILED || ask_init(other) != 0;
}

static int stop(void **state)
{
    (void)state;
    close(other);
    worker_stop(&worker, SIGTERM);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_is_an_error),           cmocka_unit_test(lost_bytes_are_an_error_in_time),
        cmocka_unit_test(a_stall_is_an_error_in_time), cmocka_unit_test(delays_change_nothing),
        cmocka_unit_test(single_bytes_change_nothing),
    };
    if (argc > 1 && atoi(argv[1]) > 0)
        step = (size_t)atoi(argv[1]);
    return cmocka_run_group_tests(tests, start, stop);
}
