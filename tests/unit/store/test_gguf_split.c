/* test_gguf_split.c: split sets: found through part 1, complete, consistent in names and keys, no tensor twice. */
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
#include <unistd.h>
#include <cmocka.h>

#include "gguf_writer.h"

enum { PARTS = 3 };

struct set {
    char dir[64];
    char paths[PARTS][128];
    struct gguf_writer parts[PARTS];
};

static void split_keys(struct gguf_writer *w, unsigned no, unsigned count, unsigned n_tensors)
{
    gguf_writer_key(w, "split.no", HALO_GGUF_U16);
    gguf_writer_raw(w, &(uint16_t){(uint16_t)no}, 2);
    gguf_writer_key(w, "split.count", HALO_GGUF_U16);
    gguf_writer_raw(w, &(uint16_t){(uint16_t)count}, 2);
    gguf_writer_key(w, "split.tensors.count", HALO_GGUF_I32);
    gguf_writer_u32(w, n_tensors);
}

static void part_write(const struct set *set, unsigned part)
{
    int fd = open(set->paths[part], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, set->parts[part].bytes, set->parts[part].n), set->parts[part].n);
    close(fd);
}

static void part_tensors(struct gguf_writer *w, unsigned part, unsigned n)
{
    char name[32];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "part%u.%u", part, i);
        gguf_writer_tensor(w, name, 1, (uint64_t[]){8}, HALO_TYPE_F32, 32 * i);
    }
    gguf_writer_finish(w);
    gguf_writer_pad(w, 32);
    for (unsigned i = 0; i < 4 * n; i++)
        gguf_writer_u64(w, i);
}

/* Part 1 holds the metadata and no tensors, as usual; the others one and two. */
static int setup(void **state)
{
    struct set *set = calloc(1, sizeof(*set));
    assert_non_null(set);
    strcpy(set->dir, "/tmp/halo-split-XXXXXX");
    assert_non_null(mkdtemp(set->dir));
    for (unsigned i = 0; i < PARTS; i++) {
        snprintf(set->paths[i], sizeof(set->paths[i]), "%s/m-%05u-of-%05u.gguf", set->dir, i + 1, PARTS);
        gguf_writer_init(&set->parts[i]);
        if (i == 0)
            gguf_writer_key_string(&set->parts[i], "general.architecture", "qwen3");
        split_keys(&set->parts[i], i, PARTS, 3);
        part_tensors(&set->parts[i], i, i);
        part_write(set, i);
    }
    *state = set;
    return 0;
}

static int teardown(void **state)
{
    struct set *set = *state;
    for (unsigned i = 0; i < PARTS; i++) {
        unlink(set->paths[i]);
        gguf_writer_free(&set->parts[i]);
    }
    assert_int_equal(rmdir(set->dir), 0);
    free(set);
    return 0;
}

static void part_again(struct set *set, unsigned part, unsigned no, unsigned count, unsigned declared,
                       unsigned n_tensors)
{
    gguf_writer_free(&set->parts[part]);
    gguf_writer_init(&set->parts[part]);
    split_keys(&set->parts[part], no, count, declared);
    part_tensors(&set->parts[part], part, n_tensors);
    part_write(set, part);
}

static void refused(const char *path, const char *wanted)
{
    struct halo_gguf *gguf;
    struct halo_fault fault;
    assert_true(halo_gguf_open(&gguf, path, &fault) < 0);
    assert_null(gguf);
    assert_string_equal(fault.text, wanted);
}

static void test_good_set(void **state)
{
    struct set *set = *state;
    struct halo_gguf *gguf;
    struct halo_fault fault;
    if (halo_gguf_open(&gguf, set->paths[0], &fault) != 0)
        fail_msg("%s", fault.text);
    assert_int_equal(halo_gguf_n_parts(gguf), PARTS);
    assert_int_equal(halo_gguf_n_tensors(gguf), 3);
    uint64_t total = 0;
    for (unsigned i = 0; i < PARTS; i++) {
        assert_string_equal(halo_gguf_part_path(gguf, i), set->paths[i]);
        assert_int_equal(halo_gguf_part_bytes(gguf, i), set->parts[i].n);
        total += set->parts[i].n;
    }
    assert_int_equal(halo_gguf_total_bytes(gguf), total);
    const struct halo_gguf_tensor *t = halo_gguf_find_tensor(gguf, "part2.1");
    assert_non_null(t);
    assert_int_equal(t->part, 2);
    assert_int_equal(t->offset, set->parts[2].n - 32);
    struct halo_span s;
    assert_int_equal(halo_gguf_get_string(gguf, "general.architecture", &s, &fault), 0);
    char before[65];
    char stamp[HALO_GGUF_STAMP_BYTES], other[HALO_GGUF_STAMP_BYTES];
    strcpy(before, halo_gguf_fingerprint(gguf));
    halo_gguf_stamp(gguf, stamp);
    halo_gguf_close(gguf);
    assert_int_equal(halo_gguf_open(&gguf, set->paths[0], &fault), 0);
    halo_gguf_stamp(gguf, other);
    assert_string_equal(stamp, other); /* opened again: the same */
    halo_gguf_close(gguf);
    struct timespec times[2] = {{0, UTIME_OMIT}, {1000, 5}};
    assert_int_equal(utimensat(AT_FDCWD, set->paths[PARTS - 1], times, 0), 0);
    assert_int_equal(halo_gguf_open(&gguf, set->paths[0], &fault), 0);
    halo_gguf_stamp(gguf, other);
    assert_string_not_equal(stamp, other); /* the last part was written anew */
    halo_gguf_close(gguf);

    part_again(set, 1, 1, PARTS, 3, 1); /* the same bytes */
    assert_int_equal(halo_gguf_open(&gguf, set->paths[0], &fault), 0);
    assert_string_equal(before, halo_gguf_fingerprint(gguf));
    halo_gguf_close(gguf);
    set->parts[2].bytes[set->parts[2].n - 97] ^= 1; /* padding between: not part of the directory */
    memcpy(memmem(set->parts[2].bytes, set->parts[2].n, "part2.0", 7), "part2.9", 7);
    part_write(set, 2);
    assert_int_equal(halo_gguf_open(&gguf, set->paths[0], &fault), 0);
    assert_string_not_equal(before, halo_gguf_fingerprint(gguf));
    halo_gguf_close(gguf);
}

static void test_opened_through_another_part(void **state)
{
    struct set *set = *state;
    refused(set->paths[1],
            "m-00002-of-00003.gguf: this is part 2 of 3; a split model is opened through its part 1 (name ending in "
            "-00001-of-00003.gguf)");
}

static void test_missing_first_part(void **state)
{
    struct set *set = *state;
    unlink(set->paths[0]);
    refused(set->paths[1],
            "m-00002-of-00003.gguf: this is part 2 of 3, and part 1 (name ending in -00001-of-00003.gguf) is "
            "missing: all parts must be in one folder");
}

static void test_missing_part(void **state)
{
    struct set *set = *state;
    struct halo_gguf *gguf;
    struct halo_fault fault;
    unlink(set->paths[2]);
    assert_true(halo_gguf_open(&gguf, set->paths[0], &fault) < 0);
    assert_int_equal(fault.code, HALO_FAULT_LOAD_FAILED);
    assert_string_equal(fault.text, "m-00003-of-00003.gguf: part 3 of 3 is missing: all parts must be in one folder");
}

static void test_names_and_keys_disagree(void **state)
{
    struct set *set = *state;
    part_again(set, 1, 2, PARTS, 3, 1);
    refused(set->paths[0],
            "m-00002-of-00003.gguf: it should be part 2 of 3, its keys have split.no 2 and split.count 3");
    part_again(set, 1, 1, 4, 3, 1);
    refused(set->paths[0],
            "m-00002-of-00003.gguf: it should be part 2 of 3, its keys have split.no 1 and split.count 4");
    part_again(set, 0, 0, 2, 3, 0);
    refused(set->paths[0], "m-00001-of-00003.gguf: the name says part 1 of 3, the keys say part 1 of 2");
    part_again(set, 0, 0, 0, 3, 0);
    refused(set->paths[0], "m-00001-of-00003.gguf: the name says part 1 of 3, the keys say part 1 of 0");
}

static void test_name_without_pattern(void **state)
{
    struct set *set = *state;
    char plain[160];
    snprintf(plain, sizeof(plain), "%s/plain.gguf", set->dir);
    assert_int_equal(rename(set->paths[0], plain), 0);
    refused(plain, "plain.gguf: key 'split.count' is 3, but the file's name does not end in -00001-of-00003.gguf");
    assert_int_equal(rename(plain, set->paths[0]), 0);
    struct halo_gguf *gguf;
    struct halo_fault fault;
    assert_true(halo_gguf_open_memory(&gguf, set->parts[0].bytes, set->parts[0].n, &fault) < 0);
    assert_string_equal(fault.text, "part 1 of 3 has no name to find the other parts by");
}

static void test_tensor_counts(void **state)
{
    struct set *set = *state;
    part_again(set, 0, 0, PARTS, 4, 0);
    refused(set->paths[0], "m-00001-of-00003.gguf: key 'split.tensors.count' is 4, the parts hold 3 tensors");
    gguf_writer_free(&set->parts[0]);
    gguf_writer_init(&set->parts[0]);
    gguf_writer_key_u32(&set->parts[0], "split.count", 3); /* another integer type is as good */
    part_tensors(&set->parts[0], 0, 0);
    part_write(set, 0);
    refused(set->paths[0], "m-00001-of-00003.gguf: key 'split.tensors.count' is missing");
}

static void test_tensor_in_two_parts(void **state)
{
    struct set *set = *state;
    memcpy(memmem(set->parts[2].bytes, set->parts[2].n, "part2.1", 7), "part1.0", 7);
    part_write(set, 2);
    refused(set->paths[0], "m-00001-of-00003.gguf: tensor 'part1.0' appears twice, in part 2 and in part 3");
}

static void test_malformed_part_is_named(void **state)
{
    struct set *set = *state;
    set->parts[1].n -= 8;
    part_write(set, 1);
    refused(set->paths[0],
            "m-00002-of-00003.gguf: tensor 'part1.0': 32 bytes at offset 0 of the data, but the file has 24 bytes of "
            "data");
}

static void test_hostile_counts(void **state)
{
    struct set *set = *state;
    gguf_writer_free(&set->parts[0]);
    gguf_writer_init(&set->parts[0]);
    gguf_writer_key_u32(&set->parts[0], "split.count", 0xffffffff);
    gguf_writer_finish(&set->parts[0]);
    part_write(set, 0);
    refused(set->paths[0], "m-00001-of-00003.gguf: key 'split.count' is 4294967295, at most 99999 parts are allowed");
    part_again(set, 0, 0, 65535, 3, 0);
    refused(set->paths[0], "m-00001-of-00003.gguf: the name says part 1 of 3, the keys say part 1 of 65535");
    gguf_writer_free(&set->parts[0]);
    gguf_writer_init(&set->parts[0]);
    gguf_writer_key_string(&set->parts[0], "split.count", "3");
    gguf_writer_finish(&set->parts[0]);
    part_write(set, 0);
    refused(set->paths[0], "m-00001-of-00003.gguf: key 'split.count' must be an integer, the file has type string");
}

/* One part of one, with and without the keys, is an ordinary file. */
static void test_set_of_one(void **state)
{
    struct set *set = *state;
    char one[160];
    snprintf(one, sizeof(one), "%s/m-00001-of-00001.gguf", set->dir);
    part_again(set, 0, 0, 1, 2, 2);
    assert_int_equal(rename(set->paths[0], one), 0);
    struct halo_gguf *gguf;
    struct halo_fault fault;
    assert_int_equal(halo_gguf_open(&gguf, one, &fault), 0);
    assert_int_equal(halo_gguf_n_parts(gguf), 1);
    assert_int_equal(halo_gguf_n_tensors(gguf), 2);
    halo_gguf_close(gguf);
    unlink(one);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_good_set),
        TEST(test_opened_through_another_part),
        TEST(test_missing_first_part),
        TEST(test_missing_part),
        TEST(test_names_and_keys_disagree),
        TEST(test_name_without_pattern),
        TEST(test_tensor_counts),
        TEST(test_tensor_in_two_parts),
        TEST(test_malformed_part_is_named),
        TEST(test_hostile_counts),
        TEST(test_set_of_one),
    };
    return cmocka_run_group_tests_name("gguf split", tests, NULL, NULL);
}
