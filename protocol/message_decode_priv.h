/* message_decode_priv.h: what the parts of the decoder share: message_decode.c has lines and messages, message_object.c
 * objects, message_field.c the kinds of fields, message_refuse.c the sentence of a refusal.
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

/* Reads one field that holds no object. Whether it may be absent is checked before. */
int halo_decode_field(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                      void *base);

/* A string of `lo` to `hi` bytes. */
int halo_decode_str(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi, json_t *json,
                    struct halo_str *ret);

/* Zeroed room for the items of a list (an empty list has an address too); NULL, and why, if there is none. */
void *halo_decode_list_room(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, size_t n,
                            size_t item_bytes, int *ret_rc);

/* A string or an integer; a string of `lo` to `hi` bytes. */
int halo_decode_id(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi, json_t *json,
                   struct halo_id *ret_id);

/* Fills the refusal with "place: text", code bad_request. Returns HALO_MSG_E_REFUSED. */
__attribute__((format(printf, 3, 4))) int halo_decode_refuse(struct halo_decode *d, const struct halo_where *where,
                                                             const char *format, ...);

/* "expected WANTED, got ..." */
int halo_decode_wrong_type(struct halo_decode *d, const struct halo_where *where, const char *wanted,
                           const json_t *json);

/* Appends to the refusal's message; a piece of the line in quotes, at most 40 bytes of it; "did you mean". */
struct halo_suggest;
__attribute__((format(printf, 2, 3))) void halo_refusal_say(struct halo_refusal *r, const char *format, ...);
void halo_refusal_say_quoted(struct halo_refusal *r, const char *text, size_t len);
void halo_refusal_say_suggestion(struct halo_refusal *r, const struct halo_suggest *near);

#endif
