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

/* One number for both; all bits of each count (the finisher of splitmix64). */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void halo_file_id_join(struct halo_file_id *set, const struct halo_file_id *file)
{
    uint64_t which = mix(mix(file->device, file->inode), file->bytes);
    set->bytes += file->bytes;
    set->modified_ns = (int64_t)mix((uint64_t)set->modified_ns, mix(which, (uint64_t)file->modified_ns));
    set->changed_ns = (int64_t)mix((uint64_t)set->changed_ns, (uint64_t)file->changed_ns);
}
