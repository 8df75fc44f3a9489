/* op_stream.c: streams, captures, events. One thread. */
#include <stdlib.h>

#include "session_priv.h"

#define CAPTURE_RELAXED 2       /* the worker's own queries of events must not end a capture */
#define EVENT_FLAGS 0xe0000003u /* all but those for other processes */

/* ---- streams ---- */

int halo_session_stream_create(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_stream_create *q = &c->q->stream_create;
    struct halo_handles *streams = &s->handles[HALO_REMOTE_STREAM];
    int error = halo_handles_check_new(streams, q->stream);
    if (error)
        return error;
    struct halo_session_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return HALO_WORKER_NO_MEMORY;
    stream->device = c->device;
    error = q->priority && s->rt.StreamCreateWithPriority
                ? s->rt.StreamCreateWithPriority(&stream->hip, q->flags, q->priority)
                : s->rt.api.StreamCreateWithFlags(&stream->hip, q->flags);
    if (error) {
        free(stream);
        return error;
    }
    halo_handles_put(streams, q->stream, stream);
    return 0;
}

int halo_session_stream_destroy(struct halo_session *s, const struct halo_session_call *c)
{
    struct halo_handles *streams = &s->handles[HALO_REMOTE_STREAM];
    if (!halo_handles_get(streams, c->q->stream_destroy.stream))
        return HALO_WORKER_INVALID_HANDLE;
    if (halo_session_drain(s) < 0)
        return HALO_WORKER_UNKNOWN;
    struct halo_session_stream *stream = halo_handles_take(streams, c->q->stream_destroy.stream);
    s->n_capturing -= stream->is_capturing;
    int error = s->rt.api.StreamDestroy(stream->hip);
    free(stream);
    return error;
}

static int idle_stream(const struct halo_session *s, uint64_t bits, void **ret_hip)
{
    struct halo_session_stream *stream;
    if (!halo_session_stream(s, bits, ret_hip, &stream))
        return HALO_WORKER_INVALID_HANDLE;
    return halo_session_is_capturing(s, stream) ? HALO_WORKER_CAPTURE_UNSUPPORTED : 0;
}

int halo_session_stream_synchronize(struct halo_session *s, const struct halo_session_call *c)
{
    void *hip;
    int error = idle_stream(s, c->q->stream_synchronize.stream, &hip);
    return error ? error : halo_session_wait(s, c, hip, 0, 0, true);
}

/* What has ended on the GPU is answered first: a client that hears "ready" may read what it asked for. */
static int after_waits(struct halo_session *s, int error)
{
    int r = error == HALO_WORKER_NOT_READY ? 0 : halo_session_poll_waits(s, NULL);
    if (r < 0)
        s->fatal = r;
    return error;
}

int halo_session_stream_query(struct halo_session *s, const struct halo_session_call *c)
{
    void *hip;
    int error = idle_stream(s, c->q->stream_query.stream, &hip);
    if (error)
        return error;
    return s->rt.StreamQuery ? after_waits(s, s->rt.StreamQuery(hip)) : HALO_WORKER_NOT_SUPPORTED;
}

int halo_session_stream_wait_event(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_stream_wait_event *q = &c->q->stream_wait_event;
    const struct halo_session_event *event = halo_handles_get(&s->handles[HALO_REMOTE_EVENT], q->event);
    void *hip;
    if (!event || !halo_session_stream(s, q->stream, &hip, NULL))
        return HALO_WORKER_INVALID_HANDLE;
    return s->rt.StreamWaitEvent ? s->rt.StreamWaitEvent(hip, event->hip, 0) : HALO_WORKER_NOT_SUPPORTED;
}

/* ---- captures ---- */

int halo_session_stream_begin_capture(struct halo_session *s, const struct halo_session_call *c)
{
    struct halo_session_stream *stream =
        halo_handles_get(&s->handles[HALO_REMOTE_STREAM], c->q->stream_begin_capture.stream);
    if (!stream)
        return HALO_WORKER_INVALID_HANDLE;
    if (stream->is_capturing)
        return HALO_WORKER_ILLEGAL_STATE;
    int error = s->rt.api.StreamBeginCapture(stream->hip, CAPTURE_RELAXED);
    if (!error) {
        stream->is_capturing = true;
        s->n_capturing++;
    }
    return error;
}

int halo_session_stream_end_capture(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_stream_end_capture *q = &c->q->stream_end_capture;
    struct halo_session_stream *stream = halo_handles_get(&s->handles[HALO_REMOTE_STREAM], q->stream);
    void *graph = NULL;
    if (!stream)
        return HALO_WORKER_INVALID_HANDLE;
    if (!stream->is_capturing)
        return HALO_WORKER_ILLEGAL_STATE;
    int refused = halo_handles_check_new(&s->handles[HALO_REMOTE_GRAPH], q->graph);
    int error = s->rt.api.StreamEndCapture(stream->hip, &graph);
    stream->is_capturing = false;
    s->n_capturing--;
    if (!error && !graph)
        error = HALO_WORKER_UNKNOWN;
    if (!error && !refused)
        halo_handles_put(&s->handles[HALO_REMOTE_GRAPH], q->graph, graph);
    else if (graph)
        s->rt.api.GraphDestroy(graph);
    return error ? error : refused;
}

int halo_session_stream_is_capturing(struct halo_session *s, const struct halo_session_call *c)
{
    struct halo_session_stream *stream;
    void *hip;
    if (!halo_session_stream(s, c->q->stream_is_capturing.stream, &hip, &stream))
        return HALO_WORKER_INVALID_HANDLE;
    c->a->stream_is_capturing.capture_status = stream && stream->is_capturing;
    return stream && s->rt.StreamIsCapturing ? s->rt.StreamIsCapturing(hip, &c->a->stream_is_capturing.capture_status)
                                             : 0;
}

/* ---- events ---- */

int halo_session_event_create(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_event_create *q = &c->q->event_create;
    struct halo_handles *events = &s->handles[HALO_REMOTE_EVENT];
    int error = halo_handles_check_new(events, q->event);
    if (error)
        return error;
    if (q->flags & ~EVENT_FLAGS)
        return HALO_WORKER_INVALID_VALUE;
    struct halo_session_event *event = calloc(1, sizeof(*event));
    if (!event)
        return HALO_WORKER_NO_MEMORY;
    error = s->rt.api.EventCreateWithFlags(&event->hip, q->flags);
    if (error) {
        free(event);
        return error;
    }
    halo_handles_put(events, q->event, event);
    return 0;
}

static struct halo_session_event *event_of(const struct halo_session *s, uint64_t bits)
{
    return halo_handles_get(&s->handles[HALO_REMOTE_EVENT], bits);
}

int halo_session_event_destroy(struct halo_session *s, const struct halo_session_call *c)
{
    struct halo_session_event *event = halo_handles_take(&s->handles[HALO_REMOTE_EVENT], c->q->event_destroy.event);
    if (!event)
        return HALO_WORKER_INVALID_HANDLE;
    halo_waits_drop_event(&s->waits, event->hip);
    int error = s->rt.api.EventDestroy(event->hip);
    free(event);
    return error;
}

int halo_session_event_record(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_event_record *q = &c->q->event_record;
    struct halo_session_event *event = event_of(s, q->event);
    struct halo_session_stream *stream;
    void *hip;
    if (!event || !halo_session_stream(s, q->stream, &hip, &stream))
        return HALO_WORKER_INVALID_HANDLE;
    int error = s->rt.api.EventRecord(event->hip, hip);
    if (!error)
        event->is_captured = halo_session_is_capturing(s, stream);
    return error;
}

int halo_session_event_synchronize(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_session_event *event = event_of(s, c->q->event_synchronize.event);
    if (!event || event->is_captured)
        return event ? HALO_WORKER_CAPTURED_EVENT : HALO_WORKER_INVALID_HANDLE;
    int error = halo_session_room(s);
    if (error)
        return error;
    halo_waits_add_event(&s->waits, (struct halo_wait){.event = event->hip, .has_answer = true, .h = *c->h});
    return HALO_SESSION_LATER;
}

int halo_session_event_query(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_session_event *event = event_of(s, c->q->event_query.event);
    if (event && event->is_captured)
        return HALO_WORKER_CAPTURED_EVENT;
    return event ? after_waits(s, s->rt.api.EventQuery(event->hip)) : HALO_WORKER_INVALID_HANDLE;
}

int halo_session_event_elapsed_time(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_event_elapsed_time *q = &c->q->event_elapsed_time;
    const struct halo_session_event *start = event_of(s, q->start), *end = event_of(s, q->end);
    if (!start || !end)
        return HALO_WORKER_INVALID_HANDLE;
    return s->rt.EventElapsedTime ? s->rt.EventElapsedTime(&c->a->event_elapsed_time.elapsed_ms, start->hip, end->hip)
                                  : HALO_WORKER_NOT_SUPPORTED;
}
