/* session_priv.h: what the files of a session share. One thread. */
#ifndef HALO_WORKER_SESSION_PRIV_H
#define HALO_WORKER_SESSION_PRIV_H

#include <worker/session.h>

#include "blob_jobs_priv.h"
#include "handles_priv.h"
#include "ranges_priv.h"
#include "runtime_priv.h"
#include "waits_priv.h"

#define HALO_SESSION_LATER (-1) /* of an operation: its answer comes from a wait */
#define HALO_SESSION_LDS_BYTES 65536u

/* The objects behind handles. The runtime's pointers never leave the worker. */
struct halo_session_stream {
    void *hip;
    int device;
    bool is_capturing;
};

struct halo_session_event {
    void *hip;
    bool is_captured; /* recorded into a graph: it is never reached by itself */
};

struct halo_session_module;
struct halo_session_function;
struct halo_session_blob;

struct halo_session {
    struct halo_worker_runtime rt;
    struct halo_session_limits limits;
    struct halo_session_ops ops;
    struct halo_blob_store *blobs;   /* the caller's; NULL: none are kept */
    struct halo_blob_jobs blob_jobs; /* with blobs */
    bool is_open;                    /* INIT was answered */
    int device;                      /* that SET_DEVICE chose */
    int current;                     /* that the runtime's thread has */
    int fatal;                       /* negative errno that ends the session: of a wait inside an operation */
    struct halo_handles handles[HALO_REMOTE_N_HANDLE_TYPES]; /* by type; [HALO_REMOTE_NULL] is empty */
    struct halo_ranges memory;
    uint64_t code_bytes;  /* held by modules and blobs */
    uint32_t n_capturing; /* streams */
    struct halo_waits waits;
    struct halo_remote_status deferred; /* the first error without an answer, for the next reply */
};

/* The request in hand. */
struct halo_session_call {
    const struct halo_remote_header *h;
    const union halo_remote_request *q;
    union halo_remote_reply *a;
    int device;
};

/* An operation: a HIP error, 0 with its reply filled in, or HALO_SESSION_LATER. */
typedef int halo_session_op_fn(struct halo_session *s, const struct halo_session_call *c);

/* Answers a request, now or later. 0 or a negative errno. */
int halo_session_answer(struct halo_session *s, const struct halo_remote_header *h, union halo_remote_reply *a,
                        int error);

/* The runtime's stream of a handle; the null handle is the null stream. False: there is none. `ret_stream` (may be
 * NULL): the session's own object, NULL for the null stream. */
bool halo_session_stream(const struct halo_session *s, uint64_t bits, void **ret_hip,
                         struct halo_session_stream **ret_stream);

/* A piece of the staging buffer, after waiting for room. 0 or a HIP error; what waits next holds it. */
int halo_session_stage(struct halo_session *s, uint32_t bytes, uint32_t *ret_at);

/* Waits for what was queued on the stream so far: with `has_answer` the request is answered then, with data_bytes of
 * the staging buffer, and HALO_SESSION_LATER returned; else only the piece of the staging buffer is held. Or a HIP
 * error. */
int halo_session_wait(struct halo_session *s, const struct halo_session_call *c, void *stream, uint32_t data_at,
                      uint32_t data_bytes, bool has_answer);

/* Makes the request's device the runtime's. A HIP error. */
int halo_session_choose_device(struct halo_session *s, struct halo_session_call *c);

/* One copy. Without `waits`, one on the device alone is not waited for, and one to the device is only held. */
struct halo_session_copy {
    uint64_t to, from, size;
    int32_t kind;
    const void *data; /* to the device */
    void *stream;
    bool waits;
};

/* A HIP error, or HALO_SESSION_LATER. */
int halo_session_copy(struct halo_session *s, const struct halo_session_call *c, const struct halo_session_copy *copy);
/* The stream of a copy. A HIP error: a recorded copy would read the staging buffer at each replay of the graph. */
int halo_session_copy_stream(const struct halo_session *s, uint64_t bits, int32_t kind, void **ret);

/* Makes the copies of blobs whose bytes are hashed, up to one that waits for them; with `all` waits. 0 or a negative
 * errno. */
int halo_session_finish_blobs(struct halo_session *s, bool all);

/* Sends the answers of waits that have ended. 0 or a negative errno. */
int halo_session_poll_waits(struct halo_session *s, struct halo_fault *fault);

/* Waits for room for one more wait. 0 or a HIP error. */
int halo_session_room(struct halo_session *s);

/* Whether the stream records a graph, by its own capture or because it waited for a stream that captures. */
bool halo_session_is_capturing(const struct halo_session *s, const struct halo_session_stream *stream);

/* Waits for every copy between client and device that is in flight. 0 or a negative errno, which is also kept in
 * s->fatal. */
int halo_session_drain(struct halo_session *s);

/* Destroys every object and frees all memory. */
void halo_session_free_all(struct halo_session *s);

/* Modules hold functions and globals; both end with it. The error of hipModuleUnload. */
int halo_session_module_drop(struct halo_session *s, struct halo_session_module *module);
void halo_session_function_drop(struct halo_session_function *function);
void halo_session_blob_drop(struct halo_session *s, struct halo_session_blob *blob);
/* NULL until all of its bytes are here. */
const void *halo_session_blob_bytes(const struct halo_session_blob *blob, uint64_t *ret_n);

/* Operations, by file. */
#define HALO_SESSION_OPS_DEVICE(X)                                                                                     \
    X(INIT, init)                                                                                                      \
    X(PING, ping)                                                                                                      \
    X(GET_DEVICE_COUNT, get_device_count)                                                                              \
    X(SET_DEVICE, set_device)                                                                                          \
    X(GET_DEVICE, get_device)                                                                                          \
    X(GET_DEVICE_PROPERTIES, get_device_properties)                                                                    \
    X(DEVICE_SYNCHRONIZE, device_synchronize)                                                                          \
    X(DEVICE_RESET, device_reset)                                                                                      \
    X(DEVICE_GET_ATTRIBUTE, device_get_attribute)                                                                      \
    X(DEVICE_CAN_ACCESS_PEER, device_can_access_peer)                                                                  \
    X(DEVICE_ENABLE_PEER_ACCESS, device_enable_peer_access)                                                            \
    X(DEVICE_DISABLE_PEER_ACCESS, device_disable_peer_access)                                                          \
    X(DEVICE_GET_LIMIT, device_get_limit)                                                                              \
    X(DEVICE_GET_STREAM_PRIORITY_RANGE, device_get_stream_priority_range)                                              \
    X(DEVICE_GET_UUID, device_get_uuid)                                                                                \
    X(GET_LAST_ERROR, get_last_error)                                                                                  \
    X(PEEK_AT_LAST_ERROR, peek_at_last_error)
#define HALO_SESSION_OPS_MEMORY(X)                                                                                     \
    X(MALLOC, malloc)                                                                                                  \
    X(FREE, free)                                                                                                      \
    X(MALLOC_ASYNC, malloc_async)                                                                                      \
    X(FREE_ASYNC, free_async)                                                                                          \
    X(MEM_GET_INFO, mem_get_info)                                                                                      \
    X(MEMSET, memset)                                                                                                  \
    X(MEMSET_ASYNC, memset_async)                                                                                      \
    X(MEMSET_2D_ASYNC, memset_2d_async)
#define HALO_SESSION_OPS_COPY(X)                                                                                       \
    X(MEMCPY, memcpy)                                                                                                  \
    X(MEMCPY_ASYNC, memcpy_async)                                                                                      \
    X(MEMCPY_2D_ASYNC, memcpy_2d_async)                                                                                \
    X(MEMCPY_FROM_BLOB, memcpy_from_blob)                                                                              \
    X(MEMCPY_TO_BLOB, memcpy_to_blob)                                                                                  \
    X(MEMCPY_PEER_ASYNC, memcpy_peer_async)
#define HALO_SESSION_OPS_STREAM(X)                                                                                     \
    X(STREAM_CREATE, stream_create)                                                                                    \
    X(STREAM_DESTROY, stream_destroy)                                                                                  \
    X(STREAM_SYNCHRONIZE, stream_synchronize)                                                                          \
    X(STREAM_QUERY, stream_query)                                                                                      \
    X(STREAM_WAIT_EVENT, stream_wait_event)                                                                            \
    X(STREAM_BEGIN_CAPTURE, stream_begin_capture)                                                                      \
    X(STREAM_END_CAPTURE, stream_end_capture)                                                                          \
    X(STREAM_IS_CAPTURING, stream_is_capturing)                                                                        \
    X(EVENT_CREATE, event_create)                                                                                      \
    X(EVENT_DESTROY, event_destroy)                                                                                    \
    X(EVENT_RECORD, event_record)                                                                                      \
    X(EVENT_SYNCHRONIZE, event_synchronize)                                                                            \
    X(EVENT_ELAPSED_TIME, event_elapsed_time)                                                                          \
    X(EVENT_QUERY, event_query)
#define HALO_SESSION_OPS_GRAPH(X)                                                                                      \
    X(GRAPH_INSTANTIATE, graph_instantiate)                                                                            \
    X(GRAPH_LAUNCH, graph_launch)                                                                                      \
    X(GRAPH_DESTROY, graph_destroy)                                                                                    \
    X(GRAPH_EXEC_DESTROY, graph_exec_destroy)                                                                          \
    X(GRAPH_EXEC_UPDATE, graph_exec_update)
#define HALO_SESSION_OPS_MODULE(X)                                                                                     \
    X(MODULE_LOAD_DATA, module_load_data)                                                                              \
    X(MODULE_UNLOAD, module_unload)                                                                                    \
    X(MODULE_GET_FUNCTION, module_get_function)                                                                        \
    X(MODULE_GET_GLOBAL, module_get_global)                                                                            \
    X(FUNC_GET_ATTRIBUTE, func_get_attribute)                                                                          \
    X(FUNC_SET_ATTRIBUTE, func_set_attribute)                                                                          \
    X(OCCUPANCY, occupancy)                                                                                            \
    X(LAUNCH_KERNEL, launch_kernel)                                                                                    \
    X(LAUNCH_COOPERATIVE, launch_cooperative)
#define HALO_SESSION_OPS_BLOB(X)                                                                                       \
    X(BLOB_OPEN, blob_open)                                                                                            \
    X(BLOB_WRITE, blob_write)                                                                                          \
    X(BLOB_CLOSE, blob_close)
#define HALO_SESSION_OPS(X)                                                                                            \
    HALO_SESSION_OPS_DEVICE(X)                                                                                         \
    HALO_SESSION_OPS_MEMORY(X)                                                                                         \
    HALO_SESSION_OPS_COPY(X)                                                                                           \
    HALO_SESSION_OPS_STREAM(X)                                                                                         \
    HALO_SESSION_OPS_GRAPH(X)                                                                                          \
    HALO_SESSION_OPS_MODULE(X)                                                                                         \
    HALO_SESSION_OPS_BLOB(X)
#define X(ID, name) halo_session_op_fn halo_session_##name;
HALO_SESSION_OPS(X)
#undef X

#endif
