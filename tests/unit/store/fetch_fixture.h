/* fetch_fixture.h: a halo_fetch over a file of known bytes, slots that notice writes beside them, and a drive and a
 * kernel that fail on demand.
 *
 * The calls below the fetch are replaced with the linker's --wrap. All switches are atomic: the threads of the fetch
 * read them while a test sets them.
 */
#ifndef HALO_TESTS_FETCH_FIXTURE_H
#define HALO_TESTS_FETCH_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <store/fetch.h>

#define FIXTURE_FILE_BYTES ((uint64_t)(3 * 1024 * 1024 + 1237)) /* ends inside a page */
#define FIXTURE_SLOTS 512
#define FIXTURE_PATIENCE_US ((uint64_t)120 * 1000 * 1000) /* for what is certain to come */

struct fetch_fixture {
    bool no_uring;    /* which back end the test runs with */
    bool have_direct; /* this file system has O_DIRECT */
    struct halo_fetch *fetch;
    char path[512];
    const char *name; /* of the file, without its folder */
    int fd;
    uint32_t file;
    uint8_t *content;
    uint8_t *region; /* 0xee where nothing was read */
    size_t region_bytes, region_used;
    struct halo_fetch_read reads[FIXTURE_SLOTS]; /* by slot */
    struct halo_fetch_done done[FIXTURE_SLOTS];
    unsigned n_done[FIXTURE_SLOTS];
    uint32_t order[FIXTURE_SLOTS]; /* slots as they completed */
    uint32_t n_reads, n_reaped;
};

/* What the drive and the kernel do wrong. */
struct fetch_inject {
    atomic_int queue_init; /* errno of every new ring */
    atomic_int submit, submit_after, submit_times;
    atomic_int open_direct;
    atomic_int thread, thread_after;
    atomic_int refuse_direct;                      /* errno of every direct read: EINVAL or EOPNOTSUPP */
    atomic_int result, result_after, result_times; /* errno of the results number after .. after + times */
    atomic_bool shorten;                           /* results are smaller than they were */
    atomic_bool stalled;                           /* no read completes */
    atomic_bool unpinned; /* the region of the fixture cannot be read into (a true EFAULT of the kernel) */
    /* Counted. */
    atomic_int n_results, n_submits, n_threads, n_dropped; /* the last: calls of POSIX_FADV_DONTNEED */
};
extern struct fetch_inject inject;
void fetch_inject_reset(void);

/* For cmocka; *state is a bool *: no_uring. */
int fetch_fixture_setup(void **state);
int fetch_fixture_teardown(void **state);
/* Both back ends. */
extern bool fetch_with_uring, fetch_with_threads;
#define FETCH_TEST(name)                                                                                               \
    {#name " [io_uring]", name, fetch_fixture_setup, fetch_fixture_teardown, &fetch_with_uring},                       \
    {                                                                                                                  \
#name " [threads]", name, fetch_fixture_setup, fetch_fixture_teardown, &fetch_with_threads                     \
    }

/* Creates f->fetch with these options (no_uring is the fixture's) and adds the file. */
void fetch_fixture_open(struct fetch_fixture *f, struct halo_fetch_options options);
/* Adds the file once more: f->file is its new number. */
void fetch_fixture_add_file(struct fetch_fixture *f);
void fetch_fixture_close(struct fetch_fixture *f);
/* A read into a slot of its own, the next one; returns its number. Generation: the slot plus 1000. */
uint32_t fetch_fixture_plan(struct fetch_fixture *f, uint64_t offset, uint64_t n_bytes,
                            enum halo_fetch_priority priority);
/* The same, submitted. */
uint32_t fetch_fixture_read(struct fetch_fixture *f, uint64_t offset, uint64_t n_bytes,
                            enum halo_fetch_priority priority);
/* Takes the completions that come within timeout_us, up to `max` and up to 4. Returns how many. */
uint32_t fetch_fixture_take(struct fetch_fixture *f, uint32_t max, uint64_t timeout_us);
/* Waits for n completions. */
void fetch_fixture_reap(struct fetch_fixture *f, uint32_t n);
/* Every read completed once and without an error; its bytes are the file's, nothing outside the hulls was touched. */
void fetch_fixture_check(struct fetch_fixture *f);
void fetch_fixture_check_read(struct fetch_fixture *f, uint32_t slot); /* one of them */
void fetch_fixture_expect_no_notice(struct fetch_fixture *f);
/* Fails unless a notice contains `text`, and none of them twice. */
void fetch_fixture_expect_notice(struct fetch_fixture *f, const char *text);
/* Waits until n blocks are in flight. */
void fetch_fixture_wait_in_flight(struct fetch_fixture *f, uint32_t n);

#endif
