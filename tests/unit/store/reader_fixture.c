/* reader_fixture.c: see reader_fixture.h. One thread; the callbacks assert that they come on it. */
#include "reader_fixture.h"

#include <fcntl.h>
#include <liburing.h>
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

#define FILL 0xee
#define PAGE HALO_HULL_ALIGN
#define REGION_BYTES ((size_t)96 << 20)

static pthread_t runner;

static void file_make(struct reader_fixture *f, uint32_t part)
{
    const char *dir = getenv("HALO_BUILD_ROOT");
    snprintf(f->paths[part], sizeof(f->paths[part]), "%s/reader-%d-%u.bin", dir ? dir : "/tmp", (int)getpid(), part);
    uint8_t *bytes = malloc(FIXTURE_FILE_BYTES);
    assert_non_null(bytes);
    uint64_t x = part + 1;
    for (uint64_t i = 0; i < FIXTURE_FILE_BYTES; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(x >> 56);
    }
    f->contents[part] = bytes;
    int fd = open(f->paths[part], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, FIXTURE_FILE_BYTES), FIXTURE_FILE_BYTES);
    close(fd);
    f->sources[part] = (struct halo_reader_source){.fd = open(f->paths[part], O_RDONLY), .name = f->paths[part]};
    assert_true(f->sources[part].fd >= 0);
}

struct reader_fixture *reader_fixture_create(void)
{
    struct reader_fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    for (uint32_t part = 0; part < FIXTURE_FILES; part++)
        file_make(f, part);
    f->region_bytes = REGION_BYTES;
    f->region = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    f->owned = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f->region != MAP_FAILED && f->owned != MAP_FAILED);
    f->region_used = PAGE;

    struct io_uring ring;
    f->have_uring = io_uring_queue_init(4, &ring, 0) == 0;
    if (f->have_uring)
        io_uring_queue_exit(&ring);
    int fd = open(f->paths[0], O_RDONLY | O_DIRECT);
    f->have_direct = fd >= 0 && pread(fd, f->region, PAGE, 0) == PAGE;
    if (fd >= 0)
        close(fd);
    if (!f->have_uring || !f->have_direct)
        print_message("skipped aloud: no %s here, its own path was not tried\n",
                      f->have_uring ? "O_DIRECT" : "io_uring");
    return f;
}

void reader_fixture_destroy(struct reader_fixture *f)
{
    for (uint32_t part = 0; part < FIXTURE_FILES; part++)
        unlink(f->paths[part]), close(f->sources[part].fd), free(f->contents[part]);
    munmap(f->region, f->region_bytes);
    munmap(f->owned, f->region_bytes);
    free(f);
}

void reader_fixture_job(struct reader_fixture *f, uint32_t part, uint64_t offset, uint64_t n_bytes, unsigned shift,
                        bool slack)
{
    assert_true(f->n_jobs < FIXTURE_JOBS_MAX);
    size_t at = f->region_used + (offset + shift) % PAGE;
    size_t end = at + n_bytes, hull_end = (end + PAGE - 1) / PAGE * PAGE;
    assert_true(hull_end + PAGE <= f->region_bytes);
    f->jobs[f->n_jobs] = (struct halo_reader_job){part, offset, n_bytes, f->region + at, slack, "blk.7.some.weight"};
    f->n_jobs++;
    f->bytes += n_bytes;
    if (slack)
        memset(f->owned + at / PAGE * PAGE, 1, hull_end - at / PAGE * PAGE);
    else
        memset(f->owned + at, 1, n_bytes);
    f->region_used = hull_end + PAGE;
}

void reader_fixture_mix(struct reader_fixture *f)
{
    const uint64_t end = FIXTURE_FILE_BYTES;
    reader_fixture_job(f, 0, 0, end, 0, true);                 /* the whole file, in place */
    reader_fixture_job(f, 1, 4096 + 32, 1 << 20, 0, true);     /* begins inside a page */
    reader_fixture_job(f, 1, (1 << 20) + 96, 400000, 7, true); /* large, not congruent */
    reader_fixture_job(f, 1, (1 << 20) + 200, 50, 1,
                       false);                           /* lies in the first of the pieces that the last job takes */
    reader_fixture_job(f, 1, 3 << 19, 400000, 0, false); /* large, congruent, no slack */
    reader_fixture_job(f, 1, (2 << 20) + 64, 1 << 19, 0, true);      /* one more in place */
    reader_fixture_job(f, 1, end - 300 * 1024, 300 * 1024, 0, true); /* up to the file's odd end */
    reader_fixture_job(f, 1, end - 1, 1, 5, false);
    reader_fixture_job(f, 1, end, 0, 0, false); /* empty, at the very end */
    reader_fixture_job(f, 0, 100, 0, 0, true);
    reader_fixture_job(f, 0, HALO_READER_DIRECT_MIN / 2, HALO_READER_DIRECT_MIN, 0,
                       true);          /* just large enough, overlaps */
    for (uint64_t i = 0; i < 200; i++) /* neighbours of odd sizes, every third twice */
        for (uint64_t twice = 0; twice <= (i % 3 == 0); twice++)
            reader_fixture_job(f, 1, 8192 + i * 777, 777 - i % 5 * 100, (unsigned)(i * 13), false);
    for (uint64_t i = 0; i < 40; i++) /* far apart, out of order */
        reader_fixture_job(f, 0, (i * 7919) % 97 * 30001, 1 + i * 31, (unsigned)i, false);
    reader_fixture_job(f, 0, 1000, 5000, 0, false); /* begins in the middle of others that are read first */
    reader_fixture_job(f, 0, 1000, 200000, 1, false);
    reader_fixture_job(f, 0, 1500, 10, 1, false);
}

static void on_done(void *ud, size_t job)
{
    struct reader_fixture *f = ud;
    assert_true(pthread_equal(runner, pthread_self()));
    assert_true(job < f->n_jobs);
    f->done[job]++;
    /* Promised: its bytes are in place now. */
    const struct halo_reader_job *j = &f->jobs[job];
    const uint8_t *dest = j->dest;
    if (j->n_bytes > 0) {
        assert_int_equal(dest[0], f->contents[j->part][j->offset]);
        assert_int_equal(dest[j->n_bytes - 1], f->contents[j->part][j->offset + j->n_bytes - 1]);
    }
}

static void on_progress(void *ud, uint64_t bytes_done, uint64_t bytes_total)
{
    struct reader_fixture *f = ud;
    assert_true(pthread_equal(runner, pthread_self()));
    assert_int_equal(bytes_total, f->bytes);
    assert_true(bytes_done > f->progress_last && bytes_done <= bytes_total);
    f->progress_last = bytes_done;
    f->n_progress++;
    if (f->on_progress)
        f->on_progress(f);
}

struct halo_reader_options reader_fixture_options(struct reader_fixture *f)
{
    return (struct halo_reader_options){.queue_depth = 8,
                                        .chunk_bytes = 128 * 1024,
                                        .cancel = &f->cancel,
                                        .pinned = f->region,
                                        .pinned_bytes = f->region_bytes,
                                        .done = on_done,
                                        .progress = on_progress,
                                        .ud = f};
}

int reader_fixture_run(struct reader_fixture *f, const struct halo_reader_options *options)
{
    memset(f->region, FILL, f->region_used);
    memset(f->done, 0, sizeof(f->done));
    f->progress_last = 0;
    f->n_progress = 0;
    f->fault = (struct halo_fault){0};
    runner = pthread_self();
    for (uint32_t part = 0; part < FIXTURE_FILES; part++) {
        struct stat facts;
        assert_int_equal(fstat(f->sources[part].fd, &facts), 0);
        f->sources[part].id = halo_file_id_of(&facts);
    }
    return halo_reader_run(f->sources, FIXTURE_FILES, f->jobs, f->n_jobs, options, &f->report, &f->fault);
}

/* Every byte that belongs to no job is as it was: whole pages at a time, single bytes where pages are shared. */
static void check_untouched(const struct reader_fixture *f)
{
    static uint8_t nobody[PAGE], fill[PAGE];
    memset(fill, FILL, sizeof(fill));
    for (size_t page = 0; page < f->region_used; page += PAGE) {
        const uint8_t *owned = f->owned + page, *region = f->region + page;
        if (memcmp(owned, nobody, PAGE) == 0 && memcmp(region, fill, PAGE) == 0)
            continue;
        if (!memchr(owned, 0, PAGE))
            continue;
        for (size_t i = 0; i < PAGE; i++)
            if (!owned[i] && region[i] != FILL)
                fail_msg("byte %zu of the region was written, it belongs to no job", page + i);
    }
}

void reader_fixture_check(struct reader_fixture *f)
{
    assert_true(f->n_jobs > 0 && f->bytes > 0);
    for (size_t i = 0; i < f->n_jobs; i++) {
        const struct halo_reader_job *job = &f->jobs[i];
        if (memcmp(job->dest, f->contents[job->part] + job->offset, job->n_bytes) != 0)
            fail_msg("job %zu: its %llu bytes at %llu are not the file's", i, (unsigned long long)job->n_bytes,
                     (unsigned long long)job->offset);
        assert_int_equal(f->done[i], 1);
    }
    check_untouched(f);
    assert_int_equal(f->progress_last, f->bytes);
    assert_int_equal(f->report.bytes, f->bytes);
    assert_true(f->report.elapsed_ns > 0);
}
