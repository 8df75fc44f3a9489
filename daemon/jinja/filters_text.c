/* filters_text.c: filters whose result is a string, a number or their input.
 *
 * Called through the table below with their arguments bound by name. Fails as a run does (jinja_priv.h).
 */
#include <math.h>
#include <string.h>

#include "jinja_priv.h"

#define FILTER(name)                                                                                                   \
    static int filter_##name(struct halo_jinja_run *run, const struct halo_jinja_call *call,                           \
                             struct halo_jinja_value *ret)

static bool given(struct halo_jinja_value v)
{
    return v.kind != HALO_JINJA_MISSING;
}
static bool given_truth(struct halo_jinja_value v)
{
    return given(v) && halo_jinja_truth(v);
}

/* Self as a string, as nearly every text filter takes it. */
static int self_text(struct halo_jinja_run *run, const struct halo_jinja_call *call,
                     const struct halo_jinja_string **ret)
{
    struct halo_jinja_value text;
    int r = halo_jinja_to_string(run, call->self, &text);
    *ret = r ? NULL : text.string;
    return r;
}

FILTER(string)
{
    return halo_jinja_to_string(run, call->self, ret);
}

FILTER(trim)
{
    const struct halo_jinja_string *text;
    int r = self_text(run, call, &text);
    return r ? r : halo_jinja_strip(run, text, call->arg[0], HALO_JINJA_LEFT | HALO_JINJA_RIGHT, ret);
}

FILTER(case)
{
    const struct halo_jinja_string *text;
    int r = self_text(run, call, &text);
    return r ? r : halo_jinja_change_case(run, text, call->native->op, ret);
}

FILTER(replace)
{
    const struct halo_jinja_string *text;
    struct halo_jinja_value old, with;
    int64_t max = call->arg[2].kind == HALO_JINJA_INT ? call->arg[2].integer : -1;
    int r = self_text(run, call, &text);
    if (r == 0)
        r = halo_jinja_to_string(run, call->arg[0], &old);
    if (r == 0)
        r = halo_jinja_to_string(run, call->arg[1], &with);
    return r ? r : halo_jinja_replace(run, text, old.string, with.string, max, ret);
}

FILTER(default)
{
    bool use = call->self.kind == HALO_JINJA_UNDEFINED || (given_truth(call->arg[1]) && !halo_jinja_truth(call->self));
    *ret = call->self;
    if (use && !given(call->arg[0]))
        return halo_jinja_own_string(run, "", 0, ret);
    if (use)
        *ret = call->arg[0];
    return 0;
}

FILTER(indent)
{
    const struct halo_jinja_string *text;
    struct halo_jinja_value lines, by = call->arg[0];
    struct halo_jinja_text out = {0}, blanks = {0};
    bool first = given_truth(call->arg[1]), blank = given_truth(call->arg[2]);
    int r = self_text(run, call, &text);
    if (r == 0)
        r = halo_jinja_split_lines(run, text, false, &lines);
    int64_t width = by.kind == HALO_JINJA_INT ? by.integer : 4;
    for (int64_t i = 0; r == 0 && by.kind != HALO_JINJA_STRING && i < width; i++)
        r = halo_jinja_add(run, &blanks, " ", 1, true);
    if (r == 0 && by.kind != HALO_JINJA_STRING)
        r = halo_jinja_finish_text(run, &blanks, &by);
    if (r)
        return r;
    /* Python adds a line break before it splits: a text that ends in one, or is empty, has a last empty line. */
    size_t n = lines.list->n;
    bool ends_open = text->n == 0 || strchr("\n\r", text->bytes[text->n - 1]);
    for (size_t i = 0; r == 0 && i < n + ends_open; i++) {
        const struct halo_jinja_string *line = i < n ? lines.list->items[i].string : NULL;
        if (i)
            r = halo_jinja_add(run, &out, "\n", 1, halo_jinja_all_template(text));
        if (r == 0 && (i ? blank || (line && line->n) : first))
            r = halo_jinja_add_string(run, &out, by.string);
        if (r == 0 && line)
            r = halo_jinja_add_string(run, &out, line);
    }
    return r ? r : halo_jinja_finish_text(run, &out, ret);
}

FILTER(join)
{
    struct halo_jinja_list *items;
    struct halo_jinja_value between, mapped;
    int r = halo_jinja_iterate(run, call->self, &items);
    if (r == 0 && given(call->arg[1]) && call->arg[1].kind != HALO_JINJA_NONE) {
        r = halo_jinja_new_list(run, HALO_JINJA_LIST, &mapped);
        for (size_t i = 0; r == 0 && i < items->n; i++) {
            struct halo_jinja_value item;
            if ((r = halo_jinja_item(run, items->items[i], call->arg[1], &item)) == 0)
                r = halo_jinja_push(run, mapped, item);
        }
        items = r ? items : mapped.list;
    }
    if (r == 0)
        r = given(call->arg[0]) ? halo_jinja_to_string(run, call->arg[0], &between)
                                : halo_jinja_own_string(run, "", 0, &between);
    return r ? r : halo_jinja_join(run, between.string, items, false, ret);
}

FILTER(tojson)
{
    struct halo_jinja_json_style style = {.indent = halo_jinja_none()};
    struct halo_jinja_text text = {0};
    struct halo_jinja_value separators = call->arg[2];
    style.ascii = given_truth(call->arg[0]);
    style.sort_keys = given_truth(call->arg[3]);
    if (call->arg[1].kind == HALO_JINJA_INT || call->arg[1].kind == HALO_JINJA_STRING)
        style.indent = call->arg[1];
    if (halo_jinja_is_listlike(separators) && separators.list->n == 2 &&
        separators.list->items[0].kind == HALO_JINJA_STRING && separators.list->items[1].kind == HALO_JINJA_STRING) {
        style.item_separator = separators.list->items[0].string;
        style.key_separator = separators.list->items[1].string;
    }
    int r = halo_jinja_to_json(run, &text, call->self, &style);
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

FILTER(format)
{
    struct halo_jinja_value values;
    const struct halo_jinja_string *text;
    int r = self_text(run, call, &text);
    if (r == 0 && call->raw->n_named) {
        r = halo_jinja_new_dict(run, &values);
        for (size_t i = 0; r == 0 && i < call->raw->n_named; i++)
            r = halo_jinja_put(run, values, call->raw->named[i].key, call->raw->named[i].value);
    } else if (r == 0) {
        r = halo_jinja_new_list(run, HALO_JINJA_TUPLE, &values);
        for (size_t i = 0; r == 0 && i < call->raw->n; i++)
            r = halo_jinja_push(run, values, call->raw->items[i]);
    }
    return r ? r : halo_jinja_format_percent(run, text, values, ret);
}

FILTER(safe)
{
    struct halo_jinja_value text;
    struct halo_jinja_string *copy;
    int r = halo_jinja_to_string(run, call->self, &text);
    if (r == 0)
        r = halo_jinja_alloc(run, 1, sizeof *copy, &copy);
    if (r)
        return r;
    *copy = *text.string;
    copy->is_safe = true;
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_STRING, .string = copy};
    return 0;
}

FILTER(escape)
{
    struct halo_jinja_value text;
    int r = halo_jinja_to_string(run, call->self, &text);
    return r ? r : halo_jinja_escape(run, text.string, ret);
}

FILTER(wordcount)
{
    const struct halo_jinja_string *text;
    bool in_word = false;
    int64_t count = 0;
    int r = self_text(run, call, &text);
    for (size_t at = 0, n; r == 0 && at < text->n; at += n) {
        uint32_t c = halo_jinja_char(text->bytes + at, text->n - at, &n);
        bool word = halo_jinja_is_alnum(c) || c == '_';
        count += word && !in_word;
        in_word = word;
    }
    *ret = halo_jinja_own_int(count);
    return r;
}

/* ---- numbers ---- */

FILTER(int)
{
    struct halo_jinja_value self = call->self, number;
    int64_t base = call->arg[1].kind == HALO_JINJA_INT ? call->arg[1].integer : 10;
    *ret = given(call->arg[0]) ? call->arg[0] : halo_jinja_own_int(0);
    if (base < 2 || base > 36)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the base of a number must be 2 to 36");
    if (self.kind == HALO_JINJA_UNDEFINED)
        return halo_jinja_undefined_error(run, self);
    if (self.kind == HALO_JINJA_INT || self.kind == HALO_JINJA_BOOL || self.kind == HALO_JINJA_BIG) {
        *ret = self;
        if (self.kind == HALO_JINJA_BOOL)
            *ret = (struct halo_jinja_value){
                .kind = HALO_JINJA_INT, .is_template = self.is_template, .integer = self.boolean};
        return 0;
    }
    bool found = false;
    int r = 0;
    if (self.kind == HALO_JINJA_STRING)
        r = halo_jinja_read_integer(run, self.string, (unsigned)base, &number, &found);
    if (r)
        return r;
    if (found) {
        *ret = number;
        return 0;
    }
    if (self.kind == HALO_JINJA_STRING && halo_jinja_read_float(self.string, &number))
        self = number;
    return self.kind == HALO_JINJA_FLOAT && isfinite(self.number) ? halo_jinja_truncate(run, self, ret) : 0;
}

FILTER(float)
{
    struct halo_jinja_value self = call->self, number;
    *ret = call->arg[0];
    if (!given(*ret))
        *ret = (struct halo_jinja_value){.kind = HALO_JINJA_FLOAT, .is_template = true};
    if (self.kind == HALO_JINJA_UNDEFINED)
        return halo_jinja_undefined_error(run, self);
    if (self.kind == HALO_JINJA_STRING && halo_jinja_read_float(self.string, &number))
        *ret = number;
    else if (self.kind == HALO_JINJA_FLOAT)
        *ret = self;
    else if (self.kind == HALO_JINJA_BIG) {
        halo_jinja_read_float(self.string, &number);
        *ret = number;
    } else if (self.kind == HALO_JINJA_INT || self.kind == HALO_JINJA_BOOL)
        *ret = (struct halo_jinja_value){.kind = HALO_JINJA_FLOAT,
                                         .is_template = self.is_template,
                                         .number = self.kind == HALO_JINJA_BOOL ? self.boolean : (double)self.integer};
    return 0;
}

FILTER(abs)
{
    struct halo_jinja_value self = call->self;
    bool negative =
        (self.kind == HALO_JINJA_INT && self.integer < 0) || (self.kind == HALO_JINJA_FLOAT && self.number < 0);
    return halo_jinja_unary(run, negative ? '-' : '+', self, ret);
}

FILTER(round)
{
    struct halo_jinja_value self = call->self;
    int64_t digits = call->arg[0].kind == HALO_JINJA_INT ? call->arg[0].integer : 0;
    if (self.kind != HALO_JINJA_INT && self.kind != HALO_JINJA_FLOAT && self.kind != HALO_JINJA_BOOL)
        return halo_jinja_type_error(run, "only a number can be rounded", self);
    double number = self.kind == HALO_JINJA_FLOAT ? self.number
                    : self.kind == HALO_JINJA_INT ? (double)self.integer
                                                  : self.boolean;
    bool plain = !given(call->arg[1]) || halo_jinja_is_text(call->arg[1], "common", 6);
    if (plain && self.kind != HALO_JINJA_FLOAT && digits >= 0)
        return halo_jinja_unary(run, '+', self, ret);
    double scale = pow(10, (double)(digits > 300 ? 300 : digits < -300 ? -300 : digits)), scaled = number * scale;
    bool ceil_it = given(call->arg[1]) && halo_jinja_is_text(call->arg[1], "ceil", 4);
    bool floor_it = given(call->arg[1]) && halo_jinja_is_text(call->arg[1], "floor", 5);
    scaled = ceil_it ? ceil(scaled) : floor_it ? floor(scaled) : nearbyint(scaled);
    *ret =
        (struct halo_jinja_value){.kind = HALO_JINJA_FLOAT, .is_template = self.is_template, .number = scaled / scale};
    return 0;
}

FILTER(attr)
{
    struct halo_jinja_value name;
    int r = halo_jinja_to_string(run, call->arg[0], &name);
    if (r == 0)
        r = halo_jinja_attribute(run, call->self, name, ret);
    if (r == 0 && call->self.kind == HALO_JINJA_DICT && ret->kind != HALO_JINJA_METHOD) /* attributes only, no keys */
        r = halo_jinja_undefined(
            run, (struct halo_jinja_hint){.owner = "dict object", .name = name.string->bytes, .n_name = name.string->n},
            ret);
    return r;
}

const struct halo_jinja_native halo_jinja_text_filters[] = {
    {.name = "abs", .call = filter_abs},
    {.name = "attr", .call = filter_attr, .params = {"name"}, .n_required = 1},
    {.name = "capitalize", .call = filter_case, .op = 'c'},
    {.name = "d", .call = filter_default, .params = {"default_value", "boolean"}},
    {.name = "default", .call = filter_default, .params = {"default_value", "boolean"}},
    {.name = "e", .call = filter_escape},
    {.name = "escape", .call = filter_escape},
    {.name = "float", .call = filter_float, .params = {"default"}},
    {.name = "format", .call = filter_format, .any = true},
    {.name = "indent", .call = filter_indent, .params = {"width", "first", "blank"}},
    {.name = "int", .call = filter_int, .params = {"default", "base"}},
    {.name = "join", .call = filter_join, .params = {"d", "attribute"}},
    {.name = "lower", .call = filter_case, .op = 'l'},
    {.name = "replace", .call = filter_replace, .params = {"old", "new", "count"}, .n_required = 2},
    {.name = "round", .call = filter_round, .params = {"precision", "method"}},
    {.name = "safe", .call = filter_safe},
    {.name = "string", .call = filter_string},
    {.name = "title", .call = filter_case, .op = 'T'},
    {.name = "tojson", .call = filter_tojson, .params = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = "trim", .call = filter_trim, .params = {"chars"}},
    {.name = "upper", .call = filter_case, .op = 'u'},
    {.name = "wordcount", .call = filter_wordcount},
};
const size_t halo_jinja_n_text_filters = sizeof halo_jinja_text_filters / sizeof *halo_jinja_text_filters;
