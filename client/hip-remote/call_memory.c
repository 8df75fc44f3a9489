/* call_memory.c: memory of the device, at the addresses of the worker, and memory of the host, which is local. */
#include <errno.h>
#include <stdlib.h>

#include "client_priv.h"

#define PAGE_BYTES 4096
#define PITCH_BYTES 256 /* rows begin at multiples of it */
#define COLLISIONS_MAX 64
#define HOST_FLAGS 0xe0000007u
#define REGISTER_FLAGS 0xfu

/* ---- the device's ---- */

static int ask_malloc(size_t n, uint32_t flags, uint64_t *ret)
{
    struct halo_remote_malloc_reply a;
    int r = halo_remote_malloc(&halo_client.port, &(struct halo_remote_malloc){.size = n, .flags = flags}, &a);
    int error = halo_client_status(r, &a.status);
    *ret = error ? 0 : a.address;
    return error;
}

static int give_back(uint64_t at)
{
    return halo_client_send(HIP_OP_FREE, &(struct halo_remote_free){at});
}

/* Whether a GPU of another worker has memory with these addresses. False while its session is busy. */
static bool is_of_another(uint64_t at, size_t n)
{
    bool is_there = false;
    for (int i = 0; i < HALO_CLIENT_SESSIONS_MAX && !is_there; i++) {
        struct halo_client_session *c = &halo_client_sessions[i];
        if (c == &halo_client || pthread_mutex_trylock(&c->lock) != 0)
            continue;
        is_there = halo_remote_ranges_meet(&c->device_memory, at, n);
        pthread_mutex_unlock(&c->lock);
    }
    return is_there;
}

/* Reserves the range here and keeps it. 0, -EADDRINUSE, or another errno. Workers know nothing of each other: their
 * addresses may be the same, and which is meant the thread's device says. */
static int keep(uint64_t at, size_t n)
{
    struct halo_remote_range range = {.at = at, .bytes = n, .device = halo_client_device_number()};
    int r = halo_remote_ranges_reserve(&halo_client.device_memory, range);
    if (r == -EADDRINUSE && is_of_another(at, n)) {
        range.is_shared = true;
        r = 0;
    }
    if (r)
        return r;
    range.uploaded = halo_upload_map(n);
    r = halo_remote_ranges_add(&halo_client.device_memory, range);
    if (r) {
        halo_remote_ranges_release(&halo_client.device_memory, range);
        free(range.uploaded);
    }
    return r;
}

/* An address that this process uses is put aside, so that the worker gives another one; in the end it is given back. */
static int allocate(void **ret, size_t n, uint32_t flags)
{
    uint64_t aside[COLLISIONS_MAX], at = 0;
    uint32_t n_aside = 0;
    int error, r = -EADDRINUSE;
    while ((error = ask_malloc(n, flags, &at)) == 0 && (r = keep(at, n)) != 0) {
        aside[n_aside++] = at;
        if (r != -EADDRINUSE || n_aside == COLLISIONS_MAX) {
            error = HIP_OUT_OF_MEMORY;
            break;
        }
    }
    for (uint32_t i = 0; i < n_aside; i++)
        (void)give_back(aside[i]);
    *ret = error ? NULL : (void *)(uintptr_t)at;
    return error;
}

int hipExtMallocWithFlags(void **ret, size_t n, unsigned int flags)
{
    int error = halo_client_enter();
    if (!error && (!ret || flags > 4))
        error = HIP_INVALID_VALUE;
    if (!error && n == 0)
        *ret = NULL;
    else if (!error)
        error = n <= HALO_REMOTE_SIZE_MAX ? allocate(ret, n, flags) : HIP_OUT_OF_MEMORY;
    return halo_client_leave(error);
}

int hipMalloc(void **ret, size_t n)
{
    return hipExtMallocWithFlags(ret, n, 0);
}

int hipMallocPitch(void **ret, size_t *ret_pitch, size_t width, size_t height)
{
    size_t pitch = width < SIZE_MAX - PITCH_BYTES ? (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES : SIZE_MAX;
    size_t n = height > 0 && pitch > SIZE_MAX / height ? SIZE_MAX : pitch * height;
    if (ret_pitch)
        *ret_pitch = pitch;
    return hipMalloc(ret_pitch ? ret : NULL, n);
}

int hipFree(void *p)
{
    struct halo_remote_range range;
    int error = halo_client_enter_at(p);
    if (!error && p) {
        if (!halo_remote_ranges_take(&halo_client.device_memory, (uint64_t)(uintptr_t)p, &range)) {
            error = HIP_INVALID_VALUE;
        } else {
            halo_remote_ranges_release(&halo_client.device_memory, range);
            free(range.uploaded);
            error = give_back(range.at);
        }
    }
    return halo_client_leave(error);
}

int hipMemGetInfo(size_t *ret_free, size_t *ret_total)
{
    struct halo_remote_mem_get_info_reply a;
    int error = halo_client_enter();
    if (!error && (!ret_free || !ret_total))
        error = HIP_INVALID_VALUE;
    if (!error) {
        int r = halo_remote_mem_get_info(&halo_client.port, &(struct halo_remote_mem_get_info){}, &a);
        error = halo_client_status(r, &a.status);
    }
    if (!error) {
        *ret_free = a.free_bytes;
        *ret_total = a.total_bytes;
    }
    return halo_client_leave(error);
}

/* ---- the host's ---- */

static int allocate_on_host(void **ret, size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, PAGE_BYTES, n) != 0)
        return HIP_OUT_OF_MEMORY;
    if (halo_remote_ranges_add(&halo_client.host_memory,
                               (struct halo_remote_range){.at = halo_client_bits(p), .bytes = n})) {
        free(p);
        return HIP_OUT_OF_MEMORY;
    }
    *ret = p;
    return 0;
}

int hipHostMalloc(void **ret, size_t n, unsigned int flags)
{
    int error = halo_client_enter();
    if (!error && (!ret || flags & ~HOST_FLAGS))
        error = HIP_INVALID_VALUE;
    if (!error && n == 0)
        *ret = NULL;
    else if (!error)
        error = allocate_on_host(ret, n);
    return halo_client_leave(error);
}

/* Copies that are on their way into it come first. */
int hipHostFree(void *p)
{
    struct halo_remote_range range;
    int error = halo_client_enter_at(p);
    if (!error && p) {
        const struct halo_remote_range *held =
            halo_remote_ranges_find(&halo_client.host_memory, (uint64_t)(uintptr_t)p, 1);
        if (!held || held->at != (uint64_t)(uintptr_t)p)
            error = HIP_INVALID_VALUE;
        else
            error = halo_client_settle(p, held->bytes);
        if (!error && halo_remote_ranges_take(&halo_client.host_memory, (uint64_t)(uintptr_t)p, &range))
            free(p);
    }
    return halo_client_leave(error);
}

/* Other names of the two. */

int hipHostAlloc(void **ret, size_t n, unsigned int flags)
{
    return hipHostMalloc(ret, n, flags);
}

int hipMallocHost(void **ret, size_t n)
{
    return hipHostMalloc(ret, n, 0);
}

int hipMemAllocHost(void **ret, size_t n)
{
    return hipHostMalloc(ret, n, 0);
}

int hipFreeHost(void *p)
{
    return hipHostFree(p);
}

/* ---- the program's own memory that it registers: copies stay as they are; kernels that are given it are refused
 * ---- */

int hipHostRegister(void *p, size_t n, unsigned int flags)
{
    const struct halo_remote_range range = {.at = halo_client_bits(p), .bytes = n};
    int error = halo_client_enter();
    if (!error && (!p || n == 0 || flags & ~REGISTER_FLAGS || n > UINTPTR_MAX - range.at))
        error = HIP_INVALID_VALUE;
    if (!error) {
        int r = halo_remote_ranges_add(&halo_client.registered_memory, range);
        error = r == -EEXIST ? HIP_HOST_ALREADY_REGISTERED : r ? HIP_OUT_OF_MEMORY : 0;
    }
    return halo_client_leave(error);
}

int hipHostUnregister(void *p)
{
    struct halo_remote_range range;
    int error = halo_client_enter_at(p);
    if (!error && !halo_remote_ranges_take(&halo_client.registered_memory, halo_client_bits(p), &range))
        error = p ? HIP_HOST_NOT_REGISTERED : HIP_INVALID_VALUE;
    return halo_client_leave(error);
}

static const struct halo_remote_range *host_range(const void *p)
{
    const struct halo_remote_range *range = halo_remote_ranges_find(&halo_client.host_memory, halo_client_bits(p), 1);
    return range ? range : halo_remote_ranges_find(&halo_client.registered_memory, halo_client_bits(p), 1);
}

int hipHostGetFlags(unsigned int *ret, void *p)
{
    int error = halo_client_enter_at(p);
    if (!error && (!ret || !host_range(p)))
        error = HIP_INVALID_VALUE;
    if (!error)
        *ret = 0;
    return halo_client_leave(error);
}

/* ---- what an address is ---- */

int hipPointerGetAttributes(struct hip_pointer_attributes *ret, const void *p)
{
    int error = halo_client_enter_at(p);
    if (!error && (!ret || (!p && halo_client_major < 7)))
        error = HIP_INVALID_VALUE;
    if (!error) {
        const struct halo_remote_range *range =
            halo_remote_ranges_find(&halo_client.device_memory, halo_client_bits(p), 1);
        *ret = (struct hip_pointer_attributes){.type = HIP_MEMORY_UNREGISTERED};
        if (range)
            *ret = (struct hip_pointer_attributes){.type = HIP_MEMORY_DEVICE,
                                                   .device = range->device,
                                                   .device_pointer = halo_client_pointer(halo_client_bits(p))};
        else if (host_range(p))
            *ret = (struct hip_pointer_attributes){.type = HIP_MEMORY_HOST,
                                                   .host_pointer = halo_client_pointer(halo_client_bits(p))};
    }
    return halo_client_leave(error);
}

static int find_device_range(const void *p, const struct halo_remote_range **ret)
{
    *ret = halo_remote_ranges_find(&halo_client.device_memory, halo_client_bits(p), 1);
    return *ret ? 0 : HIP_INVALID_VALUE;
}

int hipMemGetAddressRange(void **ret_base, size_t *ret_bytes, void *p)
{
    const struct halo_remote_range *range = NULL;
    int error = halo_client_enter_at(p);
    if (!error)
        error = find_device_range(p, &range);
    if (!error && ret_base)
        *ret_base = halo_client_pointer(range->at);
    if (!error && ret_bytes)
        *ret_bytes = range->bytes;
    return halo_client_leave(error);
}

int hipMemPtrGetInfo(void *p, size_t *ret_bytes)
{
    return hipMemGetAddressRange(NULL, ret_bytes, p);
}

/* A kernel cannot reach memory of this machine. */
int hipHostGetDevicePointer(void **ret, void *p, unsigned int flags)
{
    int error = halo_client_enter();
    if (!error)
        error = ret && p ? HIP_NOT_SUPPORTED : HIP_INVALID_VALUE;
    return halo_client_leave(error);
}
