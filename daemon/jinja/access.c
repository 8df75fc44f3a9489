/* access.c: attributes, items, slices.
 *
 * a.b asks for Python's method of that name before the key; a['b'] the other way round. What is not there is an
 * undefined value that knows its owner and name, so that using it can say so. Fails as a run does (jinja_priv.h).
 */
#include <stdio.h>
#include <string.h>

#include "jinja_priv.h"

static const char *owner_name(struct halo_jinja_value value, char *buffer, size_t n)
{
    if (value.kind == HALO_JINJA_NONE)
        return "None";
    snprintf(buffer, n, "%s object", halo_jinja_type_name(value));
    return buffer;
}

/* The undefined value of `name` in `value`. */
static int lacks(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_value name, bool element,
                 bool unsafe, struct halo_jinja_value *ret)
{
    char buffer[64], number[24], *copy;
    const char *owner = owner_name(value, buffer, sizeof buffer);
    int r = halo_jinja_alloc(run, strlen(owner) + 1 + sizeof number, 1, &copy);
    if (r)
        return r;
    strcpy(copy, owner);
    struct halo_jinja_hint hint = {.owner = copy, .is_element = element, .is_unsafe = unsafe};
    if (name.kind == HALO_JINJA_STRING) {
        hint.name = name.string->bytes;
        hint.n_name = name.string->n;
    } else {
        snprintf(number, sizeof number, "%lld", name.kind == HALO_JINJA_INT ? (long long)name.integer : 0);
        hint.name = strcpy(copy + strlen(owner) + 1, name.kind == HALO_JINJA_INT ? number : halo_jinja_type_name(name));
        hint.n_name = strlen(hint.name);
    }
    return halo_jinja_undefined(run, hint, ret);
}

/* A dict's or namespace's entry; false: none. */
static bool entry(struct halo_jinja_value value, struct halo_jinja_value key, struct halo_jinja_value *ret)
{
    if ((value.kind != HALO_JINJA_DICT && value.kind != HALO_JINJA_NAMESPACE) || !halo_jinja_hashable(key))
        return false;
    ptrdiff_t found = halo_jinja_dict_find(value.dict, key);
    if (found >= 0)
        *ret = value.dict->entries[found].value;
    return found >= 0;
}

/* Python's attribute of an object: MISSING in `ret` when it has none. */
static int python_attribute(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_value name,
                            struct halo_jinja_value *ret)
{
    const struct halo_jinja_native *native;
    struct halo_jinja_method *method;
    const struct halo_jinja_string *text = name.string;
    *ret = halo_jinja_missing();
    if (text->n > 4 && memcmp(text->bytes, "__", 2) == 0 && memcmp(text->bytes + text->n - 2, "__", 2) == 0)
        return lacks(run, value, name, false, true, ret);
    if (value.kind == HALO_JINJA_NAMESPACE && entry(value, name, ret))
        return 0;
    if (value.kind == HALO_JINJA_LOOP)
        return halo_jinja_loop_attribute(run, value, name, ret);
    if (value.kind == HALO_JINJA_MACRO && halo_jinja_is_text(name, "name", 4)) {
        *ret = ((const struct halo_jinja_macro *)value.object)->node->value;
        return 0;
    }
    switch (halo_jinja_method_find(value, text->bytes, text->n, &native)) {
    case HALO_JINJA_METHOD_UNSAFE: return lacks(run, value, name, false, true, ret);
    case HALO_JINJA_METHOD_FOUND:
        if (halo_jinja_alloc(run, 1, sizeof *method, &method))
            return halo_jinja_no_memory(run, sizeof *method);
        *method = (struct halo_jinja_method){value, native};
        *ret = (struct halo_jinja_value){.kind = HALO_JINJA_METHOD, .object = method};
        return 0;
    default: return 0;
    }
}

int halo_jinja_attribute(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_value name,
                         struct halo_jinja_value *ret)
{
    if (value.kind == HALO_JINJA_UNDEFINED)
        return halo_jinja_undefined_error(run, value);
    int r = python_attribute(run, value, name, ret);
    if (r || ret->kind != HALO_JINJA_MISSING || entry(value, name, ret))
        return r;
    return lacks(run, value, name, false, false, ret);
}

/* The list index that Python means by `at`; false: there is none. */
static bool list_index(int64_t at, size_t n, size_t *ret)
{
    if (at < 0)
        at += (int64_t)n;
    *ret = (size_t)at;
    return at >= 0 && (size_t)at < n;
}

static bool is_subscriptable(struct halo_jinja_value v)
{
    return v.kind == HALO_JINJA_LIST || v.kind == HALO_JINJA_TUPLE || v.kind == HALO_JINJA_RANGE;
}

static int string_item(struct halo_jinja_run *run, const struct halo_jinja_string *s, int64_t at, bool *found,
                       struct halo_jinja_value *ret)
{
    size_t index, n = halo_jinja_char_count(s->bytes, s->n);
    int r = halo_jinja_steps(run, s->n / 16);
    *found = list_index(at, n, &index);
    if (r || !*found)
        return r;
    size_t from = halo_jinja_char_offset(s->bytes, s->n, index);
    return halo_jinja_cut(run, s, from, from + halo_jinja_char_bytes(s->bytes + from, s->n - from), ret);
}

int halo_jinja_item(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_value key,
                    struct halo_jinja_value *ret)
{
    size_t index;
    bool is_integer = key.kind == HALO_JINJA_INT || key.kind == HALO_JINJA_BOOL, found = false;
    int64_t at = key.kind == HALO_JINJA_BOOL ? key.boolean : key.integer;
    if (value.kind == HALO_JINJA_UNDEFINED)
        return halo_jinja_undefined_error(run, value);
    if (value.kind == HALO_JINJA_DICT && entry(value, key, ret))
        return 0;
    if (is_integer && is_subscriptable(value) && list_index(at, value.list->n, &index)) {
        *ret = value.list->items[index];
        return 0;
    }
    if (is_integer && value.kind == HALO_JINJA_BYTES && list_index(at, value.string->n, &index)) {
        *ret = halo_jinja_byte(value.string, index);
        return 0;
    }
    if (is_integer && value.kind == HALO_JINJA_STRING) {
        int r = string_item(run, value.string, at, &found, ret);
        if (r || found)
            return r;
    }
    if (key.kind != HALO_JINJA_STRING)
        return lacks(run, value, key, true, false, ret);
    int r = python_attribute(run, value, key, ret);
    if (r || ret->kind != HALO_JINJA_MISSING)
        return r;
    return lacks(run, value, key, false, false, ret);
}

/* ---- slices ---- */

struct span {
    int64_t start, stop, step;
};

static int64_t clamp(int64_t at, int64_t n, int64_t low, int64_t high)
{
    if (at < 0)
        at += n;
    return at < low ? low : at > high ? high : at;
}

static bool are_integers(const struct halo_jinja_value bounds[3])
{
    bool are = true;
    for (int i = 0; i < 3; i++)
        are = are && (bounds[i].kind == HALO_JINJA_INT || bounds[i].kind == HALO_JINJA_BOOL ||
                      bounds[i].kind == HALO_JINJA_NONE || bounds[i].kind == HALO_JINJA_MISSING);
    return are;
}

static int slice_bounds(struct halo_jinja_run *run, const struct halo_jinja_value bounds[3], int64_t n,
                        struct span *ret)
{
    int64_t given[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++) {
        if (bounds[i].kind == HALO_JINJA_INT)
            given[i] = bounds[i].integer;
        else if (bounds[i].kind == HALO_JINJA_BOOL)
            given[i] = bounds[i].boolean;
    }
    bool down = given[2] < 0, has_start = bounds[0].kind == HALO_JINJA_INT || bounds[0].kind == HALO_JINJA_BOOL,
         has_stop = bounds[1].kind == HALO_JINJA_INT || bounds[1].kind == HALO_JINJA_BOOL;
    int64_t low = down ? -1 : 0, high = down ? n - 1 : n;
    ret->step = given[2];
    ret->start = has_start ? clamp(given[0], n, low, high) : down ? high : low;
    ret->stop = has_stop ? clamp(given[1], n, low, high) : down ? low : high;
    return 0;
}

static bool in_slice(const struct span *span, int64_t at)
{
    return span->step > 0 ? at < span->stop : at > span->stop;
}

/* Far steps end the walk rather than overflow. */
static int64_t next_in_slice(const struct span *span, int64_t at)
{
    int64_t next;
    return __builtin_add_overflow(at, span->step, &next) ? span->stop : next;
}

static int slice_bytes(struct halo_jinja_run *run, const struct halo_jinja_string *s,
                       const struct halo_jinja_value bounds[3], struct halo_jinja_value *ret)
{
    struct span span;
    struct halo_jinja_text text = {0};
    int r = slice_bounds(run, bounds, (int64_t)s->n, &span);
    for (int64_t at = span.start; r == 0 && in_slice(&span, at); at = next_in_slice(&span, at))
        r = halo_jinja_add_slice(run, &text, s, (size_t)at, (size_t)at + 1);
    if (r == 0)
        r = halo_jinja_finish_text(run, &text, ret);
    ret->kind = HALO_JINJA_BYTES;
    return r;
}

static int slice_string(struct halo_jinja_run *run, const struct halo_jinja_string *s,
                        const struct halo_jinja_value bounds[3], struct halo_jinja_value *ret)
{
    struct span span;
    struct halo_jinja_text text = {0};
    size_t n = halo_jinja_char_count(s->bytes, s->n), *offsets;
    int r = slice_bounds(run, bounds, (int64_t)n, &span);
    if (r == 0)
        r = halo_jinja_steps(run, s->n / 16);
    if (r)
        return r;
    if (span.step == 1) {
        size_t from = halo_jinja_char_offset(s->bytes, s->n, (size_t)span.start), to = from;
        if (span.stop > span.start)
            to = from + halo_jinja_char_offset(s->bytes + from, s->n - from, (size_t)(span.stop - span.start));
        return halo_jinja_cut(run, s, from, to, ret);
    }
    if ((r = halo_jinja_alloc(run, n + 1, sizeof *offsets, &offsets)))
        return r;
    for (size_t i = 0, at = 0; i < n; i++, at += halo_jinja_char_bytes(s->bytes + at, s->n - at))
        offsets[i] = at;
    offsets[n] = s->n;
    for (int64_t at = span.start; r == 0 && in_slice(&span, at); at = next_in_slice(&span, at))
        r = halo_jinja_add_slice(run, &text, s, offsets[at], offsets[at + 1]);
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

int halo_jinja_slice(struct halo_jinja_run *run, struct halo_jinja_value value, const struct halo_jinja_value bounds[3],
                     bool constant, struct halo_jinja_value *ret)
{
    struct span span;
    if (value.kind == HALO_JINJA_UNDEFINED)
        return halo_jinja_undefined_error(run, value);
    bool sliceable = value.kind == HALO_JINJA_STRING || value.kind == HALO_JINJA_BYTES || is_subscriptable(value);
    if (sliceable && bounds[2].kind == HALO_JINJA_INT && bounds[2].integer == 0)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the step of a slice must not be 0");
    if (!sliceable || !are_integers(bounds)) {
        if (constant)
            return lacks(run, value, halo_jinja_missing(), true, false, ret);
        return sliceable ? halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "a slice index must be an integer")
                         : halo_jinja_type_error(run, "cannot be sliced", value);
    }
    if (value.kind == HALO_JINJA_STRING)
        return slice_string(run, value.string, bounds, ret);
    if (value.kind == HALO_JINJA_BYTES)
        return slice_bytes(run, value.string, bounds, ret);
    int r = slice_bounds(run, bounds, (int64_t)value.list->n, &span);
    if (r == 0)
        r = halo_jinja_new_list(run, value.kind, ret);
    for (int64_t at = span.start; r == 0 && in_slice(&span, at); at = next_in_slice(&span, at))
        r = halo_jinja_push(run, *ret, value.list->items[at]);
    return r;
}
