/* make.c: values that a rendering makes, in its own arena, counted against its limits.
 *
 * Fails as a run does (jinja_priv.h).
 */
#include <assert.h>

#include "jinja_priv.h"

int halo_jinja_new_list(struct halo_jinja_run *run, enum halo_jinja_kind kind, struct halo_jinja_value *ret)
{
    struct halo_jinja_list *list;
    int r = halo_jinja_alloc(run, 1, sizeof *list, &list);
    *ret = (struct halo_jinja_value){.kind = (uint8_t)kind, .list = list};
    return r;
}

int halo_jinja_new_dict(struct halo_jinja_run *run, struct halo_jinja_value *ret)
{
    struct halo_jinja_dict *dict;
    int r = halo_jinja_alloc(run, 1, sizeof *dict, &dict);
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_DICT, .dict = dict};
    return r;
}

int halo_jinja_push(struct halo_jinja_run *run, struct halo_jinja_value list, struct halo_jinja_value item)
{
    assert(halo_jinja_is_listlike(list));
    if (halo_jinja_list_add(&run->arena, list.list, item) < 0)
        return halo_jinja_no_memory(run, 2 * list.list->n * sizeof item);
    return halo_jinja_steps(run, 1);
}

int halo_jinja_put(struct halo_jinja_run *run, struct halo_jinja_value dict, struct halo_jinja_value key,
                   struct halo_jinja_value value)
{
    if (!halo_jinja_hashable(key))
        return halo_jinja_type_error(run, "cannot be a key", key);
    if (halo_jinja_dict_set(&run->arena, dict.dict, key, value) < 0)
        return halo_jinja_no_memory(run, 4 * dict.dict->n * sizeof(struct halo_jinja_entry));
    return halo_jinja_steps(run, 1 + (key.kind == HALO_JINJA_STRING ? key.string->n / 64 : 0));
}

int halo_jinja_undefined(struct halo_jinja_run *run, struct halo_jinja_hint hint, struct halo_jinja_value *ret)
{
    struct halo_jinja_hint *copy;
    int r = halo_jinja_alloc(run, 1, sizeof *copy, &copy);
    if (r)
        return r;
    *copy = hint;
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_UNDEFINED, .object = copy};
    return 0;
}
