/* test_process.c: hip-worker as a process: who may connect, what a stranger gets, who dies with whom. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "remote.h"
#include "vector_host.h"

/* Copies bytes to the device and back. */
static void use(int fd)
{
    union halo_remote_reply a;
    assert_int_equal(ask(fd, HIP_OP_MALLOC, &(struct halo_remote_malloc){.size = 4096}, &a), 0);
    uint64_t p = a.malloc.address;
    const struct halo_remote_memcpy up = {.to = p, .size = 6, .kind = 1, .data = {"remote", 6}};
    const struct halo_remote_memcpy down = {.from = p, .size = 6, .kind = 2};
    assert_int_equal(ask(fd, HIP_OP_MEMCPY, &up, &a), 0);
    assert_int_equal(ask(fd, HIP_OP_MEMCPY, &down, &a), 0);
    assert_int_equal(a.memcpy.data.n, 6);
    assert_memory_equal(a.memcpy.data.at, "remote", 6);
    assert_int_equal(ask(fd, HIP_OP_FREE, &(struct halo_remote_free){p}, &a), 0);
}

static void a_client_works_over_both_kinds_of_socket(void **state)
{
    struct worker w;
    struct stat st;
    char path[96];
    (void)state;
    worker_start(&w, NULL, (const char *[]){"--listen", "127.0.0.1:0", NULL});
    w.port = (uint16_t)atoi(worker_await(&w, "listening on 127.0.0.1:"));
    snprintf(path, sizeof(path), "%s/s", w.folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    int near = connect_unix(&w), far = connect_tcp(&w);
    assert_int_equal(ask_init(near), 0);
    assert_int_equal(ask_init(far), 0);
    use(near);
    use(far);
    close(near);
    close(far);
    int status = worker_stop(&w, SIGTERM);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(stat(path, &st), -1);
}

/* Whether the status of a process has this line. */
static bool has_vow(const char *pid, const char *line)
{
    char path[64], is[256];
    bool has = false;
    snprintf(path, sizeof(path), "/proc/%s/status", pid);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    while (!has && fgets(is, sizeof(is), in))
        has = strcmp(is, line) == 0;
    fclose(in);
    return has;
}

/* A session has given up its rights when it loads a code object. */
static void a_kernel_runs_in_the_sandbox(void **state)
{
    static uint8_t image[HALO_REMOTE_DATA_MAX];
    const uint64_t module = (uint64_t)HALO_REMOTE_MODULE << 56 | (uint64_t)1 << 32;
    const uint64_t function = (uint64_t)HALO_REMOTE_FUNCTION << 56 | (uint64_t)1 << 32;
    const float in[2] = {3, 4};
    struct worker w;
    char pid[16];
    union halo_remote_reply a;
    FILE *file = fopen(getenv("HALO_VECTOR_HOST"), "rb");
    (void)state;
    assert_non_null(file);
    const struct halo_remote_module_load_data load = {.module = module,
                                                      .image = {image, (uint32_t)fread(image, 1, sizeof(image), file)}};
    fclose(file);
    worker_start(&w, NULL, NULL);
    int fd = connect_unix(&w);
    assert_int_equal(ask_init(fd), 0);
    snprintf(pid, sizeof(pid), "%d", atoi(worker_await(&w, "info  session ")));
    assert_true(has_vow(pid, "NoNewPrivs:\t1\n"));
    if (has_vow("self", "Seccomp:\t0\n")) /* else the kernel has no filters, or this program has one itself */
        assert_true(has_vow(pid, "Seccomp:\t2\n"));
    assert_int_equal(ask(fd, HIP_OP_MODULE_LOAD_DATA, &load, &a), 0);
    const struct halo_remote_module_get_function get = {module, function, {"scale", 5}};
    assert_int_equal(ask(fd, HIP_OP_MODULE_GET_FUNCTION, &get, &a), 0);
    assert_int_equal(ask(fd, HIP_OP_MALLOC, &(struct halo_remote_malloc){.size = sizeof(in)}, &a), 0);
    uint64_t p = a.malloc.address;
    const struct halo_remote_memcpy up = {.to = p, .size = sizeof(in), .kind = 1, .data = {in, sizeof(in)}};
    assert_int_equal(ask(fd, HIP_OP_MEMCPY, &up, &a), 0);
    const struct vector_scale args = {(float *)(uintptr_t)p, (const float *)(uintptr_t)p, 2, 5};
    const struct halo_remote_launch_kernel launch = {function, 0, 1, 1, 1, 64, 1, 1, 0, {&args, sizeof(args)}};
    assert_int_equal(ask(fd, HIP_OP_LAUNCH_KERNEL, &launch, &a), 0);
    const struct halo_remote_memcpy down = {.from = p, .size = sizeof(in), .kind = 2};
    assert_int_equal(ask(fd, HIP_OP_MEMCPY, &down, &a), 0);
    assert_memory_equal(a.memcpy.data.at, ((const float[]){15, 20}), sizeof(in));
    close(fd);
    worker_stop(&w, SIGTERM);
}

static void refused(const char *argument, const char *value, const char *reason)
{
    char command[512], said[512] = "";
    snprintf(command, sizeof(command), "timeout 60 %s --socket /tmp/hip-worker-never %s '%s' 2>&1",
             getenv("HALO_TEST_WORKER"), argument, value);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    said[fread(said, 1, sizeof(said) - 1, out)] = '\0';
    assert_int_not_equal(pclose(out), 0);
    if (!strstr(said, reason))
        fail_msg("%s %s: %s", argument, value, said);
}

static void an_address_of_the_network_is_refused(void **state)
{
    (void)state;
    refused("--listen", "0.0.0.0:0", "not a loopback address");
    refused("--listen", "[::]:0", "not a loopback address");
    refused("--listen", "192.0.2.1:8000", "not a loopback address");
    refused("--listen", "8000", "HOST:PORT");
    refused("--max-sessions", "0", "no number from 1");
    refused("--max-sessions", "2x", "no number from 1");
}

static void a_stranger_is_cut_off(void **state)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct worker w;
    (void)state;
    worker_start(&w, NULL, NULL);
    int client = connect_unix(&w), web = connect_unix(&w), early = connect_unix(&w), silent = connect_unix(&w);
    int large = connect_unix(&w);
    uint8_t frame[HALO_REMOTE_HEADER_BYTES];
    const struct halo_remote_header h = {
        .version = HALO_REMOTE_VERSION, .op = HIP_OP_INIT, .id = 1, .payload_bytes = HALO_REMOTE_FIRST_MAX + 1};
    union halo_remote_reply a;
    assert_int_equal(ask_init(client), 0);
    assert_true(send(web, http, sizeof(http) - 1, MSG_NOSIGNAL) > 0);
    assert_true(ends(web));
    worker_await(&w, "the client does not speak remote HIP");
    assert_int_equal(ask(early, HIP_OP_PING, &(struct halo_remote_ping){}, &a), -EPIPE);
    worker_await(&w, "the first frame is no valid HIP_OP_INIT");
    halo_remote_header_encode(frame, &h);
    assert_true(send(large, frame, sizeof(frame), MSG_NOSIGNAL) > 0);
    assert_true(ends(large));
    worker_await(&w, "a frame is longer than the limit");
    assert_true(ends(silent));
    worker_await(&w, "no HIP_OP_INIT within 3 s");
    use(client); /* which none of them disturbed */
    close(client);
    worker_stop(&w, SIGTERM);
}

static void a_broken_message_ends_its_session_alone(void **state)
{
    struct worker w;
    uint8_t frame[HALO_REMOTE_HEADER_BYTES];
    (void)state;
    worker_start(&w, NULL, NULL);
    int client = connect_unix(&w), hostile = connect_unix(&w);
    assert_int_equal(ask_init(client), 0);
    assert_int_equal(ask_init(hostile), 0);
    const struct halo_remote_header h = {.version = HALO_REMOTE_VERSION, .op = HIP_OP_MALLOC, .id = 9};
    halo_remote_header_encode(frame, &h);
    assert_true(send(hostile, frame, sizeof(frame), MSG_NOSIGNAL) > 0);
    assert_true(ends(hostile));
    worker_await(&w, "request 9, HIP_OP_MALLOC: the field size is cut");
    use(client);
    close(client);
    worker_stop(&w, SIGTERM);
}

static void only_so_many_sessions(void **state)
{
    struct worker w;
    (void)state;
    worker_start(&w, NULL, (const char *[]){"--max-sessions", "1", NULL});
    int first = connect_unix(&w);
    assert_int_equal(ask_init(first), 0);
    int second = connect_unix(&w);
    assert_true(ends(second));
    worker_await(&w, "all 1 sessions are in use");
    use(first);
    close(first);
    worker_stop(&w, SIGTERM);
}

/* ---- deaths ---- */

static void a_killed_session_leaves_the_others(void **state)
{
    struct worker w;
    (void)state;
    worker_start(&w, NULL, NULL);
    int first = connect_unix(&w);
    assert_int_equal(ask_init(first), 0);
    pid_t child = (pid_t)atoi(worker_await(&w, "info  session "));
    int second = connect_unix(&w);
    assert_int_equal(ask_init(second), 0);
    assert_true(child > 1);
    kill(child, SIGKILL);
    assert_true(ends(first));
    worker_await(&w, "was killed by signal 9");
    use(second);
    int third = connect_unix(&w);
    assert_int_equal(ask_init(third), 0);
    use(third);
    worker_stop(&w, SIGTERM);
    assert_true(ends(second));
    assert_true(ends(third));
}

static void sessions_die_with_a_killed_supervisor(void **state)
{
    struct worker w;
    (void)state;
    worker_start(&w, NULL, NULL);
    int client = connect_unix(&w);
    assert_int_equal(ask_init(client), 0);
    worker_stop(&w, SIGKILL);
    assert_true(ends(client));
}

/* ---- a GPU that does not answer ---- */

static void a_lost_completion_ends_its_session_at_the_deadline(void **state)
{
    struct worker w;
    union halo_remote_reply a;
    (void)state;
    setenv("HALO_HIP_EMU_SCRIPT", "hipMemsetAsync:1:stall", 1);
    worker_start(&w, NULL, (const char *[]){"--deadline-ms", "300", NULL});
    unsetenv("HALO_HIP_EMU_SCRIPT");
    int client = connect_unix(&w);
    assert_int_equal(ask_init(client), 0);
    assert_int_equal(ask(client, HIP_OP_MALLOC, &(struct halo_remote_malloc){.size = 64}, &a), 0);
    const struct halo_remote_memset fill = {.to = a.malloc.address, .width = 1, .count = 64};
    assert_int_equal(ask(client, HIP_OP_MEMSET, &fill, &a), -EPIPE);
    worker_await(&w, "the GPU has not ended an operation of the session for 300 ms");
    close(client);
    worker_stop(&w, SIGTERM);
}

static int hang_in_a_call(const struct worker *w)
{
    uint8_t frame[64];
    struct halo_remote_header h = {.op = HIP_OP_MEM_GET_INFO, .id = 1, .device = HALO_REMOTE_DEVICE_CURRENT};
    int client = connect_unix(w);
    assert_int_equal(ask_init(client), 0); /* the first hipMemGetInfo */
    int n = halo_remote_request_encode(frame, sizeof(frame), &h, &(struct halo_remote_mem_get_info){}, true);
    assert_true(n > 0 && send(client, frame, (size_t)n, MSG_NOSIGNAL) == n);
    return client;
}

/* The session's thread is inside the call, so nothing but the watch can end it. */
static void a_call_that_hangs_ends_with_its_client_or_its_deadline(void **state)
{
    struct worker w;
    (void)state;
    setenv("HALO_HIP_EMU_SCRIPT", "hipMemGetInfo:2:hang", 1);
    worker_start(&w, NULL, (const char *[]){"--deadline-ms", "2000", NULL});
    unsetenv("HALO_HIP_EMU_SCRIPT");
    int stays = hang_in_a_call(&w);
    close(hang_in_a_call(&w));
    assert_true(ends(stays));
    worker_await(&w, "the client has left and a HIP call has not returned");
    worker_await(&w, "a HIP call has not returned for 7000 ms");
    close(stays);
    worker_stop(&w, SIGTERM);
}

/* ---- who ---- */

static void our_own_client_is_no_runtime(void **state)
{
    struct worker w;
    (void)state;
    worker_start(&w, getenv("HALO_MARKED_LIB"), NULL);
    int client = connect_unix(&w);
    assert_int_equal(ask_init(client), 100);
    assert_true(ends(client));
    worker_await(&w, "is the client of remote HIP");
    worker_stop(&w, SIGTERM);
}

static void connect_as_another_user(struct worker *w, int (*reach)(const struct worker *))
{
    int status;
    w->n_log = 0; /* what it says of this one */
    w->log[0] = '\0';
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(65534) != 0)
            _exit(2);
        _exit(ends(reach(w)) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    worker_await(w, "refused a connection of user 65534");
}

static void another_user_is_refused(void **state)
{
    struct worker w;
    char path[96];
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can play another user\n");
        skip();
    }
    worker_start(&w, NULL, (const char *[]){"--listen", "127.0.0.1:0", NULL});
    w.port = (uint16_t)atoi(worker_await(&w, "listening on 127.0.0.1:"));
    connect_as_another_user(&w, connect_tcp);
    /* A socket that somebody has opened to all: the peer's user counts. */
    snprintf(path, sizeof(path), "%s/s", w.folder);
    assert_int_equal(chmod(w.folder, 0755) | chmod(path, 0666), 0);
    connect_as_another_user(&w, connect_unix);
    worker_stop(&w, SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_works_over_both_kinds_of_socket),
        cmocka_unit_test(a_kernel_runs_in_the_sandbox),
        cmocka_unit_test(an_address_of_the_network_is_refused),
        cmocka_unit_test(a_stranger_is_cut_off),
        cmocka_unit_test(a_broken_message_ends_its_session_alone),
        cmocka_unit_test(only_so_many_sessions),
        cmocka_unit_test(a_killed_session_leaves_the_others),
        cmocka_unit_test(sessions_die_with_a_killed_supervisor),
        cmocka_unit_test(a_lost_completion_ends_its_session_at_the_deadline),
        cmocka_unit_test(a_call_that_hangs_ends_with_its_client_or_its_deadline),
        cmocka_unit_test(our_own_client_is_no_runtime),
        cmocka_unit_test(another_user_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
