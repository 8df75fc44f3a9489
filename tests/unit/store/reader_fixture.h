/* reader_fixture.h: a file of known bytes, a set of awkward ranges of it, and the check that they arrived and nothing
 * else changed. */
#ifndef HALO_TESTS_READER_FIXTURE_H
#define HALO_TESTS_READER_FIXTURE_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <store/reader.h>

#define FIXTURE_FILES 2
#define FIXTURE_FILE_BYTES ((uint64_t)(3 * 1024 * 1024 + 1237)) /* ends inside a page */
#define FIXTURE_JOBS_MAX 4096

struct reader_fixture {
    char paths[FIXTURE_FILES][512];
    struct halo_reader_source sources[FIXTURE_FILES]; /* ids are taken anew before each run */
    uint8_t *contents[FIXTURE_FILES];                 /* what the files hold */
    uint8_t *region;                                  /* page-aligned, everything in it is 0xee before a run */
    size_t region_bytes, region_used;
    uint8_t *owned; /* one byte for each of region: may a run write it */
    struct halo_reader_job jobs[FIXTURE_JOBS_MAX];
    size_t n_jobs;
    unsigned done[FIXTURE_JOBS_MAX];
    uint64_t bytes, progress_last;
    unsigned n_progress;
    void (*on_progress)(struct reader_fixture *f); /* inside the progress callback */
    atomic_bool cancel;
    bool have_uring, have_direct; /* what this machine and file system offer */
    struct halo_reader_report report;
    struct halo_fault fault;
};

struct reader_fixture *reader_fixture_create(void);
void reader_fixture_destroy(struct reader_fixture *f);

/* Adds a range. `shift` moves its destination off the place congruent to the file offset; slack gives it the pages
 * around. */
void reader_fixture_job(struct reader_fixture *f, uint32_t part, uint64_t offset, uint64_t n_bytes, unsigned shift,
                        bool slack);
/* The mix that every method is tried with: both files whole in large pieces, and small, odd, empty and overlapping
 * ranges. */
void reader_fixture_mix(struct reader_fixture *f);

/* Options with the callbacks and the region filled in. */
struct halo_reader_options reader_fixture_options(struct reader_fixture *f);
int reader_fixture_run(struct reader_fixture *f, const struct halo_reader_options *options);
/* After a run that returned 0: every byte in place, nothing outside touched, each job done once, progress complete. */
void reader_fixture_check(struct reader_fixture *f);

#endif
