/* text_ops.c: what filters and methods do with text: finding, stripping, replacing, case, lines, joining, %.
 *
 * Every result keeps the marks of the bytes that it takes over; what is put in has the mark of where it came from.
 * Fails as a run does (jinja_priv.h).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <base/utf8.h>

#include "jinja_priv.h"

ptrdiff_t halo_jinja_find(const struct halo_jinja_string *string, size_t from, const struct halo_jinja_string *what)
{
    if (from > string->n || what->n > string->n - from)
        return -1;
    const char *found = memmem(string->bytes + from, string->n - from, what->bytes, what->n);
    return what->n == 0 ? (ptrdiff_t)from : found ? found - string->bytes : -1;
}

/* ---- strip ---- */

static bool in_set(const struct halo_jinja_string *set, const char *bytes, size_t n)
{
    if (!set)
        return halo_jinja_is_space(halo_jinja_char(bytes, n, &n));
    for (size_t at = 0, length; at < set->n; at += length) {
        length = halo_jinja_char_bytes(set->bytes + at, set->n - at);
        if (length == n && memcmp(set->bytes + at, bytes, n) == 0)
            return true;
    }
    return false;
}

int halo_jinja_strip(struct halo_jinja_run *run, const struct halo_jinja_string *string, struct halo_jinja_value chars,
                     unsigned sides, struct halo_jinja_value *ret)
{
    size_t from = 0, to = string->n, n;
    if (chars.kind != HALO_JINJA_STRING && chars.kind != HALO_JINJA_NONE && chars.kind != HALO_JINJA_MISSING)
        return halo_jinja_type_error(run, "what is stripped is a string", chars);
    const struct halo_jinja_string *set = chars.kind == HALO_JINJA_STRING ? chars.string : NULL;
    if (sides & HALO_JINJA_LEFT)
        for (; from < to; from += n) {
            n = halo_jinja_char_bytes(string->bytes + from, to - from);
            if (!in_set(set, string->bytes + from, n))
                break;
        }
    if (sides & HALO_JINJA_RIGHT)
        for (; to > from; to -= n) {
            halo_jinja_char_before(string->bytes + from, to - from, &n);
            if (!in_set(set, string->bytes + to - n, n))
                break;
        }
    int r = halo_jinja_steps(run, (string->n - (to - from)) * (set ? 1 + set->n / 16 : 1) / 16);
    return r ? r : halo_jinja_cut(run, string, from, to, ret);
}

/* ---- replace ---- */

/* An empty string is found before every character and at the end. */
static int replace_empty(struct halo_jinja_run *run, const struct halo_jinja_string *string,
                         const struct halo_jinja_string *with, int64_t max, struct halo_jinja_text *text)
{
    size_t at = 0, n;
    int r = 0;
    for (; r == 0 && max != 0; max--, at += n) {
        n = at < string->n ? halo_jinja_char_bytes(string->bytes + at, string->n - at) : 0;
        r = halo_jinja_add_string(run, text, with);
        if (r == 0)
            r = halo_jinja_add_slice(run, text, string, at, at + n);
        if (r == 0)
            r = halo_jinja_steps(run, 1);
        if (n == 0)
            break;
    }
    return r ? r : halo_jinja_add_slice(run, text, string, at, string->n);
}

int halo_jinja_replace(struct halo_jinja_run *run, const struct halo_jinja_string *string,
                       const struct halo_jinja_string *old, const struct halo_jinja_string *with, int64_t max,
                       struct halo_jinja_value *ret)
{
    struct halo_jinja_text text = {0};
    size_t at = 0;
    int r = halo_jinja_steps(run, string->n / 64);
    if (r == 0 && old->n == 0) {
        r = replace_empty(run, string, with, max, &text);
        return r ? r : halo_jinja_finish_text(run, &text, ret);
    }
    for (; r == 0 && max != 0; max--) {
        ptrdiff_t found = halo_jinja_find(string, at, old);
        if (found < 0)
            break;
        r = halo_jinja_add_slice(run, &text, string, at, (size_t)found);
        if (r == 0)
            r = halo_jinja_add_string(run, &text, with);
        if (r == 0)
            r = halo_jinja_steps(run, 1);
        at = (size_t)found + old->n;
    }
    if (r == 0)
        r = halo_jinja_add_slice(run, &text, string, at, string->n);
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

int halo_jinja_escape(struct halo_jinja_run *run, const struct halo_jinja_string *text, struct halo_jinja_value *ret)
{
    static const struct {
        char c;
        const char *text;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    struct halo_jinja_text out = {0};
    size_t plain = 0;
    int r = halo_jinja_steps(run, text->n / 16);
    for (size_t at = 0; r == 0 && !text->is_safe && at < text->n; at++)
        for (size_t i = 0; r == 0 && i < sizeof escapes / sizeof *escapes; i++)
            if (text->bytes[at] == escapes[i].c) {
                r = halo_jinja_add_slice(run, &out, text, plain, at);
                if (r == 0)
                    r = halo_jinja_add(run, &out, escapes[i].text, strlen(escapes[i].text),
                                       halo_jinja_mark_at(text, at));
                plain = at + 1;
            }
    if (r == 0)
        r = halo_jinja_add_slice(run, &out, text, plain, text->n);
    if (r == 0)
        r = halo_jinja_finish_text(run, &out, ret);
    if (r == 0)
        ret->string->is_safe = true;
    return r;
}

/* ---- case ---- */

bool halo_jinja_has_case(const struct halo_jinja_string *string, int which)
{
    bool any = false;
    for (size_t at = 0, n; at < string->n; at += n) {
        uint32_t c = halo_jinja_char(string->bytes + at, string->n - at, &n);
        bool lower = halo_jinja_is_lower(c), upper = halo_jinja_is_upper(c);
        if (halo_jinja_is_title(c) || (which == 'u' ? lower : upper))
            return false;
        any |= lower || upper;
    }
    return any;
}

/* The filter begins a word behind any of these; the method behind any character without case. */
static bool breaks_word(uint32_t c, int how)
{
    if (how == 'T')
        return (c > 0 && c < 0x80 && strchr("-({[<", (int)c)) || halo_jinja_is_space(c);
    return !halo_jinja_is_lower(c) && !halo_jinja_is_upper(c) && !halo_jinja_is_title(c);
}

static uint32_t cased(uint32_t c, int how, bool begins)
{
    switch (how) {
    case 'l': return halo_jinja_lower(c);
    case 'u': return halo_jinja_upper(c);
    case 's': return halo_jinja_is_upper(c) ? halo_jinja_lower(c) : halo_jinja_is_lower(c) ? halo_jinja_upper(c) : c;
    case 'T': return begins ? halo_jinja_upper(c) : halo_jinja_lower(c);
    default: return begins ? halo_jinja_title(c) : halo_jinja_lower(c);
    }
}

/* The one mapping to two characters that texts are full of: the sharp s. NULL: not here. */
static const char *sharp_s(uint32_t c, int how, bool begins)
{
    if (c != 0xDF || how == 'l')
        return NULL;
    if (how == 'u' || how == 's' || (how == 'T' && begins))
        return "SS";
    return begins ? "Ss" : NULL;
}

int halo_jinja_change_case(struct halo_jinja_run *run, const struct halo_jinja_string *string, int how,
                           struct halo_jinja_value *ret)
{
    struct halo_jinja_text text = {0};
    bool begins = true;
    size_t plain = 0, n;
    int r = halo_jinja_steps(run, string->n / 16);
    for (size_t at = 0; r == 0 && at < string->n; at += n) {
        uint32_t c = halo_jinja_char(string->bytes + at, string->n - at, &n), to = cased(c, how, begins);
        const char *two = sharp_s(c, how, begins);
        begins = how != 'c' && breaks_word(c, how);
        if (to == c && !two)
            continue;
        char character[4];
        const char *bytes = two ? two : character;
        size_t n_bytes = two ? 2 : halo_utf8_encode(character, to);
        r = halo_jinja_add_slice(run, &text, string, plain, at);
        if (r == 0)
            r = halo_jinja_add(run, &text, bytes, n_bytes, halo_jinja_mark_at(string, at));
        plain = at + n;
    }
    if (r == 0)
        r = halo_jinja_add_slice(run, &text, string, plain, string->n);
    if (r == 0)
        r = halo_jinja_finish_text(run, &text, ret);
    if (r == 0)
        ret->string->is_safe = string->is_safe;
    return r;
}

/* ---- lines, lists ---- */

/* The length of the line break at `at`, 0: none. */
static size_t line_break(const struct halo_jinja_string *s, size_t at)
{
    size_t n;
    uint32_t c = halo_jinja_char(s->bytes + at, s->n - at, &n);
    if (c == '\r' && at + 1 < s->n && s->bytes[at + 1] == '\n')
        return 2;
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || (c == 0x85 && n > 1) || c == 0x2028 || c == 0x2029 ? n
                                                                                                                  : 0;
}

int halo_jinja_split_lines(struct halo_jinja_run *run, const struct halo_jinja_string *string, bool keep_ends,
                           struct halo_jinja_value *ret)
{
    struct halo_jinja_value line;
    size_t from = 0, at = 0;
    int r = halo_jinja_new_list(run, HALO_JINJA_LIST, ret);
    if (r == 0)
        r = halo_jinja_steps(run, string->n / 16);
    while (r == 0 && from < string->n) {
        size_t n = at < string->n ? line_break(string, at) : 0;
        if (at < string->n && n == 0) {
            at += halo_jinja_char_bytes(string->bytes + at, string->n - at);
            continue;
        }
        if ((r = halo_jinja_cut(run, string, from, keep_ends ? at + n : at, &line)) == 0)
            r = halo_jinja_push(run, *ret, line);
        at += n;
        from = at;
    }
    return r;
}

int halo_jinja_join(struct halo_jinja_run *run, const struct halo_jinja_string *between,
                    const struct halo_jinja_list *items, bool only_strings, struct halo_jinja_value *ret)
{
    struct halo_jinja_text text = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < items->n; i++) {
        if (only_strings && items->items[i].kind != HALO_JINJA_STRING)
            return halo_jinja_type_error(run, "only strings can be joined", items->items[i]);
        if (i)
            r = halo_jinja_add_string(run, &text, between);
        if (r == 0)
            r = halo_jinja_print(run, &text, items->items[i]);
    }
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

/* ---- format % values ---- */

struct conversion {
    char flags[8];
    int width, precision;
    char letter;
};

static size_t parse_conversion(const char *at, const char *end, struct conversion *ret)
{
    const char *start = at;
    size_t n_flags = 0;
    *ret = (struct conversion){.precision = -1};
    for (; at < end && strchr("-+ 0#", *at) && *at && n_flags < sizeof ret->flags - 1; at++)
        ret->flags[n_flags++] = *at;
    for (; at < end && *at >= '0' && *at <= '9' && ret->width < 1000; at++)
        ret->width = ret->width * 10 + (*at - '0');
    if (at < end && *at == '.')
        for (ret->precision = 0, at++; at < end && *at >= '0' && *at <= '9' && ret->precision < 1000; at++)
            ret->precision = ret->precision * 10 + (*at - '0');
    ret->letter = at < end ? *at++ : 0;
    return (size_t)(at - start);
}

static int number_text(struct halo_jinja_run *run, const struct conversion *c, struct halo_jinja_value value,
                       struct halo_jinja_text *text)
{
    char spec[16] = "%", bytes[1400];
    strcat(spec, c->flags);
    strcat(spec, "*.*");
    size_t n = strlen(spec);
    double number = value.kind == HALO_JINJA_FLOAT  ? value.number
                    : value.kind == HALO_JINJA_BOOL ? value.boolean
                                                    : (double)value.integer;
    if (value.kind != HALO_JINJA_INT && value.kind != HALO_JINJA_BOOL && value.kind != HALO_JINJA_FLOAT)
        return halo_jinja_type_error(run, "only a number can be formatted", value);
    int n_bytes;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (strchr("diuxXo", c->letter)) {
        long long integer = value.kind == HALO_JINJA_FLOAT  ? (long long)fmax(-9e18, fmin(9e18, number))
                            : value.kind == HALO_JINJA_BOOL ? value.boolean
                                                            : value.integer;
        bool negative = integer < 0 && strchr("xXo", c->letter);
        snprintf(spec + n, sizeof spec - n, "ll%c", c->letter == 'u' || c->letter == 'i' ? 'd' : c->letter);
        if (negative)
            return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "%%%c cannot format a negative number", c->letter);
        n_bytes = snprintf(bytes, sizeof bytes, spec, c->width, c->precision, integer);
    } else {
        snprintf(spec + n, sizeof spec - n, "%c", c->letter);
        n_bytes = snprintf(bytes, sizeof bytes, spec, c->width, c->precision, number);
    }
#pragma GCC diagnostic pop
    return halo_jinja_add(run, text, bytes, (size_t)n_bytes < sizeof bytes ? (size_t)n_bytes : sizeof bytes - 1,
                          value.is_template);
}

static int add_padding(struct halo_jinja_run *run, struct halo_jinja_text *text, size_t n)
{
    int r = 0;
    for (; r == 0 && n > 0; n--)
        r = halo_jinja_add(run, text, " ", 1, true);
    return r;
}

static int string_text(struct halo_jinja_run *run, const struct conversion *c, struct halo_jinja_value value,
                       struct halo_jinja_text *text)
{
    struct halo_jinja_text own = {0};
    struct halo_jinja_value made;
    int r = c->letter == 's' ? halo_jinja_print(run, &own, value) : halo_jinja_repr(run, &own, value);
    if (r == 0)
        r = halo_jinja_finish_text(run, &own, &made);
    if (r)
        return r;
    size_t n = made.string->n, chars;
    if (c->precision >= 0)
        n = halo_jinja_char_offset(made.string->bytes, n, (size_t)c->precision);
    chars = halo_jinja_char_count(made.string->bytes, n);
    size_t padding = (size_t)c->width > chars ? (size_t)c->width - chars : 0;
    bool left = strchr(c->flags, '-') != NULL;
    r = left ? 0 : add_padding(run, text, padding);
    if (r == 0)
        r = halo_jinja_add_slice(run, text, made.string, 0, n);
    return r == 0 && left ? add_padding(run, text, padding) : r;
}

/* The value of the conversion at `*at`: by (name) from a dict, else the next one. */
static int next_value(struct halo_jinja_run *run, const struct halo_jinja_string *format, size_t *at,
                      struct halo_jinja_value values, size_t *used, struct halo_jinja_value *ret)
{
    if (*at < format->n && format->bytes[*at] == '(') {
        const char *end = memchr(format->bytes + *at, ')', format->n - *at);
        struct halo_jinja_string name = {.bytes = format->bytes + *at + 1};
        if (!end || values.kind != HALO_JINJA_DICT)
            return halo_jinja_type_error(run, "a format with names needs a dict", values);
        name.n = (size_t)(end - name.bytes);
        *at += name.n + 2;
        ptrdiff_t found =
            halo_jinja_dict_find(values.dict, (struct halo_jinja_value){.kind = HALO_JINJA_STRING, .string = &name});
        if (found < 0)
            return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the format names a key that the dict lacks");
        *used = SIZE_MAX;
        *ret = values.dict->entries[found].value;
        return 0;
    }
    bool many = values.kind == HALO_JINJA_TUPLE;
    if (*used >= (many ? values.list->n : 1))
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the format has more fields than arguments");
    *ret = many ? values.list->items[*used] : values;
    (*used)++;
    return 0;
}

static int convert(struct halo_jinja_run *run, const struct halo_jinja_string *format, size_t *at,
                   struct halo_jinja_value values, size_t *used, struct halo_jinja_text *text)
{
    struct halo_jinja_value value;
    struct conversion conversion;
    if (*at < format->n && format->bytes[*at] == '%') {
        ++*at;
        return halo_jinja_add(run, text, "%", 1, true);
    }
    int r = next_value(run, format, at, values, used, &value);
    if (r)
        return r;
    *at += parse_conversion(format->bytes + *at, format->bytes + format->n, &conversion);
    if (conversion.letter == 's' || conversion.letter == 'r')
        return string_text(run, &conversion, value, text);
    if (conversion.letter && strchr("diuxXofFeEgG", conversion.letter))
        return number_text(run, &conversion, value, text);
    return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "unknown format");
}

int halo_jinja_format_percent(struct halo_jinja_run *run, const struct halo_jinja_string *format,
                              struct halo_jinja_value values, struct halo_jinja_value *ret)
{
    struct halo_jinja_text text = {0};
    size_t used = 0, at = 0;
    int r = 0;
    while (r == 0 && at < format->n) {
        const char *percent = memchr(format->bytes + at, '%', format->n - at);
        size_t end = percent ? (size_t)(percent - format->bytes) : format->n;
        r = halo_jinja_add_slice(run, &text, format, at, end);
        at = end + 1;
        if (r == 0 && percent)
            r = convert(run, format, &at, values, &used, &text);
    }
    if (r == 0 && used != SIZE_MAX && values.kind != HALO_JINJA_DICT &&
        used < (values.kind == HALO_JINJA_TUPLE ? values.list->n : 1))
        r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the format has fewer fields than arguments");
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}
