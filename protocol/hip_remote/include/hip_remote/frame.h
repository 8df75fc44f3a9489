/* frame.h: the header of a frame, and the reader that cuts a byte stream into frames.
 *
 *     magic u32 · version u16 · op u16 · request id u32 · payload bytes u32 · flags u16 · lane u8 · device u8
 *
 * The last four bytes are the `flags` of the public description; it uses none of their upper half. A reply repeats the
 * op, the id, the lane and the device of its request.
 */
#ifndef HALO_HIP_REMOTE_FRAME_H
#define HALO_HIP_REMOTE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include <hip_remote/limits.h>

#define HALO_REMOTE_FLAG_RESPONSE 1u
#define HALO_REMOTE_FLAG_ERROR 2u    /* a reply: its status has an error */
#define HALO_REMOTE_FLAG_DATA 4u     /* the payload ends with bulk data */
#define HALO_REMOTE_FLAG_NO_REPLY 8u /* a request: report its error with the next reply */
#define HALO_REMOTE_FLAGS 15u

#define HALO_REMOTE_DEVICE_CURRENT 255 /* `device`: the one that SET_DEVICE chose */

struct halo_remote_header {
    uint16_t version;
    uint16_t op;
    uint32_t id; /* chosen by the client; a reply repeats it */
    uint32_t payload_bytes;
    uint16_t flags;
    uint8_t lane;   /* thread of the client, for its own use */
    uint8_t device; /* that the request is for */
};

void halo_remote_header_encode(uint8_t at[static HALO_REMOTE_HEADER_BYTES], const struct halo_remote_header *h);

/* -EPROTO: not this protocol; -EPROTONOSUPPORT: another major version; -EMSGSIZE: a payload over
 * HALO_REMOTE_PAYLOAD_MAX; -EBADMSG: flags that the protocol does not have. The stream cannot be read further after any
 * of them. */
int halo_remote_header_decode(const uint8_t at[static HALO_REMOTE_HEADER_BYTES], struct halo_remote_header *ret);

#define HALO_REMOTE_E_MORE 1 /* no complete frame yet */

/* One block for the longest frame, allocated once. Bytes go in by reserve and commit; frames come out by next until it
 * says HALO_REMOTE_E_MORE. Threads: one at a time. */
struct halo_remote_reader {
    uint8_t *buf;
    size_t start, end;    /* bytes received and not yet returned */
    uint32_t payload_max; /* longer ones are refused */
    int error;            /* of the stream; sticky */
};

/* `payload_max`: HALO_REMOTE_FIRST_MAX until the peer is known, then the caller raises it to HALO_REMOTE_PAYLOAD_MAX.
 * 0 or -ENOMEM. */
int halo_remote_reader_init(struct halo_remote_reader *r, uint32_t payload_max);
void halo_remote_reader_finish(struct halo_remote_reader *r);

/* Room for the next bytes, at least one byte if all frames were taken. Frames returned earlier become invalid. */
uint8_t *halo_remote_reader_reserve(struct halo_remote_reader *r, size_t *ret_room);
void halo_remote_reader_commit(struct halo_remote_reader *r, size_t n);

/* The next frame; the payload is valid until the next reserve. 0, HALO_REMOTE_E_MORE, or an error of
 * halo_remote_header_decode(), which is sticky. A stranger's stream is refused with its first four bytes. */
int halo_remote_reader_next(struct halo_remote_reader *r, struct halo_remote_header *ret, const uint8_t **ret_payload);

#endif
