/* methods.c: Python's methods of dict and list, and which methods a value has.
 *
 * Methods that would change a value are known by name and refused (SECURITY), as the immutable sandbox does.
 */
#include <string.h>

#include "jinja_priv.h"

#define METHOD(name)                                                                                                   \
    static int name(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)

METHOD(dict_get)
{
    if (!halo_jinja_hashable(call->arg[0]))
        return halo_jinja_type_error(run, "cannot be a key", call->arg[0]);
    ptrdiff_t found = halo_jinja_dict_find(call->self.dict, call->arg[0]);
    *ret = found >= 0 ? call->self.dict->entries[found].value : call->arg[1];
    if (ret->kind == HALO_JINJA_MISSING)
        *ret = (struct halo_jinja_value){.kind = HALO_JINJA_NONE, .is_template = true};
    return 0;
}

/* keys, values, items (op: the kind of the view) */
METHOD(dict_view)
{
    const struct halo_jinja_dict *dict = call->self.dict;
    struct halo_jinja_value pair;
    int r = halo_jinja_new_list(run, (enum halo_jinja_kind)call->native->op, ret);
    for (size_t i = 0; r == 0 && i < dict->n; i++) {
        const struct halo_jinja_entry *entry = &dict->entries[i];
        if (call->native->op == HALO_JINJA_ITEMS) {
            if ((r = halo_jinja_new_list(run, HALO_JINJA_TUPLE, &pair)) ||
                (r = halo_jinja_push(run, pair, entry->key)) || (r = halo_jinja_push(run, pair, entry->value)))
                return r;
        } else {
            pair = call->native->op == HALO_JINJA_KEYS ? entry->key : entry->value;
        }
        r = halo_jinja_push(run, *ret, pair);
    }
    return r;
}

METHOD(dict_copy)
{
    int r = halo_jinja_new_dict(run, ret);
    for (size_t i = 0; r == 0 && i < call->self.dict->n; i++)
        r = halo_jinja_put(run, *ret, call->self.dict->entries[i].key, call->self.dict->entries[i].value);
    return r;
}

METHOD(list_copy)
{
    int r = halo_jinja_new_list(run, call->self.kind, ret);
    for (size_t i = 0; r == 0 && i < call->self.list->n; i++)
        r = halo_jinja_push(run, *ret, call->self.list->items[i]);
    return r;
}

/* index (op 'i') and count ('c') */
METHOD(list_find)
{
    int64_t count = 0;
    for (size_t i = 0; i < call->self.list->n; i++) {
        bool equal;
        int r = halo_jinja_equal(run, call->self.list->items[i], call->arg[0], &equal);
        if (r)
            return r;
        count += equal;
        if (equal && call->native->op == 'i') {
            *ret = halo_jinja_own_int((int64_t)i);
            return 0;
        }
    }
    *ret = halo_jinja_own_int(count);
    return call->native->op == 'c'
               ? 0
               : halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the list does not contain this value");
}

static const struct halo_jinja_native dict_methods[] = {
    {.name = "get", .call = dict_get, .params = {"key", "default"}, .n_required = 1},
    {.name = "items", .call = dict_view, .op = HALO_JINJA_ITEMS},
    {.name = "keys", .call = dict_view, .op = HALO_JINJA_KEYS},
    {.name = "values", .call = dict_view, .op = HALO_JINJA_VALUES},
    {.name = "copy", .call = dict_copy},
};

static const struct halo_jinja_native list_methods[] = {
    {.name = "index", .call = list_find, .params = {"value"}, .n_required = 1, .op = 'i'},
    {.name = "count", .call = list_find, .params = {"value"}, .n_required = 1, .op = 'c'},
    {.name = "copy", .call = list_copy},
};

static const char *const dict_unsafe[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
static const char *const list_unsafe[] = {"append", "clear",   "extend", "insert", "pop",
                                          "remove", "reverse", "sort",   NULL};

static enum halo_jinja_method_state find(const struct halo_jinja_native *table, size_t n_table,
                                         const char *const *unsafe, const char *name, size_t n,
                                         const struct halo_jinja_native **ret)
{
    for (; unsafe && *unsafe; unsafe++)
        if (strlen(*unsafe) == n && memcmp(*unsafe, name, n) == 0)
            return HALO_JINJA_METHOD_UNSAFE;
    for (size_t i = 0; i < n_table; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0) {
            *ret = &table[i];
            return HALO_JINJA_METHOD_FOUND;
        }
    return HALO_JINJA_METHOD_NONE;
}

enum halo_jinja_method_state halo_jinja_method_find(struct halo_jinja_value self, const char *name, size_t n,
                                                    const struct halo_jinja_native **ret)
{
    switch (self.kind) {
    case HALO_JINJA_STRING:
        if (find(halo_jinja_character_methods, halo_jinja_n_character_methods, NULL, name, n, ret))
            return HALO_JINJA_METHOD_FOUND;
        return find(halo_jinja_string_methods, halo_jinja_n_string_methods, NULL, name, n, ret);
    case HALO_JINJA_BYTES: return find(halo_jinja_bytes_methods, halo_jinja_n_bytes_methods, NULL, name, n, ret);
    case HALO_JINJA_DICT:
        return find(dict_methods, sizeof dict_methods / sizeof *dict_methods, dict_unsafe, name, n, ret);
    case HALO_JINJA_LIST:
        return find(list_methods, sizeof list_methods / sizeof *list_methods, list_unsafe, name, n, ret);
    case HALO_JINJA_TUPLE:
    case HALO_JINJA_RANGE: /* index and count only */ return find(list_methods, 2, NULL, name, n, ret);
    default: return HALO_JINJA_METHOD_NONE;
    }
}
