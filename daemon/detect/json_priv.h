/* json_priv.h: JSON text without a tree. `at` starts as 0 and is the walk's own. */
#ifndef HALO_DETECT_JSON_PRIV_H
#define HALO_DETECT_JSON_PRIV_H

#include <stdbool.h>
#include <stddef.h>

struct halo_text {
    const char *at;
    size_t n;
};

/* Whether it is one JSON object, strictly, with nothing but white space around it. */
bool halo_text_is_object(struct halo_text text);

/* For checked text only. The next item of a list, or of an object in turn a key (with its quotes) and a value. */
bool halo_text_next(struct halo_text text, size_t *at, struct halo_text *ret);
bool halo_text_member(struct halo_text object, const char *key, struct halo_text *ret);

#endif
