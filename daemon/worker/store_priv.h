/* store_priv.h: what clients uploaded, in a folder, by its SHA-256, so that the next session need not send it again.
 *
 * A blob is a file that is named by its hash. It appears complete, and its bytes are checked whenever they are read: a
 * crash or a bad disk costs an upload, never a right byte. Whoever knows a hash gets the bytes, so each key has a
 * folder of its own. Sessions of several processes share it; a lock orders what they add and drop.
 *
 * One thread; several may call halo_blob_store_get(). Errors: negative errno.
 */
#ifndef HALO_WORKER_STORE_PRIV_H
#define HALO_WORKER_STORE_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>

#define HALO_BLOB_HASH_BYTES 32
#define HALO_BLOB_TOUCH_S 3600 /* a use is noted when the last one was noted longer ago than this */

struct halo_blob_store {
    int folder_fd, usage_fd;
    uint64_t max_bytes;
    _Atomic uint64_t found_bytes; /* by this session, like the next */
    uint64_t added_bytes;
    bool has_told; /* that blobs cannot be kept */
};

/* Makes the folder `dir` and in it `name`, for this user alone, and writes the path of the latter. 0 or a negative
 * errno: it cannot be made, or others may use it. */
int halo_blob_folder_make(const char *dir, const char *name, char *ret_path, size_t size, struct halo_fault *fault);

/* `path`: a folder of halo_blob_folder_make(). The files in it have max_bytes together, those that were used last. */
int halo_blob_store_open(struct halo_blob_store *ret, const char *path, uint64_t max_bytes, struct halo_fault *fault);
void halo_blob_store_close(struct halo_blob_store *store);

bool halo_blob_store_has(const struct halo_blob_store *store, const uint8_t sha256[static HALO_BLOB_HASH_BYTES],
                         size_t n);
/* Reads n bytes with this hash. -ENOENT: there are none. -EBADMSG: those on the disk are damaged, and dropped now. */
int halo_blob_store_get(struct halo_blob_store *store, const uint8_t sha256[static HALO_BLOB_HASH_BYTES], void *to,
                        size_t n);
/* Keeps n bytes; the caller has seen that they have this hash. For room, those that were not used for longest are
 * dropped. -EAGAIN: other sessions held the lock. */
int halo_blob_store_put(struct halo_blob_store *store, const uint8_t sha256[static HALO_BLOB_HASH_BYTES],
                        const void *at, size_t n);

#endif
