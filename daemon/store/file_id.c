/* file_id.c: see file_id.h. */
#include <store/file_id.h>

static int64_t ns_of(const struct timespec *at)
{
    return (int64_t)at->tv_sec * 1000000000 + at->tv_nsec;
}

struct halo_file_id halo_file_id_of(const struct stat *facts)
{
    return (struct halo_file_id){.device = facts->st_dev,
                                 .inode = facts->st_ino,
                                 .bytes = (uint64_t)facts->st_size,
                                 .modified_ns = ns_of(&facts->st_mtim),
                                 .changed_ns = ns_of(&facts->st_ctim)};
}
