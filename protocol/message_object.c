/* message_object.c: an object by its field table, and the fields that hold objects.
 *
 * Recursive; the depth of the scan bounds it. What is read lives in the pool of the message. Fails with: -ENOMEM,
 * HALO_MSG_E_REFUSED.
 */
#include <string.h>

#include "json_read_priv.h"
#include "message_decode_priv.h"
#include <protocol/suggest.h>

static int refuse_unknown(struct halo_decode *d, const struct halo_where *where, const struct halo_shape *shape,
                          const char *key)
{
    struct halo_suggest near;

    halo_suggest_start(&near, key, strlen(key));
    for (const struct halo_field *f = shape->fields(); f->kind != HALO_KIND_END; f++)
        if (f->presence != HALO_PRESENCE_LINK || d->role == HALO_ROLE_LINK)
            halo_suggest_offer(&near, f->name);
    halo_decode_refuse(d, where, "unknown field ");
    halo_refusal_say_quoted(d->refusal, key, strlen(key));
    halo_refusal_say_suggestion(d->refusal, &near);
    return HALO_MSG_E_REFUSED;
}

static int check_unknown(struct halo_decode *d, const struct halo_where *where, const struct halo_shape *shape,
                         json_t *json, size_t n_known)
{
    if (n_known == json_object_size(json) || d->tolerant)
        return 0;
    for (void *it = json_object_iter(json); it; it = json_object_iter_next(json, it)) {
        const char *key = json_object_iter_key(it);
        const struct halo_field *f = shape->fields();

        if (!where->up && (strcmp(key, "type") == 0 || strcmp(key, "id") == 0))
            continue;
        while (f->kind != HALO_KIND_END && strcmp(f->name, key) != 0)
            f++;
        if (f->kind == HALO_KIND_END || (f->presence == HALO_PRESENCE_LINK && d->role != HALO_ROLE_LINK))
            return refuse_unknown(d, where, shape, key);
    }
    return 0;
}

static bool null_is_absent(const struct halo_decode *d, const struct halo_shape *shape, const struct halo_field *f)
{
    return f->presence == HALO_PRESENCE_NUL ||
           (shape->null_is_absent && f->presence != HALO_PRESENCE_REQ && f->kind != HALO_KIND_CONT) ||
           (d->events && f->kind == HALO_KIND_F64 && f->presence == HALO_PRESENCE_OPT);
}

static int read_objs(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                     void *ret)
{
    struct halo_any_list list = {.n = json_array_size(json)};
    int r;
    char *items = halo_decode_list_room(d, where, f, list.n, f->part->bytes, &r);

    for (size_t i = 0; r == 0 && i < list.n; i++) {
        struct halo_where item = {.up = where, .index = i};
        json_t *object = json_array_get(json, i);

        r = json_is_object(object) ? halo_decode_object(d, &item, f->part, object, items + i * f->part->bytes)
                                   : halo_decode_wrong_type(d, &item, "an object", object);
    }
    if (r == 0) {
        list.at = items;
        memcpy(ret, &list, sizeof list);
    }
    return r;
}

/* Null, a string, or parts of which the texts are kept. */
static int read_content(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                        struct halo_content *ret)
{
    int r = 0;
    struct halo_str *texts;

    if (json_is_null(json)) {
        ret->kind = HALO_CONTENT_NULL;
        return 0;
    }
    if (halo_json_is_text(json)) {
        ret->kind = HALO_CONTENT_TEXT;
        return halo_decode_str(d, where, 0, HALO_LIMIT_LINE_BYTES, json, &ret->text);
    }
    if (!json_is_array(json))
        return halo_decode_wrong_type(d, where, "a string, an array of parts or null", json);
    texts = halo_decode_list_room(d, where, f, json_array_size(json), sizeof *texts, &r);
    for (size_t i = 0; r == 0 && i < json_array_size(json); i++) {
        struct halo_where item = {.up = where, .index = i};
        struct halo_part_content_part part = {0};
        json_t *object = json_array_get(json, i);

        r = json_is_object(object) ? halo_decode_object(d, &item, f->part, object, &part)
                                   : halo_decode_wrong_type(d, &item, "an object", object);
        texts[i] = part.text;
    }
    if (r == 0)
        *ret = (struct halo_content){.kind = HALO_CONTENT_PARTS, .parts = {texts, json_array_size(json)}};
    return r;
}

static int decode_field(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                        void *base)
{
    void *at = (char *)base + f->offset;

    switch (f->kind) {
    case HALO_KIND_OBJ:
        return json_is_object(json) ? halo_decode_object(d, where, f->part, json, at)
                                    : halo_decode_wrong_type(d, where, "an object", json);
    case HALO_KIND_OBJS:
        return json_is_array(json) ? read_objs(d, where, f, json, at)
                                   : halo_decode_wrong_type(d, where, "an array", json);
    case HALO_KIND_CONT: return read_content(d, where, f, json, at);
    default: return halo_decode_field(d, where, f, json, base);
    }
}

static int decode_member(struct halo_decode *d, const struct halo_where *where, const struct halo_shape *shape,
                         const struct halo_field *f, json_t *value, void *base)
{
    struct halo_where at = {.up = where, .name = f->name};
    bool *has = f->has_offset ? (bool *)((char *)base + f->has_offset) : NULL;
    int r;

    if (!value)
        return f->presence == HALO_PRESENCE_REQ ? halo_decode_refuse(d, where, "field \"%s\" is required", f->name) : 0;
    if (json_is_null(value) && null_is_absent(d, shape, f))
        return 0;
    r = decode_field(d, &at, f, value, base);
    if (r == 0 && has)
        *has = true;
    return r;
}

int halo_decode_object(struct halo_decode *d, const struct halo_where *where, const struct halo_shape *shape,
                       json_t *json, void *base)
{
    size_t n_known = 0;
    int r;

    halo_shape_defaults(shape, base);
    if (!where->up)
        n_known = (json_object_get(json, "type") != NULL) + (size_t)(json_object_get(json, "id") != NULL);
    for (const struct halo_field *f = shape->fields(); f->kind != HALO_KIND_END; f++)
        n_known += json_object_get(json, f->name) && (f->presence != HALO_PRESENCE_LINK || d->role == HALO_ROLE_LINK);
    r = check_unknown(d, where, shape, json, n_known);
    for (const struct halo_field *f = shape->fields(); r == 0 && f->kind != HALO_KIND_END; f++) {
        if (f->presence != HALO_PRESENCE_LINK || d->role == HALO_ROLE_LINK)
            r = decode_member(d, where, shape, f, json_object_get(json, f->name), base);
    }
    return r;
}
