/* fuzz_remote_op.c: messages made from the table of operations by the choices in the input, then damaged.
 *
 * A valid message must come through both ways as it was. A field out of its range must not be encoded. Of a frame with
 * a few bytes changed or its length cut, whatever is still accepted must say the same when it is sent on.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hip_remote/codec.h>

#include "fill.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t frame[HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_PAYLOAD_MAX];
static uint8_t again[sizeof(frame)];

struct direction {
    const struct halo_remote_shape *shape;
    int (*encode)(uint8_t *buf, size_t cap, struct halo_remote_header *h, const void *message, bool with_data);
    int (*decode)(const struct halo_remote_header *h, const uint8_t *payload, void *ret,
                  const struct halo_remote_field **ret_field);
};

union message {
    union halo_remote_request request;
    union halo_remote_reply reply;
};

/* Decodes a payload that lies alone in a block of its size. */
static int decode_alone(const struct direction *d, const struct halo_remote_header *h, const uint8_t *payload)
{
    union message got, second;
    struct halo_remote_header out = *h;
    uint8_t *block = malloc(h->payload_bytes ? h->payload_bytes : 1);
    if (!block)
        abort();
    memcpy(block, payload, h->payload_bytes);
    int r = d->decode(h, block, &got, NULL);
    if (r == 0) {
        int n = d->encode(again, sizeof(again), &out, &got, true);
        assert(n == (int)(HALO_REMOTE_HEADER_BYTES + h->payload_bytes));
        assert(d->decode(&out, again + HALO_REMOTE_HEADER_BYTES, &second, NULL) == 0);
        assert((h->flags & HALO_REMOTE_FLAG_ERROR) || fill_same(d->shape, &got, &second));
    } else {
        assert(r == -EBADMSG || r == -ERANGE);
    }
    free(block);
    return r;
}

static void damage(const struct direction *d, struct halo_remote_header h, struct fill_choices *c)
{
    for (uint64_t n = fill_next(c) % 4; n > 0 && h.payload_bytes > 0; n--)
        frame[HALO_REMOTE_HEADER_BYTES + fill_next(c) % h.payload_bytes % 256] = (uint8_t)fill_next(c);
    if (fill_next(c) % 2 && h.payload_bytes > 0)
        h.payload_bytes = (uint32_t)(fill_next(c) % h.payload_bytes);
    if (fill_next(c) % 4 == 0)
        h.flags ^= (uint16_t)(1u << fill_next(c) % 4);
    (void)decode_alone(d, &h, frame + HALO_REMOTE_HEADER_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fill_choices c = {.at = data, .n = size, .state = size};
    const struct halo_remote_op_info *op = &halo_remote_ops[fill_next(&c) % HALO_REMOTE_N_OPS];
    bool is_reply = fill_next(&c) & 1;
    const struct direction d = {
        .shape = is_reply ? &op->reply : &op->request,
        .encode = is_reply ? halo_remote_reply_encode : halo_remote_request_encode,
        .decode = is_reply ? halo_remote_reply_decode : halo_remote_request_decode,
    };
    struct halo_remote_header h = {.op = op->number};
    union message m = {0};
    bool long_data = fill_next(&c) % 64 == 0;
    if (is_reply) {
        fill_reply(op, &c, long_data, &m.reply);
    } else {
        fill_request(op, &c, long_data, &m.request);
        h.flags = fill_flags(op, &m.request, &c);
    }
    int n = d.encode(frame, sizeof(frame), &h, &m, true);
    assert(n == (int)(HALO_REMOTE_HEADER_BYTES + h.payload_bytes));
    assert(decode_alone(&d, &h, frame + HALO_REMOTE_HEADER_BYTES) == 0);
    damage(&d, h, &c);
    if (fill_break(d.shape, &c, &m))
        assert(d.encode(frame, sizeof(frame), &h, &m, true) == -ERANGE);
    return 0;
}
