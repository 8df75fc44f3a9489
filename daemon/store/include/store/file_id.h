/* file_id.h: which file a descriptor is of, and the state of its bytes.
 *
 * Two descriptors are of one file when device and inode are the same. It is also unchanged when size, time of
 * modification and time of change are. The time of change moves with a rename, a link and a change of mode too: a
 * file that is not quite the same one is rather taken for another. Writes within one tick of the file system's clock
 * (4 ms at most) cannot be told apart. Pure values; any thread.
 */
#ifndef HALO_STORE_FILE_ID_H
#define HALO_STORE_FILE_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct halo_file_id {
    uint64_t device, inode;
    uint64_t bytes;
    int64_t modified_ns, changed_ns; /* mtime, ctime */
};

struct halo_file_id halo_file_id_of(const struct stat *facts);

/* The same file, whatever is in it now. */
static inline bool halo_file_id_is_same(const struct halo_file_id *a, const struct halo_file_id *b)
{
    return a->device == b->device && a->inode == b->inode;
}

/* The same file, unchanged. */
static inline bool halo_file_id_is_equal(const struct halo_file_id *a, const struct halo_file_id *b)
{
    return halo_file_id_is_same(a, b) && a->bytes == b->bytes && a->modified_ns == b->modified_ns &&
           a->changed_ns == b->changed_ns;
}

#endif
