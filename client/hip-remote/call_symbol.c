/* call_symbol.c: variables of the program that lie on the device, named by the host's shadow of each. The first use
 * on a device asks the worker where it lies.
 */
#include "client_priv.h"
#include "copy_priv.h"
#include "fat_priv.h"

/* The place of `n` bytes at `offset` of the variable. */
static int place(const void *host, size_t n, size_t offset, uint64_t *ret)
{
    uint64_t bytes;
    int error = halo_fat_variable(host, ret, &bytes);
    if (!error && (offset > bytes || n > bytes - offset))
        error = HIP_INVALID_VALUE;
    *ret += offset;
    return error;
}

static int check(void *stream, const void *other, size_t n, uint64_t *ret_stream)
{
    struct halo_remote_slot *slot;
    if (!halo_client_stream(stream, ret_stream, &slot))
        return HIP_INVALID_HANDLE;
    if (n > 0 && !other)
        return HIP_INVALID_VALUE;
    return slot && slot->u.stream.is_capturing ? HIP_CAPTURE_UNSUPPORTED : 0;
}

/* `kind`: as of a copy whose one side is the variable. */
static int copy_to(const void *host, const void *from, size_t n, size_t offset, int kind, void *stream)
{
    uint64_t to, bits;
    int error = place(host, n, offset, &to);
    if (!error)
        error = check(stream, from, n, &bits);
    if (error || n == 0)
        return error;
    if (kind == HIP_COPY_DEFAULT)
        kind = halo_copy_is_device(from, n) ? HIP_COPY_ON_DEVICE : HIP_COPY_TO_DEVICE;
    if (kind == HIP_COPY_TO_DEVICE)
        return halo_copy_to_device(to, from, n, bits);
    if (kind != HIP_COPY_ON_DEVICE || !halo_copy_is_device(from, n))
        return HIP_INVALID_VALUE;
    return halo_client_send(
        HIP_OP_MEMCPY_ASYNC,
        &(struct halo_remote_memcpy_async){
            .to = to, .from = halo_client_bits(from), .size = n, .kind = HIP_COPY_ON_DEVICE, .stream = bits});
}

static int copy_from(void *to, const void *host, size_t n, size_t offset, int kind, void *stream)
{
    uint64_t from, bits;
    int error = place(host, n, offset, &from);
    if (!error)
        error = check(stream, to, n, &bits);
    if (error || n == 0)
        return error;
    if (kind == HIP_COPY_DEFAULT)
        kind = halo_copy_is_device(to, n) ? HIP_COPY_ON_DEVICE : HIP_COPY_TO_HOST;
    if (kind == HIP_COPY_TO_HOST)
        return halo_copy_to_host(to, from, n, bits, true);
    if (kind != HIP_COPY_ON_DEVICE || !halo_copy_is_device(to, n))
        return HIP_INVALID_VALUE;
    return halo_client_send(
        HIP_OP_MEMCPY_ASYNC,
        &(struct halo_remote_memcpy_async){
            .to = halo_client_bits(to), .from = from, .size = n, .kind = HIP_COPY_ON_DEVICE, .stream = bits});
}

int hipMemcpyToSymbolAsync(const void *host, const void *from, size_t n, size_t offset, int kind, void *stream)
{
    int error = halo_client_enter();
    if (!error)
        error = copy_to(host, from, n, offset, kind, stream);
    return halo_client_leave(error);
}

int hipMemcpyToSymbol(const void *host, const void *from, size_t n, size_t offset, int kind)
{
    return hipMemcpyToSymbolAsync(host, from, n, offset, kind, NULL);
}

int hipMemcpyFromSymbolAsync(void *to, const void *host, size_t n, size_t offset, int kind, void *stream)
{
    int error = halo_client_enter();
    if (!error)
        error = copy_from(to, host, n, offset, kind, stream);
    return halo_client_leave(error);
}

int hipMemcpyFromSymbol(void *to, const void *host, size_t n, size_t offset, int kind)
{
    return hipMemcpyFromSymbolAsync(to, host, n, offset, kind, NULL);
}

int hipGetSymbolAddress(void **ret, const void *host)
{
    uint64_t at;
    int error = halo_client_enter();
    if (!error)
        error = ret ? place(host, 0, 0, &at) : HIP_INVALID_VALUE;
    if (!error)
        *ret = halo_client_pointer(at);
    return halo_client_leave(error);
}

int hipGetSymbolSize(size_t *ret, const void *host)
{
    uint64_t at, bytes;
    int error = halo_client_enter();
    if (!error)
        error = ret ? halo_fat_variable(host, &at, &bytes) : HIP_INVALID_VALUE;
    if (!error)
        *ret = bytes;
    return halo_client_leave(error);
}
