/* session.h: one client's session on the HIP runtime: requests in, replies out.
 *
 * Every handle, address range, length and code object of a request is checked against what the session owns before the
 * runtime sees it. Requests run in their order on the caller's thread. What waits for the GPU does not hold up the
 * requests after it: its answer comes from halo_session_poll(). One thread.
 *
 * A session that returned a negative errno must be ended by ending its process: work may be in flight, and only the
 * driver can take it back.
 */
#ifndef HALO_WORKER_SESSION_H
#define HALO_WORKER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <hip_remote/codec.h>

/* What one connection may use. */
struct halo_session_limits {
    uint64_t memory_bytes; /* on the device, all allocations together */
    uint32_t n_allocations;
    uint32_t n_streams, n_events, n_modules, n_functions, n_graphs;
    uint64_t code_bytes;    /* images of modules and open blobs */
    uint32_t staging_bytes; /* copies in flight between client and device */
    uint32_t n_waits;       /* answers that wait for the GPU, and copies in flight */
    uint32_t deadline_ms;   /* for each wait; 0: none */
};

#define HALO_SESSION_LIMITS_DEFAULT                                                                                    \
    {                                                                                                                  \
        .memory_bytes = HALO_REMOTE_SIZE_MAX, .n_allocations = 65536, .n_streams = 256, .n_events = 65536,             \
        .n_modules = 4096, .n_functions = 65536, .n_graphs = 256, .code_bytes = 1u << 30, .staging_bytes = 64u << 20,  \
        .n_waits = 4096,                                                                                               \
    }

/* How a session reaches its client. */
struct halo_session_ops {
    /* Room for a frame of n bytes; commit sends what was written there. NULL: the client is gone. */
    uint8_t *(*reserve)(void *ud, size_t n);
    void (*commit)(void *ud, size_t n);
    /* Called again and again while a request waits for room of its own. Negative: give up with this error. */
    int (*idle)(void *ud);
    void *ud;
};

struct halo_session;
struct halo_blob_store;

/* Opens the runtime `hip_lib` (NULL: the system's). 0 or a negative errno. */
int halo_session_create(struct halo_session **ret, const char *hip_lib, const struct halo_session_limits *limits,
                        const struct halo_session_ops *ops, struct halo_fault *fault);
/* Has the session keep what its client uploads, and find what earlier ones kept. Before its first request. The store
 * stays the caller's and outlives the session. */
void halo_session_keep_blobs(struct halo_session *session, struct halo_blob_store *store);
/* Frees everything that it can; takes NULL. For sessions whose work has ended. */
void halo_session_destroy(struct halo_session *session);

/* Runs one request. 0; HALO_SESSION_E_END after SHUTDOWN; -EPROTO or -EBADMSG: the message was refused and the session
 * is over; -ETIMEDOUT: the GPU passed the deadline; other negative errnos: the client is gone. */
#define HALO_SESSION_E_END 1
int halo_session_request(struct halo_session *session, const struct halo_remote_header *h, const uint8_t *payload,
                         struct halo_fault *fault);

/* Sends the answers whose wait has ended. 0 or a negative errno as above. */
int halo_session_poll(struct halo_session *session, struct halo_fault *fault);

/* Whether answers wait for the GPU. */
bool halo_session_waits(const struct halo_session *session);

#endif
