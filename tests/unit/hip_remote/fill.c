/* fill.c: valid and broken messages of remote HIP from a source of choices. */
#include "fill.h"

#include <assert.h>
#include <string.h>

static uint8_t pool[HALO_REMOTE_DATA_MAX];

/* splitmix64. */
uint64_t fill_next(struct fill_choices *c)
{
    if (c->n > 0) {
        c->n--;
        return *c->at++;
    }
    uint64_t z = (c->state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* The ends of the range as often as what lies between. */
static int64_t number(struct fill_choices *c, int64_t lo, int64_t hi)
{
    uint64_t span = (uint64_t)hi - (uint64_t)lo;
    switch (fill_next(c) % 4) {
    case 0: return lo;
    case 1: return hi;
    case 2: return (int64_t)((uint64_t)lo + fill_next(c) % 17 % (span + 1 ? span + 1 : 17));
    default: return (int64_t)((uint64_t)lo + (span == UINT64_MAX ? fill_next(c) : fill_next(c) % (span + 1)));
    }
}

static uint64_t handle(struct fill_choices *c, const struct halo_remote_field *f)
{
    if (f->lo == 0 && fill_next(c) % 3 == 0)
        return 0;
    return halo_remote_handle_pack((struct halo_remote_handle){
        .type = (enum halo_remote_handle_type)f->hi,
        .index = (uint32_t)number(c, 0, HALO_REMOTE_INDEX_MAX - 1),
        .generation = (uint32_t)number(c, 1, HALO_REMOTE_GENERATION_MAX),
    });
}

static struct halo_remote_bytes bytes(struct fill_choices *c, const struct halo_remote_field *f, bool long_data)
{
    int64_t most = f->hi;
    if (f->kind == HALO_REMOTE_KIND_DATA && !long_data)
        most = f->lo + 300;
    uint32_t n = (uint32_t)number(c, f->lo, most < f->hi ? most : f->hi);
    if (pool[0] == 0)
        for (size_t i = 0; i < sizeof(pool); i++)
            pool[i] = (uint8_t)(1 + i % 255);
    size_t at = fill_next(c) % 255 % (sizeof(pool) - n + 1);
    return (struct halo_remote_bytes){n > 0 ? pool + at : NULL, n};
}

static void fill_field(const struct halo_remote_field *f, struct fill_choices *c, bool long_data, void *value)
{
    switch (f->kind) {
    case HALO_REMOTE_KIND_U32: *(uint32_t *)value = (uint32_t)number(c, f->lo, f->hi); break;
    case HALO_REMOTE_KIND_I32: *(int32_t *)value = (int32_t)number(c, f->lo, f->hi); break;
    case HALO_REMOTE_KIND_F32: *(float *)value = (float)number(c, -1000, 1000) / 8; break;
    case HALO_REMOTE_KIND_U64:
    case HALO_REMOTE_KIND_ADDR: *(uint64_t *)value = (uint64_t)number(c, f->lo, f->hi); break;
    case HALO_REMOTE_KIND_HANDLE: *(uint64_t *)value = handle(c, f); break;
    case HALO_REMOTE_KIND_HASH: memset(value, (int)(fill_next(c) & 255), 32); break;
    case HALO_REMOTE_KIND_TEXT:
    case HALO_REMOTE_KIND_BYTES:
    case HALO_REMOTE_KIND_DATA: *(struct halo_remote_bytes *)value = bytes(c, f, long_data); break;
    case HALO_REMOTE_KIND_END: break;
    }
}

static void fill_fields(const struct halo_remote_shape *shape, struct fill_choices *c, bool long_data, void *message)
{
    for (const struct halo_remote_field *f = shape->fields(); f->kind != HALO_REMOTE_KIND_END; f++)
        fill_field(f, c, long_data, (char *)message + f->at);
}

/* Makes the fields of a copy agree: data goes along with kind 1 alone. */
static void settle_copy(int32_t kind, uint64_t *to, uint64_t *from, uint64_t *size, struct halo_remote_bytes *data)
{
    *to = kind == 2 ? 0 : *to ? *to : 1;
    *from = kind == 1 ? 0 : *from ? *from : 1;
    if (kind == 1 && data->n == 0)
        *data = (struct halo_remote_bytes){pool, 1};
    if (kind == 1)
        *size = data->n;
    else
        *data = (struct halo_remote_bytes){0};
    if (kind == 2)
        *size = 1 + *size % HALO_REMOTE_DATA_MAX;
}

static void settle_set(uint32_t *width, uint32_t *value, uint64_t *count)
{
    *width = *width == 3 ? 4 : *width;
    *value &= *width == 4 ? UINT32_MAX : (1u << 8 * *width) - 1;
    *count = 1 + *count % (HALO_REMOTE_SIZE_MAX / 4);
}

static void settle(const struct halo_remote_op_info *op, union halo_remote_request *q)
{
    struct halo_remote_memcpy_2d_async *d = &q->memcpy_2d_async;
    switch (op->number) {
    case HIP_OP_MEMCPY:
        settle_copy(q->memcpy.kind, &q->memcpy.to, &q->memcpy.from, &q->memcpy.size, &q->memcpy.data);
        break;
    case HIP_OP_MEMCPY_ASYNC:
        settle_copy(q->memcpy_async.kind, &q->memcpy_async.to, &q->memcpy_async.from, &q->memcpy_async.size,
                    &q->memcpy_async.data);
        break;
    case HIP_OP_MEMCPY_2D_ASYNC:
        settle_copy(d->kind, &d->to, &d->from, &d->width, &d->data);
        d->width = d->kind == 3 ? 1 + d->width % 4096 : d->width;
        d->height = d->kind == 3 ? 1 + d->height % 4096 : 1;
        d->to_pitch = d->width + d->to_pitch % 1024;
        d->from_pitch = d->width + d->from_pitch % 1024;
        break;
    case HIP_OP_BLOB_WRITE: q->blob_write.offset %= HALO_REMOTE_SIZE_MAX - q->blob_write.data.n + 1; break;
    case HIP_OP_MEMSET: settle_set(&q->memset.width, &q->memset.value, &q->memset.count); break;
    case HIP_OP_MEMSET_ASYNC: settle_set(&q->memset_async.width, &q->memset_async.value, &q->memset_async.count); break;
    case HIP_OP_MEMSET_2D_ASYNC:
        q->memset_2d_async.width = 1 + q->memset_2d_async.width % 4096;
        q->memset_2d_async.pitch = q->memset_2d_async.width + q->memset_2d_async.pitch % 1024;
        q->memset_2d_async.height = 1 + q->memset_2d_async.height % 4096;
        break;
    case HIP_OP_MODULE_LOAD_DATA:
        if (q->module_load_data.blob)
            q->module_load_data.image = (struct halo_remote_bytes){0};
        else if (q->module_load_data.image.n == 0)
            q->module_load_data.image = (struct halo_remote_bytes){pool, 7};
        break;
    default: break;
    }
}

void fill_request(const struct halo_remote_op_info *op, struct fill_choices *c, bool long_data,
                  union halo_remote_request *ret)
{
    *ret = (union halo_remote_request){0};
    fill_fields(&op->request, c, long_data, ret);
    settle(op, ret);
}

void fill_reply(const struct halo_remote_op_info *op, struct fill_choices *c, bool long_data,
                union halo_remote_reply *ret)
{
    *ret = (union halo_remote_reply){0};
    fill_fields(&op->reply, c, long_data, ret);
}

uint16_t fill_flags(const struct halo_remote_op_info *op, const union halo_remote_request *q, struct fill_choices *c)
{
    bool to_host = (op->number == HIP_OP_MEMCPY_ASYNC && q->memcpy_async.kind == 2) ||
                   (op->number == HIP_OP_MEMCPY_2D_ASYNC && q->memcpy_2d_async.kind == 2);
    if (op->answer == HALO_REMOTE_ANSWER_NEEDED || to_host)
        return 0;
    return fill_next(c) & 1 ? HALO_REMOTE_FLAG_NO_REPLY : 0;
}

/* A value out of the field's range, if its type has one. */
static bool break_field(const struct halo_remote_field *f, bool above, void *value)
{
    struct halo_remote_bytes *b = value;
    int64_t wrong = above ? (f->hi < INT64_MAX ? f->hi + 1 : -1) : f->lo - 1;
    switch (f->kind) {
    case HALO_REMOTE_KIND_U32: *(uint32_t *)value = (uint32_t)wrong; return wrong >= 0 && wrong <= UINT32_MAX;
    case HALO_REMOTE_KIND_I32: *(int32_t *)value = (int32_t)wrong; return wrong >= INT32_MIN && wrong <= INT32_MAX;
    case HALO_REMOTE_KIND_U64:
    case HALO_REMOTE_KIND_ADDR: *(uint64_t *)value = above ? (uint64_t)wrong : 0; return above || f->lo > 0;
    case HALO_REMOTE_KIND_HANDLE: /* of another type, or null */
        *(uint64_t *)value = above ? (*(uint64_t *)value ^ (uint64_t)1 << 63) | 1 : 0;
        return above || f->lo > 0;
    case HALO_REMOTE_KIND_TEXT:
    case HALO_REMOTE_KIND_BYTES:
    case HALO_REMOTE_KIND_DATA:
        *b = (struct halo_remote_bytes){pool, (uint32_t)wrong};
        return wrong >= 0 && wrong <= (int64_t)sizeof(pool) &&
               (f->kind != HALO_REMOTE_KIND_TEXT || wrong <= UINT16_MAX);
    case HALO_REMOTE_KIND_F32:
    case HALO_REMOTE_KIND_HASH:
    case HALO_REMOTE_KIND_END: break;
    }
    return false;
}

bool fill_break(const struct halo_remote_shape *shape, struct fill_choices *c, void *message)
{
    const struct halo_remote_field *fields = shape->fields();
    size_t n = 0;
    while (fields[n].kind != HALO_REMOTE_KIND_END)
        n++;
    for (size_t i = 0, first = n ? fill_next(c) % n : 0; i < 2 * n; i++) {
        const struct halo_remote_field *f = &fields[(first + i) % n];
        unsigned char kept[sizeof(struct halo_remote_bytes) > 32 ? sizeof(struct halo_remote_bytes) : 32];
        void *value = (char *)message + f->at;
        size_t size = f->kind == HALO_REMOTE_KIND_U32 || f->kind == HALO_REMOTE_KIND_I32 ? 4
                      : f->kind >= HALO_REMOTE_KIND_TEXT ? sizeof(struct halo_remote_bytes)
                      : f->kind == HALO_REMOTE_KIND_HASH || f->kind == HALO_REMOTE_KIND_F32 ? 0
                                                                                            : 8;
        memcpy(kept, value, size);
        if (break_field(f, i < n, value))
            return true;
        memcpy(value, kept, size);
    }
    return false;
}

bool fill_same(const struct halo_remote_shape *shape, const void *a, const void *b)
{
    for (const struct halo_remote_field *f = shape->fields(); f->kind != HALO_REMOTE_KIND_END; f++) {
        const void *x = (const char *)a + f->at, *y = (const char *)b + f->at;
        const struct halo_remote_bytes *p = x, *q = y;
        bool same = false;
        switch (f->kind) {
        case HALO_REMOTE_KIND_U32:
        case HALO_REMOTE_KIND_I32:
        case HALO_REMOTE_KIND_F32: same = memcmp(x, y, 4) == 0; break;
        case HALO_REMOTE_KIND_U64:
        case HALO_REMOTE_KIND_ADDR:
        case HALO_REMOTE_KIND_HANDLE: same = memcmp(x, y, 8) == 0; break;
        case HALO_REMOTE_KIND_HASH: same = memcmp(x, y, 32) == 0; break;
        case HALO_REMOTE_KIND_TEXT:
        case HALO_REMOTE_KIND_BYTES:
        case HALO_REMOTE_KIND_DATA: same = p->n == q->n && (p->n == 0 || memcmp(p->at, q->at, p->n) == 0); break;
        case HALO_REMOTE_KIND_END: break;
        }
        if (!same)
            return false;
    }
    return true;
}
