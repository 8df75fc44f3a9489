/* bench.h: a session on the emulated GPU inside the test's process, driven by the client's stubs.
 *
 * $HALO_HIP_LIB names the emulated runtime. One thread.
 */
#ifndef HALO_TESTS_WORKER_BENCH_H
#define HALO_TESTS_WORKER_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip_remote/stub.h>
#include <worker/session.h>

struct bench {
    struct halo_remote_port port; /* a call waits for its answer */
    struct halo_session *session;
    bool no_reply; /* deferred operations ask for no answer */
    int error;     /* of the last request: what halo_session_request() returned */
    struct halo_fault fault;
    /* Answers that came, behind each other. */
    uint8_t *inbox;
    size_t n_inbox, cap_inbox;
    uint32_t next_id;
    struct halo_remote_status status; /* of the last answer */
};

/* Opens a session and sends INIT. */
void bench_open(struct bench *b, const struct halo_session_limits *limits);
/* The same with a store, the features that the client asks for, and those that it gets. */
uint64_t bench_open_with_blobs(struct bench *b, const struct halo_session_limits *limits, struct halo_blob_store *blobs,
                               uint64_t features);
void bench_close(struct bench *b);

/* Sends a request and does not wait; its id. */
uint32_t bench_send(struct bench *b, enum halo_remote_op op, const void *request);
/* Waits for the answer to this request; earlier ones are dropped. Data points into the inbox. */
void bench_receive(struct bench *b, uint32_t id, enum halo_remote_op op, void *ret_reply);

static inline uint64_t bench_handle(enum halo_remote_handle_type type, uint32_t index, uint32_t generation)
{
    return halo_remote_handle_pack((struct halo_remote_handle){type, index, generation});
}

/* The bytes of tests/unit/worker/vector_host.c as a code object; freed by the caller. */
void *bench_read_object(size_t *ret_n);

#endif
