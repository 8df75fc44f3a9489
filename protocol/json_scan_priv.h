/* json_scan_priv.h: one strict pass over JSON text: grammar (RFC 8259), UTF-8, depth and number of values.
 *
 * It builds nothing. The envelope is read with it, and it runs before json_read.c makes the tree, which therefore looks
 * for no faults.
 */
#ifndef HALO_PROTOCOL_JSON_SCAN_PRIV_H
#define HALO_PROTOCOL_JSON_SCAN_PRIV_H

#include <stdbool.h>
#include <stddef.h>

#include <protocol/envelope.h>

enum halo_scan_fault {
    HALO_SCAN_OK,
    HALO_SCAN_SYNTAX,     /* not JSON */
    HALO_SCAN_UTF8,       /* a string or the text around it is not UTF-8 */
    HALO_SCAN_NUL,        /* \u0000 where it is not allowed */
    HALO_SCAN_NOT_OBJECT, /* JSON, but no object */
    HALO_SCAN_DEPTH,      /* more levels than limits->depth */
    HALO_SCAN_TOO_MANY,   /* more values, containers or keys than the limits allow */
};

/* What a line may hold. */
struct halo_scan_limits {
    int depth;
    size_t n_values, n_containers, n_keys;
};

extern const struct halo_scan_limits halo_scan_client; /* a request of a client */
extern const struct halo_scan_limits halo_scan_link;   /* a request of halod to its engine */
extern const struct halo_scan_limits halo_scan_answer; /* an event */

struct halo_scan {
    const char *text;
    size_t len;
    size_t at;
    const struct halo_scan_limits *limits;
    bool allow_nul; /* in values; never in keys */

    /* Called for each member of the outer object: `key` without quotes, `value` as it stands. May be NULL. */
    void (*on_member)(void *ud, const char *text, struct halo_range key, struct halo_range value);
    void *ud;

    int depth;
    size_t n_values;     /* all values, containers too */
    size_t n_containers; /* arrays and objects */
    size_t n_keys;
    struct halo_range body; /* between the outer braces; len 0 until they are closed */

    enum halo_scan_fault fault;
    const char *what; /* HALO_SCAN_SYNTAX: half a sentence */
    size_t bad_at;
};

/* The caller sets text, len, limits, and what it wants of allow_nul, on_member and ud; the rest is zero. The whole text
 * must be one object with nothing but white space around it. Returns the fault, which stands in the scan too. */
enum halo_scan_fault halo_scan_object(struct halo_scan *scan);

/* The same, filling an envelope as halo_envelope_scan() does; on_member and ud are taken for it. */
int halo_scan_envelope(struct halo_scan *scan, struct halo_envelope *ret_env);

/* Writes the string whose text between the quotes is `raw` (from a scan without fault) to `buf`. Returns the whole
 * length; what does not fit into `cap` bytes is left out. `buf` may be NULL with `cap` 0. */
size_t halo_scan_unescape(const char *raw, size_t len, char *buf, size_t cap);

/* Whether the raw key is `name`, which is not empty, escapes resolved. Most keys differ in their first character. */
bool halo_scan_key_is_slow(const char *text, struct halo_range key, const char *name);

static inline bool halo_scan_key_is(const char *text, struct halo_range key, const char *name)
{
    return key.len > 0 && (text[key.at] == name[0] || text[key.at] == '\\') && halo_scan_key_is_slow(text, key, name);
}

#endif
