/* message_decode_priv.h: what the two halves of the decoder share. message_decode.c has lines, messages and objects;
 * message_field.c has the kinds of fields.
 */
#ifndef HALO_PROTOCOL_MESSAGE_DECODE_PRIV_H
#define HALO_PROTOCOL_MESSAGE_DECODE_PRIV_H

#include <jansson.h>

#include "message_table_priv.h"

struct halo_decode {
    void **pool;
    struct halo_refusal *refusal;
    bool tolerant;       /* unknown fields and words of a newer peer pass */
    bool events;         /* null may stand for a number */
    enum halo_role role; /* of requests */
};

/* The place in a message, for people: generate.stop[3]. */
struct halo_where {
    const struct halo_where *up; /* NULL: the message itself */
    const char *name;            /* a field; NULL: an item of `up` */
    size_t index;
};

/* Reads the members of `json` into the zeroed struct at `base`. The members named `type` and `id` of the outermost
 * object are skipped. 0, -ENOMEM, HALO_MSG_E_REFUSED. */
int halo_decode_object(struct halo_decode *d, const struct halo_where *where, const struct halo_shape *shape,
                       json_t *json, void *base);

/* Reads one field. Presence is the caller's business. */
int halo_decode_field(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                      void *base);

/* A string or an integer; a string of `lo` to `hi` bytes. */
int halo_decode_id(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi, json_t *json,
                   struct halo_id *ret_id);

/* Fills the refusal with "place: text", code bad_request. Returns HALO_MSG_E_REFUSED. */
__attribute__((format(printf, 3, 4))) int halo_decode_refuse(struct halo_decode *d, const struct halo_where *where,
                                                             const char *format, ...);

#endif
