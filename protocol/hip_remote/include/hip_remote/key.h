/* key.h: the secret that a client and a worker share, from a file.
 *
 * The file holds 64 hexadecimal digits and at most a line feed. It is a regular file of the user who reads it, or of
 * root, and nobody else has any right to it. Any thread.
 */
#ifndef HALO_HIP_REMOTE_KEY_H
#define HALO_HIP_REMOTE_KEY_H

#include <stddef.h>
#include <stdint.h>

#define HALO_REMOTE_KEY_BYTES 32

struct halo_remote_key {
    uint8_t bytes[HALO_REMOTE_KEY_BYTES];
};

/* 0, or a negative errno: -EPERM for a file of another user or with rights for others, -EINVAL for a file without a
 * key, else what open() or read() said. `reason`, a sentence without the path, is set on failure. */
int halo_remote_key_read(const char *path, struct halo_remote_key *ret, char *reason, size_t reason_size);

/* Overwrites the key; the compiler does not leave it out. */
void halo_remote_key_forget(struct halo_remote_key *key);

#endif
