/* op_memory.c: allocations and fills, within the quota and within what the session owns. One thread. */
#include "session_priv.h"

static void *address(uint64_t at)
{
    return (void *)(uintptr_t)at;
}

static bool within_quota(const struct halo_session *s, uint64_t bytes)
{
    return s->memory.n < s->memory.cap && s->memory.bytes <= s->limits.memory_bytes &&
           bytes <= s->limits.memory_bytes - s->memory.bytes;
}

/* An address that overlaps a live range would be a fault of the runtime: what the session knows must stay true. */
static int keep(struct halo_session *s, void *p, uint64_t bytes, uint64_t *ret)
{
    *ret = (uint64_t)(uintptr_t)p;
    if (halo_ranges_add(&s->memory, (struct halo_range_entry){.at = *ret, .bytes = bytes}))
        return 0;
    s->rt.api.Free(p);
    return HALO_WORKER_NO_MEMORY;
}

int halo_session_malloc(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_malloc *q = &c->q->malloc;
    void *p = NULL;
    if (!within_quota(s, q->size))
        return HALO_WORKER_NO_MEMORY;
    if (q->flags && !s->rt.ExtMallocWithFlags)
        return HALO_WORKER_NOT_SUPPORTED;
    int error = q->flags ? s->rt.ExtMallocWithFlags(&p, q->size, q->flags) : s->rt.api.Malloc(&p, q->size);
    return error ? error : keep(s, p, q->size, &c->a->malloc.address);
}

/* HIP waits in hipFree for the work that may use the memory; copies from and to the staging buffer are such work. */
int halo_session_free(struct halo_session *s, const struct halo_session_call *c)
{
    struct halo_range_entry entry;
    if (!halo_ranges_take(&s->memory, c->q->free.address, &entry))
        return HALO_WORKER_INVALID_VALUE;
    if (halo_session_drain(s) < 0)
        return HALO_WORKER_UNKNOWN;
    return s->rt.api.Free(address(entry.at));
}

int halo_session_malloc_async(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_malloc_async *q = &c->q->malloc_async;
    void *p = NULL, *stream;
    if (!s->rt.MallocAsync || !s->rt.FreeAsync)
        return HALO_WORKER_NOT_SUPPORTED;
    if (!halo_session_stream(s, q->stream, &stream, NULL))
        return HALO_WORKER_INVALID_HANDLE;
    if (!within_quota(s, q->size))
        return HALO_WORKER_NO_MEMORY;
    int error = s->rt.MallocAsync(&p, q->size, stream);
    return error ? error : keep(s, p, q->size, &c->a->malloc_async.address);
}

int halo_session_free_async(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_free_async *q = &c->q->free_async;
    struct halo_range_entry entry;
    void *stream;
    if (!s->rt.FreeAsync)
        return HALO_WORKER_NOT_SUPPORTED;
    if (!halo_session_stream(s, q->stream, &stream, NULL))
        return HALO_WORKER_INVALID_HANDLE;
    if (!halo_ranges_take(&s->memory, q->address, &entry))
        return HALO_WORKER_INVALID_VALUE;
    return s->rt.FreeAsync(address(entry.at), stream);
}

int halo_session_mem_get_info(struct halo_session *s, const struct halo_session_call *c)
{
    size_t free_bytes, total;
    int error = s->rt.api.MemGetInfo(&free_bytes, &total);
    if (error)
        return error;
    uint64_t left = s->limits.memory_bytes - s->memory.bytes;
    c->a->mem_get_info.total_bytes = total < s->limits.memory_bytes ? total : s->limits.memory_bytes;
    c->a->mem_get_info.free_bytes = free_bytes < left ? free_bytes : left;
    return 0;
}

/* ---- fills ---- */

static int fill(struct halo_session *s, uint64_t to, uint32_t value, uint32_t width, uint64_t count, void *stream)
{
    if (!halo_ranges_hold(&s->memory, to, width * count))
        return HALO_WORKER_INVALID_VALUE;
    if (to % width)
        return HALO_WORKER_INVALID_VALUE;
    switch (width) {
    case 1: return s->rt.api.MemsetAsync(address(to), (int)value, count, stream);
    case 2:
        return s->rt.MemsetD16Async ? s->rt.MemsetD16Async(address(to), (unsigned short)value, count, stream)
                                    : HALO_WORKER_NOT_SUPPORTED;
    default:
        return s->rt.MemsetD32Async ? s->rt.MemsetD32Async(address(to), (int)value, count, stream)
                                    : HALO_WORKER_NOT_SUPPORTED;
    }
}

int halo_session_memset(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_memset *q = &c->q->memset;
    int error = fill(s, q->to, q->value, q->width, q->count, NULL);
    return error ? error : halo_session_wait(s, c, NULL, 0, 0, true);
}

int halo_session_memset_async(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_memset_async *q = &c->q->memset_async;
    void *stream;
    return halo_session_stream(s, q->stream, &stream, NULL) ? fill(s, q->to, q->value, q->width, q->count, stream)
                                                            : HALO_WORKER_INVALID_HANDLE;
}

int halo_session_memset_2d_async(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_memset_2d_async *q = &c->q->memset_2d_async;
    void *stream;
    if (!halo_session_stream(s, q->stream, &stream, NULL))
        return HALO_WORKER_INVALID_HANDLE;
    if (!halo_ranges_hold(&s->memory, q->to, q->pitch * (q->height - 1) + q->width))
        return HALO_WORKER_INVALID_VALUE;
    return s->rt.Memset2DAsync
               ? s->rt.Memset2DAsync(address(q->to), q->pitch, (int)q->value, q->width, q->height, stream)
               : HALO_WORKER_NOT_SUPPORTED;
}
