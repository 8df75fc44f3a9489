/* op_copy.c: copies. Bytes from and to the client go through the staging buffer, in the order of the stream.
 *
 * There is no copy from host to host, and no address of the host's side: what a client can name is device memory of its
 * own session, range by range. One thread.
 */
#include <string.h>

#include "session_priv.h"

static void *address(uint64_t at)
{
    return (void *)(uintptr_t)at;
}

int halo_session_copy(struct halo_session *s, const struct halo_session_call *c, const struct halo_session_copy *copy)
{
    bool owes = !(c->h->flags & HALO_REMOTE_FLAG_NO_REPLY) && copy->waits;
    uint32_t at = 0;
    if ((copy->kind & HIP_COPY_TO_DEVICE && !halo_ranges_hold(&s->memory, copy->to, copy->size)) ||
        (copy->kind & HIP_COPY_TO_HOST && !halo_ranges_hold(&s->memory, copy->from, copy->size)))
        return HALO_WORKER_INVALID_VALUE;
    if (copy->kind == HIP_COPY_ON_DEVICE) {
        int error = s->rt.api.MemcpyAsync(address(copy->to), address(copy->from), copy->size, copy->kind, copy->stream);
        return error || !copy->waits ? error : halo_session_wait(s, c, copy->stream, 0, 0, true);
    }
    int error = halo_session_stage(s, (uint32_t)copy->size, &at);
    if (error)
        return error;
    uint8_t *staged = s->waits.staging + at;
    if (copy->kind == HIP_COPY_TO_DEVICE) {
        memcpy(staged, copy->data, copy->size);
        error = s->rt.api.MemcpyAsync(address(copy->to), staged, copy->size, copy->kind, copy->stream);
    } else {
        error = s->rt.api.MemcpyAsync(staged, address(copy->from), copy->size, copy->kind, copy->stream);
        owes = true;
    }
    if (error) {
        halo_waits_unstage(&s->waits);
        return error;
    }
    return halo_session_wait(s, c, copy->stream, at, copy->kind == HIP_COPY_TO_HOST ? (uint32_t)copy->size : 0, owes);
}

int halo_session_memcpy(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_memcpy *q = &c->q->memcpy;
    return halo_session_copy(s, c,
                             &(struct halo_session_copy){q->to, q->from, q->size, q->kind, q->data.at, NULL, true});
}

int halo_session_copy_stream(const struct halo_session *s, uint64_t bits, int32_t kind, void **ret)
{
    struct halo_session_stream *stream;
    if (!halo_session_stream(s, bits, ret, &stream))
        return HALO_WORKER_INVALID_HANDLE;
    return kind != HIP_COPY_ON_DEVICE && halo_session_is_capturing(s, stream) ? HALO_WORKER_CAPTURE_UNSUPPORTED : 0;
}

int halo_session_memcpy_async(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_memcpy_async *q = &c->q->memcpy_async;
    void *stream;
    int error = halo_session_copy_stream(s, q->stream, q->kind, &stream);
    return error ? error
                 : halo_session_copy(
                       s, c, &(struct halo_session_copy){q->to, q->from, q->size, q->kind, q->data.at, stream, false});
}

/* Rows from or to the client are copied one by one out of the piece that holds them all. */
static int copy_rows(struct halo_session *s, const struct halo_session_call *c,
                     const struct halo_remote_memcpy_2d_async *q, void *stream)
{
    uint32_t at, bytes = (uint32_t)(q->width * q->height);
    int error = halo_session_stage(s, bytes, &at);
    bool down = q->kind == HIP_COPY_TO_HOST;
    if (error)
        return error;
    if (!down)
        memcpy(s->waits.staging + at, q->data.at, bytes);
    for (uint64_t i = 0; i < q->height && !error; i++) {
        uint8_t *row = s->waits.staging + at + i * q->width;
        error = down ? s->rt.api.MemcpyAsync(row, address(q->from + i * q->from_pitch), q->width, q->kind, stream)
                     : s->rt.api.MemcpyAsync(address(q->to + i * q->to_pitch), row, q->width, q->kind, stream);
    }
    int waiting = halo_session_wait(s, c, stream, at, down ? bytes : 0, down && !error);
    return error ? error : waiting;
}

int halo_session_memcpy_2d_async(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_memcpy_2d_async *q = &c->q->memcpy_2d_async;
    void *stream;
    int error = halo_session_copy_stream(s, q->stream, q->kind, &stream);
    if (error)
        return error;
    if ((q->kind & HIP_COPY_TO_DEVICE &&
         !halo_ranges_hold(&s->memory, q->to, q->to_pitch * (q->height - 1) + q->width)) ||
        (q->kind & HIP_COPY_TO_HOST &&
         !halo_ranges_hold(&s->memory, q->from, q->from_pitch * (q->height - 1) + q->width)))
        return HALO_WORKER_INVALID_VALUE;
    if (q->kind != HIP_COPY_ON_DEVICE)
        return copy_rows(s, c, q, stream);
    return s->rt.Memcpy2DAsync ? s->rt.Memcpy2DAsync(address(q->to), q->to_pitch, address(q->from), q->from_pitch,
                                                     q->width, q->height, q->kind, stream)
                               : HALO_WORKER_NOT_SUPPORTED;
}

int halo_session_memcpy_peer_async(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_memcpy_peer_async *q = &c->q->memcpy_peer_async;
    void *stream;
    if (!s->rt.MemcpyPeerAsync)
        return HALO_WORKER_NOT_SUPPORTED;
    if (!halo_session_stream(s, q->stream, &stream, NULL))
        return HALO_WORKER_INVALID_HANDLE;
    if (q->to_device >= s->rt.n_devices || q->from_device >= s->rt.n_devices)
        return HALO_WORKER_INVALID_DEVICE;
    if (!halo_ranges_hold(&s->memory, q->to, q->size) || !halo_ranges_hold(&s->memory, q->from, q->size))
        return HALO_WORKER_INVALID_VALUE;
    return s->rt.MemcpyPeerAsync(address(q->to), q->to_device, address(q->from), q->from_device, q->size, stream);
}
