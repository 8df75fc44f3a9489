/* extents.c: asks a file system where a file lies. Format: https://docs.kernel.org/filesystems/fiemap.html */
#include "extents.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define BATCH 256 /* of one call */

/* The next batch. True: there is more behind it. */
static bool take(const struct fiemap *map, struct halo_doctor_extents *ret, uint64_t *at)
{
    for (uint32_t i = 0; i < map->fm_mapped_extents && i < BATCH; i++) {
        const struct fiemap_extent *extent = &map->fm_extents[i];
        bool is_encrypted = extent->fe_flags & FIEMAP_EXTENT_DATA_ENCRYPTED;
        ret->n++;
        ret->n_bytes += extent->fe_length;
        ret->is_encrypted |= is_encrypted;
        ret->is_compressed |= (extent->fe_flags & FIEMAP_EXTENT_ENCODED) && !is_encrypted;
        *at = extent->fe_logical + extent->fe_length;
        if (extent->fe_flags & FIEMAP_EXTENT_LAST)
            return false;
    }
    return map->fm_mapped_extents > 0;
}

int halo_doctor_extents_of(int fd, struct halo_doctor_extents *ret)
{
    size_t n_bytes = sizeof(struct fiemap) + BATCH * sizeof(struct fiemap_extent);
    struct fiemap *map = malloc(n_bytes);
    uint64_t at = 0;
    int r = map ? 0 : -ENOMEM;
    bool more = true;
    *ret = (struct halo_doctor_extents){0};
    while (r == 0 && more && ret->n < HALO_DOCTOR_EXTENTS_MAX) {
        memset(map, 0, n_bytes);
        map->fm_start = at;
        map->fm_length = FIEMAP_MAX_OFFSET - at;
        map->fm_extent_count = BATCH;
        if (ioctl(fd, FS_IOC_FIEMAP, map) != 0)
            r = errno == ENOTTY ? -EOPNOTSUPP : -errno;
        else
            more = take(map, ret, &at);
    }
    free(map);
    return r;
}
