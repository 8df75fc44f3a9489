/* call_stream.c: streams and captures. */
#include "client_priv.h"

#define PRIORITY_MOST 100

static int create(void **ret, unsigned int flags, int priority)
{
    uint64_t bits;
    if (!ret || flags > 1)
        return HIP_INVALID_VALUE;
    struct halo_remote_slot *slot = halo_remote_handles_take(&halo_client.handles[HALO_REMOTE_STREAM], &bits);
    if (!slot)
        return HIP_OUT_OF_MEMORY;
    struct halo_remote_stream_create_reply a;
    int r =
        halo_remote_stream_create(&halo_client.port, &(struct halo_remote_stream_create){bits, flags, priority}, &a);
    int error = halo_client_status(r, &a.status);
    if (error) {
        halo_remote_handles_drop(&halo_client.handles[HALO_REMOTE_STREAM], slot);
        return error;
    }
    slot->u.stream.flags = flags;
    slot->u.stream.priority = priority;
    slot->u.stream.device = halo_client_device_number();
    *ret = halo_client_pointer(bits);
    return 0;
}

int hipStreamCreateWithFlags(void **ret, unsigned int flags)
{
    int error = halo_client_enter();
    if (!error)
        error = create(ret, flags, 0);
    return halo_client_leave(error);
}

int hipStreamCreate(void **ret)
{
    int error = halo_client_enter();
    if (!error)
        error = create(ret, 0, 0);
    return halo_client_leave(error);
}

/* A priority out of the device's range is brought into it by HIP. */
int hipStreamCreateWithPriority(void **ret, unsigned int flags, int priority)
{
    priority = priority < -PRIORITY_MOST ? -PRIORITY_MOST : priority > PRIORITY_MOST ? PRIORITY_MOST : priority;
    int error = halo_client_enter();
    if (!error)
        error = create(ret, flags, priority);
    return halo_client_leave(error);
}

/* Enters a call that asks what the client knows of a stream; the null stream, which has no slot, has the default of
 * each. */
static int enter_query(void *stream, const void *ret, struct halo_remote_slot **ret_slot)
{
    uint64_t bits;
    int error = halo_client_enter();
    if (error || !ret)
        return error ? error : HIP_INVALID_VALUE;
    return halo_client_stream(stream, &bits, ret_slot) ? 0 : HIP_INVALID_HANDLE;
}

int hipStreamGetFlags(void *stream, unsigned int *ret)
{
    struct halo_remote_slot *slot;
    int error = enter_query(stream, ret, &slot);
    if (!error)
        *ret = slot ? slot->u.stream.flags : 0;
    return halo_client_leave(error);
}

int hipStreamGetPriority(void *stream, int *ret)
{
    struct halo_remote_slot *slot;
    int error = enter_query(stream, ret, &slot);
    if (!error)
        *ret = slot ? slot->u.stream.priority : 0;
    return halo_client_leave(error);
}

int hipStreamGetDevice(void *stream, int *ret)
{
    struct halo_remote_slot *slot;
    int error = enter_query(stream, ret, &slot);
    if (!error)
        *ret = slot ? slot->u.stream.device : halo_client_device_number();
    return halo_client_leave(error);
}

int hipGetStreamDeviceId(void *stream)
{
    int device;
    return hipStreamGetDevice(stream, &device) == 0 ? device : -1;
}

int hipStreamDestroy(void *stream)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    int error = halo_client_enter();
    if (!error && (!halo_client_stream(stream, &bits, &slot) || !slot))
        error = HIP_INVALID_HANDLE;
    if (!error) {
        error = halo_client_send(HIP_OP_STREAM_DESTROY, &(struct halo_remote_stream_destroy){bits});
        halo_remote_handles_drop(&halo_client.handles[HALO_REMOTE_STREAM], slot);
    }
    return halo_client_leave(error);
}

int hipStreamSynchronize(void *stream)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    int error = halo_client_enter();
    if (!error && !halo_client_stream(stream, &bits, &slot))
        error = HIP_INVALID_HANDLE;
    if (!error)
        error = halo_client_synchronize(bits);
    return halo_client_leave(error);
}

int hipStreamQuery(void *stream)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    struct halo_remote_stream_query_reply a;
    int error = halo_client_enter();
    if (!error && !halo_client_stream(stream, &bits, &slot))
        error = HIP_INVALID_HANDLE;
    if (!error) {
        int r = halo_remote_stream_query(&halo_client.port, &(struct halo_remote_stream_query){bits}, &a);
        error = halo_client_status(r, &a.status);
    }
    if (!error)
        error = halo_client_deferred();
    return halo_client_leave(error);
}

int hipStreamWaitEvent(void *stream, void *event, unsigned int flags)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    int error = halo_client_enter();
    if (!error && flags)
        error = HIP_INVALID_VALUE;
    if (!error && (!halo_client_stream(stream, &bits, &slot) ||
                   !halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_EVENT], halo_client_bits(event))))
        error = HIP_INVALID_HANDLE;
    if (!error)
        error = halo_client_send(HIP_OP_STREAM_WAIT_EVENT,
                                 &(struct halo_remote_stream_wait_event){bits, halo_client_bits(event)});
    return halo_client_leave(error);
}

/* ---- captures ---- */

/* How strict a capture is with the thread's other calls. The worker sees no call that would disturb one. */
int hipThreadExchangeStreamCaptureMode(int *mode)
{
    static _Thread_local int thread_mode;
    int error = halo_client_enter();
    if (!error && (!mode || *mode < 0 || *mode > 2))
        error = HIP_INVALID_VALUE;
    if (!error) {
        int before = thread_mode;
        thread_mode = *mode;
        *mode = before;
    }
    return halo_client_leave(error);
}

/* The stream that a capture is about. The null stream cannot be captured. */
static int stream_of(void *stream, uint64_t *ret_bits, struct halo_remote_slot **ret_slot)
{
    return !halo_client_stream(stream, ret_bits, ret_slot) ? HIP_INVALID_HANDLE
           : !*ret_slot                                    ? HIP_CAPTURE_UNSUPPORTED
                                                           : 0;
}

int hipStreamBeginCapture(void *stream, int mode)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    int error = halo_client_enter();
    if (!error && (mode < 0 || mode > 2))
        error = HIP_INVALID_VALUE;
    if (!error)
        error = stream_of(stream, &bits, &slot);
    if (!error && slot->u.stream.is_capturing)
        error = HIP_ILLEGAL_STATE;
    if (!error)
        error = halo_client_send(HIP_OP_STREAM_BEGIN_CAPTURE, &(struct halo_remote_stream_begin_capture){bits, mode});
    if (!error)
        slot->u.stream.is_capturing = true;
    return halo_client_leave(error);
}

static int end_capture(uint64_t stream, void **ret_graph)
{
    struct halo_remote_handles *graphs = &halo_client.handles[HALO_REMOTE_GRAPH];
    struct halo_remote_stream_end_capture_reply a;
    uint64_t bits = 0;
    struct halo_remote_slot *slot = halo_remote_handles_take(graphs, &bits);
    if (!slot)
        return HIP_OUT_OF_MEMORY;
    int r =
        halo_remote_stream_end_capture(&halo_client.port, &(struct halo_remote_stream_end_capture){stream, bits}, &a);
    int error = halo_client_status(r, &a.status);
    if (error)
        halo_remote_handles_drop(graphs, slot);
    else
        *ret_graph = halo_client_pointer(bits);
    if (error)
        return error;
    /* A launch that failed is missing from the graph. */
    error = halo_client_deferred();
    if (error) {
        (void)halo_client_send(HIP_OP_GRAPH_DESTROY, &(struct halo_remote_graph_destroy){bits});
        halo_remote_handles_drop(graphs, slot);
        *ret_graph = NULL;
    }
    return error;
}

int hipStreamEndCapture(void *stream, void **ret_graph)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    int error = halo_client_enter();
    if (!error)
        error = ret_graph ? stream_of(stream, &bits, &slot) : HIP_INVALID_VALUE;
    if (!error && !slot->u.stream.is_capturing)
        error = HIP_ILLEGAL_STATE;
    if (!error) {
        slot->u.stream.is_capturing = false;
        error = end_capture(bits, ret_graph);
    }
    return halo_client_leave(error);
}

int hipStreamIsCapturing(void *stream, int *ret_status)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    int error = halo_client_enter();
    if (!error && !ret_status)
        error = HIP_INVALID_VALUE;
    if (!error && !halo_client_stream(stream, &bits, &slot))
        error = HIP_INVALID_HANDLE;
    if (!error)
        *ret_status = slot && slot->u.stream.is_capturing;
    return halo_client_leave(error);
}
