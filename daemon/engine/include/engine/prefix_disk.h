/* prefix_disk.h: saved prefixes on disk: one file for each model file, in STATE_DIR/prefixes.
 *
 * Written beside and renamed; mode 0600 in a folder of mode 0700. A file that is not this user's, that others may read,
 * or that is larger than may be is not read. What was read is taken off the disk: it is in memory from then on, and
 * what a reset forgets there must not come back from here.
 *
 * The io thread; blocks on the disk.
 */
#ifndef HALO_ENGINE_PREFIX_DISK_H
#define HALO_ENGINE_PREFIX_DISK_H

#include <stdbool.h>

#include <base/fault.h>

#include <engine/prefix_image.h>

#define HALO_PREFIX_PATH_BYTES 4200
#define HALO_PREFIX_NAME_BYTES 48

struct halo_prefix_writer {
    int fd; /* -1: not open */
    uint64_t n_bytes;
    char path[HALO_PREFIX_PATH_BYTES], part[HALO_PREFIX_PATH_BYTES + 8]; /* part: until it is whole */
};

/* The file of a model with this fingerprint: its name in the folder, its path. */
void halo_prefix_disk_name(const char *fingerprint, char ret[HALO_PREFIX_NAME_BYTES]);
int halo_prefix_disk_path(const char *state_dir, const char *fingerprint, char ret[HALO_PREFIX_PATH_BYTES]);

/* Reads and checks the whole file. 0: *ret_image (malloc) has *ret_n_records, the file is gone; 1: there is none;
 * negative: it is not to be used, the fault says why. */
#define HALO_PREFIX_DISK_E_NONE 1
int halo_prefix_disk_take(const char *path, const struct halo_prefix_key *key, uint64_t most_bytes, uint8_t **ret_image,
                          uint32_t *ret_n_records, struct halo_fault *fault);

/* Opens, leaves room for the header, makes the folders. Negative errno. */
int halo_prefix_writer_open(struct halo_prefix_writer *writer, const char *state_dir, const char *fingerprint);
int halo_prefix_writer_append(struct halo_prefix_writer *writer, const uint8_t *records, size_t n);
/* The header, and the name. On failure nothing is left of it. */
int halo_prefix_writer_finish(struct halo_prefix_writer *writer, const uint8_t header[HALO_PREFIX_HEADER_BYTES]);
void halo_prefix_writer_abort(struct halo_prefix_writer *writer);

/* Removes files of other models, the oldest first, until all together have at most this many bytes, and what an earlier
 * process left half written. The file with the name `coming` neither counts nor goes. */
void halo_prefix_disk_trim(const char *state_dir, uint64_t most_bytes, const char *coming);

#endif
