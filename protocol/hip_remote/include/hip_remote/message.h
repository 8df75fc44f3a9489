/* message.h: the requests and replies of remote HIP as structs, made from hip_remote.def.
 *
 * `struct halo_remote_<name>` is a request, `struct halo_remote_<name>_reply` its reply. Strings and bulk data point
 * into the payload that was decoded, or to what is to be encoded; nothing is allocated.
 */
#ifndef HALO_HIP_REMOTE_MESSAGE_H
#define HALO_HIP_REMOTE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <hip_remote/handle.h>
#include <hip_remote/limits.h>

/* The names are those of the public description. */
enum halo_remote_op {
#define OP(number, ID, name, answer, quota, doc) HIP_OP_##ID = number,
#include <hip_remote/hip_remote.def>
};

enum {
#define OP(number, ID, name, answer, quota, doc) HALO_REMOTE_AT_##ID, /* in the table */
#include <hip_remote/hip_remote.def>
    HALO_REMOTE_N_OPS
};

/* Bits of `features` in INIT: the client asks, the worker grants. */
#define HALO_REMOTE_FEATURE_BLOBS 1u /* the worker keeps blobs beyond the session, and copies them by their hash */

struct halo_remote_bytes {
    const void *at; /* NULL when n is 0 */
    uint32_t n;
};

/* Begins each reply. */
struct halo_remote_status {
    int32_t error;          /* hipError_t of this request; not 0: no field follows */
    int32_t deferred_error; /* of the first request since the last reply that failed without an answer; 0: none */
    uint32_t deferred_id;   /* that request */
    uint32_t deferred_op;
};

#define HALO_REMOTE_C_U32(name) uint32_t name
#define HALO_REMOTE_C_I32(name) int32_t name
#define HALO_REMOTE_C_U64(name) uint64_t name
#define HALO_REMOTE_C_F32(name) float name
#define HALO_REMOTE_C_ADDR(name) uint64_t name
#define HALO_REMOTE_C_HANDLE(name) uint64_t name
#define HALO_REMOTE_C_HASH(name) uint8_t name[32]
#define HALO_REMOTE_C_TEXT(name) struct halo_remote_bytes name
#define HALO_REMOTE_C_BYTES(name) struct halo_remote_bytes name
#define HALO_REMOTE_C_DATA(name) struct halo_remote_bytes name

/* clang-format off */
#define OP(number, ID, name, answer, quota, doc) struct halo_remote_##name {
#define F(kind, name, lo, hi) HALO_REMOTE_C_##kind(name);
#define REPLY(name) }; struct halo_remote_##name##_reply { struct halo_remote_status status;
#define OP_END(name) };
#include <hip_remote/hip_remote.def>
/* clang-format on */

union halo_remote_request {
#define OP(number, ID, name, answer, quota, doc) struct halo_remote_##name name;
#include <hip_remote/hip_remote.def>
};

union halo_remote_reply {
    struct halo_remote_status status;
#define OP(number, ID, name, answer, quota, doc) struct halo_remote_##name##_reply name;
#include <hip_remote/hip_remote.def>
};

#endif
