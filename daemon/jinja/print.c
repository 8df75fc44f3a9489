/* print.c: values as text: str(), repr() and numbers, spelled as Python spells them.
 *
 * Appends to a text of the run. Strings keep their marks; the punctuation of lists and dicts, and numbers that came
 * from variables, are content. Fails as a run does (jinja_priv.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_priv.h"

/* The shortest digits that read back as the same number, in Python's layout: an exponent below 1e-4 and from 1e16 on.
 */
size_t halo_jinja_float_text(char *at, double number)
{
    char digits[40];
    int precision = 0;
    if (number != number || number > 1.7976931348623157e308 || number < -1.7976931348623157e308)
        return (size_t)sprintf(at, "%s", number != number ? "nan" : number > 0 ? "inf" : "-inf");
    do
        snprintf(digits, sizeof digits, "%.*e", precision, number);
    while (strtod(digits, NULL) != number && ++precision < 17);
    char *e = strchr(digits, 'e');
    int exponent = atoi(e + 1);
    if (exponent < -4 || exponent >= 16)
        return (size_t)sprintf(at, "%.*se%c%02d", (int)(e - digits), digits, exponent < 0 ? '-' : '+', abs(exponent));
    int decimals = precision > exponent ? precision - exponent : 0;
    size_t n = (size_t)sprintf(at, "%.*f", decimals, number);
    return decimals ? n : n + (size_t)sprintf(at + n, ".0");
}

static int print_name(struct halo_jinja_run *run, struct halo_jinja_text *text, struct halo_jinja_value value)
{
    char name[64];
    int n = snprintf(name, sizeof name, value.kind == HALO_JINJA_NAMESPACE ? "<%s>" : "<%s object>",
                     halo_jinja_type_name(value));
    return halo_jinja_add(run, text, name, (size_t)n, false);
}

static int print_scalar(struct halo_jinja_run *run, struct halo_jinja_text *text, struct halo_jinja_value value)
{
    char number[64];
    size_t n;
    switch (value.kind) {
    case HALO_JINJA_UNDEFINED: return 0;
    case HALO_JINJA_NONE: return halo_jinja_add(run, text, "None", 4, value.is_template);
    case HALO_JINJA_BOOL:
        return halo_jinja_add(run, text, value.boolean ? "True" : "False", value.boolean ? 4 : 5, value.is_template);
    case HALO_JINJA_INT:
        n = (size_t)snprintf(number, sizeof number, "%" PRId64, value.integer);
        return halo_jinja_add(run, text, number, n, value.is_template);
    case HALO_JINJA_FLOAT:
        n = halo_jinja_float_text(number, value.number);
        return halo_jinja_add(run, text, number, n, value.is_template);
    case HALO_JINJA_BIG: return halo_jinja_add_string(run, text, value.string);
    default: return print_name(run, text, value);
    }
}

int halo_jinja_print(struct halo_jinja_run *run, struct halo_jinja_text *text, struct halo_jinja_value value)
{
    if (value.kind == HALO_JINJA_STRING)
        return halo_jinja_add_string(run, text, value.string);
    if (halo_jinja_is_listlike(value) || value.kind == HALO_JINJA_DICT || value.kind == HALO_JINJA_BYTES)
        return halo_jinja_repr(run, text, value);
    return print_scalar(run, text, value);
}

int halo_jinja_to_string(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_value *ret)
{
    struct halo_jinja_text text = {0};
    if (value.kind == HALO_JINJA_STRING) {
        *ret = value;
        return 0;
    }
    int r = halo_jinja_print(run, &text, value);
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

/* ---- repr ---- */

/* A string, or bytes: then b'...', and every byte stands for itself. */
static int repr_string(struct halo_jinja_run *run, struct halo_jinja_text *text, const struct halo_jinja_string *s,
                       bool bytes)
{
    char quote = memchr(s->bytes, '\'', s->n) && !memchr(s->bytes, '"', s->n) ? '"' : '\'', escape[16];
    size_t plain = 0, n = 1;
    int r = bytes ? halo_jinja_add(run, text, "b", 1, false) : 0;
    if (r == 0)
        r = halo_jinja_add(run, text, &quote, 1, false);
    for (size_t at = 0; r == 0 && at < s->n; at += n) {
        uint32_t c = bytes ? (uint8_t)s->bytes[at] : halo_jinja_char(s->bytes + at, s->n - at, &n);
        int n_escape;
        if (c == (uint32_t)quote || c == '\\')
            n_escape = sprintf(escape, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            n_escape = sprintf(escape, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (bytes ? c >= ' ' && c < 0x7F : halo_jinja_is_printable(c))
            continue;
        else
            n_escape = sprintf(escape, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        r = halo_jinja_add_slice(run, text, s, plain, at);
        if (r == 0)
            r = halo_jinja_add(run, text, escape, (size_t)n_escape, halo_jinja_mark_at(s, at));
        plain = at + n;
    }
    if (r == 0)
        r = halo_jinja_add_slice(run, text, s, plain, s->n);
    return r ? r : halo_jinja_add(run, text, &quote, 1, false);
}

static int add_text(struct halo_jinja_run *run, struct halo_jinja_text *text, const char *bytes)
{
    return halo_jinja_add(run, text, bytes, strlen(bytes), false);
}

static int repr_list(struct halo_jinja_run *run, struct halo_jinja_text *text, struct halo_jinja_value value)
{
    bool tuple = value.kind == HALO_JINJA_TUPLE, view = !tuple && value.kind != HALO_JINJA_LIST;
    int r = 0;
    if (view && (r = add_text(run, text, halo_jinja_type_name(value))) == 0)
        r = add_text(run, text, "(");
    if (r == 0)
        r = add_text(run, text, tuple ? "(" : "[");
    for (size_t i = 0; r == 0 && i < value.list->n; i++) {
        if (i && (r = add_text(run, text, ", ")))
            return r;
        r = halo_jinja_repr(run, text, value.list->items[i]);
    }
    if (r == 0)
        r = add_text(run, text, tuple ? value.list->n == 1 ? ",)" : ")" : "]");
    return r || !view ? r : add_text(run, text, ")");
}

static int repr_range(struct halo_jinja_run *run, struct halo_jinja_text *text, const struct halo_jinja_list *list)
{
    char range[80];
    int64_t first = list->n ? list->items[0].integer : 0, last = list->n ? list->items[list->n - 1].integer : -1;
    int64_t step = list->n > 1 ? list->items[1].integer - first : 1;
    int n = snprintf(range, sizeof range, "range(%" PRId64 ", %" PRId64, first, last + step);
    if (step != 1)
        n += snprintf(range + n, sizeof range - (size_t)n, ", %" PRId64, step);
    int r = halo_jinja_add(run, text, range, (size_t)n, false);
    return r ? r : add_text(run, text, ")");
}

static int repr_dict(struct halo_jinja_run *run, struct halo_jinja_text *text, const struct halo_jinja_dict *dict)
{
    int r = add_text(run, text, "{");
    for (size_t i = 0; r == 0 && i < dict->n; i++) {
        if (i && (r = add_text(run, text, ", ")))
            return r;
        r = halo_jinja_repr(run, text, dict->entries[i].key);
        if (r == 0)
            r = add_text(run, text, ": ");
        if (r == 0)
            r = halo_jinja_repr(run, text, dict->entries[i].value);
    }
    return r ? r : add_text(run, text, "}");
}

int halo_jinja_repr(struct halo_jinja_run *run, struct halo_jinja_text *text, struct halo_jinja_value value)
{
    int r = halo_jinja_enter(run);
    if (r) {
        /* falls through to the end */
    } else if (value.kind == HALO_JINJA_STRING) {
        r = repr_string(run, text, value.string, false);
    } else if (value.kind == HALO_JINJA_BYTES) {
        r = repr_string(run, text, value.string, true);
    } else if (value.kind == HALO_JINJA_DICT) {
        r = repr_dict(run, text, value.dict);
    } else if (value.kind == HALO_JINJA_RANGE) {
        r = repr_range(run, text, value.list);
    } else if (value.kind == HALO_JINJA_GENERATOR) {
        r = print_name(run, text, value);
    } else if (halo_jinja_is_listlike(value)) {
        r = repr_list(run, text, value);
    } else if (value.kind == HALO_JINJA_UNDEFINED) {
        r = add_text(run, text, "Undefined");
    } else {
        r = print_scalar(run, text, value);
    }
    run->depth--;
    return r;
}
