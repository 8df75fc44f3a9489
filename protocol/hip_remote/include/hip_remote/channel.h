/* channel.h: how the bytes of a connection travel: as they are, or encrypted.
 *
 * Worker and client send and receive through a channel alone. Without a cipher the caller's bytes go to the socket from
 * where they lie, and no library of cryptography is needed. The socket does not block, and stays the owner's to close.
 *
 * Threads: one at a time. Errors: negative errno; -EAGAIN: the socket takes or has nothing now, poll() it.
 */
#ifndef HALO_HIP_REMOTE_CHANNEL_H
#define HALO_HIP_REMOTE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hip_remote/key.h>

#define HALO_REMOTE_SHA256_BYTES 32

/* What encrypts. Each function but sha256() takes the `state` that begin() made. */
struct halo_remote_cipher {
    uint32_t bytes; /* of this struct: a module of another build is refused */
    int (*begin)(void **ret_state, int fd, bool is_worker, const struct halo_remote_key *key);
    /* Goes on with the handshake. 0: done, the peer has the same key. -EAGAIN: call again when the socket has the
     * events. Else an error of halo_remote_channel_secure(). */
    int (*handshake)(void *state, short *ret_events);
    ssize_t (*send)(void *state, const void *at, size_t n);
    ssize_t (*recv)(void *state, void *at, size_t n);
    bool (*has_unread)(const void *state);
    void (*end)(void *state);
    /* The hash of n bytes, as fast as this processor can. False: out of memory. */
    bool (*sha256)(const void *at, size_t n, uint8_t ret[static HALO_REMOTE_SHA256_BYTES]);
};

struct halo_remote_channel {
    int fd;
    const struct halo_remote_cipher *cipher; /* NULL: the bytes travel as they are */
    void *state;
};

/* Proves to the peer that this side has the key, has the peer prove it, and encrypts all that follows. Waits for at
 * most timeout_ms. 0; -EACCES: the peer has another key; -EPROTO: the peer does not encrypt; -ECONNRESET: it closed the
 * connection; -ETIMEDOUT; -ENOMEM. After an error the channel is plain again and its socket is only to be closed. */
int halo_remote_channel_secure(struct halo_remote_channel *ch, const struct halo_remote_cipher *cipher, bool is_worker,
                               const struct halo_remote_key *key, uint32_t timeout_ms);

/* Sends what fits now: the bytes taken, more than 0, or an error. After -EAGAIN the next call begins with the same
 * bytes; they may lie elsewhere and be followed by more. */
ssize_t halo_remote_channel_send(struct halo_remote_channel *ch, const void *at, size_t n);

/* Reads what has come: the bytes, 0 at the end of the connection, or an error. */
ssize_t halo_remote_channel_recv(struct halo_remote_channel *ch, void *at, size_t n);

/* Whether bytes have come that poll() does not show. */
bool halo_remote_channel_has_unread(const struct halo_remote_channel *ch);

/* Ends the encryption; the socket stays open. */
void halo_remote_channel_finish(struct halo_remote_channel *ch);

#endif
