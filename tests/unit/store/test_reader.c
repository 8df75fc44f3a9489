/* test_reader.c: the reader brings the right bytes by every method, and ends well when the file is cut or the run
 * cancelled. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "reader_fixture.h"

static int setup(void **state)
{
    *state = reader_fixture_create();
    return 0;
}

static int teardown(void **state)
{
    reader_fixture_destroy(*state);
    return 0;
}

/* By force of options, each method with and without direct reads. */
static void test_methods(void **state)
{
    struct reader_fixture *f = *state;
    reader_fixture_mix(f);
    for (unsigned bits = 0; bits < 8; bits++) {
        struct halo_reader_options options = reader_fixture_options(f);
        options.no_uring = bits & 1;
        options.no_direct = bits & 2;
        options.no_register = bits & 4;
        assert_int_equal(reader_fixture_run(f, &options), 0);
        reader_fixture_check(f);
        enum halo_reader_method wanted = HALO_READER_PREAD;
        if (!options.no_uring && f->have_uring)
            wanted = options.no_register ? HALO_READER_URING : HALO_READER_URING_FIXED;
        if (wanted == HALO_READER_URING_FIXED && f->report.method == HALO_READER_URING)
            print_message("skipped aloud: registering is limited here: %s\n", f->report.notice);
        else
            assert_int_equal(f->report.method, wanted);
        assert_int_equal(f->report.direct, f->have_direct && !options.no_direct);
    }
}

static void test_queue_and_chunk_sizes(void **state)
{
    struct reader_fixture *f = *state;
    reader_fixture_mix(f);
    static const struct {
        unsigned depth;
        size_t chunk;
    } sizes[] = {{1, 4096}, {1, 1 << 20}, {2, 1}, {3, 5000}, {64, 65536}, {0, 0}, {100000, (size_t)1 << 40}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int no_uring = 0; no_uring < 2; no_uring++) {
            struct halo_reader_options options = reader_fixture_options(f);
            options.queue_depth = sizes[i].depth;
            options.chunk_bytes = sizes[i].chunk;
            options.no_uring = no_uring;
            assert_int_equal(reader_fixture_run(f, &options), 0);
            reader_fixture_check(f);
        }
}

/* The region that is registered may begin after some destinations and end before others. */
static void test_partly_pinned(void **state)
{
    struct reader_fixture *f = *state;
    reader_fixture_mix(f);
    for (size_t skip = 0; skip < 3; skip++) {
        struct halo_reader_options options = reader_fixture_options(f);
        options.pinned = f->region + skip * 3 * HALO_HULL_ALIGN;
        options.pinned_bytes = (size_t)(2 << 20) + skip * 777;
        assert_int_equal(reader_fixture_run(f, &options), 0);
        reader_fixture_check(f);
    }
    struct halo_reader_options options = reader_fixture_options(f);
    options.pinned = f->region + 8;
    options.pinned_bytes = 1 << 20;
    assert_int_equal(reader_fixture_run(f, &options), 0);
    reader_fixture_check(f);
    if (f->have_uring) {
        assert_int_equal(f->report.method, HALO_READER_URING);
        assert_non_null(strstr(f->report.notice, "does not begin on a page"));
    }
}

static void test_nothing_to_read(void **state)
{
    struct reader_fixture *f = *state;
    struct halo_reader_options options = reader_fixture_options(f);
    assert_int_equal(reader_fixture_run(f, &options), 0);
    assert_int_equal(f->report.bytes, 0);
    assert_int_equal(halo_reader_run(NULL, 0, NULL, 0, NULL, NULL, NULL), 0);
    reader_fixture_job(f, 0, 5, 0, 0, false);
    assert_int_equal(reader_fixture_run(f, &options), 0);
    assert_int_equal(f->done[0], 1);
}

/* Memory of its own, which no page backs yet, and a range that is in place before anything is read. */
struct fresh {
    uint8_t *region;
    unsigned n_done;
    bool populated;
};
#define FRESH_BYTES ((size_t)3 << 20)

static bool is_backed(uint8_t *region)
{
    unsigned char pages[FRESH_BYTES / HALO_HULL_ALIGN];
    size_t n = 0;
    assert_int_equal(mincore(region, FRESH_BYTES, pages), 0);
    for (size_t i = 0; i < sizeof(pages); i++)
        n += pages[i] & 1;
    return n == sizeof(pages);
}

/* No read has been submitted when the empty range is done: whoever backs the other's memory is not the reader. */
static void fresh_done(void *ud, size_t job)
{
    struct fresh *fresh = ud;
    fresh->n_done++;
    for (int ms = 0; job == 0 && !fresh->populated && ms < 60000; ms++) {
        fresh->populated = is_backed(fresh->region);
        usleep(1000);
    }
}

static void test_populates_ahead(void **state)
{
    struct reader_fixture *f = *state;
    struct fresh fresh = {.region =
                              mmap(NULL, FRESH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
    assert_ptr_not_equal(fresh.region, MAP_FAILED);
    int r = madvise(fresh.region, HALO_HULL_ALIGN, 23 /* MADV_POPULATE_WRITE, which Debian 12 does not know */);
    reader_fixture_job(f, 0, 0, 0, 0, false);
    reader_fixture_job(f, 0, 0, FRESH_BYTES, 0, true);
    f->jobs[1].dest = fresh.region;
    struct halo_reader_options options = {.n_populate = 2, .done = fresh_done, .ud = &fresh};
    if (r < 0) {
        print_message("skipped aloud: this kernel does not populate memory (%s)\n", strerror(errno));
        options.done = NULL;
    }
    assert_int_equal(reader_fixture_run(f, &options), 0);
    assert_memory_equal(fresh.region, f->contents[0], FRESH_BYTES);
    if (r == 0) {
        assert_int_equal(fresh.n_done, 2);
        assert_true(fresh.populated);
        assert_int_equal(f->report.populated_bytes, FRESH_BYTES);
    }
    munmap(fresh.region, FRESH_BYTES);
}

/* Populating changes no byte, and memory that cannot be populated is read into all the same. */
static void test_populating_the_mix(void **state)
{
    struct reader_fixture *f = *state;
    reader_fixture_mix(f);
    for (int no_uring = 0; no_uring < 2; no_uring++) {
        struct halo_reader_options options = reader_fixture_options(f);
        options.no_uring = no_uring;
        options.n_populate = 100;
        assert_int_equal(reader_fixture_run(f, &options), 0);
        reader_fixture_check(f);
    }
}

/* Ranges without a place get one of two buffers, which are given back when the bytes have been compared: at once, or
 * after the reader has asked in vain, with nothing under way. */
#define PLACED_BYTES ((size_t)400000)
struct placed {
    struct reader_fixture *f;
    uint8_t *buffers[2];
    int buffer_of[32]; /* of each job; -1: none */
    bool taken[2], late, used_up[2];
    unsigned n_refused, n_done, n_wrong;
    uint64_t asked_last;
    pthread_mutex_t lock; /* a pread thread asks */
};

static int placed_find(struct placed *p)
{
    for (int i = 0; i < 2; i++)
        if (!p->taken[i])
            return i;
    p->n_refused++;
    for (int i = 0; i < 2; i++)
        if (p->used_up[i]) {
            p->used_up[i] = p->taken[i] = false;
            break;
        }
    return -1;
}

static bool placed_place(void *ud, size_t job, void **ret_dest, bool *ret_slack)
{
    struct placed *p = ud;
    const struct halo_reader_job *j = &p->f->jobs[job];
    pthread_mutex_lock(&p->lock);
    p->n_wrong += j->offset < p->asked_last;
    p->asked_last = j->offset;
    int i = placed_find(p);
    if (i >= 0) {
        p->taken[i] = true;
        p->buffer_of[job] = i;
        *ret_dest = p->buffers[i] + j->offset % HALO_HULL_ALIGN;
        *ret_slack = true;
    }
    pthread_mutex_unlock(&p->lock);
    return i >= 0;
}

static void placed_done(void *ud, size_t job)
{
    struct placed *p = ud;
    const struct halo_reader_job *j = &p->f->jobs[job];
    pthread_mutex_lock(&p->lock);
    int i = p->buffer_of[job];
    p->n_wrong += i < 0 || !p->taken[i] ||
                  memcmp(p->buffers[i] + j->offset % HALO_HULL_ALIGN, p->f->contents[j->part] + j->offset, j->n_bytes);
    p->buffer_of[job] = -1;
    p->n_done++;
    if (p->late)
        p->used_up[i] = true;
    else
        p->taken[i] = false;
    pthread_mutex_unlock(&p->lock);
}

static void test_memory_used_again(void **state)
{
    struct reader_fixture *f = *state;
    for (uint64_t i = 0; i < 7; i++) { /* large and small ones by turns */
        reader_fixture_job(f, 0, i * (PLACED_BYTES + 5000), PLACED_BYTES, 0, true);
        f->jobs[f->n_jobs - 1].dest = NULL;
        reader_fixture_job(f, 0, i * (PLACED_BYTES + 5000) + PLACED_BYTES, 999, 0, true);
        f->jobs[f->n_jobs - 1].dest = NULL;
    }
    for (unsigned bits = 0; bits < 8; bits++) {
        struct placed p = {.f = f, .late = bits & 1, .lock = PTHREAD_MUTEX_INITIALIZER};
        for (int i = 0; i < 2; i++)
            assert_non_null(p.buffers[i] = aligned_alloc(HALO_HULL_ALIGN, 128 * HALO_HULL_ALIGN));
        struct halo_reader_options options = {.chunk_bytes = 128 * 1024,
                                              .no_uring = bits & 2,
                                              .no_direct = bits & 4,
                                              .n_populate = 1,
                                              .place = placed_place,
                                              .done = placed_done,
                                              .ud = &p};
        assert_int_equal(reader_fixture_run(f, &options), 0);
        assert_int_equal(p.n_done, f->n_jobs);
        assert_int_equal(p.n_wrong, 0);
        assert_true(!p.late || p.n_refused > 0);
        free(p.buffers[0]);
        free(p.buffers[1]);
    }
}

static void test_short_file_is_refused_at_once(void **state)
{
    struct reader_fixture *f = *state;
    reader_fixture_job(f, 0, 0, 1000, 0, false);
    reader_fixture_job(f, 1, FIXTURE_FILE_BYTES - 10, 11, 0, false);
    struct halo_reader_options options = reader_fixture_options(f);
    assert_int_equal(reader_fixture_run(f, &options), -EIO);
    assert_int_equal(f->fault.code, HALO_FAULT_LOAD_FAILED);
    assert_non_null(strstr(f->fault.text, "blk.7.some.weight needs 11 bytes at 3146955"));
    assert_non_null(strstr(f->fault.text, "ends at byte 3146965"));
    assert_int_equal(f->done[0], 0);
    f->jobs[1].offset = UINT64_MAX - 5; /* must not wrap */
    assert_int_equal(reader_fixture_run(f, &options), -EIO);
}

static void cut_file(struct reader_fixture *f)
{
    if (f->n_progress == 2)
        assert_int_equal(truncate(f->paths[0], 1000000), 0);
}

/* Every method: the file loses its tail after the first pieces. */
static void test_cut_while_reading(void **state)
{
    struct reader_fixture *f = *state;
    reader_fixture_job(f, 0, 0, FIXTURE_FILE_BYTES - 1, 0, true);
    f->on_progress = cut_file;
    for (unsigned bits = 0; bits < 4; bits++) {
        struct halo_reader_options options = reader_fixture_options(f);
        options.no_uring = bits & 1;
        options.no_direct = bits & 2;
        options.queue_depth = 2;
        options.chunk_bytes = 65536;
        assert_int_equal(reader_fixture_run(f, &options), -EIO);
        assert_int_equal(f->fault.code, HALO_FAULT_LOAD_FAILED);
        assert_non_null(strstr(f->fault.text,
                               "was cut while it was read: it ends at byte 1000000, blk.7.some.weight needs it up "
                               "to 3146964"));
        assert_int_equal(f->done[0], 0);
        assert_true(f->report.bytes < f->bytes);
        assert_int_equal(truncate(f->paths[0], (off_t)FIXTURE_FILE_BYTES), 0);
    }
}

static void cancel_late(struct reader_fixture *f)
{
    if (f->n_progress == 3)
        atomic_store(&f->cancel, true);
}

static void test_cancel(void **state)
{
    struct reader_fixture *f = *state;
    reader_fixture_mix(f);
    f->on_progress = cancel_late;
    for (int no_uring = 0; no_uring < 2; no_uring++) {
        struct halo_reader_options options = reader_fixture_options(f);
        options.no_uring = no_uring;
        options.queue_depth = 4;
        atomic_store(&f->cancel, false);
        assert_int_equal(reader_fixture_run(f, &options), -ECANCELED);
        assert_int_equal(f->fault.code, HALO_FAULT_CANCELLED);
        assert_true(f->n_progress >= 3 && f->n_progress <= 3 + 8 + 4); /* what was under way may still land */
        assert_int_equal(f->report.bytes, f->progress_last);
        assert_true(f->report.bytes < f->bytes);
        assert_int_equal(reader_fixture_run(f, &options), -ECANCELED); /* set from the start */
        assert_int_equal(f->report.bytes, 0);
    }
}

static void *cancel_from_outside(void *ud)
{
    struct reader_fixture *f = ud;
    usleep(2000);
    atomic_store(&f->cancel, true);
    return NULL;
}

static void test_cancel_from_a_thread(void **state)
{
    struct reader_fixture *f = *state;
    reader_fixture_mix(f);
    for (int no_uring = 0; no_uring < 2; no_uring++) {
        struct halo_reader_options options = reader_fixture_options(f);
        options.no_uring = no_uring;
        options.queue_depth = 1;
        options.chunk_bytes = 4096;
        atomic_store(&f->cancel, false);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_from_outside, f), 0);
        int r = reader_fixture_run(f, &options);
        pthread_join(thread, NULL);
        assert_true(r == -ECANCELED || r == 0);
        if (r == 0)
            reader_fixture_check(f);
    }
}

/* ---- a file that changes ---- */

static void write_a_byte(struct reader_fixture *f)
{
    int fd = open(f->paths[0], O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 100), 1);
    close(fd);
}

static void move_away(struct reader_fixture *f)
{
    char elsewhere[600];
    snprintf(elsewhere, sizeof(elsewhere), "%s.old", f->paths[0]);
    assert_int_equal(rename(f->paths[0], elsewhere), 0);
    assert_int_equal(rename(elsewhere, f->paths[0]), 0);
}

static void lengthen(struct reader_fixture *f)
{
    assert_int_equal(truncate(f->paths[0], (off_t)FIXTURE_FILE_BYTES + 1), 0);
}

static void (*spoil)(struct reader_fixture *f);
static void spoil_once(struct reader_fixture *f)
{
    if (f->n_progress == 2)
        spoil(f);
}

/* By every method, whatever was done to the file while it was read: no mixture of two states comes out. */
static void test_changed_while_reading(void **state)
{
    static const struct {
        void (*spoil)(struct reader_fixture *f);
        const char *says;
    } rows[] = {
        {write_a_byte, "was written to while it was read; load it again"},
        {move_away, "was moved, linked or given another mode while it was read; load it again"},
        {lengthen, "was changed while it was read, from 3146965 bytes to 3146966; load it again"},
    };
    struct reader_fixture *f = *state;
    reader_fixture_job(f, 0, 4096, FIXTURE_FILE_BYTES - 4096, 0, true);
    f->on_progress = spoil_once;
    for (size_t i = 0; i < 3; i++)
        for (unsigned bits = 0; bits < 4; bits++) {
            struct halo_reader_options options = reader_fixture_options(f);
            options.no_uring = bits & 1;
            options.no_direct = bits & 2;
            options.queue_depth = 2;
            options.chunk_bytes = 65536;
            spoil = rows[i].spoil;
            assert_int_equal(truncate(f->paths[0], (off_t)FIXTURE_FILE_BYTES), 0);
            usleep(20000); /* times of change have ticks of 10 ms at most: the next change is another one */
            assert_int_equal(reader_fixture_run(f, &options), -EIO);
            assert_int_equal(f->fault.code, HALO_FAULT_LOAD_FAILED);
            if (!strstr(f->fault.text, rows[i].says))
                fail_msg("%s", f->fault.text);
        }
}

/* The name leads to another file by now: what is read is the file that was opened, by direct reads too. */
static void test_a_name_that_leads_elsewhere(void **state)
{
    struct reader_fixture *f = *state;
    char other[600];
    static uint8_t zeros[65536];
    snprintf(other, sizeof(other), "%s.new", f->paths[0]);
    int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (uint64_t at = 0; at < FIXTURE_FILE_BYTES; at += sizeof(zeros))
        assert_true(write(fd, zeros, sizeof(zeros)) == (ssize_t)sizeof(zeros));
    close(fd);
    assert_int_equal(rename(other, f->paths[0]), 0);
    reader_fixture_mix(f);
    for (unsigned bits = 0; bits < 4; bits++) {
        struct halo_reader_options options = reader_fixture_options(f);
        options.no_uring = bits & 1;
        options.no_direct = bits & 2;
        assert_int_equal(reader_fixture_run(f, &options), 0);
        reader_fixture_check(f);
        assert_int_equal(f->report.direct, f->have_direct && !(bits & 2));
    }
}

static void test_a_file_that_is_not_the_one(void **state)
{
    struct reader_fixture *f = *state;
    struct halo_fault fault = {0};
    reader_fixture_job(f, 0, 0, 10, 0, false);
    struct halo_reader_options options = reader_fixture_options(f);
    assert_int_equal(reader_fixture_run(f, &options), 0);
    f->sources[1].id.inode++;
    f->done[0] = 0;
    assert_int_equal(halo_reader_run(f->sources, FIXTURE_FILES, f->jobs, f->n_jobs, &options, NULL, &fault), -EIO);
    assert_int_equal(f->done[0], 0); /* before anything was read */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_methods),
        TEST(test_queue_and_chunk_sizes),
        TEST(test_partly_pinned),
        TEST(test_nothing_to_read),
        TEST(test_populates_ahead),
        TEST(test_populating_the_mix),
        TEST(test_memory_used_again),
        TEST(test_short_file_is_refused_at_once),
        TEST(test_cut_while_reading),
        TEST(test_cancel),
        TEST(test_cancel_from_a_thread),
        TEST(test_changed_while_reading),
        TEST(test_a_name_that_leads_elsewhere),
        TEST(test_a_file_that_is_not_the_one),
    };
    return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
