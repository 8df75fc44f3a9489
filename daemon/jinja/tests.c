/* tests.c: tests (`x is string`).
 *
 * Fails as a run does (jinja_priv.h).
 */
#include "jinja_priv.h"

#define NATIVE(name)                                                                                                   \
    static int name(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)

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
    return halo_jinja_is_listlike(v) || v.kind == HALO_JINJA_STRING || v.kind == HALO_JINJA_BYTES ||
           v.kind == HALO_JINJA_DICT || v.kind == HALO_JINJA_UNDEFINED;
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
        [IS_SEQUENCE] = v.kind == HALO_JINJA_STRING || v.kind == HALO_JINJA_BYTES || v.kind == HALO_JINJA_DICT ||
                        v.kind == HALO_JINJA_UNDEFINED || v.kind == HALO_JINJA_LIST || v.kind == HALO_JINJA_TUPLE ||
                        v.kind == HALO_JINJA_RANGE,
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

NATIVE(test_case)
{
    struct halo_jinja_value text;
    int r = halo_jinja_to_string(run, call->self, &text);
    *ret = halo_jinja_own_bool(r == 0 && halo_jinja_has_case(text.string, call->native->op));
    return r;
}

NATIVE(test_name)
{
    bool known = call->self.kind == HALO_JINJA_STRING;
    if (known && call->native->op == 'f')
        known = run->builtins->filter_id(call->self.string->bytes, call->self.string->n) != HALO_JINJA_NO_ID;
    else if (known)
        known = run->builtins->test_id(call->self.string->bytes, call->self.string->n) != HALO_JINJA_NO_ID;
    *ret = halo_jinja_own_bool(known);
    return 0;
}

#define COMPARE(spelling, code)                                                                                        \
    {                                                                                                                  \
        .name = spelling, .call = test_compare, .params = {"other"}, .n_required = 1, .op = code                       \
    }
const struct halo_jinja_native halo_jinja_tests[] = {
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
const size_t halo_jinja_n_tests = sizeof(halo_jinja_tests) / sizeof(halo_jinja_tests[0]);
