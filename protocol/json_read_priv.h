/* json_read_priv.h: JSON text to the library's tree, checked and bounded.
 *
 * The tree lives in memory that halo_json_read_end() frees as a whole, so it must not be kept, and nothing of it may be
 * freed or changed by the caller.
 */
#ifndef HALO_PROTOCOL_JSON_READ_PRIV_H
#define HALO_PROTOCOL_JSON_READ_PRIV_H

#include <jansson.h>

#include "json_scan_priv.h"

struct halo_json_read {
    json_t *root; /* an object */
    void *memory;

    /* When refused. */
    enum {
        HALO_READ_OK,
        HALO_READ_SCAN,     /* see scan.fault */
        HALO_READ_TWICE,    /* the key `token` appears twice in one object */
        HALO_READ_OVERFLOW, /* the number `token`, of the field `owner`, is beyond double */
    } fault;
    size_t bad_at;
    struct halo_range token, owner; /* as they stand, without quotes */
};

/* `scan` has run over the text. 0; HALO_MSG_E_REFUSED; -ENOMEM. On 0 the caller ends the reading; otherwise there is
 * nothing to end. */
int halo_json_read(struct halo_json_read *read, const struct halo_scan *scan);
void halo_json_read_end(struct halo_json_read *read);

/* An integer beyond int64 keeps its digits, for free JSON that is passed on. The library has no node for it, so it
 * stands in the tree as a string that no line can hold; ask these before taking a string for one. */
bool halo_json_is_large(const json_t *json);
struct halo_raw halo_json_large(const json_t *json); /* the digits, with their sign */
bool halo_json_is_text(const json_t *json);          /* a string, and no such number */

#endif
