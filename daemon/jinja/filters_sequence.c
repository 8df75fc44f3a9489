/* filters_sequence.c: filters over lists and dicts.
 *
 * Those that are lazy in Python make a generator here whose items are known at once. Sorting is a stable merge of item
 * numbers by their keys. Fails as a run does (jinja_priv.h).
 */
#include <stdlib.h>
#include <string.h>

#include "jinja_priv.h"

#define FILTER(name)                                                                                                   \
    static int filter_##name(struct halo_jinja_run *run, const struct halo_jinja_call *call,                           \
                             struct halo_jinja_value *ret)

static bool given_truth(struct halo_jinja_value v)
{
    return v.kind != HALO_JINJA_MISSING && halo_jinja_truth(v);
}

FILTER(length)
{
    size_t n = 0;
    int r = halo_jinja_length(run, call->self, &n);
    *ret = halo_jinja_own_int((int64_t)n);
    return r;
}

/* first (op 0) or last (op 1) */
FILTER(end)
{
    struct halo_jinja_list *list;
    bool last = call->native->op;
    if (last && call->self.kind == HALO_JINJA_GENERATOR)
        return halo_jinja_type_error(run, "cannot be reversed", call->self);
    if (!last && call->self.kind == HALO_JINJA_GENERATOR && call->self.list->n > 0) { /* takes one */
        *ret = *call->self.list->items++;
        call->self.list->n--;
        call->self.list->n_held = 0;
        return 0;
    }
    int r = halo_jinja_iterate(run, call->self, &list);
    if (r == 0 && list->n == 0)
        return halo_jinja_undefined(
            run,
            (struct halo_jinja_hint){
                .owner = "an empty sequence", .is_element = true, .name = last ? "last" : "first", .n_name = 4 + !last},
            ret);
    if (r == 0)
        *ret = list->items[last ? list->n - 1 : 0];
    return r;
}

static int copy_list(struct halo_jinja_run *run, struct halo_jinja_value from, enum halo_jinja_kind kind, bool reverse,
                     struct halo_jinja_value *ret)
{
    struct halo_jinja_list *list;
    int r = halo_jinja_iterate(run, from, &list);
    if (r == 0)
        r = halo_jinja_new_list(run, kind, ret);
    for (size_t i = 0; r == 0 && i < list->n; i++)
        r = halo_jinja_push(run, *ret, list->items[reverse ? list->n - 1 - i : i]);
    return r;
}

FILTER(list)
{
    return copy_list(run, call->self, HALO_JINJA_LIST, false, ret);
}

FILTER(reverse)
{
    static const struct halo_jinja_value down[3] = {
        {.kind = HALO_JINJA_NONE}, {.kind = HALO_JINJA_NONE}, {.kind = HALO_JINJA_INT, .integer = -1}};
    if (call->self.kind == HALO_JINJA_STRING)
        return halo_jinja_slice(run, call->self, down, false, ret);
    return copy_list(run, call->self, HALO_JINJA_GENERATOR, true, ret);
}

static int pair(struct halo_jinja_run *run, struct halo_jinja_value list, struct halo_jinja_value a,
                struct halo_jinja_value b)
{
    struct halo_jinja_value tuple;
    int r = halo_jinja_new_list(run, HALO_JINJA_TUPLE, &tuple);
    if (r == 0)
        r = halo_jinja_push(run, tuple, a);
    if (r == 0)
        r = halo_jinja_push(run, tuple, b);
    return r ? r : halo_jinja_push(run, list, tuple);
}

FILTER(items)
{
    int r = halo_jinja_new_list(run, HALO_JINJA_GENERATOR, ret);
    if (r || call->self.kind == HALO_JINJA_UNDEFINED)
        return r;
    if (call->self.kind != HALO_JINJA_DICT)
        return halo_jinja_type_error(run, "items needs a mapping", call->self);
    const struct halo_jinja_dict *dict = call->self.dict;
    for (size_t i = 0; r == 0 && i < dict->n; i++)
        r = pair(run, *ret, dict->entries[i].key, dict->entries[i].value);
    return r;
}

/* ---- keys of items ---- */

static bool all_digits(const char *bytes, size_t n)
{
    size_t at = 0;
    while (at < n && bytes[at] >= '0' && bytes[at] <= '9')
        at++;
    return n > 0 && at == n && n < 10;
}

/* item[a][b] for the path "a.b"; a path of digits is an index. NONE or MISSING: the item itself. */
static int follow(struct halo_jinja_run *run, struct halo_jinja_value item, struct halo_jinja_value path,
                  struct halo_jinja_value fallback, struct halo_jinja_value *ret)
{
    *ret = item;
    if (path.kind == HALO_JINJA_NONE || path.kind == HALO_JINJA_MISSING)
        return 0;
    if (path.kind != HALO_JINJA_STRING)
        return halo_jinja_item(run, item, path, ret);
    const struct halo_jinja_string *s = path.string;
    int r = 0;
    for (size_t from = 0; r == 0 && from <= s->n;) {
        const char *dot = memchr(s->bytes + from, '.', s->n - from);
        size_t end = dot ? (size_t)(dot - s->bytes) : s->n;
        struct halo_jinja_value part = halo_jinja_own_int(0);
        if (all_digits(s->bytes + from, end - from))
            for (size_t i = from; i < end; i++)
                part.integer = part.integer * 10 + (s->bytes[i] - '0');
        else
            r = halo_jinja_cut(run, s, from, end, &part);
        if (r == 0)
            r = halo_jinja_item(run, *ret, part, ret);
        if (ret->kind == HALO_JINJA_UNDEFINED && fallback.kind != HALO_JINJA_MISSING &&
            fallback.kind != HALO_JINJA_NONE)
            *ret = fallback;
        from = end + 1;
    }
    return r;
}

/* The keys by which `list` is sorted or compared: lower case unless case counts. */
static int make_keys(struct halo_jinja_run *run, const struct halo_jinja_list *list, struct halo_jinja_value path,
                     bool cased, struct halo_jinja_value *ret)
{
    struct halo_jinja_value key;
    int r = halo_jinja_new_list(run, HALO_JINJA_LIST, ret);
    for (size_t i = 0; r == 0 && i < list->n; i++) {
        r = follow(run, list->items[i], path, halo_jinja_missing(), &key);
        if (r == 0 && !cased && key.kind == HALO_JINJA_STRING)
            r = halo_jinja_change_case(run, key.string, 'l', &key);
        if (r == 0)
            r = halo_jinja_push(run, *ret, key);
    }
    return r;
}

/* ---- sorting ---- */

struct sorter {
    struct halo_jinja_run *run;
    const struct halo_jinja_value *keys;
    bool reverse;
};

static int merge_sort(const struct sorter *sorter, size_t *at, size_t *spare, size_t n)
{
    if (n < 2)
        return 0;
    size_t half = n / 2, i = 0, j = half, to = 0;
    int r = merge_sort(sorter, at, spare, half), order;
    if (r == 0)
        r = merge_sort(sorter, at + half, spare, n - half);
    while (r == 0 && (i < half || j < n)) {
        bool left = j == n;
        if (i < half && j < n) {
            struct halo_jinja_value a = sorter->keys[at[i]], b = sorter->keys[at[j]];
            r = sorter->reverse ? halo_jinja_order(sorter->run, a, b, "<", &order)
                                : halo_jinja_order(sorter->run, b, a, "<", &order);
            left = order >= 0; /* not (later < earlier) */
        }
        spare[to++] = left ? at[i++] : at[j++];
    }
    if (r == 0)
        memcpy(at, spare, n * sizeof *at);
    return r;
}

static int sorted(struct halo_jinja_run *run, const struct halo_jinja_list *list, struct halo_jinja_value keys,
                  bool reverse, struct halo_jinja_value *ret)
{
    size_t *at;
    const struct sorter sorter = {run, keys.list->items, reverse};
    int r = halo_jinja_alloc(run, 2 * list->n + 1, sizeof *at, &at);
    for (size_t i = 0; r == 0 && i < list->n; i++)
        at[i] = i;
    if (r == 0)
        r = merge_sort(&sorter, at, at + list->n, list->n);
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_LIST, ret);
    for (size_t i = 0; r == 0 && i < list->n; i++)
        r = halo_jinja_push(run, *ret, list->items[at[i]]);
    return r;
}

FILTER(sort)
{
    struct halo_jinja_list *list;
    struct halo_jinja_value keys;
    int r = halo_jinja_iterate(run, call->self, &list);
    if (r == 0)
        r = make_keys(run, list, call->arg[2], given_truth(call->arg[1]), &keys);
    return r ? r : sorted(run, list, keys, given_truth(call->arg[0]), ret);
}

FILTER(dictsort)
{
    struct halo_jinja_value pairs, keys, by = call->arg[1];
    bool by_value = by.kind != HALO_JINJA_MISSING && halo_jinja_is_text(by, "value", 5);
    if (by.kind != HALO_JINJA_MISSING && !by_value && !halo_jinja_is_text(by, "key", 3))
        return halo_jinja_fail(run, HALO_JINJA_RUNTIME, "dictsort sorts by \"key\" or \"value\"");
    if (call->self.kind != HALO_JINJA_DICT)
        return halo_jinja_type_error(run, "dictsort needs a dict", call->self);
    const struct halo_jinja_dict *dict = call->self.dict;
    int r = halo_jinja_new_list(run, HALO_JINJA_LIST, &pairs);
    for (size_t i = 0; r == 0 && i < dict->n; i++)
        r = pair(run, pairs, dict->entries[i].key, dict->entries[i].value);
    if (r == 0)
        r = make_keys(run, pairs.list, halo_jinja_own_int(by_value), given_truth(call->arg[0]), &keys);
    return r ? r : sorted(run, pairs.list, keys, given_truth(call->arg[2]), ret);
}

FILTER(unique)
{
    struct halo_jinja_list *list;
    struct halo_jinja_value keys, seen;
    int r = halo_jinja_iterate(run, call->self, &list);
    if (r == 0)
        r = make_keys(run, list, call->arg[1], given_truth(call->arg[0]), &keys);
    if (r == 0)
        r = halo_jinja_new_dict(run, &seen);
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_GENERATOR, ret);
    for (size_t i = 0; r == 0 && i < list->n; i++) {
        size_t n = seen.dict->n;
        if ((r = halo_jinja_put(run, seen, keys.list->items[i], halo_jinja_none())) == 0 && seen.dict->n > n)
            r = halo_jinja_push(run, *ret, list->items[i]);
    }
    return r;
}

/* min (op -1) and max (op 1) */
FILTER(extreme)
{
    struct halo_jinja_list *list;
    struct halo_jinja_value keys;
    size_t best = 0;
    int order, r = halo_jinja_iterate(run, call->self, &list);
    if (r == 0)
        r = make_keys(run, list, call->arg[1], given_truth(call->arg[0]), &keys);
    if (r == 0 && list->n == 0)
        return halo_jinja_undefined(
            run,
            (struct halo_jinja_hint){
                .owner = "an empty sequence", .is_element = true, .name = call->native->name, .n_name = 3},
            ret);
    for (size_t i = 1; r == 0 && i < list->n; i++) {
        r = halo_jinja_order(run, keys.list->items[i], keys.list->items[best], "<", &order);
        if (order == call->native->op)
            best = i;
    }
    if (r == 0)
        *ret = list->items[best];
    return r;
}

FILTER(sum)
{
    struct halo_jinja_list *list;
    struct halo_jinja_value item;
    int r = halo_jinja_iterate(run, call->self, &list);
    *ret = call->arg[1].kind == HALO_JINJA_MISSING ? halo_jinja_own_int(0) : call->arg[1];
    for (size_t i = 0; r == 0 && i < list->n; i++)
        if ((r = follow(run, list->items[i], call->arg[0], halo_jinja_missing(), &item)) == 0)
            r = halo_jinja_binary(run, '+', *ret, item, ret);
    return r;
}

/* ---- map, select, reject ---- */

/* Python's map and select look at nothing when the input is false, so None goes. */
static int iterate_some(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_list **ret)
{
    static struct halo_jinja_list empty;
    *ret = &empty;
    return halo_jinja_truth(value) ? halo_jinja_iterate(run, value, ret) : 0;
}

/* The arguments from `n` on. */
static struct halo_jinja_args rest_of(const struct halo_jinja_args *args, size_t n)
{
    struct halo_jinja_args rest = *args;
    rest.items = n < args->n ? args->items + n : NULL;
    rest.n = n < args->n ? args->n - n : 0;
    return rest;
}

static int named_native(struct halo_jinja_run *run, struct halo_jinja_value name, bool is_filter,
                        const struct halo_jinja_native **ret)
{
    const char *what = is_filter ? "filter" : "test";
    if (name.kind != HALO_JINJA_STRING)
        return halo_jinja_fail(run, HALO_JINJA_RUNTIME, "the name of a %s must be a string", what);
    const struct halo_jinja_string *s = name.string;
    uint32_t id = is_filter ? run->builtins->filter_id(s->bytes, s->n) : run->builtins->test_id(s->bytes, s->n);
    if (id == HALO_JINJA_NO_ID)
        return halo_jinja_fail(run, HALO_JINJA_RUNTIME, "there is no %s '%.*s'", what, s->n < 40 ? (int)s->n : 40,
                               s->bytes);
    *ret = is_filter ? run->builtins->filter(id) : run->builtins->test(id);
    return 0;
}

FILTER(map)
{
    struct halo_jinja_list *list;
    const struct halo_jinja_native *native = NULL;
    struct halo_jinja_value path = halo_jinja_missing(), fallback = path, item;
    const struct halo_jinja_args rest = rest_of(call->raw, 1);
    for (size_t i = 0; call->raw->n == 0 && i < call->raw->n_named; i++) {
        if (halo_jinja_is_text(call->raw->named[i].key, "attribute", 9))
            path = call->raw->named[i].value;
        else if (halo_jinja_is_text(call->raw->named[i].key, "default", 7))
            fallback = call->raw->named[i].value;
    }
    int r = 0;
    if (path.kind == HALO_JINJA_MISSING)
        r = call->raw->n ? named_native(run, call->raw->items[0], true, &native)
                         : halo_jinja_fail(run, HALO_JINJA_RUNTIME, "map needs the name of a filter");
    if (r == 0)
        r = iterate_some(run, call->self, &list);
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_GENERATOR, ret);
    for (size_t i = 0; r == 0 && i < list->n; i++) {
        if ((r = halo_jinja_enter(run)) == 0)
            r = native ? halo_jinja_call_native(run, native, list->items[i], &rest, &item)
                       : follow(run, list->items[i], path, fallback, &item);
        run->depth--;
        if (r == 0)
            r = halo_jinja_push(run, *ret, item);
    }
    return r;
}

enum { PICK_REJECT = 1, PICK_ATTRIBUTE = 2 };

FILTER(pick)
{
    struct halo_jinja_list *list;
    const struct halo_jinja_native *native = NULL;
    bool by_attribute = call->native->op & PICK_ATTRIBUTE, reject = call->native->op & PICK_REJECT;
    const struct halo_jinja_args rest = rest_of(call->raw, 1u + by_attribute);
    struct halo_jinja_value item;
    int r = 0;
    if (by_attribute && call->raw->n == 0)
        return halo_jinja_fail(run, HALO_JINJA_RUNTIME, "%s needs the name of an attribute", call->native->name);
    if (call->raw->n > by_attribute)
        r = named_native(run, call->raw->items[by_attribute], false, &native);
    if (r == 0)
        r = iterate_some(run, call->self, &list);
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_GENERATOR, ret);
    for (size_t i = 0; r == 0 && i < list->n; i++) {
        item = list->items[i];
        if (by_attribute)
            r = follow(run, item, call->raw->items[0], halo_jinja_missing(), &item);
        if (r == 0 && native)
            r = halo_jinja_call_native(run, native, item, &rest, &item);
        if (r == 0 && halo_jinja_truth(item) != reject)
            r = halo_jinja_push(run, *ret, list->items[i]);
    }
    return r;
}

/* ---- groups ---- */

FILTER(batch)
{
    struct halo_jinja_list *list;
    struct halo_jinja_value part;
    int64_t n = call->arg[0].kind == HALO_JINJA_INT ? call->arg[0].integer : 0;
    if (n < 1)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "a batch must have at least one item");
    int r = halo_jinja_iterate(run, call->self, &list);
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_GENERATOR, ret);
    for (size_t i = 0; r == 0 && i < list->n; i++) {
        if (i % (uint64_t)n == 0 && (r = halo_jinja_new_list(run, HALO_JINJA_LIST, &part)) == 0)
            r = halo_jinja_push(run, *ret, part);
        if (r == 0)
            r = halo_jinja_push(run, part, list->items[i]);
    }
    bool fills = call->arg[1].kind != HALO_JINJA_MISSING && call->arg[1].kind != HALO_JINJA_NONE;
    while (r == 0 && fills && list->n && part.list->n < (uint64_t)n)
        r = halo_jinja_push(run, part, call->arg[1]);
    return r;
}

/* (key, [items]) by the key of an attribute, sorted. */
FILTER(groupby)
{
    struct halo_jinja_list *list;
    struct halo_jinja_value keys, order, path = call->arg[0], key, group;
    bool cased = given_truth(call->arg[2]), equal = false;
    int r = halo_jinja_iterate(run, call->self, &list);
    if (r == 0)
        r = make_keys(run, list, path, cased, &keys);
    if (r == 0)
        r = sorted(run, list, keys, false, &order);
    if (r == 0)
        r = make_keys(run, order.list, path, cased, &keys);
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_LIST, ret);
    for (size_t i = 0; r == 0 && i < order.list->n; i++) {
        if (i && (r = halo_jinja_equal(run, keys.list->items[i - 1], keys.list->items[i], &equal)))
            return r;
        if (i == 0 || !equal) {
            r = follow(run, order.list->items[i], path, call->arg[1], &key);
            if (r == 0)
                r = halo_jinja_new_list(run, HALO_JINJA_LIST, &group);
            if (r == 0)
                r = pair(run, *ret, key, group);
        }
        if (r == 0)
            r = halo_jinja_push(run, group, order.list->items[i]);
    }
    return r;
}

const struct halo_jinja_native halo_jinja_sequence_filters[] = {
    {.name = "batch", .call = filter_batch, .params = {"linecount", "fill_with"}, .n_required = 1},
    {.name = "count", .call = filter_length},
    {.name = "dictsort", .call = filter_dictsort, .params = {"case_sensitive", "by", "reverse"}},
    {.name = "first", .call = filter_end, .op = 0},
    {.name = "groupby", .call = filter_groupby, .params = {"attribute", "default", "case_sensitive"}, .n_required = 1},
    {.name = "items", .call = filter_items},
    {.name = "last", .call = filter_end, .op = 1},
    {.name = "length", .call = filter_length},
    {.name = "list", .call = filter_list},
    {.name = "map", .call = filter_map, .any = true},
    {.name = "max", .call = filter_extreme, .params = {"case_sensitive", "attribute"}, .op = 1},
    {.name = "min", .call = filter_extreme, .params = {"case_sensitive", "attribute"}, .op = -1},
    {.name = "reject", .call = filter_pick, .any = true, .op = PICK_REJECT},
    {.name = "rejectattr", .call = filter_pick, .any = true, .op = PICK_REJECT | PICK_ATTRIBUTE},
    {.name = "reverse", .call = filter_reverse},
    {.name = "select", .call = filter_pick, .any = true, .op = 0},
    {.name = "selectattr", .call = filter_pick, .any = true, .op = PICK_ATTRIBUTE},
    {.name = "sort", .call = filter_sort, .params = {"reverse", "case_sensitive", "attribute"}},
    {.name = "sum", .call = filter_sum, .params = {"attribute", "start"}},
    {.name = "unique", .call = filter_unique, .params = {"case_sensitive", "attribute"}},
};
const size_t halo_jinja_n_sequence_filters = sizeof halo_jinja_sequence_filters / sizeof *halo_jinja_sequence_filters;
