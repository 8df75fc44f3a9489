/* test_parts.c: settings, ranges and handles of the client, alone. */
#include <errno.h>
#include <linux/sockios.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "handles_priv.h"
#include "link_priv.h"
#include "ranges_priv.h"
#include "settings_priv.h"

static const char *const variables[] = {"HIP_REMOTE_WORKER",
                                        "HIP_REMOTE_DEBUG",
                                        "HIP_REMOTE_CONNECT_TIMEOUT_MS",
                                        "HIP_REMOTE_IO_TIMEOUT_MS",
                                        "TF_WORKER_HOST",
                                        "TF_WORKER_PORT",
                                        "TF_DEBUG",
                                        "TF_CONNECT_TIMEOUT",
                                        "TF_IO_TIMEOUT"};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        unsetenv(variables[i]);
    return setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
}

static void the_worker_is_found_by_variables(void **state)
{
    struct halo_remote_settings s;
    const char *variable;
    (void)state;
    assert_int_equal(halo_remote_settings_read(&s, 0, &variable), 0);
    assert_true(s.worker.is_unix);
    assert_string_equal(s.worker.path, "/run/user/7/hip-worker.sock");
    assert_int_equal(s.connect_ms, 30000);
    assert_int_equal(s.io_ms, 60000);
    setenv("TF_WORKER_PORT", "9000", 1);
    setenv("TF_CONNECT_TIMEOUT", "2", 1);
    setenv("TF_IO_TIMEOUT", "3", 1);
    assert_int_equal(halo_remote_settings_read(&s, 0, &variable), 0);
    assert_false(s.worker.is_unix);
    assert_string_equal(s.worker.host, "localhost");
    assert_string_equal(s.worker.port, "9000");
    assert_int_equal(s.connect_ms, 2000);
    assert_int_equal(s.io_ms, 3000);
    setenv("TF_WORKER_HOST", "gpu.example", 1);
    unsetenv("TF_WORKER_PORT");
    setenv("HIP_REMOTE_IO_TIMEOUT_MS", "250", 1);
    assert_int_equal(halo_remote_settings_read(&s, 0, &variable), 0);
    assert_string_equal(s.worker.host, "gpu.example");
    assert_string_equal(s.worker.port, "8000");
    assert_int_equal(s.io_ms, 250);
    setenv("HIP_REMOTE_WORKER", "[::1]:18515", 1);
    assert_int_equal(halo_remote_settings_read(&s, 0, &variable), 0);
    assert_string_equal(s.worker.host, "::1");
    assert_string_equal(s.worker.port, "18515");
    setenv("HIP_REMOTE_WORKER", "unix:/tmp/s", 1);
    assert_int_equal(halo_remote_settings_read(&s, 0, &variable), 0);
    assert_true(s.worker.is_unix);
    assert_string_equal(s.worker.path, "/tmp/s");
}

static void refuse(const char *name, const char *value)
{
    struct halo_remote_settings s;
    const char *variable;
    setenv(name, value, 1);
    if (halo_remote_settings_read(&s, 0, &variable) != -EINVAL)
        fail_msg("%s='%s' was taken", name, value);
    assert_string_equal(variable, name);
    unsetenv(name);
}

static void several_workers_stand_in_one_list(void **state)
{
    struct halo_remote_settings s;
    const char *variable;
    (void)state;
    assert_int_equal(halo_remote_settings_count(), 1);
    setenv("HIP_REMOTE_WORKER", "unix:/tmp/a, gpu.example:1,[::1]:2 ", 1);
    assert_int_equal(halo_remote_settings_count(), 3);
    assert_int_equal(halo_remote_settings_read(&s, 0, &variable), 0);
    assert_string_equal(s.worker.path, "/tmp/a");
    assert_int_equal(halo_remote_settings_read(&s, 1, &variable), 0);
    assert_string_equal(s.worker.host, "gpu.example");
    assert_int_equal(halo_remote_settings_read(&s, 2, &variable), 0);
    assert_string_equal(s.worker.host, "::1");
    assert_string_equal(s.worker.port, "2");
    setenv("HIP_REMOTE_WORKER", "unix:/tmp/a,", 1);
    assert_int_equal(halo_remote_settings_read(&s, 1, &variable), -EINVAL);
}

static void tables_of_sessions_have_no_handle_in_common(void **state)
{
    struct halo_remote_handles one, other;
    uint64_t of_one, of_other;
    (void)state;
    assert_int_equal(halo_remote_handles_init(&one, HALO_REMOTE_EVENT, 1, 0), 0);
    assert_int_equal(halo_remote_handles_init(&other, HALO_REMOTE_EVENT, 1, HALO_REMOTE_GENERATIONS), 0);
    struct halo_remote_slot *slot = halo_remote_handles_take(&one, &of_one);
    assert_non_null(halo_remote_handles_take(&other, &of_other));
    assert_null(halo_remote_handles_get(&one, of_other));
    assert_null(halo_remote_handles_get(&other, of_one));
    slot->generation = HALO_REMOTE_GENERATIONS - 1; /* the last one that is this table's */
    halo_remote_handles_drop(&one, slot);
    assert_null(halo_remote_handles_take(&one, &of_one));
    halo_remote_handles_finish(&one);
    halo_remote_handles_finish(&other);
}

static void other_values_are_refused(void **state)
{
    static const char *const workers[] = {"unix:", "host", "host:", ":1", "host:0", "host:65536", "host:1x", "host:-1"};
    char path[200];
    (void)state;
    for (size_t i = 0; i < sizeof(workers) / sizeof(*workers); i++)
        refuse("HIP_REMOTE_WORKER", workers[i]);
    memset(path, 'x', sizeof(path));
    memcpy(path, "unix:/", 6);
    path[sizeof(path) - 1] = '\0';
    refuse("HIP_REMOTE_WORKER", path);
    refuse("HIP_REMOTE_IO_TIMEOUT_MS", "0");
    refuse("HIP_REMOTE_IO_TIMEOUT_MS", "-5");
    refuse("TF_IO_TIMEOUT", "4294967296");
    refuse("TF_CONNECT_TIMEOUT", "1.5");
    refuse("TF_WORKER_PORT", "x");
}

static void ranges_are_found_by_their_bytes(void **state)
{
    struct halo_remote_ranges r = {0};
    struct halo_remote_range range;
    (void)state;
    for (uint64_t i = 200; i > 0; i--)
        assert_int_equal(halo_remote_ranges_add(&r, (struct halo_remote_range){i * 100, 50}), 0);
    assert_int_equal(halo_remote_ranges_add(&r, (struct halo_remote_range){149, 10}), -EEXIST);
    assert_int_equal(halo_remote_ranges_add(&r, (struct halo_remote_range){160, 100}), -EEXIST);
    assert_int_equal(halo_remote_ranges_add(&r, (struct halo_remote_range){150, 50}), 0);
    assert_non_null(halo_remote_ranges_find(&r, 100, 50));
    assert_null(halo_remote_ranges_find(&r, 100, 51)); /* not across two of them */
    assert_null(halo_remote_ranges_find(&r, 99, 1));
    assert_null(halo_remote_ranges_find(&r, 250, 0));
    assert_null(halo_remote_ranges_find(&r, 220, UINT64_MAX));
    assert_false(halo_remote_ranges_take(&r, 101, &range));
    assert_true(halo_remote_ranges_take(&r, 100, &range));
    assert_int_equal(range.bytes, 50);
    assert_null(halo_remote_ranges_find(&r, 120, 1));
    halo_remote_ranges_finish(&r);
}

/* Two ranges on one page: the page stays reserved until both are gone. */
static void a_shared_page_is_reserved_once(void **state)
{
    struct halo_remote_ranges r = {0};
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct halo_remote_range a = {(uint64_t)(uintptr_t)at + 16, page}, b = {a.at + page + 16, page};
    struct halo_remote_range taken;
    (void)state;
    assert_ptr_not_equal(at, MAP_FAILED);
    assert_int_equal(halo_remote_ranges_reserve(&r, a), -EADDRINUSE); /* by this very mapping */
    munmap(at, 4 * page);
    assert_int_equal(halo_remote_ranges_reserve(&r, a), 0);
    assert_int_equal(halo_remote_ranges_add(&r, a), 0);
    assert_int_equal(halo_remote_ranges_reserve(&r, b), 0);
    assert_int_equal(halo_remote_ranges_add(&r, b), 0);
    assert_true(halo_remote_ranges_take(&r, a.at, &taken));
    halo_remote_ranges_release(&r, a);
    void *first = mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_equal(first, at);
    void *second = mmap((char *)at + page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(second, (char *)at + page);
    munmap(second, page);
    assert_true(halo_remote_ranges_take(&r, b.at, &taken));
    halo_remote_ranges_release(&r, b);
    second = mmap((char *)at + page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_equal(second, (char *)at + page);
    munmap(at, 2 * page);
    halo_remote_ranges_finish(&r);
}

static void a_destroyed_handle_stays_dead(void **state)
{
    struct halo_remote_handles h;
    uint64_t first, second, third;
    (void)state;
    assert_int_equal(halo_remote_handles_init(&h, HALO_REMOTE_EVENT, 2, 0), 0);
    struct halo_remote_slot *slot = halo_remote_handles_take(&h, &first);
    assert_ptr_equal(halo_remote_handles_get(&h, first), slot);
    halo_remote_handles_drop(&h, slot);
    assert_null(halo_remote_handles_get(&h, first));
    assert_ptr_equal(halo_remote_handles_take(&h, &second), slot); /* the same index, another generation */
    assert_int_not_equal(first, second);
    assert_null(halo_remote_handles_get(&h, first));
    assert_non_null(halo_remote_handles_take(&h, &third));
    assert_null(halo_remote_handles_take(&h, &third)); /* all are in use */
    assert_null(halo_remote_handles_get(&h, 0));
    assert_null(halo_remote_handles_get(&h, UINT64_MAX));
    assert_null(halo_remote_handles_get(&h, second ^ (uint64_t)3 << 56)); /* another type */
    slot->generation = HALO_REMOTE_GENERATIONS - 1;
    halo_remote_handles_drop(&h, slot);
    assert_null(halo_remote_handles_take(&h, &third)); /* no generation is left */
    halo_remote_handles_finish(&h);
}

/* ---- the link ---- */

#define LONG_BYTES (1u << 20)

/* Answers the first request, waits until the client has read that, and takes the rest. */
static _Noreturn void answer_once(int fd)
{
    static uint8_t frame[HALO_REMOTE_HEADER_BYTES + 64], rest[1 << 16];
    struct halo_remote_header h;
    union halo_remote_reply a = {0};
    int unread = 1;
    if (recv(fd, frame, HALO_REMOTE_HEADER_BYTES, MSG_WAITALL) != HALO_REMOTE_HEADER_BYTES ||
        halo_remote_header_decode(frame, &h) < 0)
        _exit(1);
    int n = halo_remote_reply_encode(frame, sizeof(frame), &h, &a, true);
    if (n < 0 || send(fd, frame, (size_t)n, 0) != n)
        _exit(1);
    while (unread > 0 && ioctl(fd, SIOCOUTQ, &unread) == 0)
        usleep(1000);
    while (recv(fd, rest, sizeof(rest), 0) > 0)
        ;
    _exit(0);
}

/* While a long request is sent, the answer to an earlier one gives its slot back. */
static void requests_that_are_owed_have_slots_of_their_own(void **state)
{
    static struct halo_link link;
    static uint8_t bytes[LONG_BYTES];
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct halo_link_answer none = {0};
    const struct halo_remote_ping ping = {};
    const struct halo_remote_memcpy_to_blob up = {.to = 4096, .data = {bytes, LONG_BYTES}};
    int ends[2], status;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        answer_once(ends[1]);
    }
    close(ends[1]);
    pthread_mutex_lock(&lock);
    assert_int_equal(halo_link_open(&link, &(struct halo_remote_channel){.fd = ends[0]}, 60000, &lock), 0);
    assert_int_equal(halo_link_ask(&link, HIP_OP_PING, &ping, 0, none), 0);
    assert_int_equal(halo_link_ask_data(&link, HIP_OP_MEMCPY_TO_BLOB, &up, 0, up.data, none), 0);
    assert_int_equal(link.n_pending, 1);
    const struct halo_link_pending *of_long = link.last;
    assert_int_equal(halo_link_ask(&link, HIP_OP_PING, &ping, 0, none), 0);
    assert_int_equal(link.n_pending, 2);
    assert_ptr_not_equal(link.last, of_long);
    halo_link_close(&link);
    pthread_mutex_unlock(&lock);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_that_are_owed_have_slots_of_their_own),
        cmocka_unit_test_setup(the_worker_is_found_by_variables, clear),
        cmocka_unit_test_setup(several_workers_stand_in_one_list, clear),
        cmocka_unit_test_setup(other_values_are_refused, clear),
        cmocka_unit_test(ranges_are_found_by_their_bytes),
        cmocka_unit_test(a_shared_page_is_reserved_once),
        cmocka_unit_test(a_destroyed_handle_stays_dead),
        cmocka_unit_test(tables_of_sessions_have_no_handle_in_common),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
