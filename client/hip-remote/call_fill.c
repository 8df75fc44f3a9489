/* call_fill.c: fills of device memory: sent, not waited for. */
#include "client_priv.h"
#include "copy_priv.h"

static int fill(void *p, uint32_t value, uint32_t width, size_t n, void *stream)
{
    struct halo_remote_memset_async q = {.to = halo_client_bits(p), .value = value, .width = width, .count = n};
    struct halo_remote_slot *slot;
    if (!halo_client_stream(stream, &q.stream, &slot))
        return HIP_INVALID_HANDLE;
    if (n == 0)
        return 0;
    if (!p || n > HALO_REMOTE_SIZE_MAX / width || !halo_copy_is_device(p, n * width) || q.to % width != 0)
        return HIP_INVALID_VALUE;
    return halo_client_send(HIP_OP_MEMSET_ASYNC, &q);
}

static int fill_call(void *p, uint32_t value, uint32_t width, size_t n, void *stream)
{
    int error = halo_client_enter();
    if (!error)
        error = fill(p, value, width, n, stream);
    return halo_client_leave(error);
}

int hipMemset(void *p, int byte, size_t n)
{
    return fill_call(p, (uint8_t)byte, 1, n, NULL);
}

int hipMemsetAsync(void *p, int byte, size_t n, void *stream)
{
    return fill_call(p, (uint8_t)byte, 1, n, stream);
}

int hipMemsetD8(void *p, unsigned char value, size_t n)
{
    return fill_call(p, value, 1, n, NULL);
}

int hipMemsetD8Async(void *p, unsigned char value, size_t n, void *stream)
{
    return fill_call(p, value, 1, n, stream);
}

int hipMemsetD16(void *p, unsigned short value, size_t n)
{
    return fill_call(p, value, 2, n, NULL);
}

int hipMemsetD16Async(void *p, unsigned short value, size_t n, void *stream)
{
    return fill_call(p, value, 2, n, stream);
}

int hipMemsetD32(void *p, int value, size_t n)
{
    return fill_call(p, (uint32_t)value, 4, n, NULL);
}

int hipMemsetD32Async(void *p, int value, size_t n, void *stream)
{
    return fill_call(p, (uint32_t)value, 4, n, stream);
}

/* ---- rows ---- */

static int fill_rows(void *p, size_t pitch, int byte, size_t width, size_t height, void *stream)
{
    struct halo_remote_memset_2d_async q = {
        .to = halo_client_bits(p), .pitch = pitch, .value = (uint8_t)byte, .width = width, .height = height};
    struct halo_remote_slot *slot;
    if (!halo_client_stream(stream, &q.stream, &slot))
        return HIP_INVALID_HANDLE;
    if (width == 0 || height == 0)
        return 0;
    if (width > pitch || pitch > HALO_REMOTE_SIZE_MAX / height)
        return HIP_INVALID_VALUE;
    if (!p || !halo_copy_is_device(p, pitch * (height - 1) + width))
        return HIP_INVALID_VALUE;
    return halo_client_send(HIP_OP_MEMSET_2D_ASYNC, &q);
}

int hipMemset2DAsync(void *p, size_t pitch, int byte, size_t width, size_t height, void *stream)
{
    int error = halo_client_enter();
    if (!error)
        error = fill_rows(p, pitch, byte, width, height, stream);
    return halo_client_leave(error);
}

int hipMemset2D(void *p, size_t pitch, int byte, size_t width, size_t height)
{
    return hipMemset2DAsync(p, pitch, byte, width, height, NULL);
}
