/* iterate.c: the items of whatever can be iterated.
 *
 * Fails as a run does (jinja_priv.h).
 */
#include "jinja_priv.h"

static int characters(struct halo_jinja_run *run, const struct halo_jinja_string *s, struct halo_jinja_value list)
{
    int r = 0;
    for (size_t at = 0, n; r == 0 && at < s->n; at += n) {
        struct halo_jinja_value item;
        n = halo_jinja_char_bytes(s->bytes + at, s->n - at);
        if ((r = halo_jinja_cut(run, s, at, at + n, &item)) == 0)
            r = halo_jinja_push(run, list, item);
    }
    return r;
}

static int bytes_as_numbers(struct halo_jinja_run *run, const struct halo_jinja_string *s, struct halo_jinja_value list)
{
    int r = 0;
    for (size_t at = 0; r == 0 && at < s->n; at++)
        r = halo_jinja_push(run, list, halo_jinja_byte(s, at));
    return r;
}

int halo_jinja_iterate(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_list **ret)
{
    struct halo_jinja_value list;
    if (halo_jinja_is_listlike(value) && value.kind != HALO_JINJA_GENERATOR) {
        *ret = value.list;
        return 0;
    }
    int r = halo_jinja_new_list(run, HALO_JINJA_LIST, &list);
    if (r)
        return r;
    *ret = list.list;
    switch (value.kind) {
    case HALO_JINJA_UNDEFINED: return 0;
    case HALO_JINJA_GENERATOR:
        **ret = *value.list;
        *value.list = (struct halo_jinja_list){0};
        return 0;
    case HALO_JINJA_STRING: return characters(run, value.string, list);
    case HALO_JINJA_BYTES: return bytes_as_numbers(run, value.string, list);
    case HALO_JINJA_DICT:
        for (size_t i = 0; r == 0 && i < value.dict->n; i++)
            r = halo_jinja_push(run, list, value.dict->entries[i].key);
        return r;
    default: return halo_jinja_type_error(run, "cannot be iterated", value);
    }
}
