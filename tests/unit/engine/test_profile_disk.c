/* test_profile_disk.c: measuring a drive on files of all sizes, on drives that fail and on file systems that refuse.
 *
 * The reads go through pread(2) which the linker hands to this file: it sees each direct one, and answers as the test
 * wants.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <cmocka.h>

#include <engine/profile.h>
#include <store/gguf.h>

#include "child.h"
#include "gguf_writer.h"

#define KIB 1024u
#define POINT_NS 1000000 /* short: nothing here is about how fast */

static char dir[] = "/tmp/halo-test-profile-disk-XXXXXX";

static struct {
    _Atomic int n_direct;      /* calls on descriptors for direct reads */
    _Atomic int n_out_of_file; /* that asked for bytes behind the end */
    _Atomic int n_of_size;     /* of a file of so many bytes */
    off_t size;
    int fail_from, error; /* of these calls, from which one on, and how; 0: none */
    int cancel_at;
    atomic_bool *cancel;
} disk;

ssize_t __real_pread64(int fd, void *buffer, size_t n, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t n, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t n, off_t offset)
{
    struct stat facts;
    if (!(fcntl(fd, F_GETFL) & O_DIRECT))
        return __real_pread64(fd, buffer, n, offset);
    int number = ++disk.n_direct;
    if (fstat(fd, &facts) == 0 && (uint64_t)offset + n > (uint64_t)facts.st_size)
        disk.n_out_of_file++;
    disk.n_of_size += facts.st_size == disk.size;
    if (number == disk.cancel_at)
        atomic_store(disk.cancel, true);
    if (disk.fail_from > 0 && number >= disk.fail_from) {
        errno = disk.error;
        return -1;
    }
    return (ssize_t)n; /* nobody looks at the bytes */
}

/* ---- files ---- */

static void write_file(const char *name, const struct gguf_writer *w, uint64_t n_bytes)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, w->bytes, w->n), (ssize_t)w->n);
    if (n_bytes > w->n)
        assert_int_equal(ftruncate(fd, (off_t)n_bytes), 0);
    close(fd);
}

static void make_file(uint64_t n_bytes)
{
    struct gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_key_string(&w, "general.architecture", "qwen3");
    gguf_writer_finish(&w);
    write_file("m.gguf", &w, n_bytes);
    gguf_writer_free(&w);
}

static void make_parts(const uint64_t *sizes, uint16_t n)
{
    for (uint16_t i = 0; i < n; i++) {
        char name[64];
        struct gguf_writer w;
        gguf_writer_init(&w);
        if (i == 0)
            gguf_writer_key_string(&w, "general.architecture", "qwen3");
        gguf_writer_key(&w, "split.no", HALO_GGUF_U16);
        gguf_writer_raw(&w, &i, 2);
        gguf_writer_key(&w, "split.count", HALO_GGUF_U16);
        gguf_writer_raw(&w, &n, 2);
        gguf_writer_key(&w, "split.tensors.count", HALO_GGUF_I32);
        gguf_writer_u32(&w, 0);
        gguf_writer_finish(&w);
        snprintf(name, sizeof(name), "m-%05u-of-%05u.gguf", i + 1u, n);
        write_file(name, &w, sizes[i]);
        gguf_writer_free(&w);
    }
}

/* ---- runs ---- */

static struct halo_stats stats;

static struct halo_profiling *open_model(const char *name)
{
    struct halo_profiling *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    memset(&disk, 0, sizeof(disk));
    disk.cancel = &p->cancel;
    p->no_uring = true;
    p->point_ns = POINT_NS;
    p->stats = &stats;
    snprintf(p->path, sizeof(p->path), "%s/%s", dir, name);
    if (halo_gguf_open(&p->gguf, p->path, &p->fault) < 0)
        fail_msg("%s", p->fault.text);
    return p;
}

/* To its end; what the last step returned. */
static int run(struct halo_profiling *p)
{
    int r, n = 0;
    while ((r = halo_profiling_step(p, NULL)) > 0)
        assert_true(++n <= HALO_PROFILE_ROUNDS * HALO_PROFILE_POINTS_MAX + 6);
    halo_profiling_close(p);
    return r;
}

static void every_point_has_a_rate(void **state)
{
    make_file(8u << 20);
    struct halo_profiling *p = open_model("m.gguf");
    assert_int_equal(run(p), 0);
    const struct halo_profile_record *record = &p->record;
    assert_string_equal(record->fault, "");
    assert_int_equal(record->n_points, 29);
    for (uint32_t i = 0; i < record->n_points; i++)
        assert_true(record->points[i].bytes_s > 0 && record->points[i].latency_s > 0);
    assert_true(record->profile.disk_bytes_s > 0 && record->profile.disk_latency_s > 0);
    const struct halo_profile_point *knee = halo_profile_knee(p->finalists, p->n_contenders);
    assert_in_range(p->n_confirmed, 1, 4);
    if (p->n_confirmed < 4) {
        assert_int_equal(record->profile.disk_block_bytes, knee->block_bytes);
        assert_int_equal(record->profile.disk_depth, knee->depth);
        assert_true(record->profile.disk_bytes_s == knee->bytes_s);
    }
    assert_int_equal(record->span_bytes, 8u << 20);
    assert_true(record->read_bytes > 0 && disk.n_direct > 29);
    assert_int_equal(disk.n_out_of_file, 0);
    assert_int_equal(atomic_load(&p->n_done), atomic_load(&p->n_total));
    assert_true(p->n_contenders > 0); /* measured again, and the middle one counts */
    assert_int_equal(atomic_load(&p->n_total), 29 + 2 * p->n_contenders + p->n_confirmed);
    uint32_t n_other = 0;
    for (uint32_t i = 0; i < p->n_contenders; i++) {
        const struct halo_profile_point *rounds = p->rounds[i], *point = &record->points[p->contenders[i]];
        int n_below = 0, n_above = 0;
        for (int k = 0; k < HALO_PROFILE_ROUNDS; k++) {
            assert_int_equal(rounds[k].depth, point->depth);
            assert_int_equal(rounds[k].block_bytes, point->block_bytes);
            n_below += rounds[k].bytes_s < point->bytes_s;
            n_above += rounds[k].bytes_s > point->bytes_s;
        }
        n_other += n_below > 1 || n_above > 1;
    }
    assert_true(n_other <= p->n_confirmed);
    assert_non_null(strstr(record->io, "threads, O_DIRECT"));
    assert_false(p->shared);
    halo_profiling_destroy(p);
}

/* The blocks that a file does not hold are left out; without one nothing is read. */
static void small_files(void **state)
{
    static const struct {
        uint64_t bytes;
        uint32_t n_points;
        const char *fault;
    } cases[] = {
        {100, 0, "the file has "}, {128 * KIB - 1, 0, "131071 bytes, fewer than one read of 131072"},
        {128 * KIB, 6, ""},        {300 * KIB, 12, ""},
        {1024 * KIB + 1, 24, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        make_file(cases[i].bytes);
        struct halo_profiling *p = open_model("m.gguf");
        assert_int_equal(run(p), 0);
        assert_int_equal(p->record.n_points, cases[i].n_points);
        assert_non_null(strstr(p->record.fault, cases[i].fault));
        assert_int_equal(p->record.fault[0] == '\0', cases[i].n_points > 0);
        assert_int_equal(disk.n_direct > 0, cases[i].n_points > 0);
        assert_int_equal(disk.n_out_of_file, 0);
        halo_profiling_destroy(p);
    }
}

/* The first part holds no block, the others some. */
static void all_parts_are_read(void **state)
{
    static const uint64_t sizes[] = {0, 256 * KIB, 5u << 20};
    make_parts(sizes, 3);
    struct halo_profiling *p = open_model("m-00001-of-00003.gguf");
    disk.size = 256 * KIB;
    assert_int_equal(run(p), 0);
    assert_int_equal(p->record.n_points, 29);
    assert_true(disk.n_of_size > 0 && disk.n_of_size < disk.n_direct);
    assert_int_equal(disk.n_out_of_file, 0);
    halo_profiling_destroy(p);
}

static void a_drive_that_fails_ends_it(void **state)
{
    static const int from[] = {1, 2, 100};
    make_file(4u << 20);
    for (size_t i = 0; i < sizeof(from) / sizeof(*from); i++) {
        struct halo_profiling *p = open_model("m.gguf");
        disk.fail_from = from[i];
        disk.error = EIO;
        assert_int_equal(run(p), -EIO);
        assert_int_equal(p->fault.code, HALO_FAULT_LOAD_FAILED);
        assert_non_null(strstr(p->fault.text, "m.gguf"));
        assert_non_null(strstr(p->fault.text, strerror(EIO)));
        halo_profiling_destroy(p);
    }
}

/* At the first read, and where one worked before: a figure of the page cache is none. */
static void a_file_system_that_refuses_direct_reads(void **state)
{
    static const int from[] = {1, 100};
    make_file(4u << 20);
    for (size_t i = 0; i < sizeof(from) / sizeof(*from); i++) {
        struct halo_profiling *p = open_model("m.gguf");
        disk.fail_from = from[i];
        disk.error = EINVAL;
        assert_int_equal(run(p), 0);
        assert_int_equal(p->record.n_points, 0);
        assert_true(p->record.profile.disk_bytes_s == 0);
        assert_non_null(strstr(p->record.fault, "refuses direct reads"));
        halo_profiling_destroy(p);
    }
}

static void a_file_in_memory(void **state)
{
    struct statfs facts;
    char saved[sizeof(dir)];
    if (statfs("/dev/shm", &facts) < 0 || facts.f_type != 0x01021994)
        skip();
    strcpy(saved, dir);
    strcpy(dir, "/dev/shm/halo-profile-XXXXXX");
    assert_non_null(mkdtemp(dir));
    make_file(4u << 20);
    struct halo_profiling *p = open_model("m.gguf");
    assert_int_equal(run(p), 0);
    assert_non_null(strstr(p->record.fault, "lies in memory"));
    assert_int_equal(disk.n_direct, 0);
    halo_profiling_destroy(p);
    assert_int_equal(child_remove_folder(dir), 0);
    strcpy(dir, saved);
}

static void a_cancel_is_heard_in_the_middle(void **state)
{
    static const int at[] = {1, 50, 200};
    make_file(4u << 20);
    for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
        struct halo_profiling *p = open_model("m.gguf");
        disk.cancel_at = at[i];
        p->point_ns = 3600ull * 1000000000; /* it would take for ever */
        if (at[i] > 1)
            p->point_ns = POINT_NS;
        assert_int_equal(run(p), -ECANCELED);
        assert_int_equal(p->fault.code, HALO_FAULT_CANCELLED);
        halo_profiling_destroy(p);
    }
}

/* The file is cut after it was opened. */
static void a_file_that_was_changed(void **state)
{
    char path[256];
    make_file(4u << 20);
    struct halo_profiling *p = open_model("m.gguf");
    snprintf(path, sizeof(path), "%s/m.gguf", dir);
    assert_int_equal(truncate(path, 1 << 20), 0);
    assert_true(run(p) < 0);
    assert_non_null(strstr(p->fault.text, "has changed"));
    halo_profiling_destroy(p);
}

static void steps_of_the_device_are_noticed(void **state)
{
    make_file(1u << 20);
    struct halo_profiling *p = open_model("m.gguf");
    assert_int_equal(halo_profiling_step(p, NULL), 1);
    HALO_COUNT(&stats, steps, 1);
    assert_int_equal(run(p), 0);
    assert_true(p->shared);
    halo_profiling_destroy(p);
}

static int setup(void **state)
{
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    return child_remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_point_has_a_rate),
        cmocka_unit_test(small_files),
        cmocka_unit_test(all_parts_are_read),
        cmocka_unit_test(a_drive_that_fails_ends_it),
        cmocka_unit_test(a_file_system_that_refuses_direct_reads),
        cmocka_unit_test(a_file_in_memory),
        cmocka_unit_test(a_cancel_is_heard_in_the_middle),
        cmocka_unit_test(a_file_that_was_changed),
        cmocka_unit_test(steps_of_the_device_are_noticed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
