/* to_json.c: values as JSON, in the layout of Python's json.dumps.
 *
 * Separators ", " and ": " unless others are given; with an indent, "," and a line break. Strings keep their marks, all
 * punctuation is content. What JSON has no form for is a TYPE_ERROR.
 */
#include <stdio.h>
#include <string.h>

#include "jinja_priv.h"

struct writer {
    struct halo_jinja_run *run;
    struct halo_jinja_text *text;
    const struct halo_jinja_json_style *style;
};

static int write_value(const struct writer *w, struct halo_jinja_value value, size_t level);

static int put(const struct writer *w, const char *bytes)
{
    return halo_jinja_add(w->run, w->text, bytes, strlen(bytes), false);
}

/* The escape of a character, empty when it goes as it is. */
static size_t escape_of(uint32_t c, bool ascii, char *escape)
{
    static const char letters[] = "\"\"\\\\\nn\rr\tt\ff\bb";
    for (size_t i = 0; i + 1 < sizeof letters; i += 2)
        if (c == (uint32_t)letters[i])
            return (size_t)sprintf(escape, "\\%c", letters[i + 1]);
    if (c >= 0x20 && (c < 0x7F || !ascii))
        return 0;
    if (c < 0x10000)
        return (size_t)sprintf(escape, "\\u%04x", c);
    c -= 0x10000;
    return (size_t)sprintf(escape, "\\u%04x\\u%04x", 0xD800 + (c >> 10), 0xDC00 + (c & 0x3FF));
}

static int write_string(const struct writer *w, const struct halo_jinja_string *s)
{
    char escape[16];
    size_t plain = 0, n;
    int r = put(w, "\"");
    for (size_t at = 0; r == 0 && at < s->n; at += n) {
        uint32_t c = halo_jinja_char(s->bytes + at, s->n - at, &n);
        size_t n_escape = escape_of(c, w->style->ascii, escape);
        if (n_escape == 0)
            continue;
        r = halo_jinja_add_slice(w->run, w->text, s, plain, at);
        if (r == 0)
            r = halo_jinja_add(w->run, w->text, escape, n_escape, halo_jinja_mark_at(s, at));
        plain = at + n;
    }
    if (r == 0)
        r = halo_jinja_add_slice(w->run, w->text, s, plain, s->n);
    return r ? r : put(w, "\"");
}

static int write_scalar(const struct writer *w, struct halo_jinja_value value)
{
    char number[64];
    switch (value.kind) {
    case HALO_JINJA_NONE: return put(w, "null");
    case HALO_JINJA_BOOL: return put(w, value.boolean ? "true" : "false");
    case HALO_JINJA_FLOAT:
        if (value.number != value.number || value.number - value.number != 0)
            return put(w, value.number != value.number ? "NaN" : value.number > 0 ? "Infinity" : "-Infinity");
        return halo_jinja_add(w->run, w->text, number, halo_jinja_float_text(number, value.number), value.is_template);
    case HALO_JINJA_INT:
    case HALO_JINJA_BIG: return halo_jinja_print(w->run, w->text, value);
    default:
        return halo_jinja_fail(w->run, HALO_JINJA_TYPE_ERROR, "a %s cannot be written as JSON",
                               halo_jinja_type_name(value));
    }
}

/* With an indent: a line break and the blanks of a level. */
static int write_break(const struct writer *w, size_t level)
{
    struct halo_jinja_value indent = w->style->indent;
    if (indent.kind == HALO_JINJA_NONE)
        return 0;
    int r = put(w, "\n");
    for (size_t i = 0; r == 0 && i < level; i++) {
        if (indent.kind == HALO_JINJA_STRING)
            r = halo_jinja_add_string(w->run, w->text, indent.string);
        for (int64_t j = 0; r == 0 && indent.kind == HALO_JINJA_INT && j < indent.integer; j++)
            r = put(w, " ");
    }
    return r;
}

static int write_separator(const struct writer *w, const struct halo_jinja_string *given, const char *usual)
{
    return given ? halo_jinja_add_string(w->run, w->text, given) : put(w, usual);
}

static int write_between(const struct writer *w, size_t at, size_t level)
{
    int r = 0;
    if (at)
        r = write_separator(w, w->style->item_separator, w->style->indent.kind == HALO_JINJA_NONE ? ", " : ",");
    return r ? r : write_break(w, level);
}

static int write_list(const struct writer *w, const struct halo_jinja_list *list, size_t level)
{
    int r = put(w, list->n ? "[" : "[]");
    for (size_t i = 0; r == 0 && i < list->n; i++)
        if ((r = write_between(w, i, level + 1)) == 0)
            r = write_value(w, list->items[i], level + 1);
    if (r == 0 && list->n)
        r = write_break(w, level);
    return r || list->n == 0 ? r : put(w, "]");
}

static int write_key(const struct writer *w, struct halo_jinja_value key)
{
    if (key.kind == HALO_JINJA_STRING)
        return write_string(w, key.string);
    if (key.kind > HALO_JINJA_STRING || key.kind == HALO_JINJA_UNDEFINED)
        return halo_jinja_fail(w->run, HALO_JINJA_TYPE_ERROR, "a %s cannot be a key in JSON",
                               halo_jinja_type_name(key));
    int r = put(w, "\"");
    if (r == 0)
        r = write_scalar(w, key);
    return r ? r : put(w, "\"");
}

/* Entry numbers in the order of their keys, by insertion into a heap of its own: keys are few. */
static int sorted_entries(const struct writer *w, const struct halo_jinja_dict *dict, size_t **ret)
{
    int r = halo_jinja_alloc(w->run, dict->n + 1, sizeof **ret, ret), order;
    for (size_t i = 0; r == 0 && i < dict->n; i++) {
        size_t low = 0, high = i;
        while (r == 0 && low < high) {
            size_t middle = low + (high - low) / 2;
            r = halo_jinja_order(w->run, dict->entries[(*ret)[middle]].key, dict->entries[i].key, "<", &order);
            if (order <= 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (r == 0)
            r = halo_jinja_steps(w->run, (i - low) / 8);
        memmove(*ret + low + 1, *ret + low, (i - low) * sizeof **ret);
        (*ret)[low] = i;
    }
    return r;
}

static int write_dict(const struct writer *w, const struct halo_jinja_dict *dict, size_t level)
{
    size_t *order = NULL;
    int r = put(w, dict->n ? "{" : "{}");
    if (r == 0 && w->style->sort_keys)
        r = sorted_entries(w, dict, &order);
    for (size_t i = 0; r == 0 && i < dict->n; i++) {
        const struct halo_jinja_entry *entry = &dict->entries[order ? order[i] : i];
        if ((r = write_between(w, i, level + 1)) || (r = write_key(w, entry->key)) ||
            (r = write_separator(w, w->style->key_separator, ": ")))
            return r;
        r = write_value(w, entry->value, level + 1);
    }
    if (r == 0 && dict->n)
        r = write_break(w, level);
    return r || dict->n == 0 ? r : put(w, "}");
}

static int write_value(const struct writer *w, struct halo_jinja_value value, size_t level)
{
    int r = halo_jinja_enter(w->run);
    if (r == 0)
        r = value.kind == HALO_JINJA_STRING                                   ? write_string(w, value.string)
            : value.kind == HALO_JINJA_DICT                                   ? write_dict(w, value.dict, level)
            : value.kind == HALO_JINJA_LIST || value.kind == HALO_JINJA_TUPLE ? write_list(w, value.list, level)
                                                                              : write_scalar(w, value);
    w->run->depth--;
    return r;
}

int halo_jinja_to_json(struct halo_jinja_run *run, struct halo_jinja_text *text, struct halo_jinja_value value,
                       const struct halo_jinja_json_style *style)
{
    const struct writer writer = {run, text, style};
    return write_value(&writer, value, 0);
}
