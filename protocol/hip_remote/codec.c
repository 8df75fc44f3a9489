/* codec.c: walks the table of fields to write and to read payloads. Pure; any thread. */
#include <hip_remote/codec.h>

#include <errno.h>
#include <string.h>

#include "check_priv.h"
#include "wire_priv.h"

#define STATUS_BYTES 16

/* ---- writing ---- */

struct writer {
    uint8_t *at;
    size_t n, cap;
    size_t n_outside; /* bulk data that the caller sends */
};

static uint8_t *room(struct writer *w, size_t n)
{
    if (n > w->cap - w->n)
        return NULL;
    w->n += n;
    return w->at + w->n - n;
}

static int put_number(struct writer *w, uint64_t value, unsigned n)
{
    uint8_t *at = room(w, n);
    if (!at)
        return -ENOBUFS;
    halo_remote_put(at, value, n);
    return 0;
}

static int put_bytes(struct writer *w, const void *from, size_t n)
{
    uint8_t *at = room(w, n);
    if (!at)
        return -ENOBUFS;
    if (n > 0)
        memcpy(at, from, n);
    return 0;
}

static int put_field(struct writer *w, const struct halo_remote_field *f, const void *value, bool with_data)
{
    const struct halo_remote_bytes *b = value;
    uint32_t word;
    uint64_t wide;
    int r;
    switch (f->kind) {
    case HALO_REMOTE_KIND_U32:
    case HALO_REMOTE_KIND_I32:
    case HALO_REMOTE_KIND_F32: memcpy(&word, value, sizeof(word)); return put_number(w, word, 4);
    case HALO_REMOTE_KIND_U64:
    case HALO_REMOTE_KIND_ADDR:
    case HALO_REMOTE_KIND_HANDLE: memcpy(&wide, value, sizeof(wide)); return put_number(w, wide, 8);
    case HALO_REMOTE_KIND_HASH: return put_bytes(w, value, 32);
    case HALO_REMOTE_KIND_TEXT:
    case HALO_REMOTE_KIND_BYTES:
        r = put_number(w, b->n, f->kind == HALO_REMOTE_KIND_TEXT ? 2 : 4);
        return r < 0 ? r : put_bytes(w, b->at, b->n);
    case HALO_REMOTE_KIND_DATA: w->n_outside = with_data ? 0 : b->n; return with_data ? put_bytes(w, b->at, b->n) : 0;
    case HALO_REMOTE_KIND_END: break;
    }
    return -EINVAL;
}

static int put_fields(struct writer *w, const struct halo_remote_shape *shape, const void *message, bool with_data,
                      struct halo_remote_header *h)
{
    for (const struct halo_remote_field *f = shape->fields(); f->kind != HALO_REMOTE_KIND_END; f++) {
        const void *value = (const char *)message + f->at;
        if (!halo_remote_field_ok(f, value))
            return -ERANGE;
        if (f->kind == HALO_REMOTE_KIND_DATA && ((const struct halo_remote_bytes *)value)->n > 0)
            h->flags |= HALO_REMOTE_FLAG_DATA;
        int r = put_field(w, f, value, with_data);
        if (r < 0)
            return r;
    }
    return 0;
}

static int finish_frame(struct writer *w, struct halo_remote_header *h)
{
    h->version = HALO_REMOTE_VERSION;
    h->payload_bytes = (uint32_t)(w->n - HALO_REMOTE_HEADER_BYTES + w->n_outside);
    halo_remote_header_encode(w->at, h);
    return (int)w->n;
}

int halo_remote_request_encode(uint8_t *buf, size_t cap, struct halo_remote_header *h, const void *request,
                               bool with_data)
{
    const struct halo_remote_op_info *op = halo_remote_op_find(h->op);
    struct writer w = {.at = buf, .cap = cap};
    if (!op)
        return -ENOSYS;
    h->flags &= HALO_REMOTE_FLAG_NO_REPLY;
    if (!room(&w, HALO_REMOTE_HEADER_BYTES))
        return -ENOBUFS;
    int r = put_fields(&w, &op->request, request, with_data, h);
    if (r == 0 && !halo_remote_request_agrees(h, op, request))
        r = -ERANGE;
    return r < 0 ? r : finish_frame(&w, h);
}

int halo_remote_reply_encode(uint8_t *buf, size_t cap, struct halo_remote_header *h, const void *reply, bool with_data)
{
    const struct halo_remote_op_info *op = halo_remote_op_find(h->op);
    const struct halo_remote_status *status = reply;
    struct writer w = {.at = buf, .cap = cap};
    h->flags = HALO_REMOTE_FLAG_RESPONSE | (status->error ? HALO_REMOTE_FLAG_ERROR : 0);
    uint8_t *at = room(&w, HALO_REMOTE_HEADER_BYTES + STATUS_BYTES);
    if (!at)
        return -ENOBUFS;
    at += HALO_REMOTE_HEADER_BYTES;
    halo_remote_put(at, (uint32_t)status->error, 4);
    halo_remote_put(at + 4, (uint32_t)status->deferred_error, 4);
    halo_remote_put(at + 8, status->deferred_id, 4);
    halo_remote_put(at + 12, status->deferred_op, 4);
    if (status->error) /* also of an operation that this build does not know */
        return finish_frame(&w, h);
    int r = op ? put_fields(&w, &op->reply, reply, with_data, h) : -ENOSYS;
    return r < 0 ? r : finish_frame(&w, h);
}

/* ---- reading ---- */

struct span {
    const uint8_t *at;
    size_t n;
};

static const uint8_t *take(struct span *s, size_t n)
{
    if (n > s->n)
        return NULL;
    s->at += n;
    s->n -= n;
    return s->at - n;
}

static int take_number(struct span *s, void *value, unsigned n)
{
    const uint8_t *at = take(s, n);
    if (!at)
        return -EBADMSG;
    if (n == 4)
        *(uint32_t *)value = (uint32_t)halo_remote_get(at, 4);
    else
        *(uint64_t *)value = halo_remote_get(at, 8);
    return 0;
}

static int take_bytes(struct span *s, struct halo_remote_bytes *ret, unsigned length_bytes)
{
    const uint8_t *length = take(s, length_bytes);
    uint32_t n = length ? (uint32_t)halo_remote_get(length, length_bytes) : 0;
    const uint8_t *at = length ? take(s, n) : NULL;
    *ret = (struct halo_remote_bytes){n > 0 ? at : NULL, n};
    return at ? 0 : -EBADMSG;
}

static int take_field(struct span *s, const struct halo_remote_field *f, void *value)
{
    const uint8_t *at;
    switch (f->kind) {
    case HALO_REMOTE_KIND_U32:
    case HALO_REMOTE_KIND_I32: return take_number(s, value, 4);
    case HALO_REMOTE_KIND_F32:
        at = take(s, 4);
        if (at) {
            uint32_t bits = (uint32_t)halo_remote_get(at, 4);
            memcpy(value, &bits, sizeof(bits));
        }
        return at ? 0 : -EBADMSG;
    case HALO_REMOTE_KIND_U64:
    case HALO_REMOTE_KIND_ADDR:
    case HALO_REMOTE_KIND_HANDLE: return take_number(s, value, 8);
    case HALO_REMOTE_KIND_HASH:
        at = take(s, 32);
        if (at)
            memcpy(value, at, 32);
        return at ? 0 : -EBADMSG;
    case HALO_REMOTE_KIND_TEXT: return take_bytes(s, value, 2);
    case HALO_REMOTE_KIND_BYTES: return take_bytes(s, value, 4);
    case HALO_REMOTE_KIND_DATA:
        *(struct halo_remote_bytes *)value = (struct halo_remote_bytes){s->n > 0 ? s->at : NULL, (uint32_t)s->n};
        s->n = 0;
        return 0;
    case HALO_REMOTE_KIND_END: break;
    }
    return -EBADMSG;
}

/* `flags`: FLAG_DATA must say what is there. */
static int take_fields(struct span *s, const struct halo_remote_shape *shape, uint16_t flags, void *ret,
                       const struct halo_remote_field **ret_field)
{
    bool has_data = false;
    for (const struct halo_remote_field *f = shape->fields(); f->kind != HALO_REMOTE_KIND_END; f++) {
        void *value = (char *)ret + f->at;
        *ret_field = f;
        int r = take_field(s, f, value);
        if (r < 0)
            return r;
        if (!halo_remote_field_ok(f, value))
            return -ERANGE;
        has_data |= f->kind == HALO_REMOTE_KIND_DATA && ((struct halo_remote_bytes *)value)->n > 0;
    }
    *ret_field = NULL;
    return s->n == 0 && has_data == !!(flags & HALO_REMOTE_FLAG_DATA) ? 0 : -EBADMSG;
}

int halo_remote_request_decode(const struct halo_remote_header *h, const uint8_t *payload, void *ret,
                               const struct halo_remote_field **ret_field)
{
    const struct halo_remote_op_info *op = halo_remote_op_find(h->op);
    const struct halo_remote_field *field = NULL;
    struct span s = {payload, h->payload_bytes};
    int r = -EBADMSG;
    if (!op)
        r = -ENOSYS;
    else if (!(h->flags & (HALO_REMOTE_FLAG_RESPONSE | HALO_REMOTE_FLAG_ERROR)))
        r = take_fields(&s, &op->request, h->flags, ret, &field);
    if (r == 0 && !halo_remote_request_agrees(h, op, ret))
        r = -ERANGE;
    if (ret_field)
        *ret_field = field;
    return r;
}

int halo_remote_reply_decode(const struct halo_remote_header *h, const uint8_t *payload, void *ret,
                             const struct halo_remote_field **ret_field)
{
    const struct halo_remote_op_info *op = halo_remote_op_find(h->op);
    const struct halo_remote_field *field = NULL;
    struct span s = {payload, h->payload_bytes};
    const uint8_t *at = take(&s, STATUS_BYTES);
    struct halo_remote_status *status = ret;
    if (ret_field)
        *ret_field = NULL;
    if (!op)
        return -ENOSYS;
    if (!at || !(h->flags & HALO_REMOTE_FLAG_RESPONSE))
        return -EBADMSG;
    *status = (struct halo_remote_status){
        .error = (int32_t)halo_remote_get(at, 4),
        .deferred_error = (int32_t)halo_remote_get(at + 4, 4),
        .deferred_id = (uint32_t)halo_remote_get(at + 8, 4),
        .deferred_op = (uint32_t)halo_remote_get(at + 12, 4),
    };
    if (!(h->flags & HALO_REMOTE_FLAG_ERROR) != !status->error || status->error < 0 || status->deferred_error < 0)
        return -EBADMSG;
    if (status->error)
        return s.n == 0 && !(h->flags & HALO_REMOTE_FLAG_DATA) ? 0 : -EBADMSG;
    int r = take_fields(&s, &op->reply, h->flags, ret, &field);
    if (ret_field)
        *ret_field = field;
    return r;
}
