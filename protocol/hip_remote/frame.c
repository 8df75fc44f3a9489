/* frame.c: headers of frames, and the reader that cuts a stream into them. One thread at a time. */
#include <hip_remote/frame.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire_priv.h"

/* Room behind the longest frame: the rest of a read that held its end. */
#define READER_BYTES (2 * (size_t)(HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_PAYLOAD_MAX))

void halo_remote_header_encode(uint8_t at[static HALO_REMOTE_HEADER_BYTES], const struct halo_remote_header *h)
{
    halo_remote_put(at, HALO_REMOTE_MAGIC, 4);
    halo_remote_put(at + 4, h->version, 2);
    halo_remote_put(at + 6, h->op, 2);
    halo_remote_put(at + 8, h->id, 4);
    halo_remote_put(at + 12, h->payload_bytes, 4);
    halo_remote_put(at + 16, h->flags, 2);
    at[18] = h->lane;
    at[19] = h->device;
}

int halo_remote_header_decode(const uint8_t at[static HALO_REMOTE_HEADER_BYTES], struct halo_remote_header *ret)
{
    if (halo_remote_get(at, 4) != HALO_REMOTE_MAGIC)
        return -EPROTO;
    *ret = (struct halo_remote_header){
        .version = (uint16_t)halo_remote_get(at + 4, 2),
        .op = (uint16_t)halo_remote_get(at + 6, 2),
        .id = (uint32_t)halo_remote_get(at + 8, 4),
        .payload_bytes = (uint32_t)halo_remote_get(at + 12, 4),
        .flags = (uint16_t)halo_remote_get(at + 16, 2),
        .lane = at[18],
        .device = at[19],
    };
    if (ret->version >> 8 != HALO_REMOTE_VERSION >> 8)
        return -EPROTONOSUPPORT;
    if (ret->payload_bytes > HALO_REMOTE_PAYLOAD_MAX)
        return -EMSGSIZE;
    return ret->flags & ~HALO_REMOTE_FLAGS ? -EBADMSG : 0;
}

int halo_remote_reader_init(struct halo_remote_reader *r, uint32_t payload_max)
{
    *r = (struct halo_remote_reader){.buf = malloc(READER_BYTES), .payload_max = payload_max};
    return r->buf ? 0 : -ENOMEM;
}

void halo_remote_reader_finish(struct halo_remote_reader *r)
{
    free(r->buf);
    *r = (struct halo_remote_reader){0};
}

uint8_t *halo_remote_reader_reserve(struct halo_remote_reader *r, size_t *ret_room)
{
    if (r->start > 0) {
        memmove(r->buf, r->buf + r->start, r->end - r->start);
        r->end -= r->start;
        r->start = 0;
    }
    *ret_room = READER_BYTES - r->end;
    return r->buf + r->end;
}

void halo_remote_reader_commit(struct halo_remote_reader *r, size_t n)
{
    assert(n <= READER_BYTES - r->end);
    r->end += n;
}

int halo_remote_reader_next(struct halo_remote_reader *r, struct halo_remote_header *ret, const uint8_t **ret_payload)
{
    const uint8_t *at = r->buf + r->start;
    size_t n = r->end - r->start;
    if (r->error)
        return r->error;
    if (n >= 4 && halo_remote_get(at, 4) != HALO_REMOTE_MAGIC)
        return r->error = -EPROTO;
    if (n < HALO_REMOTE_HEADER_BYTES)
        return HALO_REMOTE_E_MORE;
    int error = halo_remote_header_decode(at, ret);
    if (!error && ret->payload_bytes > r->payload_max)
        error = -EMSGSIZE;
    if (error)
        return r->error = error;
    if (n - HALO_REMOTE_HEADER_BYTES < ret->payload_bytes)
        return HALO_REMOTE_E_MORE;
    *ret_payload = at + HALO_REMOTE_HEADER_BYTES;
    r->start += HALO_REMOTE_HEADER_BYTES + ret->payload_bytes;
    return 0;
}
