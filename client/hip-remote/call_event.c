/* call_event.c: events.
 *
 * A program asks again and again whether an event is reached. The first question goes to the worker, which answers when
 * it is; the others are answered here: one message for each record that is asked about. A record right behind a copy to
 * the host needs none: it is reached when the copy is answered.
 */
#include "client_priv.h"
#include "copy_priv.h"

#define EVENT_FLAGS 0xe0000003u /* all but those for other processes */
#define EVENT_NO_TIMING 2u

static struct halo_remote_slot *event_of(const void *event)
{
    return halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_EVENT], halo_client_bits(event));
}

static int create(void **ret, unsigned int flags)
{
    struct halo_remote_handles *events = &halo_client.handles[HALO_REMOTE_EVENT];
    uint64_t bits;
    if (!ret || flags & ~EVENT_FLAGS)
        return HIP_INVALID_VALUE;
    struct halo_remote_slot *slot = halo_remote_handles_take(events, &bits);
    if (!slot)
        return HIP_OUT_OF_MEMORY;
    struct halo_remote_event_create_reply a;
    int r = halo_remote_event_create(&halo_client.port, &(struct halo_remote_event_create){bits, flags}, &a);
    int error = halo_client_status(r, &a.status);
    slot->u.event.has_no_time = flags & EVENT_NO_TIMING;
    if (error)
        halo_remote_handles_drop(events, slot);
    else
        *ret = halo_client_pointer(bits);
    return error;
}

int hipEventCreateWithFlags(void **ret, unsigned int flags)
{
    int error = halo_client_enter();
    if (!error)
        error = create(ret, flags);
    return halo_client_leave(error);
}

int hipEventCreate(void **ret)
{
    int error = halo_client_enter();
    if (!error)
        error = create(ret, 0);
    return halo_client_leave(error);
}

int hipEventDestroy(void *event)
{
    int error = halo_client_enter();
    struct halo_remote_slot *slot = error ? NULL : event_of(event);
    if (!error && !slot)
        error = HIP_INVALID_HANDLE;
    if (!error) {
        error = halo_client_send(HIP_OP_EVENT_DESTROY, &(struct halo_remote_event_destroy){halo_client_bits(event)});
        halo_remote_handles_drop(&halo_client.handles[HALO_REMOTE_EVENT], slot);
    }
    return halo_client_leave(error);
}

/* `tag`: the handle's index and the record that the question was about. The event may be gone. */
static void mark_reached(struct halo_remote_slot *slot, uint64_t tag, int error)
{
    uint32_t generation = (uint32_t)(tag >> 32), record = (uint32_t)tag;
    if (!slot->is_live || slot->generation != generation || slot->u.event.recorded != record)
        return;
    slot->u.event.reached = record;
    slot->u.event.error = error;
}

static uint64_t tag_of(const struct halo_remote_slot *slot)
{
    return (uint64_t)slot->generation << 32 | slot->u.event.recorded;
}

/* An error of the copy is told by the call that finds the event reached. */
static void take_copied(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    halo_copy_take_unawaited(NULL, 0, reply);
    mark_reached(ud, tag, 0);
}

/* The answer to a copy on this stream, the request sent last, becomes that of the event recorded next. Not for an event
 * whose time may be asked: the worker knows it only a moment later. NULL: there is none. */
static struct halo_link_pending *copy_before(const struct halo_remote_slot *slot, uint64_t stream)
{
    struct halo_link_pending *last = halo_client.link.last;
    bool is_copy = last && last->answer.take == halo_copy_take_unawaited && last->answer.tag == stream;
    return is_copy && slot->u.event.has_no_time ? last : NULL;
}

static void take_reached(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    mark_reached(ud, tag, reply->status.error);
}

/* Asks the worker, unless it was asked about this record. */
static int ask(struct halo_remote_slot *slot, uint64_t bits)
{
    uint32_t record = slot->u.event.recorded;
    if (slot->u.event.asked == record)
        return 0;
    const struct halo_link_answer answer = {.take = take_reached, .ud = slot, .tag = tag_of(slot)};
    int r = halo_link_ask(&halo_client.link, HIP_OP_EVENT_SYNCHRONIZE, &(struct halo_remote_event_synchronize){bits},
                          (uint8_t)halo_client_thread_device, answer);
    if (!r)
        slot->u.event.asked = record;
    return r;
}

int hipEventRecord(void *event, void *stream)
{
    uint64_t bits;
    struct halo_remote_slot *slot, *of_stream;
    int error = halo_client_enter();
    slot = error ? NULL : event_of(event);
    if (!error && (!slot || !halo_client_stream(stream, &bits, &of_stream)))
        error = HIP_INVALID_HANDLE;
    struct halo_link_pending *copy = error ? NULL : copy_before(slot, bits);
    uint32_t copy_id = copy ? copy->id : 0;
    bool is_behind_upload = !error && halo_copy_is_long_before(bits);
    if (!error) {
        error =
            halo_client_send(HIP_OP_EVENT_RECORD, &(struct halo_remote_event_record){halo_client_bits(event), bits});
        slot->u.event.recorded++;
    }
    if (copy && !error && copy->id == copy_id) { /* else its answer has come meanwhile */
        copy->answer.take = take_copied;
        copy->answer.ud = slot;
        copy->answer.tag = tag_of(slot);
        slot->u.event.asked = slot->u.event.recorded;
    }
    if (is_behind_upload && !error)
        error = halo_client_error(ask(slot, halo_client_bits(event)));
    return halo_client_leave(error);
}

/* The flags are about graphs that wait for events from outside. */
int hipEventRecordWithFlags(void *event, void *stream, unsigned int flags)
{
    return hipEventRecord(flags ? NULL : event, stream);
}

/* ---- reached? ---- */

static bool is_reached(const struct halo_remote_slot *slot)
{
    return slot->u.event.reached == slot->u.event.recorded;
}

static int error_of(const struct halo_remote_slot *slot)
{
    const struct halo_remote_status status = {.error = slot->u.event.error};
    int error = halo_client_status(0, &status);
    return error ? error : halo_client_deferred();
}

int hipEventQuery(void *event)
{
    int r = 0, error = halo_client_enter();
    struct halo_remote_slot *slot = error ? NULL : event_of(event);
    if (!error && !slot)
        error = HIP_INVALID_HANDLE;
    if (!error && !is_reached(slot)) {
        r = ask(slot, halo_client_bits(event));
        if (!r)
            r = halo_link_poll(&halo_client.link);
    }
    if (!error)
        error = r ? halo_client_error(r) : is_reached(slot) ? error_of(slot) : HIP_NOT_READY;
    return halo_client_leave(error);
}

int hipEventSynchronize(void *event)
{
    int r = 0, error = halo_client_enter();
    struct halo_remote_slot *slot = error ? NULL : event_of(event);
    if (!error && !slot)
        error = HIP_INVALID_HANDLE;
    /* Another thread may record it anew meanwhile, or destroy it. */
    uint32_t record = error ? 0 : slot->u.event.recorded, generation = error ? 0 : slot->generation;
    if (!error && !is_reached(slot))
        r = ask(slot, halo_client_bits(event));
    while (!error && !r && slot->is_live && slot->generation == generation && slot->u.event.recorded == record &&
           !is_reached(slot))
        r = halo_link_step(&halo_client.link);
    if (!error)
        error = r ? halo_client_error(r) : error_of(slot);
    return halo_client_leave(error);
}

int hipEventElapsedTime(float *ret_ms, void *start, void *end)
{
    struct halo_remote_event_elapsed_time_reply a;
    int error = halo_client_enter();
    if (!error && !ret_ms)
        error = HIP_INVALID_VALUE;
    if (!error && (!event_of(start) || !event_of(end)))
        error = HIP_INVALID_HANDLE;
    if (!error) {
        const struct halo_remote_event_elapsed_time q = {halo_client_bits(start), halo_client_bits(end)};
        int r = halo_remote_event_elapsed_time(&halo_client.port, &q, &a);
        error = halo_client_status(r, &a.status);
        *ret_ms = error ? 0 : a.elapsed_ms;
    }
    return halo_client_leave(error);
}
