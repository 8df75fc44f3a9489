/* fuzz_remote_frame.c: the reader of remote HIP's frames, and both decoders behind it.
 *
 * Input: a byte for the sizes of the pieces, then the stream. Whatever the pieces, the frames must be those of the
 * stream, one behind the other. What a decoder accepts is encoded again and must give the same bytes.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hip_remote/codec.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t frame[HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_PAYLOAD_MAX];

/* `at`: the frame as it came. A greater minor version and the lane are kept by neither encoder. */
static void check_request(const struct halo_remote_header *h, const uint8_t *at)
{
    union halo_remote_request q;
    const struct halo_remote_field *field;
    struct halo_remote_header out = *h;
    int r = halo_remote_request_decode(h, at + HALO_REMOTE_HEADER_BYTES, &q, &field);
    if (r < 0) {
        assert(r == -EBADMSG || r == -ERANGE || r == -ENOSYS);
        return;
    }
    int n = halo_remote_request_encode(frame, sizeof(frame), &out, &q, true);
    assert(n == (int)(HALO_REMOTE_HEADER_BYTES + h->payload_bytes) && out.flags == h->flags);
    assert(memcmp(frame + HALO_REMOTE_HEADER_BYTES, at + HALO_REMOTE_HEADER_BYTES, h->payload_bytes) == 0);
}

static void check_reply(const struct halo_remote_header *h, const uint8_t *at)
{
    union halo_remote_reply a;
    struct halo_remote_header out = *h;
    int r = halo_remote_reply_decode(h, at + HALO_REMOTE_HEADER_BYTES, &a, NULL);
    if (r < 0) {
        assert(r == -EBADMSG || r == -ERANGE || r == -ENOSYS);
        return;
    }
    int n = halo_remote_reply_encode(frame, sizeof(frame), &out, &a, true);
    assert(n == (int)(HALO_REMOTE_HEADER_BYTES + h->payload_bytes));
    assert(memcmp(frame + HALO_REMOTE_HEADER_BYTES, at + HALO_REMOTE_HEADER_BYTES, h->payload_bytes) == 0);
}

/* The payload alone in a block of its size, so that a read past its end is seen. */
static void check_frame(const struct halo_remote_header *h, const uint8_t *payload)
{
    size_t n = HALO_REMOTE_HEADER_BYTES + h->payload_bytes;
    uint8_t *block = malloc(n);
    if (!block)
        abort();
    memcpy(block + HALO_REMOTE_HEADER_BYTES, payload, h->payload_bytes);
    if (h->flags & HALO_REMOTE_FLAG_RESPONSE)
        check_reply(h, block);
    else
        check_request(h, block);
    free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct halo_remote_reader r;
    struct halo_remote_header h, wanted;
    const uint8_t *payload, *next;
    if (size < 1)
        return 0;
    unsigned step = data[0];
    const uint8_t *end = data + size;
    next = data + 1;
    if (halo_remote_reader_init(&r, step & 1 ? HALO_REMOTE_PAYLOAD_MAX : HALO_REMOTE_FIRST_MAX) < 0)
        abort();
    for (const uint8_t *at = data + 1; at < end;) {
        size_t room, piece = 1 + step % 64 * 7;
        uint8_t *to = halo_remote_reader_reserve(&r, &room);
        piece = piece > (size_t)(end - at) ? (size_t)(end - at) : piece;
        assert(room >= piece);
        memcpy(to, at, piece);
        halo_remote_reader_commit(&r, piece);
        at += piece;
        int rc;
        while ((rc = halo_remote_reader_next(&r, &h, &payload)) == 0) {
            assert(halo_remote_header_decode(next, &wanted) == 0);
            assert(memcmp(&h, &wanted, sizeof(h)) == 0);
            next += HALO_REMOTE_HEADER_BYTES + h.payload_bytes;
            assert(next <= at);
            check_frame(&h, payload);
        }
        if (rc < 0) {
            assert(halo_remote_reader_next(&r, &h, &payload) == rc);
            break;
        }
    }
    halo_remote_reader_finish(&r);
    return 0;
}
