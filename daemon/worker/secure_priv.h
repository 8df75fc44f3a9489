/* secure_priv.h: the proof of the key at the beginning of a TCP connection, in the child. */
#ifndef HALO_WORKER_SECURE_PRIV_H
#define HALO_WORKER_SECURE_PRIV_H

#include <base/fault.h>
#include <hip_remote/channel.h>

/* A child tells here that its client has the key, by its process id. Inherited from the supervisor. */
#define HALO_SECURE_KNOWN_FD 4

/* 0 or a negative errno; the reason names the file. */
int halo_secure_read_key(const char *path, struct halo_remote_key *ret, struct halo_fault *fault);

/* Names the key where files of its clients lie; says nothing about it. */
#define HALO_SECURE_NAME_BYTES 65
void halo_secure_name(const struct halo_remote_key *key, char ret[static HALO_SECURE_NAME_BYTES]);

/* Encrypts the connection, if the client has the key, and tells the supervisor. 0 or a negative errno. */
int halo_secure_accept(struct halo_remote_channel *ch, const struct halo_remote_key *key, uint32_t timeout_ms,
                       struct halo_fault *fault);

/* Whether these bytes begin a handshake. */
bool halo_secure_is_hello(const uint8_t *at, size_t n);

#endif
