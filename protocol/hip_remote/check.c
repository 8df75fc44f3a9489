/* check.c: the range of a field, and the rules between the fields of a request. Pure; no sum or product can wrap. */
#include <string.h>

#include "check_priv.h"

static bool handle_ok(uint64_t bits, bool needed, int64_t type)
{
    struct halo_remote_handle h = halo_remote_handle_unpack(bits);
    if (bits == 0)
        return !needed;
    return (int64_t)h.type == type && h.index < HALO_REMOTE_INDEX_MAX && h.generation > 0;
}

static bool within(int64_t value, const struct halo_remote_field *f)
{
    return value >= f->lo && value <= f->hi;
}

static bool bytes_ok(const struct halo_remote_bytes *b, const struct halo_remote_field *f)
{
    return within(b->n, f) && (b->n == 0 || b->at) &&
           (f->kind != HALO_REMOTE_KIND_TEXT || b->n == 0 || !memchr(b->at, '\0', b->n));
}

bool halo_remote_field_ok(const struct halo_remote_field *f, const void *value)
{
    switch (f->kind) {
    case HALO_REMOTE_KIND_U32: return within(*(const uint32_t *)value, f);
    case HALO_REMOTE_KIND_I32: return within(*(const int32_t *)value, f);
    case HALO_REMOTE_KIND_U64:
    case HALO_REMOTE_KIND_ADDR: return *(const uint64_t *)value <= INT64_MAX && within(*(const int64_t *)value, f);
    case HALO_REMOTE_KIND_HANDLE: return handle_ok(*(const uint64_t *)value, f->lo > 0, f->hi);
    case HALO_REMOTE_KIND_TEXT:
    case HALO_REMOTE_KIND_BYTES:
    case HALO_REMOTE_KIND_DATA: return bytes_ok(value, f);
    case HALO_REMOTE_KIND_F32:
    case HALO_REMOTE_KIND_HASH: return true;
    case HALO_REMOTE_KIND_END: break;
    }
    return false;
}

/* a x b, or more than any size. */
static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t n;
    return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

/* The three kinds of a copy. Of the host's side there is no address; what comes from the host lies in the frame. */
static bool copy_agrees(const struct halo_remote_header *h, int32_t kind, uint64_t to, uint64_t from, uint64_t size,
                        uint32_t data_bytes)
{
    switch (kind) {
    case 1: return to && !from && data_bytes == size;
    case 2:
        return !to && from && data_bytes == 0 && size <= HALO_REMOTE_DATA_MAX &&
               !(h->flags & HALO_REMOTE_FLAG_NO_REPLY);
    default: return to && from && data_bytes == 0 && size <= HALO_REMOTE_SIZE_MAX;
    }
}

static bool copy_2d_agrees(const struct halo_remote_header *h, const struct halo_remote_memcpy_2d_async *c)
{
    bool fits = c->width <= c->to_pitch && c->width <= c->from_pitch &&
                product(c->to_pitch, c->height) <= HALO_REMOTE_SIZE_MAX &&
                product(c->from_pitch, c->height) <= HALO_REMOTE_SIZE_MAX;
    return fits && copy_agrees(h, c->kind, c->to, c->from, product(c->width, c->height), c->data.n);
}

/* Elements of 1, 2 or 4 bytes, and a value that fits into one. */
static bool set_agrees(uint32_t width, uint32_t value, uint64_t count)
{
    return (width == 1 || width == 2 || width == 4) && (width == 4 || value >> 8 * width == 0) &&
           product(width, count) <= HALO_REMOTE_SIZE_MAX;
}

bool halo_remote_request_agrees(const struct halo_remote_header *h, const struct halo_remote_op_info *op,
                                const void *request)
{
    const union halo_remote_request *q = request;
    if (op->answer == HALO_REMOTE_ANSWER_NEEDED && h->flags & HALO_REMOTE_FLAG_NO_REPLY)
        return false;
    switch (op->number) {
    case HIP_OP_MEMCPY:
        return copy_agrees(h, q->memcpy.kind, q->memcpy.to, q->memcpy.from, q->memcpy.size, q->memcpy.data.n);
    case HIP_OP_MEMCPY_ASYNC:
        return copy_agrees(h, q->memcpy_async.kind, q->memcpy_async.to, q->memcpy_async.from, q->memcpy_async.size,
                           q->memcpy_async.data.n);
    case HIP_OP_MEMCPY_2D_ASYNC: return copy_2d_agrees(h, &q->memcpy_2d_async);
    case HIP_OP_BLOB_WRITE: return q->blob_write.offset + q->blob_write.data.n <= HALO_REMOTE_SIZE_MAX;
    case HIP_OP_MEMSET: return set_agrees(q->memset.width, q->memset.value, q->memset.count);
    case HIP_OP_MEMSET_ASYNC: return set_agrees(q->memset_async.width, q->memset_async.value, q->memset_async.count);
    case HIP_OP_MEMSET_2D_ASYNC:
        return q->memset_2d_async.width <= q->memset_2d_async.pitch &&
               product(q->memset_2d_async.pitch, q->memset_2d_async.height) <= HALO_REMOTE_SIZE_MAX;
    case HIP_OP_MODULE_LOAD_DATA: return (q->module_load_data.blob != 0) != (q->module_load_data.image.n != 0);
    default: return true;
    }
}
