/* call_copy2d.c: copies of rows. Narrow rows travel together, without the gaps between them; wide ones as copies of
 * their own. What goes to memory of the host in narrow rows is waited for.
 */
#include <stdlib.h>
#include <string.h>

#include "client_priv.h"
#include "copy_priv.h"

#define PACK_BYTES (16u << 10) /* of rows that travel together */

struct rows {
    uint8_t *to;
    size_t to_pitch;
    const uint8_t *from;
    size_t from_pitch, width, height;
};

static uint64_t address(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

static int send_rows(const struct rows *c, uint64_t stream)
{
    uint8_t packed[PACK_BYTES];
    size_t step = PACK_BYTES / c->width;
    int error = halo_client_settle(c->from, c->from_pitch * (c->height - 1) + c->width);
    for (size_t done = 0; done < c->height && !error; done += step) {
        size_t n = c->height - done < step ? c->height - done : step;
        for (size_t i = 0; i < n; i++)
            memcpy(packed + i * c->width, c->from + (done + i) * c->from_pitch, c->width);
        const struct halo_remote_memcpy_2d_async q = {.to = address(c->to + done * c->to_pitch),
                                                      .to_pitch = c->to_pitch,
                                                      .from_pitch = c->width,
                                                      .width = c->width,
                                                      .height = n,
                                                      .kind = HIP_COPY_TO_DEVICE,
                                                      .stream = stream,
                                                      .data = {packed, (uint32_t)(n * c->width)}};
        error = halo_client_send_data(HIP_OP_MEMCPY_2D_ASYNC, &q, q.data);
    }
    return error;
}

struct piece {
    int error;
    bool is_done;
};

static void take_piece(void *ud, uint64_t tag, const union halo_remote_reply *reply)
{
    struct piece *piece = ud;
    piece->error = reply->status.error;
    piece->is_done = true;
}

/* `n` rows into a piece without gaps. */
static int fetch_rows(const struct rows *c, size_t first, size_t n, uint64_t stream, uint8_t *packed)
{
    struct piece piece = {0};
    const struct halo_remote_memcpy_2d_async q = {.to_pitch = c->width,
                                                  .from = address(c->from + first * c->from_pitch),
                                                  .from_pitch = c->from_pitch,
                                                  .width = c->width,
                                                  .height = n,
                                                  .kind = HIP_COPY_TO_HOST,
                                                  .stream = stream};
    const struct halo_link_answer answer = {
        .take = take_piece, .ud = &piece, .to = packed, .n = (uint32_t)(n * c->width)};
    int r = halo_link_ask(&halo_client.link, HIP_OP_MEMCPY_2D_ASYNC, &q, (uint8_t)halo_client_thread_device, answer);
    while (!r && !piece.is_done)
        r = halo_link_step(&halo_client.link);
    const struct halo_remote_status status = {.error = piece.error};
    return halo_client_status(r, &status);
}

static int receive_rows(const struct rows *c, uint64_t stream)
{
    uint8_t packed[PACK_BYTES];
    size_t step = PACK_BYTES / c->width;
    int error = 0;
    for (size_t done = 0; done < c->height && !error; done += step) {
        size_t n = c->height - done < step ? c->height - done : step;
        error = fetch_rows(c, done, n, stream, packed);
        for (size_t i = 0; i < n && !error; i++)
            memcpy(c->to + (done + i) * c->to_pitch, packed + i * c->width, c->width);
    }
    return error ? error : halo_client_deferred();
}

/* Each row by itself. */
static int copy_wide(const struct rows *c, int kind, void *stream, bool waits)
{
    int error = 0;
    for (size_t i = 0; i < c->height && !error; i++)
        error = halo_copy(c->to + i * c->to_pitch, c->from + i * c->from_pitch, c->width, kind, stream, waits);
    return error;
}

static int copy_on_device(const struct rows *c, uint64_t stream)
{
    const struct halo_remote_memcpy_2d_async q = {.to = address(c->to),
                                                  .to_pitch = c->to_pitch,
                                                  .from = address(c->from),
                                                  .from_pitch = c->from_pitch,
                                                  .width = c->width,
                                                  .height = c->height,
                                                  .kind = HIP_COPY_ON_DEVICE,
                                                  .stream = stream};
    return halo_client_send(HIP_OP_MEMCPY_2D_ASYNC, &q);
}

static bool fits(size_t pitch, const struct rows *c)
{
    return pitch <= HALO_REMOTE_SIZE_MAX / c->height;
}

static int copy(struct rows *c, int kind, void *stream, bool waits)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    if (!halo_client_stream(stream, &bits, &slot))
        return HIP_INVALID_HANDLE;
    if (c->width == 0 || c->height == 0)
        return 0;
    if (c->width > c->to_pitch || c->width > c->from_pitch)
        return HIP_INVALID_PITCH;
    if (!c->to || !c->from || !fits(c->to_pitch, c) || !fits(c->from_pitch, c))
        return HIP_INVALID_VALUE;
    kind = halo_copy_kind(c->to, c->from, kind);
    if (kind < HIP_COPY_ON_HOST || kind > HIP_COPY_ON_DEVICE ||
        (kind & HIP_COPY_TO_DEVICE && !halo_copy_is_device(c->to, c->to_pitch * (c->height - 1) + c->width)) ||
        (kind & HIP_COPY_TO_HOST && !halo_copy_is_device(c->from, c->from_pitch * (c->height - 1) + c->width)))
        return HIP_INVALID_VALUE;
    if (slot && slot->u.stream.is_capturing && kind != HIP_COPY_ON_DEVICE)
        return HIP_CAPTURE_UNSUPPORTED;
    if (kind == HIP_COPY_ON_DEVICE)
        return copy_on_device(c, bits);
    if (kind == HIP_COPY_ON_HOST || c->width > PACK_BYTES / 2)
        return copy_wide(c, kind, stream, waits);
    return kind == HIP_COPY_TO_DEVICE ? send_rows(c, bits) : receive_rows(c, bits);
}

int hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                     int kind, void *stream)
{
    struct rows c = {to, to_pitch, from, from_pitch, width, height};
    int error = halo_client_enter();
    if (!error)
        error = copy(&c, kind, stream, false);
    return halo_client_leave(error);
}

int hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind)
{
    struct rows c = {to, to_pitch, from, from_pitch, width, height};
    int error = halo_client_enter();
    if (!error)
        error = copy(&c, kind, NULL, true);
    return halo_client_leave(error);
}
