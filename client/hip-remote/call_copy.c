/* call_copy.c: copies and fills, in the order of their stream.
 *
 * To the device: the source is read before the call returns, so it may be changed at once. To the host: the bytes are
 * in place before a call reports that the stream or an event behind the copy is done; memory that HIP did not allocate
 * is waited for, as HIP does. Long copies are cut into frames.
 */
#include <string.h>

#include "client_priv.h"

static int resolve(const void *to, const void *from, int kind)
{
    bool is_to = halo_remote_ranges_find(&halo_client.device_memory, (uint64_t)(uintptr_t)to, 1);
    bool is_from = halo_remote_ranges_find(&halo_client.device_memory, (uint64_t)(uintptr_t)from, 1);
    if (kind == HIP_COPY_ON_DEVICE_NO_CU)
        return HIP_COPY_ON_DEVICE;
    if (kind != HIP_COPY_DEFAULT)
        return kind;
    return (is_to ? HIP_COPY_TO_DEVICE : 0) | (is_from ? HIP_COPY_TO_HOST : 0);
}

static bool holds(const void *at, size_t n)
{
    return halo_remote_ranges_find(&halo_client.device_memory, (uint64_t)(uintptr_t)at, n);
}

static int copy_to_device(uint64_t to, const uint8_t *from, size_t n, uint64_t stream)
{
    int error = halo_client_settle(from, n);
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

/* Pieces of a copy to the host that a call waits for. */
struct pieces {
    uint32_t n_left;
    int error;
};

static void take_piece(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct pieces *pieces = ud;
    if (!pieces) { /* nobody waits: the error comes with the next call that may report it */
        if (reply->status.error && !halo_client.link.deferred_error) {
            halo_client.link.deferred_error = reply->status.error;
            halo_client.link.deferred_op = HIP_OP_MEMCPY_ASYNC;
        }
        return;
    }
    pieces->n_left--;
    if (!pieces->error)
        pieces->error = reply->status.error;
}

static int copy_to_host(uint8_t *to, uint64_t from, size_t n, uint64_t stream, bool waits)
{
    struct pieces pieces = {0};
    int r = 0;
    for (size_t done = 0, step; done < n && !r; done += step) {
        step = n - done < HALO_REMOTE_DATA_MAX ? n - done : HALO_REMOTE_DATA_MAX;
        const struct halo_remote_memcpy_async q = {
            .from = from + done, .size = step, .kind = HIP_COPY_TO_HOST, .stream = stream};
        const struct halo_link_answer answer = {
            .take = take_piece, .ud = waits ? &pieces : NULL, .to = to + done, .n = (uint32_t)step};
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

static int copy(void *to, const void *from, size_t n, int kind, void *stream, bool waits)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    if (!halo_client_stream(stream, &bits, &slot))
        return HIP_INVALID_HANDLE;
    if (n == 0)
        return 0;
    if (!to || !from || n > HALO_REMOTE_SIZE_MAX)
        return HIP_INVALID_VALUE;
    kind = resolve(to, from, kind);
    if (kind < HIP_COPY_ON_HOST || kind > HIP_COPY_ON_DEVICE || (kind & HIP_COPY_TO_DEVICE && !holds(to, n)) ||
        (kind & HIP_COPY_TO_HOST && !holds(from, n)))
        return HIP_INVALID_VALUE;
    if (slot && slot->u.stream.is_capturing && kind != HIP_COPY_ON_DEVICE)
        return HIP_CAPTURE_UNSUPPORTED;
    switch (kind) {
    case HIP_COPY_ON_HOST: return copy_on_host(to, from, n, bits);
    case HIP_COPY_TO_DEVICE: return copy_to_device((uint64_t)(uintptr_t)to, from, n, bits);
    case HIP_COPY_TO_HOST:
        waits = waits || !halo_remote_ranges_find(&halo_client.host_memory, (uint64_t)(uintptr_t)to, n);
        return copy_to_host(to, (uint64_t)(uintptr_t)from, n, bits, waits);
    default:
        return halo_client_send(HIP_OP_MEMCPY_ASYNC,
                                &(struct halo_remote_memcpy_async){.to = (uint64_t)(uintptr_t)to,
                                                                   .from = (uint64_t)(uintptr_t)from,
                                                                   .size = n,
                                                                   .kind = kind,
                                                                   .stream = bits});
    }
}

int hipMemcpy(void *to, const void *from, size_t n, int kind)
{
    int error = halo_client_enter();
    if (!error)
        error = copy(to, from, n, kind, NULL, true);
    return halo_client_leave(error);
}

int hipMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream)
{
    int error = halo_client_enter();
    if (!error)
        error = copy(to, from, n, kind, stream, false);
    return halo_client_leave(error);
}

/* ---- fills ---- */

static int fill(void *p, int byte, size_t n, void *stream)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    if (!halo_client_stream(stream, &bits, &slot))
        return HIP_INVALID_HANDLE;
    if (n == 0)
        return 0;
    if (!p || !holds(p, n))
        return HIP_INVALID_VALUE;
    const struct halo_remote_memset_async q = {
        .to = (uint64_t)(uintptr_t)p, .value = (uint8_t)byte, .width = 1, .count = n, .stream = bits};
    return halo_client_send(HIP_OP_MEMSET_ASYNC, &q);
}

int hipMemset(void *p, int byte, size_t n)
{
    int error = halo_client_enter();
    if (!error)
        error = fill(p, byte, n, NULL);
    return halo_client_leave(error);
}

int hipMemsetAsync(void *p, int byte, size_t n, void *stream)
{
    int error = halo_client_enter();
    if (!error)
        error = fill(p, byte, n, stream);
    return halo_client_leave(error);
}
