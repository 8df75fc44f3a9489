/* methods_text.c: Python's methods of str.
 *
 * Called through the table below. Results keep marks as text_ops.c says. Fails as a run does (jinja_priv.h).
 */
#include <string.h>

#include "jinja_priv.h"

#define METHOD(name)                                                                                                   \
    static int str_##name(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)

static bool given(struct halo_jinja_value v)
{
    return v.kind != HALO_JINJA_MISSING && v.kind != HALO_JINJA_NONE;
}

static int need_string(struct halo_jinja_run *run, const struct halo_jinja_call *call, size_t which)
{
    if (call->arg[which].kind == HALO_JINJA_STRING)
        return 0;
    return halo_jinja_type_error(run, "a string method needs a string", call->arg[which]);
}

/* At most so many; negative, and not given: all. */
static int take_count(struct halo_jinja_run *run, const struct halo_jinja_call *call, size_t which, int64_t *ret)
{
    struct halo_jinja_value v = call->arg[which];
    if (v.kind != HALO_JINJA_INT && v.kind != HALO_JINJA_BOOL && v.kind != HALO_JINJA_MISSING)
        return halo_jinja_type_error(run, "a count must be an integer", v);
    *ret = v.kind == HALO_JINJA_INT ? v.integer : v.kind == HALO_JINJA_BOOL ? v.boolean : -1;
    return 0;
}

METHOD(strip)
{
    return halo_jinja_strip(run, call->self.string, call->arg[0], (unsigned)call->native->op, ret);
}

METHOD(case)
{
    return halo_jinja_change_case(run, call->self.string, call->native->op, ret);
}

METHOD(replace)
{
    int64_t max = -1;
    int r = take_count(run, call, 2, &max);
    if (r == 0)
        r = need_string(run, call, 0);
    if (r == 0)
        r = need_string(run, call, 1);
    return r ? r : halo_jinja_replace(run, call->self.string, call->arg[0].string, call->arg[1].string, max, ret);
}

/* startswith (op 0), endswith (op 1): one string, or a tuple of them */
METHOD(begins)
{
    const struct halo_jinja_string *s = call->self.string;
    struct halo_jinja_list one = {.items = (struct halo_jinja_value[]){call->arg[0]}, .n = 1}, *all = &one;
    bool found = false;
    if (call->arg[0].kind == HALO_JINJA_TUPLE)
        all = call->arg[0].list;
    for (size_t i = 0; i < all->n && !found; i++) {
        const struct halo_jinja_string *what = all->items[i].string;
        if (all->items[i].kind != HALO_JINJA_STRING)
            return halo_jinja_type_error(run, "startswith and endswith need strings", all->items[i]);
        found =
            what->n <= s->n && memcmp(s->bytes + (call->native->op ? s->n - what->n : 0), what->bytes, what->n) == 0;
    }
    *ret = halo_jinja_own_bool(found);
    return 0;
}

/* removeprefix (op 0), removesuffix (op 1) */
METHOD(remove)
{
    const struct halo_jinja_string *s = call->self.string;
    int r = need_string(run, call, 0);
    if (r)
        return r;
    const struct halo_jinja_string *what = call->arg[0].string;
    size_t from = 0, to = s->n;
    if (what->n <= s->n && memcmp(s->bytes + (call->native->op ? s->n - what->n : 0), what->bytes, what->n) == 0) {
        from = call->native->op ? 0 : what->n;
        to = call->native->op ? s->n - what->n : s->n;
    }
    return halo_jinja_cut(run, s, from, to, ret);
}

/* ---- split ---- */

static int push_cut(struct halo_jinja_run *run, const struct halo_jinja_string *s, size_t from, size_t to,
                    struct halo_jinja_value list)
{
    struct halo_jinja_value part;
    int r = halo_jinja_cut(run, s, from, to, &part);
    return r ? r : halo_jinja_push(run, list, part);
}

static int split_space(struct halo_jinja_run *run, const struct halo_jinja_string *s, int64_t max,
                       struct halo_jinja_value list)
{
    size_t at = halo_jinja_skip_space(s->bytes, s->n);
    int r = 0;
    while (r == 0 && at < s->n) {
        size_t from = at, length;
        while (at < s->n && !halo_jinja_is_space(halo_jinja_char(s->bytes + at, s->n - at, &length)))
            at += length;
        if (max-- == 0)
            return push_cut(run, s, from, s->n, list);
        r = push_cut(run, s, from, at, list);
        at += halo_jinja_skip_space(s->bytes + at, s->n - at);
    }
    return r;
}

/* What split and rsplit are given: no separator means white space, no count all. */
static int take_split(struct halo_jinja_run *run, const struct halo_jinja_call *call, int64_t *ret_max)
{
    int r = halo_jinja_steps(run, call->self.string->n / 64);
    if (r == 0)
        r = take_count(run, call, 1, ret_max);
    if (r == 0 && given(call->arg[0]))
        r = need_string(run, call, 0);
    if (r == 0 && given(call->arg[0]) && call->arg[0].string->n == 0)
        r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the separator must not be empty");
    return r;
}

METHOD(split)
{
    const struct halo_jinja_string *s = call->self.string;
    int64_t max = -1;
    size_t from = 0;
    int r = take_split(run, call, &max);
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_LIST, ret);
    if (r == 0 && !given(call->arg[0]))
        return split_space(run, s, max, *ret);
    for (; r == 0 && max != 0; max--) {
        ptrdiff_t found = halo_jinja_find(s, from, call->arg[0].string);
        if (found < 0)
            break;
        r = push_cut(run, s, from, (size_t)found, *ret);
        from = (size_t)found + call->arg[0].string->n;
    }
    return r ? r : push_cut(run, s, from, s->n, *ret);
}

/* The last occurrence that ends at or before `end`, or -1. */
static ptrdiff_t find_last(const struct halo_jinja_string *s, size_t end, const struct halo_jinja_string *what)
{
    if (what->n > end)
        return -1;
    for (size_t at = end - what->n + 1; at-- > 0;)
        if (memcmp(s->bytes + at, what->bytes, what->n) == 0)
            return (ptrdiff_t)at;
    return -1;
}

/* The last part first. */
static int rsplit_space(struct halo_jinja_run *run, const struct halo_jinja_string *s, int64_t max,
                        struct halo_jinja_value parts)
{
    size_t end = halo_jinja_without_space(s->bytes, s->n), n;
    int r = 0;
    while (r == 0 && end > 0) {
        size_t from = end;
        while (from > 0 && !halo_jinja_is_space(halo_jinja_char_before(s->bytes, from, &n)))
            from -= n;
        if (max-- == 0)
            return push_cut(run, s, 0, end, parts);
        r = push_cut(run, s, from, end, parts);
        end = halo_jinja_without_space(s->bytes, from);
    }
    return r;
}

static int rsplit_by(struct halo_jinja_run *run, const struct halo_jinja_string *s, const struct halo_jinja_string *by,
                     int64_t max, struct halo_jinja_value parts)
{
    size_t end = s->n;
    int r = halo_jinja_steps(run, s->n / 16 * (1 + by->n / 16));
    for (; r == 0 && max != 0; max--) {
        ptrdiff_t found = find_last(s, end, by);
        if (found < 0)
            break;
        r = push_cut(run, s, (size_t)found + by->n, end, parts);
        end = (size_t)found;
    }
    return r ? r : push_cut(run, s, 0, end, parts);
}

METHOD(rsplit)
{
    const struct halo_jinja_string *s = call->self.string;
    struct halo_jinja_value parts;
    int64_t max = -1;
    int r = take_split(run, call, &max);
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_LIST, &parts);
    if (r == 0)
        r = given(call->arg[0]) ? rsplit_by(run, s, call->arg[0].string, max, parts) : rsplit_space(run, s, max, parts);
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_LIST, ret);
    for (size_t i = r ? 0 : parts.list->n; i-- > 0 && r == 0;)
        r = halo_jinja_push(run, *ret, parts.list->items[i]);
    return r;
}

/* partition (op 0), rpartition (op 1) */
METHOD(partition)
{
    const struct halo_jinja_string *s = call->self.string;
    int r = need_string(run, call, 0);
    if (r == 0 && call->arg[0].string->n == 0)
        r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the separator must not be empty");
    if (r == 0)
        r = halo_jinja_new_list(run, HALO_JINJA_TUPLE, ret);
    if (r)
        return r;
    const struct halo_jinja_string *what = call->arg[0].string;
    ptrdiff_t found = call->native->op ? find_last(s, s->n, what) : halo_jinja_find(s, 0, what);
    size_t from = found >= 0 ? (size_t)found : call->native->op ? 0 : s->n, to = found >= 0 ? from + what->n : from;
    r = push_cut(run, s, 0, from, *ret);
    if (r == 0)
        r = push_cut(run, s, from, to, *ret);
    return r ? r : push_cut(run, s, to, s->n, *ret);
}

METHOD(splitlines)
{
    bool keep = call->arg[0].kind != HALO_JINJA_MISSING && halo_jinja_truth(call->arg[0]);
    return halo_jinja_split_lines(run, call->self.string, keep, ret);
}

/* ---- looking ---- */

/* find, rfind (op 'f', 'r'), index, rindex ('i', 'j'): in characters */
METHOD(find)
{
    const struct halo_jinja_string *s = call->self.string;
    bool last = call->native->op == 'r' || call->native->op == 'j';
    size_t from = 0;
    int r = need_string(run, call, 0);
    if (r == 0)
        r = halo_jinja_steps(run, s->n / 16);
    if (r)
        return r;
    if (call->arg[1].kind == HALO_JINJA_INT && call->arg[1].integer >= 0)
        from = halo_jinja_char_offset(s->bytes, s->n, (size_t)call->arg[1].integer);
    ptrdiff_t found = last ? find_last(s, s->n, call->arg[0].string) : halo_jinja_find(s, from, call->arg[0].string);
    if (found < (ptrdiff_t)from)
        found = -1;
    if (found < 0 && (call->native->op == 'i' || call->native->op == 'j'))
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "substring not found");
    *ret = halo_jinja_own_int(found < 0 ? -1 : (int64_t)halo_jinja_char_count(s->bytes, (size_t)found));
    return 0;
}

METHOD(count)
{
    const struct halo_jinja_string *s = call->self.string;
    int64_t count = 0;
    int r = need_string(run, call, 0);
    if (r == 0)
        r = halo_jinja_steps(run, s->n / 16);
    if (r)
        return r;
    const struct halo_jinja_string *what = call->arg[0].string;
    for (ptrdiff_t at = 0; what->n && (at = halo_jinja_find(s, (size_t)at, what)) >= 0; at += (ptrdiff_t)what->n)
        count++;
    *ret = halo_jinja_own_int(what->n ? count : (int64_t)halo_jinja_char_count(s->bytes, s->n) + 1);
    return 0;
}

/* ---- building ---- */

METHOD(join)
{
    struct halo_jinja_list *items;
    int r = halo_jinja_iterate(run, call->arg[0], &items);
    return r ? r : halo_jinja_join(run, call->self.string, items, true, ret);
}

METHOD(expandtabs)
{
    const struct halo_jinja_string *s = call->self.string;
    struct halo_jinja_text text = {0};
    int64_t size = call->arg[0].kind == HALO_JINJA_MISSING ? 8 : call->arg[0].integer, column = 0;
    int r = 0;
    if (call->arg[0].kind != HALO_JINJA_MISSING && call->arg[0].kind != HALO_JINJA_INT)
        return halo_jinja_type_error(run, "the tab size must be an integer", call->arg[0]);
    for (size_t at = 0, n; r == 0 && at < s->n; at += n) {
        n = halo_jinja_char_bytes(s->bytes + at, s->n - at);
        if (s->bytes[at] != '\t') {
            column = s->bytes[at] == '\n' || s->bytes[at] == '\r' ? 0 : column + 1;
            r = halo_jinja_add_slice(run, &text, s, at, at + n);
            continue;
        }
        int64_t blanks = size > 0 ? size - column % size : 0;
        column += blanks;
        for (; r == 0 && blanks > 0; blanks--)
            r = halo_jinja_add(run, &text, " ", 1, halo_jinja_mark_at(s, at));
    }
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

/* ljust, rjust, center, zfill (op: l r c z) */
METHOD(justify)
{
    const struct halo_jinja_string *s = call->self.string;
    struct halo_jinja_string blank = {.bytes = call->native->op == 'z' ? "0" : " ", .n = 1, .is_template = true};
    struct halo_jinja_text text = {0};
    size_t n = halo_jinja_char_count(s->bytes, s->n), sign = 0;
    if (call->arg[0].kind != HALO_JINJA_INT)
        return halo_jinja_type_error(run, "the width must be an integer", call->arg[0]);
    if (call->arg[1].kind == HALO_JINJA_STRING)
        blank = *call->arg[1].string;
    int64_t missing = call->arg[0].integer - (int64_t)n, left = 0;
    missing = missing > 0 ? missing : 0;
    if (call->native->op == 'r' || call->native->op == 'z')
        left = missing;
    else if (call->native->op == 'c')
        left = missing / 2 + (missing & call->arg[0].integer & 1);
    if (call->native->op == 'z' && s->n && (s->bytes[0] == '-' || s->bytes[0] == '+'))
        sign = 1;
    int r = halo_jinja_add_slice(run, &text, s, 0, sign);
    for (int64_t i = 0; r == 0 && i < missing; i++) {
        if (i == left)
            r = halo_jinja_add_slice(run, &text, s, sign, s->n);
        if (r == 0)
            r = halo_jinja_add_string(run, &text, &blank);
    }
    if (r == 0 && left >= missing)
        r = halo_jinja_add_slice(run, &text, s, sign, s->n);
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

/* The value that a {field} names: a position, a name, or the next position. */
static int field_value(struct halo_jinja_run *run, const struct halo_jinja_args *args, const char *name, size_t n,
                       size_t *next, struct halo_jinja_value *ret)
{
    size_t at = 0;
    bool number = true;
    for (size_t i = 0; i < n; i++) {
        number &= name[i] >= '0' && name[i] <= '9' && i < 6;
        at = number ? at * 10 + (size_t)(name[i] - '0') : 0;
    }
    if (number) {
        at = n ? at : (*next)++;
        if (at >= args->n)
            return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "format() has no argument %zu", at);
        *ret = args->items[at];
        return 0;
    }
    for (size_t i = 0; i < args->n_named; i++)
        if (halo_jinja_is_text(args->named[i].key, name, n)) {
            *ret = args->named[i].value;
            return 0;
        }
    return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "format() has no argument '%.*s', and takes plain fields only",
                           n < 40 ? (int)n : 40, name);
}

METHOD(format)
{
    const struct halo_jinja_string *s = call->self.string;
    struct halo_jinja_text text = {0};
    struct halo_jinja_value value;
    size_t plain = 0, next = 0;
    int r = 0;
    for (size_t at = 0; r == 0 && at < s->n; at++) {
        char c = s->bytes[at];
        if (c != '{' && c != '}')
            continue;
        r = halo_jinja_add_slice(run, &text, s, plain, at);
        if (at + 1 < s->n && s->bytes[at + 1] == c) {
            plain = ++at;
            continue;
        }
        const char *end = c == '{' ? memchr(s->bytes + at, '}', s->n - at) : NULL;
        if (r == 0 && !end)
            return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "format() found a single '%c'", c);
        if (r == 0)
            r = field_value(run, call->raw, s->bytes + at + 1, (size_t)(end - s->bytes) - at - 1, &next, &value);
        if (r == 0)
            r = halo_jinja_print(run, &text, value);
        at = r ? at : (size_t)(end - s->bytes);
        plain = at + 1;
    }
    if (r == 0)
        r = halo_jinja_add_slice(run, &text, s, plain, s->n);
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

const struct halo_jinja_native halo_jinja_string_methods[] = {
    {.name = "capitalize", .call = str_case, .op = 'c'},
    {.name = "casefold", .call = str_case, .op = 'l'},
    {.name = "center", .call = str_justify, .params = {"width", "fillchar"}, .n_required = 1, .op = 'c'},
    {.name = "count", .call = str_count, .params = {"sub"}, .n_required = 1},
    {.name = "encode", .call = halo_jinja_encode, .params = {"encoding", "errors"}},
    {.name = "endswith", .call = str_begins, .params = {"suffix"}, .n_required = 1, .op = 1},
    {.name = "expandtabs", .call = str_expandtabs, .params = {"tabsize"}},
    {.name = "find", .call = str_find, .params = {"sub", "start"}, .n_required = 1, .op = 'f'},
    {.name = "format", .call = str_format, .any = true},
    {.name = "index", .call = str_find, .params = {"sub", "start"}, .n_required = 1, .op = 'i'},
    {.name = "join", .call = str_join, .params = {"iterable"}, .n_required = 1},
    {.name = "ljust", .call = str_justify, .params = {"width", "fillchar"}, .n_required = 1, .op = 'l'},
    {.name = "lower", .call = str_case, .op = 'l'},
    {.name = "lstrip", .call = str_strip, .params = {"chars"}, .op = HALO_JINJA_LEFT},
    {.name = "partition", .call = str_partition, .params = {"sep"}, .n_required = 1, .op = 0},
    {.name = "removeprefix", .call = str_remove, .params = {"prefix"}, .n_required = 1, .op = 0},
    {.name = "removesuffix", .call = str_remove, .params = {"suffix"}, .n_required = 1, .op = 1},
    {.name = "replace", .call = str_replace, .params = {"old", "new", "count"}, .n_required = 2},
    {.name = "rfind", .call = str_find, .params = {"sub"}, .n_required = 1, .op = 'r'},
    {.name = "rindex", .call = str_find, .params = {"sub"}, .n_required = 1, .op = 'j'},
    {.name = "rjust", .call = str_justify, .params = {"width", "fillchar"}, .n_required = 1, .op = 'r'},
    {.name = "rpartition", .call = str_partition, .params = {"sep"}, .n_required = 1, .op = 1},
    {.name = "rsplit", .call = str_rsplit, .params = {"sep", "maxsplit"}},
    {.name = "rstrip", .call = str_strip, .params = {"chars"}, .op = HALO_JINJA_RIGHT},
    {.name = "split", .call = str_split, .params = {"sep", "maxsplit"}},
    {.name = "splitlines", .call = str_splitlines, .params = {"keepends"}},
    {.name = "startswith", .call = str_begins, .params = {"prefix"}, .n_required = 1, .op = 0},
    {.name = "strip", .call = str_strip, .params = {"chars"}, .op = HALO_JINJA_LEFT | HALO_JINJA_RIGHT},
    {.name = "swapcase", .call = str_case, .op = 's'},
    {.name = "title", .call = str_case, .op = 't'},
    {.name = "upper", .call = str_case, .op = 'u'},
    {.name = "zfill", .call = str_justify, .params = {"width"}, .n_required = 1, .op = 'z'},
};
const size_t halo_jinja_n_string_methods = sizeof halo_jinja_string_methods / sizeof *halo_jinja_string_methods;
