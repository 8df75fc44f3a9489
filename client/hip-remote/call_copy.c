/* call_copy.c: copies of one run of bytes, in the order of their stream.
 *
 * To the device: the source is read before the call returns, so it may be changed at once. To the host: the bytes are
 * in place before a call reports that the stream or an event behind the copy is done; memory that HIP did not allocate
 * is waited for, as HIP does. Long copies are cut into frames, or go by their hash.
 */
#include <string.h>

#include "client_priv.h"
#include "copy_priv.h"

#define LONG_BYTES (256u << 10) /* of a copy that takes the link longer than a question about it */

int halo_copy_kind(const void *to, const void *from, int kind)
{
    bool is_to = halo_remote_ranges_find(&halo_client.device_memory, (uint64_t)(uintptr_t)to, 1);
    bool is_from = halo_remote_ranges_find(&halo_client.device_memory, (uint64_t)(uintptr_t)from, 1);
    if (kind == HIP_COPY_ON_DEVICE_NO_CU)
        return HIP_COPY_ON_DEVICE;
    if (kind != HIP_COPY_DEFAULT)
        return kind;
    return (is_to ? HIP_COPY_TO_DEVICE : 0) | (is_from ? HIP_COPY_TO_HOST : 0);
}

bool halo_copy_is_device(const void *at, size_t n)
{
    return halo_remote_ranges_find(&halo_client.device_memory, (uint64_t)(uintptr_t)at, n);
}

static int send_to_device(uint64_t to, const uint8_t *from, size_t n, uint64_t stream)
{
    int error = 0;
    for (size_t done = 0, step; done < n && !error; done += step) {
        step = n - done < HALO_REMOTE_DATA_MAX ? n - done : HALO_REMOTE_DATA_MAX;
        const struct halo_remote_memcpy_async q = {.to = to + done,
                                                   .size = step,
                                                   .kind = HIP_COPY_TO_DEVICE,
                                                   .stream = stream,
                                                   .data = {from + done, (uint32_t)step}};
        error = halo_client_send_data(HIP_OP_MEMCPY_ASYNC, &q, q.data);
    }
    return error;
}

int halo_copy_to_device(uint64_t to, const uint8_t *from, size_t n, uint64_t stream)
{
    int error = halo_client_settle(from, n);
    if (!error)
        error = halo_upload_is_for(to, n) ? halo_upload(to, from, n, stream) : send_to_device(to, from, n, stream);
    if (!error && n >= LONG_BYTES)
        halo_client.long_copy = (struct halo_long_copy){stream, halo_client.link.serial};
    return error;
}

bool halo_copy_is_long_before(uint64_t stream)
{
    return halo_client.long_copy.serial == halo_client.link.serial && halo_client.long_copy.stream == stream;
}

/* Pieces of a copy to the host that a call waits for. */
struct pieces {
    uint32_t n_left;
    int error;
};

/* The error comes with the next call that may report it. */
void halo_copy_take_unawaited(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    halo_client_defer(HIP_OP_MEMCPY_ASYNC, reply->status.error);
}

static void take_piece(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct pieces *pieces = ud;
    pieces->n_left--;
    if (!pieces->error)
        pieces->error = reply->status.error;
}

int halo_copy_to_host(uint8_t *to, uint64_t from, size_t n, uint64_t stream, bool waits)
{
    struct pieces pieces = {0};
    int r = 0;
    for (size_t done = 0, step; done < n && !r; done += step) {
        step = n - done < HALO_REMOTE_DATA_MAX ? n - done : HALO_REMOTE_DATA_MAX;
        const struct halo_remote_memcpy_async q = {
            .from = from + done, .size = step, .kind = HIP_COPY_TO_HOST, .stream = stream};
        struct halo_link_answer answer = {
            .take = halo_copy_take_unawaited, .tag = stream, .to = to + done, .n = (uint32_t)step};
        if (waits) {
            answer.take = take_piece;
            answer.ud = &pieces;
        }
        r = halo_link_ask(&halo_client.link, HIP_OP_MEMCPY_ASYNC, &q, (uint8_t)halo_client_thread_device, answer);
        pieces.n_left += !r;
    }
    while (waits && pieces.n_left > 0 && !halo_client.link.error)
        (void)halo_link_step(&halo_client.link);
    r = halo_client.link.error ? halo_client.link.error : r;
    if (r || !waits)
        return halo_client_error(r);
    const struct halo_remote_status status = {.error = pieces.error};
    int error = halo_client_status(0, &status);
    return error ? error : halo_client_deferred();
}

/* In the order of the stream, by the client itself. */
static int copy_on_host(void *to, const void *from, size_t n, uint64_t stream)
{
    int error = halo_client_synchronize(stream);
    if (!error)
        memmove(to, from, n);
    return error;
}

int halo_copy(void *to, const void *from, size_t n, int kind, void *stream, bool waits)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    if (!halo_client_stream(stream, &bits, &slot))
        return HIP_INVALID_HANDLE;
    if (n == 0)
        return 0;
    if (!to || !from || n > HALO_REMOTE_SIZE_MAX)
        return HIP_INVALID_VALUE;
    kind = halo_copy_kind(to, from, kind);
    if (kind < HIP_COPY_ON_HOST || kind > HIP_COPY_ON_DEVICE ||
        (kind & HIP_COPY_TO_DEVICE && !halo_copy_is_device(to, n)) ||
        (kind & HIP_COPY_TO_HOST && !halo_copy_is_device(from, n)))
        return HIP_INVALID_VALUE;
    if (slot && slot->u.stream.is_capturing && kind != HIP_COPY_ON_DEVICE)
        return HIP_CAPTURE_UNSUPPORTED;
    switch (kind) {
    case HIP_COPY_ON_HOST: return copy_on_host(to, from, n, bits);
    case HIP_COPY_TO_DEVICE: return halo_copy_to_device((uint64_t)(uintptr_t)to, from, n, bits);
    case HIP_COPY_TO_HOST:
        waits = waits || !halo_remote_ranges_find(&halo_client.host_memory, (uint64_t)(uintptr_t)to, n);
        return halo_copy_to_host(to, (uint64_t)(uintptr_t)from, n, bits, waits);
    default:
        return halo_client_send(HIP_OP_MEMCPY_ASYNC,
                                &(struct halo_remote_memcpy_async){.to = (uint64_t)(uintptr_t)to,
                                                                   .from = (uint64_t)(uintptr_t)from,
                                                                   .size = n,
                                                                   .kind = kind,
                                                                   .stream = bits});
    }
}

static int copy_call(void *to, const void *from, size_t n, int kind, void *stream, bool waits)
{
    int error = halo_client_enter();
    if (!error)
        error = halo_copy(to, from, n, kind, stream, waits);
    return halo_client_leave(error);
}

int hipMemcpy(void *to, const void *from, size_t n, int kind)
{
    return copy_call(to, from, n, kind, NULL, true);
}

int hipMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream)
{
    return copy_call(to, from, n, kind, stream, false);
}

int hipMemcpyWithStream(void *to, const void *from, size_t n, int kind, void *stream)
{
    int error = copy_call(to, from, n, kind, stream, true);
    return error ? error : hipStreamSynchronize(stream);
}

int hipMemcpyHtoD(void *to, void *from, size_t n)
{
    return copy_call(to, from, n, HIP_COPY_TO_DEVICE, NULL, true);
}

int hipMemcpyDtoH(void *to, void *from, size_t n)
{
    return copy_call(to, from, n, HIP_COPY_TO_HOST, NULL, true);
}

int hipMemcpyDtoD(void *to, void *from, size_t n)
{
    return copy_call(to, from, n, HIP_COPY_ON_DEVICE, NULL, true);
}

int hipMemcpyHtoDAsync(void *to, void *from, size_t n, void *stream)
{
    return copy_call(to, from, n, HIP_COPY_TO_DEVICE, stream, false);
}

int hipMemcpyDtoHAsync(void *to, void *from, size_t n, void *stream)
{
    return copy_call(to, from, n, HIP_COPY_TO_HOST, stream, false);
}

int hipMemcpyDtoDAsync(void *to, void *from, size_t n, void *stream)
{
    return copy_call(to, from, n, HIP_COPY_ON_DEVICE, stream, false);
}

/* ---- between devices ---- */

static int copy_peer(void *to, int to_device, const void *from, int from_device, size_t n, void *stream)
{
    struct halo_remote_memcpy_peer_async q = {.to = halo_client_bits(to),
                                              .to_device = to_device,
                                              .from = halo_client_bits(from),
                                              .from_device = from_device,
                                              .size = n};
    struct halo_remote_slot *slot;
    const int n_devices = halo_client_count_devices(), n_here = halo_client.n_devices;
    if (to_device < 0 || to_device >= n_devices || from_device < 0 || from_device >= n_devices)
        return HIP_INVALID_DEVICE;
    q.to_device -= halo_client.first_device;
    q.from_device -= halo_client.first_device;
    if (q.to_device < 0 || q.to_device >= n_here || q.from_device < 0 || q.from_device >= n_here)
        return HIP_NOT_SUPPORTED; /* from one worker to another */
    if (to_device == from_device)
        return halo_copy(to, from, n, HIP_COPY_ON_DEVICE, stream, false);
    if (!halo_client_stream(stream, &q.stream, &slot))
        return HIP_INVALID_HANDLE;
    if (n == 0)
        return 0;
    if (!halo_copy_is_device(to, n) || !halo_copy_is_device(from, n))
        return HIP_INVALID_VALUE;
    return halo_client_send(HIP_OP_MEMCPY_PEER_ASYNC, &q);
}

int hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t n, void *stream)
{
    int error = halo_client_enter();
    if (!error)
        error = copy_peer(to, to_device, from, from_device, n, stream);
    return halo_client_leave(error);
}

int hipMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t n)
{
    int error = halo_client_enter();
    if (!error)
        error = copy_peer(to, to_device, from, from_device, n, NULL);
    if (!error)
        error = halo_client_synchronize(0);
    return halo_client_leave(error);
}
