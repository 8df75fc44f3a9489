/* test_fetch_faults.c: what a kernel, a drive and a file system refuse or break while a model runs, by both back ends.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail_alloc.h"
#include "fetch_fixture.h"

#define MIB ((uint64_t)1 << 20)

static void read_some(struct fetch_fixture *f)
{
    for (uint64_t i = 0; i < 24; i++)
        fetch_fixture_read(f, i * 7919 % 97 * 30001, 1 + i * 8331, i % 2 ? HALO_FETCH_DEMAND : HALO_FETCH_AHEAD);
    fetch_fixture_read(f, FIXTURE_FILE_BYTES - 70000, 70000, HALO_FETCH_DEMAND);
}

static void read_and_check(struct fetch_fixture *f)
{
    uint32_t n = f->n_reads;
    read_some(f);
    fetch_fixture_reap(f, f->n_reads - n);
    fetch_fixture_check(f);
}

static uint64_t n_retries(struct fetch_fixture *f)
{
    struct halo_fetch_stats stats;
    halo_fetch_stats(f->fetch, &stats);
    return stats.n_retries;
}

static const int refusals[] = {EPERM, ENOSYS, ENOMEM, EINVAL, EACCES};

static void test_no_ring(void **state)
{
    struct fetch_fixture *f = *state;
    if (f->no_uring)
        return;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        inject.queue_init = refusals[i];
        fetch_fixture_open(f, (struct halo_fetch_options){0});
        read_and_check(f);
        assert_int_equal(halo_fetch_method(f->fetch), HALO_FETCH_PREAD);
        fetch_fixture_expect_notice(f, strerror(refusals[i]));
        fetch_fixture_expect_notice(f, "io_uring is not available");
    }
}

/* io_uring_setup answers EPERM from now on, as in a container. Returns whether the kernel has filters. */
static bool forbid_rings(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* The same by a true filter, in a child: a process never gets rid of one. */
static void test_filter_refuses_rings(void **state)
{
    struct fetch_fixture *f = *state;
    if (f->no_uring)
        return;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!forbid_rings())
            _exit(77);
        fetch_fixture_open(f, (struct halo_fetch_options){0});
        read_and_check(f);
        assert_int_equal(halo_fetch_method(f->fetch), HALO_FETCH_PREAD);
        fetch_fixture_expect_notice(f, "io_uring is not available (Operation not permitted)");
        fetch_fixture_close(f);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        print_message("skipped aloud: this kernel takes no seccomp filter\n");
    else
        assert_int_equal(status, 0);
}

/* A ring can be made, and a filter refuses to enter it. */
static void test_ring_does_not_read(void **state)
{
    struct fetch_fixture *f = *state;
    if (f->no_uring)
        return;
    inject.submit = EPERM;
    inject.submit_times = 1;
    fetch_fixture_open(f, (struct halo_fetch_options){0});
    read_and_check(f);
    assert_int_equal(halo_fetch_method(f->fetch), HALO_FETCH_PREAD);
    fetch_fixture_expect_notice(f, "io_uring is not available (Operation not permitted)");
}

static void test_ring_gives_up(void **state)
{
    struct fetch_fixture *f = *state;
    if (f->no_uring)
        return;
    for (int after = 1; after < 8; after++) { /* with reads in flight and without; the first one tries the ring */
        fetch_inject_reset();
        inject.submit = ENOMEM;
        inject.submit_after = after;
        inject.submit_times = 1000000;
        fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 8192, .depth = 4});
        read_and_check(f);
        assert_int_equal(halo_fetch_method(f->fetch), HALO_FETCH_PREAD);
        fetch_fixture_expect_notice(f, "io_uring takes no more reads (Cannot allocate memory)");
        read_and_check(f);
    }
    fetch_inject_reset();
    inject.submit = EBUSY; /* for a while */
    inject.submit_after = 3;
    inject.submit_times = 20;
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 8192, .depth = 4});
    read_and_check(f);
    assert_int_equal(halo_fetch_method(f->fetch), HALO_FETCH_URING);
}

static void test_short_reads(void **state)
{
    struct fetch_fixture *f = *state;
    inject.shorten = true;
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 64 * 1024});
    read_and_check(f);
    assert_true(n_retries(f) > f->n_reads);
    if (f->have_direct) /* the rest was asked for at a boundary, or the file would have refused it */
        fetch_fixture_expect_no_notice(f);
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 64 * 1024, .no_direct = true});
    read_and_check(f);
    inject.unpinned = true;
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 64 * 1024});
    read_and_check(f);
}

static void test_interrupted(void **state)
{
    struct fetch_fixture *f = *state;
    const int errors[] = {EINTR, EAGAIN};
    for (size_t i = 0; i < 2; i++) {
        fetch_inject_reset();
        fetch_fixture_open(f, (struct halo_fetch_options){.depth = 1});
        inject.result_after = 2;
        inject.result_times = 20;
        inject.result = errors[i];
        read_and_check(f);
        assert_int_equal(n_retries(f), 20);
        inject.result_times = 1000000000; /* for ever: the read fails, the fetch does not hang */
        uint32_t slot = fetch_fixture_read(f, 0, 1, HALO_FETCH_DEMAND);
        fetch_fixture_reap(f, 1);
        assert_int_equal(f->done[slot].error, -errors[i]);
    }
}

static void test_io_error(void **state)
{
    struct fetch_fixture *f = *state;
    struct halo_fault fault = {0};
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 64 * 1024, .depth = 1});
    inject.result_after = 1;
    inject.result_times = 1;
    inject.result = EIO;
    fetch_fixture_read(f, MIB, 200000, HALO_FETCH_DEMAND); /* once: read again */
    fetch_fixture_reap(f, 1);
    assert_int_equal(f->done[0].error, 0);
    assert_int_equal(n_retries(f), 1);
    inject.result_after = inject.n_results + 2; /* its third block */
    inject.result_times = 2;
    fetch_fixture_read(f, MIB + 1000, 200000, HALO_FETCH_DEMAND);
    fetch_fixture_read(f, 2 * MIB, 200000, HALO_FETCH_DEMAND); /* the next one is none the worse */
    fetch_fixture_reap(f, 2);
    assert_int_equal(f->done[1].error, -EIO);
    assert_int_equal(f->done[1].failed_at, MIB + 2 * 64 * 1024);
    assert_int_equal(f->done[2].error, 0);
    assert_memory_equal(f->reads[2].dest, f->content + 2 * MIB, 200000);
    assert_int_equal(halo_fetch_fault(f->fetch, &f->done[1], &fault), -EIO);
    assert_int_equal(fault.code, HALO_FAULT_LOAD_FAILED);
    assert_non_null(strstr(fault.text, f->name));
    assert_non_null(strstr(fault.text, "at byte 1179648, for 200000 bytes at 1049576: Input/output error"));
    struct halo_fetch_stats stats;
    halo_fetch_stats(f->fetch, &stats);
    assert_int_equal(stats.n_failed, 1);
}

/* Other errors are final at once; with many blocks in flight the read still completes once. */
static void test_failing_drive(void **state)
{
    struct fetch_fixture *f = *state;
    const int errors[] = {EIO, ENXIO, ENOMEM};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        fetch_inject_reset();
        fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 4096, .depth = 8});
        inject.result = errors[i];
        inject.result_after = 5;
        inject.result_times = 1000000000;
        read_some(f);
        fetch_fixture_reap(f, f->n_reads);
        for (uint32_t slot = 0; slot < f->n_reads; slot++) {
            assert_int_equal(f->n_done[slot], 1);
            assert_true(f->done[slot].error == -errors[i] || f->done[slot].error == 0);
        }
        assert_int_equal(f->done[f->n_reads - 1].error, -errors[i]);
        inject.result = 0; /* the drive is back */
        uint32_t slot = fetch_fixture_read(f, 5000, 100000, HALO_FETCH_DEMAND);
        fetch_fixture_reap(f, 1);
        assert_int_equal(f->done[slot].error, 0);
        assert_memory_equal(f->reads[slot].dest, f->content + 5000, 100000);
    }
}

/* Memory that the kernel cannot read into, by its own word; the rest of the region goes there directly. */
static void test_memory_refuses_direct_reads(void **state)
{
    struct fetch_fixture *f = *state;
    for (int no_direct = 0; no_direct < 2; no_direct++) {
        fetch_inject_reset();
        fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 64 * 1024, .no_direct = no_direct});
        inject.unpinned = true;
        read_and_check(f);
        fetch_fixture_expect_notice(f, "reading through a bounce buffer");
        fetch_fixture_expect_notice(f, "Bad address");
        assert_true(n_retries(f) >= f->n_reads);
    }
}

static void test_file_refuses_direct_reads(void **state)
{
    struct fetch_fixture *f = *state;
    const int errors[] = {EINVAL, EOPNOTSUPP};
    for (size_t i = 0; i < 2 && f->have_direct; i++) {
        fetch_inject_reset();
        fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 64 * 1024, .depth = 4});
        inject.refuse_direct = errors[i];
        read_and_check(f);
        assert_true(inject.n_dropped > 0);
        fetch_fixture_expect_notice(f, "cannot be read with O_DIRECT");
        fetch_fixture_expect_notice(f, strerror(errors[i]));
        inject.result = errors[i];
        inject.result_times = 1000000000; /* a buffered read is refused as well: there is no lower step */
        uint32_t slot = fetch_fixture_read(f, 0, 1, HALO_FETCH_DEMAND);
        fetch_fixture_reap(f, 1);
        assert_int_equal(f->done[slot].error, -errors[i]);
    }
    fetch_inject_reset();
    inject.open_direct = EINVAL;
    fetch_fixture_open(f, (struct halo_fetch_options){0});
    read_and_check(f);
    assert_true(inject.n_dropped > 0);
    fetch_fixture_add_file(f); /* another one is not worth another notice */
    read_and_check(f);
    fetch_fixture_expect_notice(f, "cannot be read with O_DIRECT (Invalid argument)");
}

/* Nobody waits for the rest of a cancelled read. */
static void test_cancelled_is_not_tried_again(void **state)
{
    struct fetch_fixture *f = *state;
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 4096, .depth = 1});
    inject.stalled = true;
    fetch_fixture_read(f, 0, 4096, HALO_FETCH_DEMAND);
    fetch_fixture_wait_in_flight(f, 1);
    assert_int_equal(halo_fetch_cancel(f->fetch, 0, f->reads[0].generation), 1);
    inject.result = EAGAIN;
    inject.result_times = 1000000000;
    inject.stalled = false;
    fetch_fixture_reap(f, 1);
    assert_int_equal(f->done[0].error, -ECANCELED);
    assert_int_equal(inject.n_results, 1);
}

static void test_threads_do_not_start(void **state)
{
    struct fetch_fixture *f = *state;
    struct halo_fault fault = {0};
    struct halo_fetch_options options = {.no_uring = f->no_uring};
    inject.thread = EAGAIN;
    assert_int_equal(halo_fetch_create(&options, &f->fetch, &fault), -EAGAIN);
    assert_int_equal(fault.code, HALO_FAULT_INTERNAL);
    inject.n_threads = 0;
    inject.thread_after = 1; /* one is enough; a ring needs no more, until it gives up */
    fetch_fixture_open(f, options);
    read_and_check(f);
    if (f->no_uring) {
        fetch_fixture_expect_notice(f, "only 1 of the threads");
        return;
    }
    inject.submit = ENOMEM;
    inject.submit_times = 1000000000;
    read_and_check(f);
    assert_int_equal(halo_fetch_method(f->fetch), HALO_FETCH_PREAD);
}

static void test_nth_allocation_fails(void **state)
{
    struct fetch_fixture *f = *state;
    uint64_t n = 0;
    for (bool happened = true; happened; n++) {
        struct halo_fault fault = {0};
        struct halo_fetch_options options = {.no_uring = f->no_uring};
        halo_fail_alloc_arm(n);
        int r = halo_fetch_create(&options, &f->fetch, &fault);
        happened = halo_fail_alloc_disarm();
        assert_true(r == 0 || happened); /* without memory for a ring there are threads */
        if (r < 0) {
            assert_int_equal(r, -ENOMEM);
            assert_int_equal(fault.code, HALO_FAULT_OUT_OF_MEMORY);
            assert_null(f->fetch);
        }
        fetch_fixture_close(f);
    }
    assert_true(n > 3);
}

/* The rings of a process that can make no other: each of one fetch at a time, again and again, not after it gave up. */
static void test_prepared_ring(void **state)
{
    struct fetch_fixture *f = *state;
    if (f->no_uring)
        return;
    assert_int_equal(halo_fetch_prepare(2), 0);
    inject.queue_init = EPERM;
    for (int i = 0; i < 3; i++) {
        struct halo_fetch *second = NULL, *third = NULL;
        fetch_fixture_open(f, (struct halo_fetch_options){.depth = HALO_FETCH_DEPTH_MAX, .block_bytes = 4096});
        assert_int_equal(halo_fetch_create(NULL, &second, NULL), 0);
        assert_int_equal(halo_fetch_create(NULL, &third, NULL), 0);
        read_and_check(f);
        assert_int_equal(halo_fetch_method(f->fetch), HALO_FETCH_URING);
        assert_int_equal(halo_fetch_method(second), HALO_FETCH_URING);
        assert_int_equal(halo_fetch_method(third), HALO_FETCH_PREAD);
        halo_fetch_destroy(second);
        halo_fetch_destroy(third);
    }
    struct halo_fetch *holder = NULL; /* of the ring that does not give up */
    assert_int_equal(halo_fetch_create(NULL, &holder, NULL), 0);
    inject.submit = ENOMEM;
    inject.submit_times = 1000000000;
    read_and_check(f);
    inject.submit = 0;
    fetch_fixture_open(f, (struct halo_fetch_options){0});
    read_and_check(f);
    assert_int_equal(halo_fetch_method(f->fetch), HALO_FETCH_PREAD);
    halo_fetch_destroy(holder);
}

/* ---- everything at once ---- */

static uint32_t draw(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

static void random_submit(struct fetch_fixture *f, uint64_t *seed)
{
    uint32_t n_bytes = 1 + draw(seed, draw(seed, 4) ? 3000 : 60000);
    uint32_t slot = fetch_fixture_plan(f, draw(seed, (uint32_t)FIXTURE_FILE_BYTES - n_bytes), n_bytes,
                                       draw(seed, HALO_FETCH_PRIORITIES));
    int r = halo_fetch_submit(f->fetch, &f->reads[slot], 1);
    assert_true(r == 0 || r == -EAGAIN);
    if (r == -EAGAIN)
        f->n_reads--;
}

static void random_move(struct fetch_fixture *f, uint64_t *seed)
{
    uint32_t slot = draw(seed, f->n_reads + 1);
    switch (draw(seed, 12)) {
    case 0: halo_fetch_cancel(f->fetch, slot, slot + 1000); break;
    case 1: halo_fetch_cancel(f->fetch, slot, slot + 999); break;
    case 2: halo_fetch_cancel_ahead(f->fetch, slot, slot + 1000); break;
    case 3: halo_fetch_promote(f->fetch, slot, slot + 1000); break;
    case 4: halo_fetch_pause_ahead(f->fetch, draw(seed, 2)); break;
    case 5: inject.shorten = draw(seed, 2); break;
    case 6: inject.unpinned = draw(seed, 2); break;
    case 7:
        inject.result = draw(seed, 2) ? EIO : EINTR;
        inject.result_after = inject.n_results + (int)draw(seed, 4);
        inject.result_times = (int)draw(seed, 4);
        break;
    case 8: fetch_fixture_take(f, 4, draw(seed, 2) * 1000); break;
    default: random_submit(f, seed); break;
    }
}

/* Whatever is asked and whatever fails: each read completes once, and one without an error has the file's bytes. */
static void test_random_lives(void **state)
{
    struct fetch_fixture *f = *state;
    uint32_t n_good = 0, n_bad = 0;
    for (uint64_t life = 1; life <= 12; life++) {
        uint64_t seed = life;
        uint32_t depth = 1 + draw(&seed, 8);
        fetch_inject_reset();
        fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 4096u << draw(&seed, 4),
                                                          .depth = depth,
                                                          .ahead_depth = 1 + draw(&seed, depth),
                                                          .queue = 1 + draw(&seed, 64),
                                                          .no_direct = draw(&seed, 3) == 0});
        for (int i = 0; i < 500; i++)
            random_move(f, &seed);
        halo_fetch_pause_ahead(f->fetch, false);
        fetch_fixture_reap(f, f->n_reads - f->n_reaped);
        assert_int_equal(fetch_fixture_take(f, 1, FIXTURE_PATIENCE_US), 0);
        for (uint32_t slot = 0; slot < f->n_reads; slot++) {
            int error = f->done[slot].error;
            assert_true(error == 0 || error == -ECANCELED || error == -EIO);
            n_bad += error != 0;
            n_good += error == 0;
            if (error == 0)
                fetch_fixture_check_read(f, slot);
        }
    }
    assert_true(n_good > 500 && n_bad > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FETCH_TEST(test_no_ring),
        FETCH_TEST(test_filter_refuses_rings),
        FETCH_TEST(test_ring_does_not_read),
        FETCH_TEST(test_ring_gives_up),
        FETCH_TEST(test_short_reads),
        FETCH_TEST(test_interrupted),
        FETCH_TEST(test_io_error),
        FETCH_TEST(test_failing_drive),
        FETCH_TEST(test_memory_refuses_direct_reads),
        FETCH_TEST(test_file_refuses_direct_reads),
        FETCH_TEST(test_cancelled_is_not_tried_again),
        FETCH_TEST(test_threads_do_not_start),
        FETCH_TEST(test_nth_allocation_fails),
        FETCH_TEST(test_random_lives),
        FETCH_TEST(test_prepared_ring), /* the last: the others make rings of their own */
    };
    return cmocka_run_group_tests_name("fetch faults", tests, NULL, NULL);
}
