/* file_id.h: which file a descriptor is of, and the state of its bytes.
 *
 * Two descriptors are of one file when device and inode are the same. It is unwritten when size and time of
 * modification are the same too, and unchanged when the time of change is as well.
 *
 * The time of change moves with a rename, a link and a change of mode, which leave the bytes alone; but nobody can set
 * it, while a program can set the time of modification back. A read of the whole file asks for `unchanged`: it is
 * short, and can be repeated. For a model that stays loaded `unwritten` is enough: a chmod or a hard link does not make
 * it another model. Writes within one tick of the file system's clock (4 ms at most) cannot be told apart. Pure values;
 * any thread.
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

/* Makes the id of a set of files of that of its first one, which remains what is_same() compares: the set is unwritten,
 * or unchanged, when all of its files are. In the order of the set. */
void halo_file_id_join(struct halo_file_id *set, const struct halo_file_id *file);

/* The same file, whatever is in it now. */
static inline bool halo_file_id_is_same(const struct halo_file_id *a, const struct halo_file_id *b)
{
    return a->device == b->device && a->inode == b->inode;
}

/* The same file, with the same bytes as far as size and time of modification tell. */
static inline bool halo_file_id_is_unwritten(const struct halo_file_id *a, const struct halo_file_id *b)
{
    return halo_file_id_is_same(a, b) && a->bytes == b->bytes && a->modified_ns == b->modified_ns;
}

/* The same file, unchanged. */
static inline bool halo_file_id_is_equal(const struct halo_file_id *a, const struct halo_file_id *b)
{
    return halo_file_id_is_unwritten(a, b) && a->changed_ns == b->changed_ns;
}

#endif
