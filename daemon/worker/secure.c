/* secure.c: reads the key, lets in who has it. One thread. */
#include "secure_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <base/hash.h>
#include <hip_tls/tls.h>

#define TLS_HANDSHAKE 22 /* type of a record */
#define TLS_MAJOR 3

int halo_secure_read_key(const char *path, struct halo_remote_key *ret, struct halo_fault *fault)
{
    char reason[128];
    int r = halo_remote_key_read(path, ret, reason, sizeof(reason));
    if (r < 0)
        halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "cannot use the key in %s: %s", path, reason);
    return r;
}

_Static_assert(HALO_SECURE_NAME_BYTES == HALO_SHA256_HEX, "a name is a hash");

void halo_secure_name(const struct halo_remote_key *key, char ret[static HALO_SECURE_NAME_BYTES])
{
    static const char purpose[] = "hip-worker: folder of the key";
    uint8_t named[sizeof(purpose) + HALO_REMOTE_KEY_BYTES];
    memcpy(named, purpose, sizeof(purpose));
    memcpy(named + sizeof(purpose), key->bytes, HALO_REMOTE_KEY_BYTES);
    halo_sha256_hex(named, sizeof(named), ret);
    explicit_bzero(named, sizeof(named));
}

static const char *reason_of(int error)
{
    switch (error) {
    case -EACCES: return "the client has another key";
    case -EPROTO: return "the client does not encrypt: it needs the worker's key (HIP_REMOTE_KEY_FILE)";
    case -ETIMEDOUT: return "no complete handshake in time";
    case -ECONNRESET: return "the client left during the handshake";
    default: return "the handshake failed";
    }
}

int halo_secure_accept(struct halo_remote_channel *ch, const struct halo_remote_key *key, uint32_t timeout_ms,
                       struct halo_fault *fault)
{
    const int32_t pid = (int32_t)getpid();
    int flags = fcntl(ch->fd, F_GETFL), r = -errno;
    if (flags >= 0)
        r = fcntl(ch->fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
    if (r == 0)
        r = halo_remote_channel_secure(ch, &halo_remote_tls, true, key, timeout_ms);
    if (r < 0)
        halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s", reason_of(r));
    else if (write(HALO_SECURE_KNOWN_FD, &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
        r = halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno,
                             "cannot tell the supervisor that a client has proved the key");
    return r;
}

bool halo_secure_is_hello(const uint8_t *at, size_t n)
{
    return n >= 2 && at[0] == TLS_HANDSHAKE && at[1] == TLS_MAJOR;
}
