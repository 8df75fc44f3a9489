/* test_secret.c: a program with a key, without one and with another, and what it is told. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "rig.h"

#define N (300u << 10) /* floats: several frames */

static struct worker current;
static char right[96], wrong[96];
static const char *key; /* of the program */

static void write_key(const char *path, char digit)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (int i = 0; i < 64; i++)
        assert_int_equal(write(fd, &digit, 1), 1);
    close(fd);
}

/* A worker over TCP; `worker_key` NULL: without a key. */
static void start(const char *worker_key)
{
    const char *args[] = {"--listen", "127.0.0.1:0", worker_key ? "--key-file" : NULL, worker_key, NULL};
    worker_start(&current, NULL, args);
    current.port = (uint16_t)atoi(worker_await(&current, "listening on 127.0.0.1:"));
}

static int make_keys(void **state)
{
    static char folder[] = "/tmp/hip-client-key-XXXXXX";
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(right, sizeof(right), "%s/right", folder);
    snprintf(wrong, sizeof(wrong), "%s/wrong", folder);
    write_key(right, '5');
    write_key(wrong, '6');
    return 0;
}

static int remove_keys(void **state)
{
    (void)state;
    unlink(right);
    unlink(wrong);
    *strrchr(right, '/') = '\0';
    return rmdir(right);
}

/* In the program. */
static void choose(void)
{
    char worker[64];
    snprintf(worker, sizeof(worker), "127.0.0.1:%u", current.port);
    setenv("HIP_REMOTE_WORKER", worker, 1);
    if (key)
        setenv("HIP_REMOTE_KEY_FILE", key, 1);
}

static void compute(void)
{
    float *in = malloc(N * sizeof(*in)), *out = malloc(N * sizeof(*out));
    choose();
    void *module = vector_module(), *scale = vector_kernel(module, "scale"), *stream = new_stream(),
         *p = device_floats(N);
    for (uint32_t i = 0; i < N; i++)
        in[i] = (float)(i % 1000);
    OK(hipMemcpyAsync(p, in, N * sizeof(*in), 1, stream));
    OK(launch_vector(scale, p, p, 64, 3, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipMemcpy(out, p, N * sizeof(*out), 2));
    for (uint32_t i = 0; i < N; i++)
        CHECK(out[i] == in[i] * (i < 64 ? 3 : 1));
    for (int i = 0; i < 100; i++) { /* small frames too */
        OK(launch_vector(scale, p, p, 1, 1, stream));
        OK(hipStreamSynchronize(stream));
    }
    free(in);
    free(out);
}

static void a_program_with_the_key_computes(void **state)
{
    (void)state;
    start(right);
    key = right;
    int status = program_status(&current, compute);
    worker_stop(&current, SIGTERM);
    check_program(status);
}

static int said_at;

static void get_nothing(void)
{
    int n = 1;
    choose();
    setenv("HIP_REMOTE_DEBUG", "1", 1);
    dup2(said_at, STDERR_FILENO);
    CHECK_HIP(hipInit(0), HIP_NO_DEVICE);
    CHECK_HIP(hipGetDeviceCount(&n), HIP_NO_DEVICE);
}

/* The program gets no device, and its user this sentence. */
static void fails_with(const char *sentence)
{
    char said[1024] = "", path[] = "/tmp/hip-client-said-XXXXXX";
    said_at = mkstemp(path);
    assert_true(said_at >= 0);
    unlink(path);
    int status = program_status(&current, get_nothing);
    assert_true(pread(said_at, said, sizeof(said) - 1, 0) >= 0);
    close(said_at);
    worker_stop(&current, SIGTERM);
    if (!strstr(said, sentence) || strstr(said, "begins"))
        fail_msg("'%s' is not in: %s", sentence, said);
    check_program(status);
}

static void another_key_is_named(void **state)
{
    (void)state;
    start(right);
    key = wrong;
    fails_with("the worker has another key");
}

static void a_missing_key_is_named(void **state)
{
    (void)state;
    start(right);
    key = NULL;
    fails_with("HIP_REMOTE_KEY_FILE");
}

static void a_worker_without_a_key_is_named(void **state)
{
    (void)state;
    start(NULL);
    key = right;
    fails_with("it has no --key-file");
}

static void a_key_that_others_read_is_not_used(void **state)
{
    (void)state;
    start(right);
    key = wrong;
    assert_int_equal(chmod(wrong, 0644), 0);
    fails_with("its mode 0644 gives rights to others");
    chmod(wrong, 0600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_with_the_key_computes),
        cmocka_unit_test(another_key_is_named),
        cmocka_unit_test(a_missing_key_is_named),
        cmocka_unit_test(a_worker_without_a_key_is_named),
        cmocka_unit_test(a_key_that_others_read_is_not_used),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
