/* test_pressure_watch.c: what is read of memory, from folders that look like /proc and /sys/fs/cgroup, and from the
 * kernel that runs the test. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <engine/pressure_watch.h>

static char root[] = "/tmp/halo-test-watch-XXXXXX", proc[64], groups[64];

/* Writes a file and the folders that it is in. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static struct halo_pressure_sample read_once(const char *path)
{
    struct halo_pressure_watch watch;
    struct halo_pressure_sample sample;
    char want[256] = "";
    halo_pressure_watch_open(&watch, proc, groups);
    if (path)
        snprintf(want, sizeof(want), "%s/%s", root, path);
    assert_string_equal(watch.path, want);
    assert_int_equal(watch.fd, -1); /* plain files take no trigger */
    assert_int_equal(watch.refused, path ? -ENOTSUP : -ENOENT);
    halo_pressure_watch_read(&watch, 7, &sample);
    assert_int_equal(sample.now_ns, 7);
    assert_false(sample.is_triggered);
    halo_pressure_watch_close(&watch);
    return sample;
}

/* The group's own file counts; the machine's where it has none; else what is available alone. */
static void which_file(void **state)
{
    assert_int_equal(read_once(NULL).total_bytes, 0);
    put("proc/meminfo", "MemTotal: 2048 kB\nMemAvailable: 1024 kB\n");
    struct halo_pressure_sample sample = read_once(NULL);
    assert_int_equal(sample.total_bytes, 2 << 20);
    assert_int_equal(sample.available_bytes, 1 << 20);
    assert_true(sample.some == 0 && sample.full == 0);
    put("proc/pressure/memory", "some avg10=1.50 avg60=2.00 avg300=3.00 total=4\n"
                                "full avg10=0.25 avg60=2.00 avg300=3.00 total=4\n");
    sample = read_once("proc/pressure/memory");
    assert_true(sample.some == 1.5 && sample.full == 0.25);
    put("proc/self/cgroup", "1:name=systemd:/elsewhere\n0::/a/b\n");
    assert_true(read_once("proc/pressure/memory").some == 1.5);
    put("groups/a/b/memory.pressure", "some avg10=33.00 avg60=2.00 avg300=3.00 total=4\n");
    sample = read_once("groups/a/b/memory.pressure");
    assert_true(sample.some == 33 && sample.full == 0);
    put("groups/a/memory.high", "524288\n");
    put("groups/a/memory.current", "262144\n");
    sample = read_once("groups/a/b/memory.pressure");
    assert_int_equal(sample.total_bytes, 512 << 10);
    assert_int_equal(sample.available_bytes, 256 << 10);
    put("proc/self/cgroup", "0::/\n"); /* in a container its own group is the root */
    put("groups/memory.pressure", "some avg10=2.00 avg60=2.00 avg300=3.00 total=4\n");
    assert_true(read_once("groups/memory.pressure").some == 2);
}

/* The nearest group with a limit is watched: this one, or one above it. */
static void which_events(void **state)
{
    struct halo_pressure_watch watch;
    char text[8] = "";
    put("proc/self/cgroup", "0::/x/y/z\n");
    put("groups/x/y/z/memory.max", "max\n");
    put("groups/x/y/z/memory.events", "z");
    put("groups/x/y/memory.events", "y");
    put("groups/x/memory.max", "max\n");
    put("groups/x/memory.events", "x");
    halo_pressure_watch_open(&watch, proc, groups);
    assert_int_equal(watch.events_fd, -1);
    halo_pressure_watch_close(&watch);
    const char *const limits[] = {"groups/x/memory.high", "groups/x/y/memory.max", "groups/x/y/z/memory.high"};
    for (int i = 0; i < 3; i++) {
        put(limits[i], "1000\n");
        halo_pressure_watch_open(&watch, proc, groups);
        assert_true(watch.events_fd >= 0);
        assert_int_equal(pread(watch.events_fd, text, sizeof(text), 0), 1);
        assert_int_equal(text[0], 'x' + i);
        halo_pressure_watch_close(&watch);
    }
}

/* The group's descriptor is read, so that poll waits again; one that cannot be read is closed. */
static void a_group_at_its_limit(void **state)
{
    struct halo_pressure_watch watch = {.fd = -1, .events_fd = open("/proc/self/stat", O_RDONLY)};
    assert_true(watch.events_fd >= 0);
    assert_false(halo_pressure_watch_limited(&watch, 0));
    assert_true(halo_pressure_watch_limited(&watch, POLLPRI | POLLERR));
    close(watch.events_fd);
    watch.events_fd = open("/proc/self", O_RDONLY | O_DIRECTORY);
    assert_false(halo_pressure_watch_limited(&watch, POLLPRI | POLLERR));
    assert_int_equal(watch.events_fd, -1);
    assert_false(halo_pressure_watch_limited(&watch, POLLPRI));
}

/* The file was not written to. */
static void plain_files_stay(void **state)
{
    char path[128], text[64] = "";
    put("proc/self/cgroup", "");
    put("proc/pressure/memory", "some avg10=1.00\n");
    read_once("proc/pressure/memory");
    snprintf(path, sizeof(path), "%s/proc/pressure/memory", root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_string_equal(text, "some avg10=1.00\n");
}

/* Whatever this kernel has: a trigger, or the reason why not; and figures that can be. */
static void this_machine(void **state)
{
    struct halo_pressure_watch watch;
    struct halo_pressure_sample sample;
    halo_pressure_watch_open(&watch, "/proc", "/sys/fs/cgroup");
    print_message("%s: %s\n", watch.path[0] ? watch.path : "no pressure file",
                  watch.fd >= 0 ? "trigger" : strerror(-watch.refused));
    assert_int_equal(watch.fd >= 0, watch.refused == 0);
    halo_pressure_watch_read(&watch, 1, &sample);
    assert_true(sample.total_bytes > 0 && sample.available_bytes <= sample.total_bytes);
    assert_true(sample.some >= 0 && sample.some <= 100 && sample.full >= 0 && sample.full <= 100);
    halo_pressure_watch_close(&watch);
    assert_int_equal(watch.fd, -1);
}

/* Its group was removed: poll says so, and it is not polled any more. */
static void a_trigger_that_is_gone(void **state)
{
    struct halo_pressure_watch watch = {.fd = dup(STDIN_FILENO), .events_fd = -1};
    assert_true(watch.fd >= 0);
    assert_false(halo_pressure_watch_fired(&watch, 0));
    assert_true(halo_pressure_watch_fired(&watch, POLLPRI));
    assert_true(watch.fd >= 0);
    assert_false(halo_pressure_watch_fired(&watch, POLLERR | POLLPRI));
    assert_int_equal(watch.fd, -1);
    assert_int_equal(watch.refused, -ENODEV);
}

static int start(void **state)
{
    if (!mkdtemp(root))
        return 1;
    snprintf(proc, sizeof(proc), "%s/proc", root);
    snprintf(groups, sizeof(groups), "%s/groups", root);
    return 0;
}

static int finish(void **state)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_file),       cmocka_unit_test(which_events), cmocka_unit_test(a_group_at_its_limit),
        cmocka_unit_test(plain_files_stay), cmocka_unit_test(this_machine), cmocka_unit_test(a_trigger_that_is_gone),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
