/* answer.c: answers, now or when the GPU has come so far; what operations share. One thread. */
#include <errno.h>
#include <time.h>

#include <base/clock.h>

#include "session_priv.h"

#define PAUSE_NS 20000

/* ---- answers ---- */

static void keep_deferred(struct halo_session *s, const struct halo_remote_header *h, int error)
{
    if (error && !s->deferred.deferred_error) {
        s->deferred.deferred_error = error;
        s->deferred.deferred_id = h->id;
        s->deferred.deferred_op = h->op;
    }
}

static uint32_t data_bytes_of(const struct halo_remote_op_info *op, const union halo_remote_reply *a)
{
    for (const struct halo_remote_field *f = op->reply.fields(); f->kind != HALO_REMOTE_KIND_END; f++)
        if (f->kind == HALO_REMOTE_KIND_DATA)
            return ((const struct halo_remote_bytes *)(const void *)((const char *)a + f->at))->n;
    return 0;
}

int halo_session_answer(struct halo_session *s, const struct halo_remote_header *h, union halo_remote_reply *a,
                        int error)
{
    const struct halo_remote_op_info *op = halo_remote_op_find(h->op);
    struct halo_remote_header out = *h;
    if (h->flags & HALO_REMOTE_FLAG_NO_REPLY || (op && op->answer == HALO_REMOTE_ANSWER_NONE)) {
        keep_deferred(s, h, error);
        return 0;
    }
    a->status = s->deferred;
    a->status.error = error;
    size_t cap = HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_FIELDS_MAX + (op && !error ? data_bytes_of(op, a) : 0);
    uint8_t *at = s->ops.reserve(s->ops.ud, cap);
    if (!at)
        return -EPIPE;
    int n = halo_remote_reply_encode(at, cap, &out, a, true);
    if (n == -ERANGE) { /* the runtime answered what the wire cannot carry */
        a->status.error = HALO_WORKER_UNKNOWN;
        n = halo_remote_reply_encode(at, cap, &out, a, true);
    }
    if (n < 0)
        return n;
    s->deferred = (struct halo_remote_status){0};
    s->ops.commit(s->ops.ud, (size_t)n);
    return 0;
}

/* Of a wait that has ended. */
static int answer_wait(struct halo_session *s, struct halo_wait *wait)
{
    union halo_remote_reply a = {0};
    const struct halo_remote_bytes data = {wait->data_bytes ? s->waits.staging + wait->data_at : NULL,
                                           wait->data_bytes};
    if (wait->h.op == HIP_OP_MEMCPY)
        a.memcpy.data = data;
    else if (wait->h.op == HIP_OP_MEMCPY_ASYNC)
        a.memcpy_async.data = data;
    else if (wait->h.op == HIP_OP_MEMCPY_2D_ASYNC)
        a.memcpy_2d_async.data = data;
    wait->has_answer = false;
    s->waits.n_answers--;
    return halo_session_answer(s, &wait->h, &a, wait->error);
}

static int send_ended(struct halo_session *s, bool *ret_sent)
{
    *ret_sent = false;
    for (uint32_t i = 0; s->waits.n_answers > 0 && i < s->waits.n; i++) {
        struct halo_wait *wait = halo_waits_at(&s->waits, i);
        if (!wait->has_ended || !wait->has_answer)
            continue;
        int r = answer_wait(s, wait);
        if (r < 0)
            return r;
        *ret_sent = true;
    }
    return 0;
}

int halo_session_poll_waits(struct halo_session *s, struct halo_fault *fault)
{
    bool sent = true;
    int r = s->fatal;
    if (s->waits.n == 0)
        return r;
    halo_waits_ask(&s->waits, &s->rt, false);
    while (r == 0 && sent) {
        halo_waits_retire(&s->waits);
        keep_deferred(s, &s->waits.silent_h, s->waits.silent_error);
        s->waits.silent_error = 0;
        r = send_ended(s, &sent);
    }
    if (r == 0 && s->limits.deadline_ms && s->waits.n > 0 &&
        halo_clock_ms() - halo_waits_at(&s->waits, 0)->began_ms > s->limits.deadline_ms) {
        halo_fault_set(fault, HALO_FAULT_DEVICE_HANG, "the GPU has not ended an operation of the session for %u ms",
                       s->limits.deadline_ms);
        r = -ETIMEDOUT;
    }
    return r;
}

bool halo_session_waits(const struct halo_session *s)
{
    return s->waits.n_answers > 0 || (s->blobs && s->blob_jobs.n > 0);
}

/* ---- what operations share ---- */

int halo_session_choose_device(struct halo_session *s, struct halo_session_call *c)
{
    c->device = c->h->device == HALO_REMOTE_DEVICE_CURRENT ? s->device : c->h->device;
    if (c->device >= s->rt.n_devices)
        return s->rt.n_devices == 0 && c->h->op <= HIP_OP_GET_DEVICE_COUNT ? 0 : HALO_WORKER_INVALID_DEVICE;
    int error = c->device == s->current ? 0 : s->rt.api.SetDevice(c->device);
    if (error == 0)
        s->current = c->device;
    return error;
}

/* Lets the waits go on for a moment. 0 or a negative errno, which ends the session. */
static int pause_for_waits(struct halo_session *s)
{
    const struct timespec moment = {.tv_nsec = PAUSE_NS};
    int r = halo_session_poll_waits(s, NULL);
    if (r == 0)
        r = s->ops.idle(s->ops.ud);
    if (r < 0)
        return s->fatal = r;
    nanosleep(&moment, NULL);
    return 0;
}

int halo_session_drain(struct halo_session *s)
{
    for (;;) {
        halo_waits_ask(&s->waits, &s->rt, true);
        if (!halo_waits_has_copies(&s->waits))
            return 0;
        if (pause_for_waits(s) < 0)
            return s->fatal;
    }
}

int halo_session_stage(struct halo_session *s, uint32_t bytes, uint32_t *ret_at)
{
    int r;
    while (s->waits.n == s->waits.n_max ||
           (r = halo_waits_stage(&s->waits, &s->rt, bytes, ret_at)) == HALO_WAITS_E_FULL)
        if (pause_for_waits(s) < 0)
            return HALO_WORKER_UNKNOWN;
    return r;
}

int halo_session_room(struct halo_session *s)
{
    while (s->waits.n == s->waits.n_max)
        if (pause_for_waits(s) < 0)
            return HALO_WORKER_UNKNOWN;
    return 0;
}

int halo_session_wait(struct halo_session *s, const struct halo_session_call *c, void *stream, uint32_t data_at,
                      uint32_t data_bytes, bool has_answer)
{
    int error = halo_session_room(s);
    if (error)
        return error;
    error = halo_waits_add(
        &s->waits, &s->rt, stream,
        (struct halo_wait){.has_answer = has_answer, .h = *c->h, .data_at = data_at, .data_bytes = data_bytes});
    return error ? error : has_answer ? HALO_SESSION_LATER : 0;
}

bool halo_session_stream(const struct halo_session *s, uint64_t bits, void **ret_hip,
                         struct halo_session_stream **ret_stream)
{
    struct halo_session_stream *stream = bits ? halo_handles_get(&s->handles[HALO_REMOTE_STREAM], bits) : NULL;
    if (ret_stream)
        *ret_stream = stream;
    *ret_hip = stream ? stream->hip : NULL;
    return !bits || stream;
}

bool halo_session_is_capturing(const struct halo_session *s, const struct halo_session_stream *stream)
{
    int status = 0;
    if (!stream || s->n_capturing == 0)
        return false;
    if (stream->is_capturing || !s->rt.StreamIsCapturing)
        return stream->is_capturing;
    return s->rt.StreamIsCapturing(stream->hip, &status) != 0 || status != 0;
}
