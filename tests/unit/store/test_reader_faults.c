/* test_reader_faults.c: each step down of the reader, forced by making the call above it fail, and each error that must
 * end a run.
 *
 * The calls are replaced with the linker's --wrap: setup and registration of the ring, open, pread, fstat,
 * pthread_create, and the results that completions carry. One run at a time; the counters are atomic because reading
 * threads use them too.
 */
#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "fail_alloc.h"
#include "reader_fixture.h"

static struct {
    int queue_init, register_sparse; /* the errno to fail with; 0: pass */
    int register_update, register_update_after;
    int open_direct;
    int thread, thread_after;
    int submit, submit_after, submit_times;
    int result; /* negative errno for the completions number result_after .. + result_times */
    int result_after, result_times;
    bool ring_only; /* preads are left alone */
    bool other_op;  /* what is submitted is no read */
    bool shorten;   /* completions and preads bring fewer bytes than they did */
} inject;
static atomic_int n_results, n_submits, n_updates, n_threads;

int __real_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
    return inject.queue_init ? -inject.queue_init : __real_io_uring_queue_init(entries, ring, flags);
}

int __real_io_uring_register_buffers_sparse(struct io_uring *ring, unsigned n);
int __wrap_io_uring_register_buffers_sparse(struct io_uring *ring, unsigned n);
int __wrap_io_uring_register_buffers_sparse(struct io_uring *ring, unsigned n)
{
    return inject.register_sparse ? -inject.register_sparse : __real_io_uring_register_buffers_sparse(ring, n);
}

int __real_io_uring_register_buffers_update_tag(struct io_uring *ring, unsigned off, const struct iovec *iov,
                                                const __u64 *tags, unsigned n);
int __wrap_io_uring_register_buffers_update_tag(struct io_uring *ring, unsigned off, const struct iovec *iov,
                                                const __u64 *tags, unsigned n);
int __wrap_io_uring_register_buffers_update_tag(struct io_uring *ring, unsigned off, const struct iovec *iov,
                                                const __u64 *tags, unsigned n)
{
    if (inject.register_update && n_updates++ >= inject.register_update_after)
        return -inject.register_update;
    return __real_io_uring_register_buffers_update_tag(ring, off, iov, tags, n);
}

int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n)
{
    int number = n_submits++;
    for (unsigned i = ring->sq.sqe_head; inject.other_op && i != ring->sq.sqe_tail; i++)
        ring->sq.sqes[i & *ring->sq.kring_mask].opcode = IORING_OP_NOP;
    if (inject.submit && number >= inject.submit_after && number < inject.submit_after + inject.submit_times)
        return -inject.submit;
    return __real_io_uring_submit_and_wait(ring, n);
}

/* What a read of `result` bytes is made to look like. */
static int64_t mangle(int64_t result, bool ring)
{
    int number = n_results++;
    if (inject.result && (ring || !inject.ring_only) && number >= inject.result_after &&
        number < inject.result_after + inject.result_times)
        return -inject.result;
    if (inject.shorten && result > 1 && number % 3)
        return number % 3 == 1 ? result / 2 : 1 + result / 4096 * 4096 * 3 / 4;
    return result;
}

unsigned __real_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned count);
unsigned __wrap_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned count);
unsigned __wrap_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned count)
{
    unsigned n = __real_io_uring_peek_batch_cqe(ring, cqes, count);
    for (unsigned i = 0; i < n; i++)
        cqes[i]->res = (int)mangle(cqes[i]->res, true);
    return n;
}

ssize_t __real_pread64(int fd, void *bytes, size_t n, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t n, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t n, off_t offset)
{
    ssize_t got = __real_pread64(fd, bytes, n, offset);
    int64_t result = mangle(got < 0 ? -errno : got, false);
    if (result < 0)
        errno = (int)-result;
    return result < 0 ? -1 : (ssize_t)result;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    if (inject.open_direct && (flags & O_DIRECT)) {
        errno = inject.open_direct;
        return -1;
    }
    return __real_open64(path, flags, 0600);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *ud);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *ud);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *ud)
{
    if (inject.thread && n_threads++ >= inject.thread_after)
        return inject.thread;
    return __real_pthread_create(thread, attr, main, ud);
}

static void reset(void)
{
    memset(&inject, 0, sizeof(inject));
    n_results = n_submits = n_updates = n_threads = 0;
}

static int setup(void **state)
{
    reset();
    struct reader_fixture *f = reader_fixture_create();
    reader_fixture_mix(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    reset();
    reader_fixture_destroy(*state);
    return 0;
}

static void expect(struct reader_fixture *f, enum halo_reader_method method, bool direct, const char *notice)
{
    struct halo_reader_options options = reader_fixture_options(f);
    n_results = n_submits = n_updates = n_threads = 0;
    int r = reader_fixture_run(f, &options);
    if (r)
        fail_msg("%s", f->fault.text);
    reader_fixture_check(f);
    assert_int_equal(f->report.method, method);
    assert_int_equal(f->report.direct, direct);
    if (!strstr(f->report.notice, notice))
        fail_msg("notice '%s' does not say '%s'", f->report.notice, notice);
}

static const int refusals[] = {EPERM, ENOSYS, ENOMEM, EINVAL, EFAULT};
#define N_REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

static void test_no_ring(void **state)
{
    struct reader_fixture *f = *state;
    for (size_t i = 0; i < N_REFUSALS; i++) {
        inject.queue_init = refusals[i];
        expect(f, HALO_READER_PREAD, f->have_direct, strerror(refusals[i]));
        expect(f, HALO_READER_PREAD, f->have_direct, "io_uring is not available");
    }
}

static void test_no_registration(void **state)
{
    struct reader_fixture *f = *state;
    if (!f->have_uring)
        skip();
    for (size_t i = 0; i < N_REFUSALS; i++) {
        reset();
        inject.register_sparse = refusals[i];
        expect(f, HALO_READER_URING, f->have_direct, "buffers cannot be registered");
        reset();
        inject.register_update = refusals[i];
        expect(f, HALO_READER_URING, f->have_direct, "registering stopped after 0 MiB");
    }
}

static void test_registration_stops_half_way(void **state)
{
    struct reader_fixture *f = *state;
    if (!f->have_uring)
        skip();
    /* One range across two windows: the first is registered, the second refused. */
    f->region_used = ((size_t)32 << 20) - 1024 * 1024;
    reader_fixture_job(f, 0, 0, FIXTURE_FILE_BYTES, 0, true);
    inject.register_update = ENOMEM;
    inject.register_update_after = 1;
    expect(f, HALO_READER_URING, f->have_direct, "registering stopped after 32 MiB (Cannot allocate memory)");
    assert_int_equal(n_updates, 2); /* not asked again for every piece */
}

static void test_no_direct(void **state)
{
    struct reader_fixture *f = *state;
    inject.open_direct = EINVAL;
    expect(f, f->have_uring ? HALO_READER_URING_FIXED : HALO_READER_PREAD, false,
           "direct reads are refused (Invalid argument)");
    inject.queue_init = ENOSYS;
    expect(f, HALO_READER_PREAD, false, "direct reads are refused (Invalid argument)");
}

/* Reads are refused one step at a time: with a queue of one, the first refusal costs the registered buffers, the second
 * the direct reads, the third the ring. */
static void test_refused_reads(void **state)
{
    struct reader_fixture *f = *state;
    if (!f->have_uring || !f->have_direct)
        skip();
    static const struct {
        int times;
        enum halo_reader_method method;
        bool direct;
        const char *notice;
    } steps[] = {
        {1, HALO_READER_URING, true, "registered buffers are refused"},
        {2, HALO_READER_URING, false, "direct reads are refused"},
        {3, HALO_READER_PREAD, false, "io_uring refuses to read"},
    };
    for (size_t i = 0; i < N_REFUSALS; i++)
        for (size_t k = 0; k < 3; k++) {
            reset();
            inject.result = refusals[i];
            inject.result_times = steps[k].times;
            struct halo_reader_options options = reader_fixture_options(f);
            options.queue_depth = 1;
            /* the first piece must be in place, else it is not read into a registered buffer */
            assert_int_equal(reader_fixture_run(f, &options), 0);
            reader_fixture_check(f);
            assert_int_equal(f->report.method, steps[k].method);
            assert_int_equal(f->report.direct, steps[k].direct);
            assert_non_null(strstr(f->report.notice, steps[k].notice));
        }
    reset(); /* and with a full queue, all at once */
    inject.result = EOPNOTSUPP;
    inject.result_times = 8 * 3;
    expect(f, HALO_READER_PREAD, false, "io_uring refuses to read");
    /* And in the middle of pieces that came in part, from some completion on. How many there are differs from run to
     * run: as many as pieces at least. */
    reset();
    struct halo_reader_options options = reader_fixture_options(f);
    assert_int_equal(reader_fixture_run(f, &options), 0);
    const int n_pieces = n_results;
    assert_true(n_pieces > 50);
    inject.ring_only = inject.shorten = true;
    inject.result = EOPNOTSUPP;
    inject.result_times = INT_MAX - n_pieces;
    for (int after = 10; after < n_pieces - 8; after += 3) {
        inject.result_after = after;
        expect(f, HALO_READER_PREAD, false, "io_uring refuses to read");
    }
}

static void test_threads_refuse_direct(void **state)
{
    struct reader_fixture *f = *state;
    if (!f->have_direct)
        skip();
    inject.queue_init = EPERM;
    inject.result = EINVAL;
    inject.result_times = 1;
    expect(f, HALO_READER_PREAD, false, "direct reads are refused");
}

static void test_interrupted_and_short(void **state)
{
    struct reader_fixture *f = *state;
    static const int again[] = {EINTR, EAGAIN};
    for (int ring = 0; ring < 2; ring++) {
        for (size_t i = 0; i < 2; i++) {
            reset();
            inject.queue_init = ring && f->have_uring ? 0 : EPERM;
            inject.result = again[i];
            inject.result_after = 5;
            inject.result_times = 50;
            expect(f, inject.queue_init ? HALO_READER_PREAD : HALO_READER_URING_FIXED, f->have_direct, "");
        }
        reset();
        inject.queue_init = ring && f->have_uring ? 0 : EPERM;
        inject.shorten = true;
        expect(f, inject.queue_init ? HALO_READER_PREAD : HALO_READER_URING_FIXED, f->have_direct, "");
        assert_true(n_results > 80);
    }
}

static void test_read_error_names_the_tensor(void **state)
{
    struct reader_fixture *f = *state;
    for (int ring = 0; ring < 2; ring++)
        for (int n = 0; n < 20; n++) { /* the n-th read fails */
            reset();
            inject.queue_init = ring && f->have_uring ? 0 : EPERM;
            inject.result = EIO;
            inject.result_after = n;
            inject.result_times = 1;
            struct halo_reader_options options = reader_fixture_options(f);
            assert_int_equal(reader_fixture_run(f, &options), -EIO);
            assert_int_equal(f->fault.code, HALO_FAULT_LOAD_FAILED);
            assert_non_null(strstr(f->fault.text, "for blk.7.some.weight: Input/output error"));
        }
}

static void test_endless_interruption_ends(void **state)
{
    struct reader_fixture *f = *state;
    for (int ring = 0; ring < 2; ring++) {
        reset();
        inject.queue_init = ring && f->have_uring ? 0 : EPERM;
        inject.result = EAGAIN;
        inject.result_times = 1000000;
        struct halo_reader_options options = reader_fixture_options(f);
        assert_int_equal(reader_fixture_run(f, &options), -EAGAIN);
        assert_true(n_results < 100000);
    }
}

static void test_submission_fails(void **state)
{
    struct reader_fixture *f = *state;
    if (!f->have_uring)
        skip();
    inject.submit = EAGAIN; /* for a while */
    inject.submit_after = 3;
    inject.submit_times = 20;
    expect(f, HALO_READER_URING_FIXED, f->have_direct, "");
    for (int after = 0; after < 6; after++) { /* for good, with reads under way and without */
        reset();
        inject.submit = ENOMEM;
        inject.submit_after = after;
        inject.submit_times = 1000000;
        expect(f, HALO_READER_PREAD, f->have_direct, "io_uring gave up (Cannot allocate memory)");
    }
}

/* The ring of a process that can make no other: used again and again, for reads alone, and not after it gave up. */
static void test_prepared_ring(void **state)
{
    struct reader_fixture *f = *state;
    if (!f->have_uring)
        skip();
    assert_int_equal(halo_reader_prepare(), 0);
    inject.queue_init = EPERM;
    for (int i = 0; i < 3; i++)
        expect(f, HALO_READER_URING_FIXED, f->have_direct, "");
    struct halo_reader_options options = reader_fixture_options(f);
    options.queue_depth = 1024; /* more than it has room for */
    assert_int_equal(reader_fixture_run(f, &options), 0);
    assert_int_equal(f->report.method, HALO_READER_PREAD);
    inject.other_op = true;
    options.queue_depth = 8;
    assert_int_equal(reader_fixture_run(f, &options), -EACCES);
    inject.other_op = false;
    expect(f, HALO_READER_URING_FIXED, f->have_direct, "");
    inject.submit = ENOMEM;
    inject.submit_after = 3;
    inject.submit_times = 1000000;
    expect(f, HALO_READER_PREAD, f->have_direct, "io_uring gave up");
    inject.submit = 0;
    expect(f, HALO_READER_PREAD, f->have_direct, "io_uring is not available");
    reset();
    assert_int_equal(halo_reader_prepare(), 0);
    inject.queue_init = EPERM;
    expect(f, HALO_READER_URING_FIXED, f->have_direct, "");
}

static void test_threads_do_not_start(void **state)
{
    struct reader_fixture *f = *state;
    for (int after = 0; after < 4; after++) {
        reset();
        inject.queue_init = EPERM;
        inject.thread = EAGAIN;
        inject.thread_after = after;
        expect(f, HALO_READER_PREAD, f->have_direct, "reading threads could be started");
    }
}

static void test_nth_allocation_fails(void **state)
{
    struct reader_fixture *f = *state;
    for (int ring = 0; ring < 2; ring++) {
        uint64_t n = 0;
        for (bool happened = true; happened; n++) {
            reset();
            inject.queue_init = ring && f->have_uring ? 0 : EPERM;
            struct halo_reader_options options = reader_fixture_options(f);
            halo_fail_alloc_arm(n);
            int r = reader_fixture_run(f, &options);
            happened = halo_fail_alloc_disarm();
            if (r == 0) {
                reader_fixture_check(f); /* some are only a step down */
            } else {
                assert_true(happened);
                assert_int_equal(r, -ENOMEM);
                assert_int_equal(f->fault.code, HALO_FAULT_OUT_OF_MEMORY);
            }
        }
        assert_true(n > 4);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_no_ring),
        TEST(test_no_registration),
        TEST(test_registration_stops_half_way),
        TEST(test_no_direct),
        TEST(test_refused_reads),
        TEST(test_threads_refuse_direct),
        TEST(test_interrupted_and_short),
        TEST(test_read_error_names_the_tensor),
        TEST(test_endless_interruption_ends),
        TEST(test_submission_fails),
        TEST(test_threads_do_not_start),
        TEST(test_nth_allocation_fails),
        TEST(test_prepared_ring), /* the last: the others make rings of their own */
    };
    return cmocka_run_group_tests_name("reader faults", tests, NULL, NULL);
}
