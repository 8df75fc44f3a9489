/* json_write.h: writes JSON text, one value after another, into a buffer.
 *
 * The writer adds commas, quotes and escapes; nesting is checked by assert. Whatever the input, the output is valid
 * JSON in valid UTF-8 without a raw newline: control bytes are escaped, invalid UTF-8 becomes U+FFFD, numbers that JSON
 * does not have (NaN, infinities) become null. The locale has no effect.
 *
 * Buffer: growable (owned by the writer) or fixed (the caller's). Values do not allocate while there is room.
 * Errors are sticky: after the first one (-ENOMEM, -ENOSPC, -EMSGSIZE, -EINVAL) further calls do nothing, and the call
 * that ends the work reports it. Rolling back to an earlier mark clears it.
 */
#ifndef HALO_PROTOCOL_JSON_WRITE_H
#define HALO_PROTOCOL_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HALO_JSON_DEPTH 64 /* arrays and objects that may be open at once */

struct halo_json {
    char *at; /* the text so far; not NUL-terminated */
    size_t len;
    size_t cap;
    size_t most;        /* a growable buffer does not grow beyond this: -EMSGSIZE; 0: no limit */
    bool fixed;         /* the buffer is the caller's */
    int error;          /* 0 or a negative errno */
    uint32_t depth;     /* open arrays and objects */
    uint64_t in_object; /* bit d: the one at depth d + 1 is an object */
    bool has_value;     /* a value precedes at this level: a comma comes first */
    bool has_key;       /* a key was written, its value is next */
};

struct halo_json_mark {
    size_t len;
    uint64_t in_object;
    uint32_t depth;
    bool has_value, has_key;
};

void halo_json_init(struct halo_json *w);
void halo_json_init_fixed(struct halo_json *w, char *buf, size_t cap);
void halo_json_finish(struct halo_json *w); /* frees a growable buffer; takes NULL */

/* Empties the writer and clears its error; the memory stays. */
void halo_json_reset(struct halo_json *w);

/* Makes room for `n_bytes` more, so that what follows does not allocate. */
int halo_json_reserve(struct halo_json *w, size_t n_bytes);

/* Drops the first `n_bytes`, e.g. those that the socket took. Only between two lines. */
void halo_json_consume(struct halo_json *w, size_t n_bytes);

struct halo_json_mark halo_json_mark(const struct halo_json *w);
void halo_json_rollback(struct halo_json *w, struct halo_json_mark mark);

void halo_json_object_begin(struct halo_json *w);
void halo_json_object_end(struct halo_json *w);
void halo_json_array_begin(struct halo_json *w);
void halo_json_array_end(struct halo_json *w);
void halo_json_key(struct halo_json *w, const char *key);
void halo_json_key_n(struct halo_json *w, const char *key, size_t len);

void halo_json_null(struct halo_json *w);
void halo_json_bool(struct halo_json *w, bool value);
void halo_json_i64(struct halo_json *w, int64_t value);
void halo_json_u64(struct halo_json *w, uint64_t value);
void halo_json_str(struct halo_json *w, const char *text); /* NULL is written as null */
void halo_json_str_n(struct halo_json *w, const char *text, size_t len);

/* The shortest text that reads back as the same double. */
void halo_json_f64(struct halo_json *w, double value);
/* 9 significant digits, as %.9g: log-probabilities. */
void halo_json_sig9(struct halo_json *w, double value);
/* 3 decimals, always: milliseconds and rates. */
void halo_json_fix3(struct halo_json *w, double value);

/* JSON text as it is; the caller vouches for it. Newlines between its values become spaces. NULL or empty becomes
 * null. */
void halo_json_raw(struct halo_json *w, const char *json, size_t len);

/* Ends a line: everything must be closed. Returns the sticky error or 0. */
int halo_json_line_end(struct halo_json *w);

/* Text of a number without a writer: `buf` holds at least HALO_JSON_NUMBER_BYTES; returns the length, no NUL. */
#define HALO_JSON_NUMBER_BYTES 32
size_t halo_json_format_f64(char *buf, double value);
size_t halo_json_format_sig9(char *buf, double value);
size_t halo_json_format_fix3(char *buf, double value);

#endif
