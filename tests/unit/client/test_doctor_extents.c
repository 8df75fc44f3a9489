/* test_doctor_extents.c: files in many pieces, by a file system that answers as the test wants. */
#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "extents.h"

#define PIECE 8192ull

static struct {
    uint64_t n; /* pieces, each followed by a hole of its size */
    uint32_t flags, flags_of_last;
    uint64_t special; /* the piece that has `flags` */
    int error;
    int n_calls;
} disk;

int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    struct fiemap *map = argument;
    assert_int_equal(fd, 77);
    assert_int_equal(request, FS_IOC_FIEMAP);
    disk.n_calls++;
    if (disk.error) {
        errno = disk.error;
        return -1;
    }
    uint64_t i = (map->fm_start + 2 * PIECE - 1) / (2 * PIECE);
    for (; i < disk.n && map->fm_mapped_extents < map->fm_extent_count; i++) {
        struct fiemap_extent *extent = &map->fm_extents[map->fm_mapped_extents++];
        assert_true(i * 2 * PIECE - map->fm_start < map->fm_length);
        *extent = (struct fiemap_extent){.fe_logical = i * 2 * PIECE,
                                         .fe_length = PIECE,
                                         .fe_flags = (i == disk.special ? disk.flags : 0) |
                                                     (i + 1 == disk.n ? disk.flags_of_last : 0)};
    }
    return 0;
}

static struct halo_doctor_extents ask(uint64_t n, uint32_t flags, uint64_t special, uint32_t flags_of_last)
{
    struct halo_doctor_extents extents;
    memset(&disk, 0, sizeof disk);
    disk.n = n;
    disk.flags = flags;
    disk.special = special;
    disk.flags_of_last = flags_of_last;
    assert_int_equal(halo_doctor_extents_of(77, &extents), 0);
    return extents;
}

/* Batches follow each other without a gap and without counting a piece twice. */
static void all_pieces_count_once(void **state)
{
    static const uint64_t sizes[] = {0, 1, 2, 255, 256, 257, 511, 512, 513, 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int last = 0; last < 2; last++) { /* some file systems do not mark the last one */
            struct halo_doctor_extents extents = ask(sizes[i], 0, 0, last ? FIEMAP_EXTENT_LAST : 0);
            assert_int_equal(extents.n, sizes[i]);
            assert_int_equal(extents.n_bytes, sizes[i] * PIECE);
            assert_false(extents.is_compressed || extents.is_encrypted);
        }
    ask(300, 0, 0, FIEMAP_EXTENT_LAST);
    assert_int_equal(disk.n_calls, 2);
}

static void one_piece_tells_for_the_file(void **state)
{
    struct halo_doctor_extents extents = ask(600, FIEMAP_EXTENT_ENCODED, 599, FIEMAP_EXTENT_LAST);
    assert_true(extents.is_compressed && !extents.is_encrypted);
    extents = ask(600, FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED, 300, FIEMAP_EXTENT_LAST);
    assert_true(!extents.is_compressed && extents.is_encrypted);
}

static void a_list_without_end_ends(void **state)
{
    struct halo_doctor_extents extents = ask(UINT64_C(1) << 40, 0, 0, 0);
    assert_int_equal(extents.n, HALO_DOCTOR_EXTENTS_MAX);
}

static void errors_are_told(void **state)
{
    struct halo_doctor_extents extents;
    memset(&disk, 0, sizeof disk);
    disk.error = EIO;
    assert_int_equal(halo_doctor_extents_of(77, &extents), -EIO);
    disk.error = ENOTTY; /* how a file system says that it has no such call */
    assert_int_equal(halo_doctor_extents_of(77, &extents), -EOPNOTSUPP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pieces_count_once),
        cmocka_unit_test(one_piece_tells_for_the_file),
        cmocka_unit_test(a_list_without_end_ends),
        cmocka_unit_test(errors_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
