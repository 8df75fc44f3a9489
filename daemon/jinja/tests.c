/* tests.c: tests (`x is string`), the global functions, and the tables' look-ups by name.
 *
 * Fails as a run does (jinja_priv.h).
 */
#include <string.h>
#include <time.h>

#include "jinja_priv.h"

#define NATIVE(name)                                                                                                   \
    static int name(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)

/* ---- tests ---- */

enum what {
    IS_DEFINED,
    IS_UNDEFINED,
    IS_NONE,
    IS_STRING,
    IS_MAPPING,
    IS_ITERABLE,
    IS_SEQUENCE,
    IS_NUMBER,
    IS_INTEGER,
    IS_FLOAT,
    IS_BOOLEAN,
    IS_TRUE,
    IS_FALSE,
    IS_CALLABLE,
    IS_ESCAPED,
};

static bool is_iterable(struct halo_jinja_value v)
{
    return halo_jinja_is_listlike(v) || v.kind == HALO_JINJA_STRING || v.kind == HALO_JINJA_DICT ||
           v.kind == HALO_JINJA_UNDEFINED;
}

static bool is_whole(struct halo_jinja_value v)
{
    return v.kind == HALO_JINJA_INT || v.kind == HALO_JINJA_BIG;
}

NATIVE(test_what)
{
    struct halo_jinja_value v = call->self;
    const bool answers[] = {
        [IS_DEFINED] = v.kind != HALO_JINJA_UNDEFINED,
        [IS_UNDEFINED] = v.kind == HALO_JINJA_UNDEFINED,
        [IS_NONE] = v.kind == HALO_JINJA_NONE,
        [IS_STRING] = v.kind == HALO_JINJA_STRING,
        [IS_MAPPING] = v.kind == HALO_JINJA_DICT,
        [IS_ITERABLE] = is_iterable(v),
        [IS_SEQUENCE] = v.kind == HALO_JINJA_STRING || v.kind == HALO_JINJA_DICT || v.kind == HALO_JINJA_UNDEFINED ||
                        v.kind == HALO_JINJA_LIST || v.kind == HALO_JINJA_TUPLE || v.kind == HALO_JINJA_RANGE,
        [IS_NUMBER] = is_whole(v) || v.kind == HALO_JINJA_FLOAT || v.kind == HALO_JINJA_BOOL,
        [IS_INTEGER] = is_whole(v),
        [IS_FLOAT] = v.kind == HALO_JINJA_FLOAT,
        [IS_BOOLEAN] = v.kind == HALO_JINJA_BOOL,
        [IS_TRUE] = v.kind == HALO_JINJA_BOOL && v.boolean,
        [IS_FALSE] = v.kind == HALO_JINJA_BOOL && !v.boolean,
        [IS_CALLABLE] = v.kind >= HALO_JINJA_MACRO && v.kind <= HALO_JINJA_LOOP,
        [IS_ESCAPED] = false,
    };
    *ret = halo_jinja_own_bool(answers[call->native->op]);
    return 0;
}

NATIVE(test_compare)
{
    bool holds = false;
    int r = halo_jinja_compare(run, call->native->op, call->self, call->arg[0], &holds);
    *ret = halo_jinja_own_bool(holds);
    return r;
}

/* Identity, as far as values here have one. */
NATIVE(test_sameas)
{
    struct halo_jinja_value a = call->self, b = call->arg[0];
    bool scalar = a.kind <= HALO_JINJA_FLOAT;
    *ret = halo_jinja_own_bool(a.kind == b.kind && (scalar ? halo_jinja_key_equal(a, b) : a.object == b.object));
    return 0;
}

/* odd, even (op: the rest by 2), divisibleby (op -1) */
NATIVE(test_divides)
{
    struct halo_jinja_value by = call->native->op < 0 ? call->arg[0] : halo_jinja_own_int(2), rest;
    bool holds = false;
    int r = halo_jinja_binary(run, '%', call->self, by, &rest);
    if (r == 0)
        r = halo_jinja_equal(run, rest, halo_jinja_own_int(call->native->op < 0 ? 0 : call->native->op), &holds);
    *ret = halo_jinja_own_bool(holds);
    return r;
}

/* lower and upper: the case is that one and there is a letter. */
NATIVE(test_case)
{
    struct halo_jinja_value text;
    bool holds = true, any = false;
    int r = halo_jinja_to_string(run, call->self, &text);
    for (size_t at = 0, n; r == 0 && at < text.string->n; at += n) {
        uint32_t c = halo_jinja_char(text.string->bytes + at, text.string->n - at, &n);
        bool is_upper = halo_jinja_lower(c) != c, is_lower = halo_jinja_upper(c) != c;
        any |= is_upper || is_lower;
        holds &= call->native->op == 'u' ? !is_lower : !is_upper;
    }
    *ret = halo_jinja_own_bool(holds && any);
    return r;
}

NATIVE(test_name)
{
    bool known = call->self.kind == HALO_JINJA_STRING;
    if (known && call->native->op == 'f')
        known = halo_jinja_filter_id(call->self.string->bytes, call->self.string->n) != HALO_JINJA_NO_ID;
    else if (known)
        known = halo_jinja_test_id(call->self.string->bytes, call->self.string->n) != HALO_JINJA_NO_ID;
    *ret = halo_jinja_own_bool(known);
    return 0;
}

#define COMPARE(spelling, code)                                                                                        \
    {                                                                                                                  \
        .name = spelling, .call = test_compare, .params = {"other"}, .n_required = 1, .op = code                       \
    }
static const struct halo_jinja_native tests[] = {
    {.name = "boolean", .call = test_what, .op = IS_BOOLEAN},
    {.name = "callable", .call = test_what, .op = IS_CALLABLE},
    {.name = "defined", .call = test_what, .op = IS_DEFINED},
    {.name = "divisibleby", .call = test_divides, .params = {"num"}, .n_required = 1, .op = -1},
    {.name = "escaped", .call = test_what, .op = IS_ESCAPED},
    {.name = "even", .call = test_divides, .op = 0},
    {.name = "false", .call = test_what, .op = IS_FALSE},
    {.name = "filter", .call = test_name, .op = 'f'},
    {.name = "float", .call = test_what, .op = IS_FLOAT},
    {.name = "integer", .call = test_what, .op = IS_INTEGER},
    {.name = "iterable", .call = test_what, .op = IS_ITERABLE},
    {.name = "lower", .call = test_case, .op = 'l'},
    {.name = "mapping", .call = test_what, .op = IS_MAPPING},
    {.name = "none", .call = test_what, .op = IS_NONE},
    {.name = "number", .call = test_what, .op = IS_NUMBER},
    {.name = "odd", .call = test_divides, .op = 1},
    {.name = "sameas", .call = test_sameas, .params = {"other"}, .n_required = 1},
    {.name = "sequence", .call = test_what, .op = IS_SEQUENCE},
    {.name = "string", .call = test_what, .op = IS_STRING},
    {.name = "test", .call = test_name, .op = 't'},
    {.name = "true", .call = test_what, .op = IS_TRUE},
    {.name = "undefined", .call = test_what, .op = IS_UNDEFINED},
    {.name = "upper", .call = test_case, .op = 'u'},
    COMPARE("eq", '='),
    COMPARE("equalto", '='),
    COMPARE("==", '='),
    COMPARE("ne", '!'),
    COMPARE("!=", '!'),
    COMPARE("lt", '<'),
    COMPARE("lessthan", '<'),
    COMPARE("<", '<'),
    COMPARE("le", 'l'),
    COMPARE("<=", 'l'),
    COMPARE("gt", '>'),
    COMPARE("greaterthan", '>'),
    COMPARE(">", '>'),
    COMPARE("ge", 'g'),
    COMPARE(">=", 'g'),
    COMPARE("in", 'i'),
};

/* ---- global functions ---- */

#define MAX_RANGE 100000 /* the sandbox's own bound */

/* Makes run->numbers hold the numbers below `n`. Ranges made before keep the array that they were cut from. */
static int reserve_numbers(struct halo_jinja_run *run, size_t n)
{
    if (n <= run->n_numbers)
        return 0;
    n = n < 64 ? 64 : 2 * n;
    int r = halo_jinja_alloc(run, n, sizeof *run->numbers, &run->numbers);
    for (size_t i = 0; r == 0 && i < n; i++)
        run->numbers[i] = halo_jinja_own_int((int64_t)i);
    run->n_numbers = r ? 0 : n;
    return r;
}

NATIVE(function_range)
{
    int64_t bounds[3] = {0, 0, 1};
    size_t n = call->raw->n;
    if (n < 1 || n > 3 || call->raw->n_named)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "range() takes one to three arguments");
    for (size_t i = 0; i < n; i++) {
        if (call->raw->items[i].kind != HALO_JINJA_INT && call->raw->items[i].kind != HALO_JINJA_BOOL)
            return halo_jinja_type_error(run, "range() counts in integers", call->raw->items[i]);
        bounds[n == 1 ? 1 : i] =
            call->raw->items[i].kind == HALO_JINJA_INT ? call->raw->items[i].integer : call->raw->items[i].boolean;
    }
    if (bounds[2] == 0)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "range() with step 0");
    uint64_t from = (uint64_t)bounds[0], step = (uint64_t)bounds[2], n_numbers = 0;
    if (bounds[2] > 0 && bounds[0] < bounds[1])
        n_numbers = ((uint64_t)bounds[1] - from - 1) / step + 1;
    else if (bounds[2] < 0 && bounds[0] > bounds[1])
        n_numbers = (from - (uint64_t)bounds[1] - 1) / -step + 1;
    if (n_numbers > MAX_RANGE)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "range() of more than %d numbers", MAX_RANGE);
    int r = halo_jinja_new_list(run, HALO_JINJA_RANGE, ret);
    if (r)
        return r;
    ret->list->n = ret->list->n_held = n_numbers;
    if (step == 1 && bounds[0] >= 0 && bounds[1] <= MAX_RANGE && n_numbers) {
        r = reserve_numbers(run, (size_t)bounds[1]);
        ret->list->items = r ? NULL : run->numbers + from;
        return r;
    }
    r = halo_jinja_alloc(run, n_numbers, sizeof *ret->list->items, &ret->list->items);
    for (uint64_t i = 0; r == 0 && i < n_numbers; i++)
        ret->list->items[i] = halo_jinja_own_int((int64_t)(from + i * step));
    return r ? r : halo_jinja_steps(run, n_numbers / 16);
}

/* dict() and namespace() (op: the kind): a mapping, or pairs, and named arguments. */
NATIVE(function_dict)
{
    struct halo_jinja_list *pairs, *one;
    int r = halo_jinja_new_dict(run, ret);
    if (r == 0 && call->raw->n > 1)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "%s() takes one mapping", call->native->name);
    if (r == 0 && call->raw->n == 1 && call->raw->items[0].kind == HALO_JINJA_DICT) {
        const struct halo_jinja_dict *from = call->raw->items[0].dict;
        for (size_t i = 0; r == 0 && i < from->n; i++)
            r = halo_jinja_put(run, *ret, from->entries[i].key, from->entries[i].value);
    } else if (r == 0 && call->raw->n == 1) {
        r = halo_jinja_iterate(run, call->raw->items[0], &pairs);
        for (size_t i = 0; r == 0 && i < pairs->n; i++) {
            r = halo_jinja_iterate(run, pairs->items[i], &one);
            if (r == 0 && one->n != 2)
                r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "%s() is made of pairs", call->native->name);
            if (r == 0)
                r = halo_jinja_put(run, *ret, one->items[0], one->items[1]);
        }
    }
    for (size_t i = 0; r == 0 && i < call->raw->n_named; i++)
        r = halo_jinja_put(run, *ret, call->raw->named[i].key, call->raw->named[i].value);
    ret->kind = (uint8_t)call->native->op;
    return r;
}

NATIVE(function_raise)
{
    struct halo_jinja_value text;
    int r = halo_jinja_to_string(run, call->arg[0], &text);
    return r ? r
             : halo_jinja_fail(run, HALO_JINJA_RAISED, "%.*s", (int)(text.string->n < 4096 ? text.string->n : 4096),
                               text.string->bytes);
}

NATIVE(function_strftime)
{
    struct tm now, *when = &now;
    time_t seconds = time(NULL);
    char format[256], *text;
    if (call->arg[0].kind != HALO_JINJA_STRING || call->arg[0].string->n >= sizeof format)
        return halo_jinja_type_error(run, "a date format is a short string", call->arg[0]);
    if (run->now)
        now = *run->now;
    else if (!localtime_r(&seconds, &now))
        return halo_jinja_fail(run, HALO_JINJA_RUNTIME, "the time is not known");
    const struct halo_jinja_string *given = call->arg[0].string;
    memcpy(format, given->bytes, given->n);
    format[given->n] = 0;
    int r = halo_jinja_alloc(run, 4096, 1, &text);
    if (r)
        return r;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(text, 4096, format, when);
#pragma GCC diagnostic pop
    struct halo_jinja_text own = {0};
    r = halo_jinja_add(run, &own, text, n, halo_jinja_all_template(given));
    return r ? r : halo_jinja_finish_text(run, &own, ret);
}

static const struct halo_jinja_native globals[] = {
    {.name = "range", .call = function_range, .any = true},
    {.name = "dict", .call = function_dict, .any = true, .op = HALO_JINJA_DICT},
    {.name = "namespace", .call = function_dict, .any = true, .op = HALO_JINJA_NAMESPACE},
    {.name = "raise_exception", .call = function_raise, .params = {"message"}, .n_required = 1},
    {.name = "strftime_now", .call = function_strftime, .params = {"format"}, .n_required = 1},
};

/* ---- by name ---- */

static uint32_t find_native(const struct halo_jinja_native *table, size_t n_table, const char *name, size_t n)
{
    for (size_t i = 0; i < n_table; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return (uint32_t)i;
    return HALO_JINJA_NO_ID;
}

const struct halo_jinja_native *halo_jinja_global(const char *name, size_t n)
{
    uint32_t id = find_native(globals, sizeof globals / sizeof *globals, name, n);
    return id == HALO_JINJA_NO_ID ? NULL : &globals[id];
}

/* Ids of filters: the text filters, then the sequence filters. */
uint32_t halo_jinja_filter_id(const char *name, size_t n)
{
    uint32_t id = find_native(halo_jinja_text_filters, halo_jinja_n_text_filters, name, n);
    if (id != HALO_JINJA_NO_ID)
        return id;
    id = find_native(halo_jinja_sequence_filters, halo_jinja_n_sequence_filters, name, n);
    return id == HALO_JINJA_NO_ID ? id : id + (uint32_t)halo_jinja_n_text_filters;
}

const struct halo_jinja_native *halo_jinja_filter(uint32_t id)
{
    return id < halo_jinja_n_text_filters ? &halo_jinja_text_filters[id]
                                          : &halo_jinja_sequence_filters[id - halo_jinja_n_text_filters];
}

uint32_t halo_jinja_test_id(const char *name, size_t n)
{
    return find_native(tests, sizeof tests / sizeof *tests, name, n);
}

const struct halo_jinja_native *halo_jinja_test(uint32_t id)
{
    return &tests[id];
}
