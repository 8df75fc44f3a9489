/* more.c: functions that hip-worker calls where a runtime has them (daemon/worker/hip_more.def): rows, wider fills,
 * waits of streams, attributes. */
#include <stdlib.h>
#include <string.h>

#include "emu.h"
#include "memory.h"

#define CALL()                                                                                                         \
    do {                                                                                                               \
        int error_ = emu_call(__func__);                                                                               \
        if (error_)                                                                                                    \
            return error_ == EMU_DROPPED ? EMU_SUCCESS : error_;                                                       \
    } while (0)
#define HALO_HIP_FN(name, arguments) __attribute__((visibility("default"))) int hip##name arguments;
#include "hip_more.def"

/* Rows of elements: copied from `from`, or set to the low bytes of `value`. */
struct rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
    int kind; /* 0: a fill */
    unsigned int value, element;
};

static int do_rows(void *ud)
{
    const struct rows *c = ud;
    size_t to_bytes = c->to_pitch * (c->height - 1) + c->width, from_bytes = c->from_pitch * (c->height - 1) + c->width;
    emu_memory_lock();
    bool ok =
        (c->kind == 2 || emu_memory_holds(c->to, to_bytes)) && (c->kind <= 1 || emu_memory_holds(c->from, from_bytes));
    for (size_t y = 0; ok && y < c->height; y++) {
        char *row = c->to + y * c->to_pitch;
        if (c->kind != 0)
            memmove(row, c->from + y * c->from_pitch, c->width);
        for (size_t x = 0; c->kind == 0 && x < c->width; x += c->element)
            memcpy(row + x, &c->value, c->element);
    }
    emu_memory_unlock();
    return ok ? 0 : -1;
}

static int push_rows(void *stream, struct rows c)
{
    struct rows *rows = c.width > 0 && c.height > 0 ? malloc(sizeof(*rows)) : NULL;
    if (!rows)
        return c.width > 0 && c.height > 0 ? EMU_NO_MEMORY : EMU_SUCCESS;
    *rows = c;
    return emu_stream_push(stream, (struct emu_task){do_rows, free, rows}) ? EMU_SUCCESS : EMU_NO_MEMORY;
}

int hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                     int kind, void *stream)
{
    CALL();
    if (kind < 1 || kind > 3 || width > to_pitch || width > from_pitch)
        return EMU_INVALID;
    return push_rows(stream, (struct rows){to, from, to_pitch, from_pitch, width, height, kind, 0, 0});
}

int hipMemset2DAsync(void *p, size_t pitch, int byte, size_t width, size_t height, void *stream)
{
    CALL();
    return push_rows(stream, (struct rows){p, NULL, pitch, 0, width, height, 0, (unsigned int)byte & 0xff, 1});
}

int hipMemsetD16Async(void *p, unsigned short value, size_t n, void *stream)
{
    CALL();
    return push_rows(stream, (struct rows){p, NULL, 0, 0, 2 * n, 1, 0, value, 2});
}

int hipMemsetD32Async(void *p, int value, size_t n, void *stream)
{
    CALL();
    return push_rows(stream, (struct rows){p, NULL, 0, 0, 4 * n, 1, 0, (unsigned int)value, 4});
}

/* ---- streams and events ---- */

int hipStreamWaitEvent(void *stream, void *event, unsigned int flags)
{
    CALL();
    return flags == 0 && emu_event_wait(event, stream) ? EMU_SUCCESS : EMU_INVALID;
}

int hipStreamQuery(void *stream)
{
    CALL();
    bool idle = emu_stream_idle(stream);
    int lost = emu_lost(); /* of work that completed before the stream was idle */
    return lost ? lost : idle ? EMU_SUCCESS : EMU_NOT_READY;
}

int hipStreamIsCapturing(void *stream, int *ret)
{
    CALL();
    *ret = emu_stream_capturing(stream);
    return EMU_SUCCESS;
}

int hipEventElapsedTime(float *ret_ms, void *start, void *end)
{
    CALL();
    return emu_event_elapsed(start, end, ret_ms);
}

int hipStreamCreateWithPriority(void **ret, unsigned int flags, int priority)
{
    CALL();
    (void)priority;
    *ret = flags <= 1 ? emu_stream_create() : NULL;
    return *ret ? EMU_SUCCESS : EMU_INVALID;
}

int hipDeviceGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    CALL();
    *ret_least = 1;
    *ret_greatest = -1;
    return EMU_SUCCESS;
}

/* ---- the device and its kernels ---- */

int hipDeviceGetAttribute(int *ret, int attribute, int device)
{
    static const int values[][2] = {{16, 1}, {56, 1024}, {63, 4}, {87, 32}};
    CALL();
    for (size_t i = 0; i < sizeof(values) / sizeof(*values) && device == 0; i++)
        if (values[i][0] == attribute) {
            *ret = values[i][1];
            return EMU_SUCCESS;
        }
    return EMU_INVALID;
}

int hipDeviceCanAccessPeer(int *ret, int device, int peer)
{
    CALL();
    *ret = 0;
    return device == 0 && peer == 0 ? EMU_SUCCESS : EMU_INVALID;
}

int hipDeviceGetUuid(void *ret_16_bytes, int device)
{
    CALL();
    memcpy(ret_16_bytes, "an emulated GPU.", 16);
    return device == 0 ? EMU_SUCCESS : EMU_INVALID;
}

int hipFuncSetAttribute(const void *function, int attribute, int value)
{
    CALL();
    return function && attribute >= 8 && attribute <= 9 && value >= 0 ? EMU_SUCCESS : EMU_INVALID;
}
