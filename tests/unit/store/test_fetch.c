/* test_fetch.c: reads while a model runs: the right bytes, in the right order, with a drive that stalls, by both back
 * ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <base/clock.h>

#include "fail_alloc.h"
#include "fetch_fixture.h"

#define MIB ((uint64_t)1 << 20)

/* Ranges at the ends of pages, of blocks and of the file. */
static void read_mix(struct fetch_fixture *f)
{
    const uint64_t end = FIXTURE_FILE_BYTES;
    const uint64_t ranges[][2] = {{0, end},          {4096 + 32, MIB},       {MIB - 1, 2},     {MIB + 96, 400000},
                                  {end - 1, 1},      {end - 300000, 300000}, {0, 1},           {4095, 1},
                                  {8192, 4096},      {8191, 4098},           {2 * MIB, 65536}, {2 * MIB + 64, 65536},
                                  {end - 1237, 1237}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        fetch_fixture_read(f, ranges[i][0], ranges[i][1], i % 3 ? HALO_FETCH_DEMAND : HALO_FETCH_AHEAD);
    for (uint64_t i = 0; i < 100; i++)
        fetch_fixture_read(f, i * 7919 % 97 * 30001, 1 + i * 331, i % 2 ? HALO_FETCH_DEMAND : HALO_FETCH_AHEAD);
}

static void test_bytes_arrive(void **state)
{
    struct fetch_fixture *f = *state;
    const struct halo_fetch_options sizes[] = {
        {0},
        {.block_bytes = 4096, .depth = 1},
        {.block_bytes = 8192, .depth = 3, .ahead_depth = 1},
        {.block_bytes = 128 * 1024, .depth = HALO_FETCH_DEPTH_MAX},
        {.block_bytes = HALO_FETCH_BLOCK_MAX, .depth = 2, .no_direct = true},
        {.block_bytes = 64 * 1024, .depth = 16, .no_direct = true},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fetch_fixture_open(f, sizes[i]);
        read_mix(f);
        fetch_fixture_reap(f, f->n_reads);
        fetch_fixture_check(f);
        assert_int_equal(halo_fetch_method(f->fetch), f->no_uring ? HALO_FETCH_PREAD : HALO_FETCH_URING);
        assert_true(!sizes[i].no_direct || inject.n_dropped > 0);
    }
}

static void test_statistics_add_up(void **state)
{
    struct fetch_fixture *f = *state;
    struct halo_fetch_stats stats;
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 64 * 1024});
    read_mix(f);
    fetch_fixture_reap(f, f->n_reads);
    halo_fetch_stats(f->fetch, &stats);
    uint64_t reads[2] = {0}, bytes[2] = {0}, n_blocks = 0, hulls = 0, counted = 0;
    for (uint32_t slot = 0; slot < f->n_reads; slot++) {
        const struct halo_fetch_read *read = &f->reads[slot];
        uint64_t hull = halo_hull_bytes(read->offset, read->n_bytes);
        reads[read->priority]++;
        bytes[read->priority] += read->n_bytes;
        n_blocks += (hull + 64 * 1024 - 1) / (64 * 1024);
        hulls += hull;
    }
    for (int i = 0; i < HALO_FETCH_LATENCIES; i++)
        counted += stats.latency_us[i];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stats.reads[i], reads[i]);
        assert_int_equal(stats.bytes[i], bytes[i]);
    }
    assert_int_equal(stats.n_blocks, n_blocks);
    assert_int_equal(counted, n_blocks);
    assert_true(stats.disk_bytes <= hulls && stats.disk_bytes > hulls - f->n_reads * 4096);
    assert_true(stats.busy_ns > 0);
    assert_int_equal(stats.n_failed + stats.n_cancelled + stats.n_retries, 0);
}

/* One block at a time: reads that somebody waits for overtake those that are guesses. */
static void test_demand_overtakes_ahead(void **state)
{
    struct fetch_fixture *f = *state;
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 64 * 1024, .depth = 1});
    inject.stalled = true;
    fetch_fixture_read(f, 0, 100, HALO_FETCH_AHEAD);
    fetch_fixture_wait_in_flight(f, 1);
    fetch_fixture_read(f, 10000, 200000, HALO_FETCH_AHEAD);
    uint32_t promoted = fetch_fixture_read(f, 20000, 100, HALO_FETCH_AHEAD);
    fetch_fixture_read(f, 30000, 100000, HALO_FETCH_DEMAND);
    fetch_fixture_read(f, 40000, 100, HALO_FETCH_DEMAND);
    assert_int_equal(halo_fetch_promote(f->fetch, promoted, f->reads[promoted].generation - 1), 0);
    assert_int_equal(halo_fetch_promote(f->fetch, promoted, f->reads[promoted].generation), 1);
    assert_int_equal(halo_fetch_promote(f->fetch, promoted, f->reads[promoted].generation), 0);
    inject.stalled = false;
    fetch_fixture_reap(f, 5);
    const uint32_t expected[] = {0, 3, 4, promoted, 1};
    assert_memory_equal(f->order, expected, sizeof(expected));
    fetch_fixture_check(f);
}

/* Ahead reads leave room in the queue of the drive, and stop while paused. */
static void test_ahead_has_a_share(void **state)
{
    struct fetch_fixture *f = *state;
    struct halo_fetch_in_flight now;
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 4096, .depth = 8, .ahead_depth = 3});
    halo_fetch_pause_ahead(f->fetch, true);
    fetch_fixture_read(f, 0, 40960, HALO_FETCH_AHEAD);
    fetch_fixture_read(f, MIB, 4096, HALO_FETCH_DEMAND);
    fetch_fixture_reap(f, 1);
    assert_int_equal(f->order[0], 1);
    halo_fetch_in_flight(f->fetch, &now);
    assert_int_equal(now.n_blocks, 0);
    assert_int_equal(now.n_ahead, 1);
    inject.stalled = true;
    halo_fetch_pause_ahead(f->fetch, false);
    fetch_fixture_wait_in_flight(f, 3);
    fetch_fixture_read(f, 2 * MIB, 40960, HALO_FETCH_DEMAND);
    fetch_fixture_wait_in_flight(f, 8);
    inject.stalled = false;
    fetch_fixture_reap(f, 2);
    fetch_fixture_check(f);
}

static void test_queue_is_finite(void **state)
{
    struct fetch_fixture *f = *state;
    fetch_fixture_open(f, (struct halo_fetch_options){.depth = 1, .queue = 4});
    inject.stalled = true;
    for (int i = 0; i < 3; i++)
        fetch_fixture_read(f, (uint64_t)i * 5000, 100, HALO_FETCH_DEMAND);
    uint32_t slot = fetch_fixture_plan(f, 70000, 10, HALO_FETCH_DEMAND);
    fetch_fixture_plan(f, 80000, 10, HALO_FETCH_DEMAND);
    assert_int_equal(halo_fetch_submit(f->fetch, &f->reads[slot], 2), -EAGAIN);
    assert_int_equal(halo_fetch_submit(f->fetch, &f->reads[slot], 1), 0); /* the other two were not taken by halves */
    assert_int_equal(halo_fetch_submit(f->fetch, &f->reads[slot + 1], 1), -EAGAIN);
    inject.stalled = false;
    fetch_fixture_reap(f, 4); /* room is there when they are reaped */
    assert_int_equal(halo_fetch_submit(f->fetch, &f->reads[slot + 1], 1), 0);
    fetch_fixture_reap(f, 1);
    fetch_fixture_check(f);
}

static void test_rules_of_a_read(void **state)
{
    struct fetch_fixture *f = *state;
    fetch_fixture_open(f, (struct halo_fetch_options){0});
    uint32_t slot = fetch_fixture_plan(f, 4096, 100, HALO_FETCH_DEMAND);
    struct halo_fetch_read wrong[6];
    for (int i = 0; i < 6; i++)
        wrong[i] = f->reads[slot];
    wrong[0].n_bytes = 0;
    wrong[1].file = f->file + 1;
    wrong[2].file = HALO_FETCH_FILES_MAX;
    wrong[3].dest = (uint8_t *)wrong[3].dest + 1;
    wrong[4].offset = UINT64_MAX - 4095;
    wrong[5].priority = HALO_FETCH_PRIORITIES;
    for (int i = 0; i < 6; i++) {
        struct halo_fetch_read pair[] = {f->reads[slot], wrong[i]};
        assert_int_equal(halo_fetch_submit(f->fetch, pair, 2), -EINVAL);
    }
    struct halo_fetch_done done;
    assert_int_equal(halo_fetch_reap(f->fetch, &done, 1, FIXTURE_PATIENCE_US), 0); /* at once: none was taken */
    struct halo_fault fault = {0};
    struct halo_fetch *none = NULL;
    const struct halo_fetch_options bad[] = {{.block_bytes = 5000},
                                             {.block_bytes = HALO_FETCH_BLOCK_MAX + 4096},
                                             {.depth = HALO_FETCH_DEPTH_MAX + 1},
                                             {.depth = 4, .ahead_depth = 5},
                                             {.queue = UINT32_MAX}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(halo_fetch_create(&bad[i], &none, &fault), -EINVAL);
        assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
    }
    assert_null(none);
}

/* What is queued is dropped at once; what the drive has keeps its memory until it answers. */
static void test_cancel(void **state)
{
    struct fetch_fixture *f = *state;
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 4096, .depth = 2, .ahead_depth = 2});
    inject.stalled = true;
    fetch_fixture_read(f, 0, 3 * 4096, HALO_FETCH_AHEAD);
    fetch_fixture_wait_in_flight(f, 2);
    for (int i = 1; i < 5; i++)
        fetch_fixture_read(f, (uint64_t)i * MIB / 2, 3 * 4096, i < 4 ? HALO_FETCH_AHEAD : HALO_FETCH_DEMAND);
    assert_int_equal(halo_fetch_cancel(f->fetch, 0, f->reads[0].generation + 1), 0);
    assert_int_equal(halo_fetch_cancel(f->fetch, 1, f->reads[0].generation), 0);
    assert_int_equal(halo_fetch_cancel(f->fetch, 0, f->reads[0].generation), 1);
    assert_int_equal(halo_fetch_cancel(f->fetch, 0, f->reads[0].generation), 0);
    for (uint32_t slot = 1; slot < 3; slot++)
        assert_int_equal(halo_fetch_cancel(f->fetch, slot, f->reads[slot].generation), 1);
    /* The first one is in flight, the last two are queued. */
    struct halo_fetch_done done;
    fetch_fixture_reap(f, 2);
    for (int i = 0; i < 2; i++)
        assert_true(f->order[i] == 1 || f->order[i] == 2);
    assert_int_equal(halo_fetch_reap(f->fetch, &done, 1, 1000), 0);
    inject.stalled = false;
    fetch_fixture_reap(f, 3);
    for (uint32_t slot = 0; slot < 5; slot++) {
        struct halo_fault fault = {0};
        assert_int_equal(f->n_done[slot], 1);
        assert_int_equal(f->done[slot].error, slot < 3 ? -ECANCELED : 0);
        assert_int_equal(halo_fetch_fault(f->fetch, &f->done[slot], &fault), slot < 3 ? -ECANCELED : 0);
        assert_int_equal(fault.code, slot < 3 ? HALO_FAULT_CANCELLED : HALO_FAULT_NONE);
    }
    struct halo_fetch_stats stats;
    halo_fetch_stats(f->fetch, &stats);
    assert_int_equal(stats.n_cancelled, 3);
}

/* Of what nobody waits for, what the drive was asked for as a whole comes, and the rest is not read. */
static void test_cancel_ahead(void **state)
{
    struct fetch_fixture *f = *state;
    const uint32_t n_cancelled[] = {0, 1, 1, 0};
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 4096, .depth = 4, .ahead_depth = 4});
    inject.stalled = true;
    fetch_fixture_read(f, 0, 2 * 4096, HALO_FETCH_AHEAD); /* two blocks of it and two of the next one begin */
    fetch_fixture_read(f, MIB, 3 * 4096, HALO_FETCH_AHEAD);
    fetch_fixture_read(f, MIB + MIB / 2, 4096, HALO_FETCH_AHEAD);
    fetch_fixture_wait_in_flight(f, 4);
    fetch_fixture_read(f, MIB / 2, 4096, HALO_FETCH_DEMAND);
    for (uint32_t slot = 0; slot < 4; slot++) {
        assert_int_equal(halo_fetch_cancel_ahead(f->fetch, slot, f->reads[slot].generation + 1), 0);
        assert_int_equal(halo_fetch_cancel_ahead(f->fetch, slot, f->reads[slot].generation), n_cancelled[slot]);
    }
    inject.stalled = false;
    fetch_fixture_reap(f, 4);
    for (uint32_t slot = 0; slot < 4; slot++)
        assert_int_equal(f->done[slot].error, n_cancelled[slot] ? -ECANCELED : 0);
}

/* The deadline is the caller's; which read it is and since when can be asked meanwhile. */
static void test_stalled_drive(void **state)
{
    struct fetch_fixture *f = *state;
    struct halo_fetch_in_flight now;
    struct halo_fetch_done done;
    char text[256];
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 4096, .depth = 2});
    halo_fetch_describe(f->fetch, text, sizeof(text));
    assert_string_equal(text, "");
    uint64_t before_ns = halo_clock_ns();
    inject.stalled = true;
    fetch_fixture_read(f, MIB + 100, 10000, HALO_FETCH_DEMAND);
    fetch_fixture_read(f, 0, 4096, HALO_FETCH_AHEAD);
    fetch_fixture_wait_in_flight(f, 2);
    assert_int_equal(halo_fetch_reap(f->fetch, &done, 1, 20000), 0);
    assert_true(halo_clock_ns() - before_ns >= 20000000);
    halo_fetch_in_flight(f->fetch, &now);
    assert_int_equal(now.offset, MIB);
    assert_int_equal(now.n_bytes, 4096);
    assert_int_equal(now.slot, 0);
    assert_int_equal(now.generation, 1000);
    assert_int_equal(now.n_ahead, 1);
    assert_true(now.since_ns >= before_ns && now.since_ns <= halo_clock_ns());
    halo_fetch_describe(f->fetch, text, sizeof(text));
    assert_non_null(strstr(text, "4096 bytes at 1048576 of fetch-"));
    assert_non_null(strstr(text, "blocks in flight: 2, reads queued: "));
    assert_int_equal(halo_fetch_drain(f->fetch, 20000), -ETIMEDOUT);
    inject.stalled = false;
    assert_int_equal(halo_fetch_drain(f->fetch, FIXTURE_PATIENCE_US), 0);
    fetch_fixture_reap(f, 2);
    assert_int_equal(f->done[0].error, -ECANCELED);
    fetch_fixture_read(f, 5000, 5000, HALO_FETCH_DEMAND); /* it goes on afterwards */
    fetch_fixture_reap(f, 1);
    assert_int_equal(f->done[2].error, 0);
    assert_memory_equal(f->reads[2].dest, f->content + 5000, 5000);
}

/* Whatever is queued, in flight and not reaped when it ends. */
static void test_destroyed_under_load(void **state)
{
    struct fetch_fixture *f = *state;
    for (int round = 0; round < 20; round++) {
        fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 4096, .depth = 4});
        read_mix(f);
        fetch_fixture_reap(f, (uint32_t)round);
        fetch_fixture_close(f);
    }
}

static void test_nothing_is_allocated(void **state)
{
    struct fetch_fixture *f = *state;
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 4096});
    inject.unpinned = true; /* bounce buffers too are there from the start */
    halo_fail_alloc_arm(0);
    read_mix(f);
    fetch_fixture_reap(f, f->n_reads / 2);
    for (uint32_t slot = 0; slot < f->n_reads; slot++)
        halo_fetch_cancel(f->fetch, slot, f->reads[slot].generation);
    assert_int_equal(halo_fetch_drain(f->fetch, FIXTURE_PATIENCE_US), 0);
    fetch_fixture_reap(f, f->n_reads - f->n_reaped);
    assert_false(halo_fail_alloc_disarm());
}

/* The descriptor keeps the bytes that the header was read of. */
static void test_file_is_replaced(void **state)
{
    struct fetch_fixture *f = *state;
    char other[600];
    fetch_fixture_open(f, (struct halo_fetch_options){0});
    snprintf(other, sizeof(other), "%s.new", f->path);
    int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(rename(other, f->path), 0);
    read_mix(f);
    fetch_fixture_reap(f, f->n_reads);
    fetch_fixture_check(f);
}

static void test_file_is_cut(void **state)
{
    struct fetch_fixture *f = *state;
    struct halo_fault fault = {0};
    fetch_fixture_open(f, (struct halo_fetch_options){.block_bytes = 64 * 1024});
    assert_int_equal(truncate(f->path, 2 * (off_t)MIB + 5000), 0);
    fetch_fixture_read(f, 2 * MIB - 100000, 104999, HALO_FETCH_DEMAND); /* up to the last but one byte */
    uint32_t cut = fetch_fixture_read(f, 2 * MIB - 100000, 105001, HALO_FETCH_DEMAND);
    uint32_t gone = fetch_fixture_read(f, 3 * MIB, 1000, HALO_FETCH_DEMAND);
    fetch_fixture_reap(f, 3);
    assert_int_equal(f->done[0].error, 0);
    assert_memory_equal(f->reads[0].dest, f->content + f->reads[0].offset, 104999);
    for (uint32_t slot = cut; slot <= gone; slot++) {
        assert_int_equal(f->done[slot].error, -ENODATA);
        assert_int_equal(f->done[slot].file_bytes, 2 * MIB + 5000);
        assert_int_equal(halo_fetch_fault(f->fetch, &f->done[slot], &fault), -ENODATA);
        assert_int_equal(fault.code, HALO_FAULT_LOAD_FAILED);
        assert_non_null(strstr(fault.text, f->name));
        assert_non_null(strstr(fault.text, "ends at byte 2102152, "));
    }
    assert_non_null(strstr(fault.text, "1000 bytes at 3145728 are needed"));
}

static void test_files_come_and_go(void **state)
{
    struct fetch_fixture *f = *state;
    struct halo_fault fault = {0};
    struct stat facts;
    uint32_t files[HALO_FETCH_FILES_MAX], one_more;
    fetch_fixture_open(f, (struct halo_fetch_options){0});
    assert_int_equal(fstat(f->fd, &facts), 0);
    struct halo_file_id id = halo_file_id_of(&facts), other = id;
    for (int i = 1; i < HALO_FETCH_FILES_MAX; i++)
        assert_int_equal(halo_fetch_add_file(f->fetch, f->fd, &id, f->path, &files[i], &fault), 0);
    assert_int_equal(halo_fetch_add_file(f->fetch, f->fd, &id, f->path, &one_more, &fault), -EOPNOTSUPP);
    assert_non_null(strstr(fault.text, "256 files"));
    f->file = files[77];
    fetch_fixture_read(f, 100, 100, HALO_FETCH_DEMAND);
    assert_int_equal(halo_fetch_remove_file(f->fetch, f->file), -EBUSY);
    fetch_fixture_reap(f, 1);
    fetch_fixture_check(f);
    assert_int_equal(halo_fetch_remove_file(f->fetch, f->file), 0);
    assert_int_equal(halo_fetch_submit(f->fetch, &f->reads[0], 1), -EINVAL);
    other.modified_ns--;
    assert_int_equal(halo_fetch_add_file(f->fetch, f->fd, &other, f->path, &one_more, &fault), -EIO);
    assert_non_null(strstr(fault.text, "has changed since its header was read"));
    assert_int_equal(halo_fetch_add_file(f->fetch, f->fd, &id, f->path, &one_more, &fault), 0);
    assert_int_equal(one_more, files[77]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FETCH_TEST(test_bytes_arrive),
        FETCH_TEST(test_statistics_add_up),
        FETCH_TEST(test_demand_overtakes_ahead),
        FETCH_TEST(test_ahead_has_a_share),
        FETCH_TEST(test_queue_is_finite),
        FETCH_TEST(test_rules_of_a_read),
        FETCH_TEST(test_cancel),
        FETCH_TEST(test_cancel_ahead),
        FETCH_TEST(test_stalled_drive),
        FETCH_TEST(test_destroyed_under_load),
        FETCH_TEST(test_nothing_is_allocated),
        FETCH_TEST(test_file_is_replaced),
        FETCH_TEST(test_file_is_cut),
        FETCH_TEST(test_files_come_and_go),
    };
    return cmocka_run_group_tests_name("fetch", tests, NULL, NULL);
}
