/* test_blobs.c: programs that upload the same to a worker that keeps it: what travels, and that it arrives.
 *
 * The worker is the real process with its sandbox. A proxy counts the bytes of each session.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "proxy.h"
#include "rig.h"

#define N (3u << 20) /* of the long copy: three pieces */
#define N_ODD 150000 /* of another, in the same allocation */

static char blobs[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(blobs, "/tmp/hip-worker-blobs-XXXXXX");
    return mkdtemp(blobs) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", blobs);
    return system(command);
}

/* ---- programs ---- */

static uint8_t byte_of(uint32_t i)
{
    return (uint8_t)(i * 2654435761u >> 24);
}

static void check_device(const uint8_t *device, uint32_t n)
{
    static uint8_t got[N];
    memset(got, 0, n);
    OK(hipMemcpy(got, device, n, HIP_COPY_TO_HOST));
    for (uint32_t i = 0; i < n; i++)
        CHECK(got[i] == byte_of(i));
}

/* Copies twice into one allocation, changes the sources at once, and reads back. */
static void uploads(void)
{
    static uint8_t bytes[N];
    void *stream = new_stream(), *p = NULL;
    uint8_t *at;
    OK(hipMalloc(&p, N + N_ODD));
    at = p;
    for (uint32_t i = 0; i < N; i++)
        bytes[i] = byte_of(i);
    OK(hipMemcpyAsync(at, bytes, N, HIP_COPY_TO_DEVICE, stream));
    OK(hipMemcpyAsync(at + N, bytes, N_ODD, HIP_COPY_TO_DEVICE, stream));
    memset(bytes, 0, sizeof(bytes));
    OK(hipStreamSynchronize(stream));
    check_device(at, N);
    check_device(at + N, N_ODD);
}

/* Inputs: the same place again and again. */
static void fills_one_place_often(void)
{
    static uint8_t bytes[N_ODD];
    void *p = NULL;
    OK(hipMalloc(&p, N_ODD));
    for (uint32_t round = 0; round < 8; round++) {
        for (uint32_t i = 0; i < N_ODD; i++)
            bytes[i] = (uint8_t)(byte_of(i) + round);
        OK(hipMemcpy(p, bytes, N_ODD, HIP_COPY_TO_DEVICE));
    }
}

/* In the order of a stream that is busy: a kernel reads the place after the copy, and the next copy comes behind it. */
static void keeps_the_order(void)
{
    static float ones[N / 4], twos[N / 4], got[64];
    void *module = vector_module(), *scale = vector_kernel(module, "scale"), *nap = vector_kernel(module, "nap");
    void *stream = new_stream(), *in = device_floats(N / 4), *out = device_floats(64);
    for (uint32_t i = 0; i < N / 4; i++) {
        ones[i] = 1;
        twos[i] = 2;
    }
    OK(launch_vector(nap, NULL, NULL, 20, 0, stream));
    OK(hipMemcpyAsync(in, ones, N, HIP_COPY_TO_DEVICE, stream));
    OK(launch_vector(nap, NULL, NULL, 20, 0, stream));
    OK(launch_vector(scale, out, in, 64, 3, stream));
    OK(hipMemcpyAsync(in, twos, N, HIP_COPY_TO_DEVICE, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipMemcpy(got, out, sizeof(got), HIP_COPY_TO_HOST));
    for (int i = 0; i < 64; i++)
        CHECK(got[i] == 3);
}

/* ---- sessions ---- */

/* Bytes to the worker in a session of the program. */
static size_t bytes_up(struct worker *w, void (*program)(void))
{
    struct proxy p;
    char address[128];
    proxy_start(&p, w->folder, &(struct proxy_rule){.fault = PROXY_PASS});
    snprintf(address, sizeof(address), "unix:%s", p.path);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HIP_REMOTE_WORKER", address, 1);
        alarm(120);
        program();
        _exit(0);
    }
    check_program(program_wait(pid));
    proxy_wait(&p);
    return p.n_passed[PROXY_UP];
}

static void start(struct worker *w, const char *folder)
{
    worker_start(w, NULL, (const char *[]){folder ? "--blobs" : NULL, folder, NULL});
}

static void the_second_upload_sends_hashes_alone(void **state)
{
    struct worker w;
    (void)state;
    start(&w, blobs);
    size_t first = bytes_up(&w, uploads), second = bytes_up(&w, uploads);
    assert_true(first > N + N_ODD);
    if (second > (N + N_ODD) / 100)
        fail_msg("the second upload of %u bytes sent %zu", N + N_ODD, second);
    worker_stop(&w, SIGTERM);
    start(&w, blobs); /* nor does the first one to another worker of the same folder */
    assert_true(bytes_up(&w, uploads) <= (N + N_ODD) / 100);
    worker_stop(&w, SIGTERM);
}

static void a_worker_without_a_folder_is_sent_everything(void **state)
{
    struct worker w;
    (void)state;
    start(&w, NULL);
    assert_true(bytes_up(&w, uploads) > N + N_ODD);
    assert_true(bytes_up(&w, uploads) > N + N_ODD);
    worker_stop(&w, SIGTERM);
}

static void a_damaged_piece_is_sent_again(void **state)
{
    struct worker w;
    char command[256];
    (void)state;
    start(&w, blobs);
    (void)bytes_up(&w, uploads);
    snprintf(command, sizeof(command),
             "printf x | dd of=$(find %s -size +600k | head -n 1) bs=1000 seek=1 conv=notrunc 2>/dev/null", blobs);
    assert_int_equal(system(command), 0);
    size_t n = bytes_up(&w, uploads);
    assert_true(n > 1u << 20 && n < (1u << 20) + N / 100);
    assert_true(bytes_up(&w, uploads) <= (N + N_ODD) / 100);
    worker_stop(&w, SIGTERM);
}

static void what_is_copied_often_is_kept_once(void **state)
{
    struct worker w;
    char command[128];
    (void)state;
    start(&w, blobs);
    (void)bytes_up(&w, fills_one_place_often);
    snprintf(command, sizeof(command), "test $(find %s -size +100k | wc -l) = 1", blobs);
    assert_int_equal(system(command), 0);
    worker_stop(&w, SIGTERM);
}

static void copies_by_hash_keep_the_order_of_their_stream(void **state)
{
    struct worker w;
    (void)state;
    start(&w, blobs);
    for (int i = 0; i < 2; i++)
        (void)bytes_up(&w, keeps_the_order);
    worker_stop(&w, SIGTERM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_second_upload_sends_hashes_alone),
        TEST(a_worker_without_a_folder_is_sent_everything),
        TEST(a_damaged_piece_is_sent_again),
        TEST(what_is_copied_often_is_kept_once),
        TEST(copies_by_hash_keep_the_order_of_their_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
