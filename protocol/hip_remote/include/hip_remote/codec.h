/* codec.h: requests and replies to and from the bytes of frames.
 *
 * Nothing is allocated. Decoding checks lengths and the range of every field, and what fields of one request say of
 * each other; what a message refers to (addresses, handles) is the worker's to check. Pure; any thread.
 *
 * Errors: -EBADMSG a payload that is shorter or longer than its fields; -ERANGE a field out of its range, or fields
 * that contradict each other; -ENOSYS no such operation; -ENOBUFS the buffer is too small.
 */
#ifndef HALO_HIP_REMOTE_CODEC_H
#define HALO_HIP_REMOTE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip_remote/frame.h>
#include <hip_remote/table.h>

/* Writes the header and the payload of a request into `buf` and sets h->version, payload_bytes and FLAG_DATA. With
 * `with_data` false the bulk data at the end is counted in the header but left out of the buffer: the caller sends it
 * from where it lies. `request` is the struct of h->op. The bytes written, or a negative errno. */
int halo_remote_request_encode(uint8_t *buf, size_t cap, struct halo_remote_header *h, const void *request,
                               bool with_data);

/* The same for the reply to a request whose header is `h`, which becomes the header of the reply. */
int halo_remote_reply_encode(uint8_t *buf, size_t cap, struct halo_remote_header *h, const void *reply, bool with_data);

/* `ret`: a struct of h->op or the union. `ret_field` (may be NULL): the field at fault, NULL where it is none alone. */
int halo_remote_request_decode(const struct halo_remote_header *h, const uint8_t *payload, void *ret,
                               const struct halo_remote_field **ret_field);
int halo_remote_reply_decode(const struct halo_remote_header *h, const uint8_t *payload, void *ret,
                             const struct halo_remote_field **ret_field);

#endif
