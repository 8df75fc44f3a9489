/* state_file_priv.h: small files in the state folder. The io thread; blocks on the disk.
 *
 * A file that is not this user's, that others may read, or that is larger than may be is not read. A file is replaced
 * in one step: whoever reads it finds the old bytes or the new ones.
 */
#ifndef HALO_ENGINE_STATE_FILE_PRIV_H
#define HALO_ENGINE_STATE_FILE_PRIV_H

#include <stdint.h>

#include <base/fault.h>

#define HALO_STATE_FILE_E_NONE 1

/* 0: *ret (malloc) has *ret_n bytes and a NUL; HALO_STATE_FILE_E_NONE: there is none; negative: the fault says why. */
int halo_state_file_read(const char *path, uint64_t most_bytes, uint8_t **ret, uint64_t *ret_n,
                         struct halo_fault *fault);

/* The folder is there. Mode 0600. 0 or a negative errno, with nothing left of it. */
int halo_state_file_replace(const char *path, const void *bytes, uint64_t n);

/* All of them. 0 or a negative errno. */
int halo_state_file_write_at(int fd, const void *bytes, uint64_t n, uint64_t at);

#endif
