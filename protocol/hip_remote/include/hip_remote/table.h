/* table.h: hip_remote.def as data, for code that walks it: encoder, decoder, fuzzers, the document.
 *
 * Constant; any thread.
 */
#ifndef HALO_HIP_REMOTE_TABLE_H
#define HALO_HIP_REMOTE_TABLE_H

#include <stdint.h>

#include <hip_remote/message.h>

enum halo_remote_kind {
    HALO_REMOTE_KIND_END, /* after the last field */
    HALO_REMOTE_KIND_U32,
    HALO_REMOTE_KIND_I32,
    HALO_REMOTE_KIND_U64,
    HALO_REMOTE_KIND_F32,
    HALO_REMOTE_KIND_ADDR,
    HALO_REMOTE_KIND_HANDLE,
    HALO_REMOTE_KIND_HASH,
    HALO_REMOTE_KIND_TEXT,
    HALO_REMOTE_KIND_BYTES,
    HALO_REMOTE_KIND_DATA,
};

enum halo_remote_answer { HALO_REMOTE_ANSWER_NONE, HALO_REMOTE_ANSWER_DEFERRED, HALO_REMOTE_ANSWER_NEEDED };

enum halo_remote_quota {
    HALO_REMOTE_QUOTA_NONE,
    HALO_REMOTE_QUOTA_MEMORY,
    HALO_REMOTE_QUOTA_COPY,
    HALO_REMOTE_QUOTA_STREAM,
    HALO_REMOTE_QUOTA_EVENT,
    HALO_REMOTE_QUOTA_MODULE,
    HALO_REMOTE_QUOTA_FUNCTION,
    HALO_REMOTE_QUOTA_GRAPH,
    HALO_REMOTE_QUOTA_BLOB,
};

struct halo_remote_field {
    const char *name;
    enum halo_remote_kind kind;
    uint16_t at; /* offset in the struct */
    int64_t lo, hi;
};

struct halo_remote_shape {
    const struct halo_remote_field *(*fields)(void); /* in the order of the wire, then one of kind END */
    uint16_t bytes;                                  /* of the struct */
};

struct halo_remote_op_info {
    uint16_t number;
    const char *name; /* "HIP_OP_MALLOC" */
    const char *doc;
    enum halo_remote_answer answer;
    enum halo_remote_quota quota;
    struct halo_remote_shape request, reply; /* the reply without its status */
};

/* In ascending order of their numbers. */
extern const struct halo_remote_op_info halo_remote_ops[HALO_REMOTE_N_OPS];

/* NULL: no such operation. */
const struct halo_remote_op_info *halo_remote_op_find(uint16_t number);

#endif
