/* bench.c: the client's end of a session in this process. */
#include "bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint8_t *reserve(void *ud, size_t n)
{
    struct bench *b = ud;
    if (b->n_inbox + n > b->cap_inbox) {
        b->cap_inbox = 2 * (b->n_inbox + n);
        b->inbox = realloc(b->inbox, b->cap_inbox);
        assert_non_null(b->inbox);
    }
    return b->inbox + b->n_inbox;
}

static void commit(void *ud, size_t n)
{
    struct bench *b = ud;
    b->n_inbox += n;
}

static int idle(void *ud)
{
    return 0;
}

uint32_t bench_send(struct bench *b, enum halo_remote_op op, const void *request)
{
    static uint8_t frame[HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_PAYLOAD_MAX];
    const struct halo_remote_op_info *info = halo_remote_op_find((uint16_t)op);
    struct halo_remote_header h = {.op = (uint16_t)op, .id = ++b->next_id, .device = HALO_REMOTE_DEVICE_CURRENT};
    if (b->no_reply && info->answer == HALO_REMOTE_ANSWER_DEFERRED)
        h.flags = HALO_REMOTE_FLAG_NO_REPLY;
    int n = halo_remote_request_encode(frame, sizeof(frame), &h, request, true);
    assert_true(n > 0);
    uint8_t *payload = malloc((size_t)n); /* alone in its block, and gone when the request was taken */
    assert_non_null(payload);
    memcpy(payload, frame + HALO_REMOTE_HEADER_BYTES, h.payload_bytes);
    b->error = halo_session_request(b->session, &h, payload, &b->fault);
    free(payload);
    return h.id;
}

void bench_receive(struct bench *b, uint32_t id, enum halo_remote_op op, void *ret_reply)
{
    union halo_remote_reply a;
    for (size_t at = 0;;) {
        struct halo_remote_header h;
        while (at == b->n_inbox)
            assert_int_equal(halo_session_poll(b->session, &b->fault), 0);
        assert_int_equal(halo_remote_header_decode(b->inbox + at, &h), 0);
        at += HALO_REMOTE_HEADER_BYTES + h.payload_bytes;
        assert_true(at <= b->n_inbox);
        if (h.id != id)
            continue;
        assert_int_equal(h.op, op);
        int r = halo_remote_reply_decode(&h, b->inbox + at - h.payload_bytes, ret_reply ? ret_reply : &a, NULL);
        assert_int_equal(r, 0);
        b->status = *(struct halo_remote_status *)(ret_reply ? ret_reply : (void *)&a);
        return;
    }
}

static int call(struct halo_remote_port *port, enum halo_remote_op op, const void *request, void *ret_reply)
{
    struct bench *b = (struct bench *)port;
    b->n_inbox = 0;
    uint32_t id = bench_send(b, op, request);
    assert_int_equal(b->error, 0);
    if (b->no_reply && halo_remote_op_find((uint16_t)op)->answer == HALO_REMOTE_ANSWER_DEFERRED) {
        b->status = (struct halo_remote_status){0};
        return 0;
    }
    bench_receive(b, id, op, ret_reply);
    return b->status.error;
}

uint64_t bench_open_with_blobs(struct bench *b, const struct halo_session_limits *limits, struct halo_blob_store *blobs,
                               uint64_t features)
{
    static const struct halo_session_limits standard = HALO_SESSION_LIMITS_DEFAULT;
    struct halo_remote_init_reply a;
    *b = (struct bench){.port.call = call};
    const struct halo_session_ops ops = {reserve, commit, idle, b};
    int r = halo_session_create(&b->session, getenv("HALO_HIP_LIB"), limits ? limits : &standard, &ops, &b->fault);
    if (r < 0)
        fail_msg("%s", b->fault.text);
    if (blobs)
        halo_session_keep_blobs(b->session, blobs);
    const struct halo_remote_init q = {.hip_major = 7, .features = features};
    assert_int_equal(halo_remote_init(&b->port, &q, &a), 0);
    assert_int_equal(a.n_devices, 1);
    return a.features;
}

void bench_open(struct bench *b, const struct halo_session_limits *limits)
{
    (void)bench_open_with_blobs(b, limits, NULL, 0);
}

void bench_close(struct bench *b)
{
    halo_session_destroy(b->session);
    free(b->inbox);
}

void *bench_read_object(size_t *ret_n)
{
    FILE *in = fopen(getenv("HALO_VECTOR_HOST"), "rb");
    void *bytes = malloc(HALO_REMOTE_DATA_MAX);
    assert_non_null(in);
    assert_non_null(bytes);
    *ret_n = fread(bytes, 1, HALO_REMOTE_DATA_MAX, in);
    fclose(in);
    return bytes;
}
