/* envelope.h: type and id of a line without decoding it, and the same line with another id.
 *
 * halod passes most lines on undecoded: it reads the envelope and replaces the client's id by its own, and back. One
 * pass over the line, no memory. The pass checks the whole grammar of JSON and UTF-8, so a line that returns 0 is well
 * formed; the meaning of its fields is checked by halo_msg_decode() and halo_ev_decode().
 * Ranges are offsets into the line, which must not change while the envelope is used.
 */
#ifndef HALO_PROTOCOL_ENVELOPE_H
#define HALO_PROTOCOL_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protocol/json_write.h>
#include <protocol/limits.h>
#include <protocol/value.h>

#define HALO_ID_BUF_BYTES (HALO_LIMIT_ID_BYTES + 1)
#define HALO_ENVELOPE_E_BAD 1 /* not one JSON object; the envelope has what was read before the fault */

/* A piece of a line. */
struct halo_range {
    size_t at, len;
};

struct halo_envelope {
    struct halo_range type;    /* the type's text between its quotes, not unescaped; len 0: none */
    enum halo_id_kind id_kind; /* NONE: no id, null, or one that is neither integer nor string of 1-128 bytes */
    int64_t id_num;            /* HALO_ID_INT */
    struct halo_range id;      /* the id's value as written, with quotes; len 0: none */
    struct halo_range body;    /* what is between the outer braces */
    size_t bad_at;             /* HALO_ENVELOPE_E_BAD: the byte at fault */
};

/* 0 or HALO_ENVELOPE_E_BAD. For lines of either direction: the limits are those of an event, which are larger than
 * those of a request. */
int halo_envelope_scan(const char *line, size_t len, struct halo_envelope *ret_env);

/* A field of the outer object that the caller wants beside type and id. */
struct halo_envelope_field {
    const char *key;
    struct halo_range value; /* as written, a string with its quotes; of several the last; len 0: none */
};

/* The same, and sets the value of each of the fields, in one pass. */
int halo_envelope_scan_fields(const char *line, size_t len, struct halo_envelope *ret_env,
                              struct halo_envelope_field *fields, size_t n_fields);

/* The decoded id. A string is unescaped into `buf`, which the id then points into. */
struct halo_id halo_envelope_id(const char *line, const struct halo_envelope *env, char buf[static HALO_ID_BUF_BYTES]);

/* Appends the line with `id` in place of its own (added in front if it had none), all other bytes unchanged, but
 * leaves the object open: the caller may add fields that the line does not have yet (halo_json_key, then a value),
 * then calls halo_envelope_rewrite_end(), which closes it, ends the line and returns the writer's error or 0. */
void halo_envelope_rewrite_begin(struct halo_json *w, const char *line, const struct halo_envelope *env,
                                 const struct halo_id *id);
int halo_envelope_rewrite_end(struct halo_json *w);

/* Both at once. On failure `w` is as it was. */
int halo_envelope_rewrite(struct halo_json *w, const char *line, const struct halo_envelope *env,
                          const struct halo_id *id);

/* What a field that such a scan found means: true and its value, or false if it is not there or of another kind: no
 * int64, no finite number, no string. Of a string the length in bytes, unescaped. */
bool halo_envelope_i64(const char *line, struct halo_range value, int64_t *ret_value);
bool halo_envelope_f64(const char *line, struct halo_range value, double *ret_value);
bool halo_envelope_str_bytes(const char *line, struct halo_range value, size_t *ret_bytes);

#endif
