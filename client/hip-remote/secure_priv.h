/* secure_priv.h: the proof of the key to the worker. What encrypts is a module that is opened for it, and to hash for a
 * worker that keeps blobs, so that another program loads no library of cryptography.
 */
#ifndef HALO_HIP_REMOTE_SECURE_PRIV_H
#define HALO_HIP_REMOTE_SECURE_PRIV_H

#include <hip_remote/channel.h>

#define HALO_REMOTE_REASON_BYTES 512

/* What the module has. NULL with the reason: it is not there, or of another version. */
const struct halo_remote_cipher *halo_remote_cipher_find(char reason[static HALO_REMOTE_REASON_BYTES]);

/* 0, or a negative errno with the reason; the channel is plain then, and its socket is only to be closed. */
int halo_remote_secure(struct halo_remote_channel *ch, const char *key_file, uint32_t timeout_ms,
                       char reason[static HALO_REMOTE_REASON_BYTES]);

#endif
