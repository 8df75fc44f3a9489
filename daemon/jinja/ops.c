/* ops.c: operators, with Python's rules for what goes with what.
 *
 * Pure apart from the values that it makes in the run. Integers have 64 bits; a result past them is a TYPE_ERROR
 * (Python's OverflowError family). Comparing nested values costs steps and depth, so that shared structure cannot
 * explode.
 */
#include <math.h>
#include <string.h>

#include "jinja_priv.h"

bool halo_jinja_truth(struct halo_jinja_value value)
{
    switch (value.kind) {
    case HALO_JINJA_UNDEFINED:
    case HALO_JINJA_NONE:
    case HALO_JINJA_MISSING: return false;
    case HALO_JINJA_BOOL: return value.boolean;
    case HALO_JINJA_INT: return value.integer != 0;
    case HALO_JINJA_FLOAT: return value.number != 0;
    case HALO_JINJA_STRING:
    case HALO_JINJA_BYTES: return value.string->n != 0;
    case HALO_JINJA_DICT: return value.dict->n != 0;
    case HALO_JINJA_LIST:
    case HALO_JINJA_TUPLE:
    case HALO_JINJA_RANGE:
    case HALO_JINJA_KEYS:
    case HALO_JINJA_VALUES:
    case HALO_JINJA_ITEMS: return value.list->n != 0;
    default: return true;
    }
}

int halo_jinja_length(struct halo_jinja_run *run, struct halo_jinja_value value, size_t *ret)
{
    if (value.kind == HALO_JINJA_STRING)
        *ret = halo_jinja_char_count(value.string->bytes, value.string->n);
    else if (value.kind == HALO_JINJA_BYTES)
        *ret = value.string->n;
    else if (value.kind == HALO_JINJA_DICT)
        *ret = value.dict->n;
    else if (value.kind == HALO_JINJA_LOOP)
        *ret = ((const struct halo_jinja_loop *)value.object)->items->n;
    else if (halo_jinja_is_listlike(value) && value.kind != HALO_JINJA_GENERATOR)
        *ret = value.list->n;
    else if (value.kind == HALO_JINJA_UNDEFINED)
        *ret = 0;
    else
        return halo_jinja_type_error(run, "has no length", value);
    return value.kind == HALO_JINJA_STRING ? halo_jinja_steps(run, value.string->n / 64) : 0;
}

/* ---- numbers ---- */

static bool as_integer(struct halo_jinja_value v, int64_t *ret)
{
    if (v.kind != HALO_JINJA_INT && v.kind != HALO_JINJA_BOOL)
        return false;
    *ret = v.kind == HALO_JINJA_BOOL ? v.boolean : v.integer;
    return true;
}

static bool as_float(struct halo_jinja_value v, double *ret)
{
    int64_t integer;
    if (v.kind == HALO_JINJA_FLOAT)
        *ret = v.number;
    else if (as_integer(v, &integer))
        *ret = (double)integer;
    return v.kind == HALO_JINJA_FLOAT || v.kind == HALO_JINJA_INT || v.kind == HALO_JINJA_BOOL;
}

/* ---- comparing ---- */

/* Two numbers, one of them past 64 bits. */
static bool are_big(struct halo_jinja_value a, struct halo_jinja_value b)
{
    double number;
    return (a.kind == HALO_JINJA_BIG && (b.kind == HALO_JINJA_BIG || as_float(b, &number))) ||
           (b.kind == HALO_JINJA_BIG && as_float(a, &number));
}

static int equal_inner(struct halo_jinja_run *run, struct halo_jinja_value a, struct halo_jinja_value b, bool *ret)
{
    int r = 0;
    if ((a.kind == HALO_JINJA_LIST || a.kind == HALO_JINJA_TUPLE || a.kind == HALO_JINJA_RANGE) && a.kind == b.kind) {
        *ret = a.list->n == b.list->n;
        for (size_t i = 0; r == 0 && *ret && i < a.list->n; i++)
            r = halo_jinja_equal(run, a.list->items[i], b.list->items[i], ret);
        return r;
    }
    if (a.kind == HALO_JINJA_DICT && b.kind == HALO_JINJA_DICT) {
        *ret = a.dict->n == b.dict->n;
        for (size_t i = 0; r == 0 && *ret && i < a.dict->n; i++) {
            ptrdiff_t found = halo_jinja_dict_find(b.dict, a.dict->entries[i].key);
            *ret = found >= 0;
            if (*ret)
                r = halo_jinja_equal(run, a.dict->entries[i].value, b.dict->entries[found].value, ret);
        }
        return r;
    }
    if (a.kind == HALO_JINJA_UNDEFINED && b.kind == HALO_JINJA_UNDEFINED)
        *ret = true;
    else if (are_big(a, b))
        *ret = halo_jinja_compare_big(a, b) == 0;
    else
        *ret = halo_jinja_key_equal(a, b);
    return a.kind == HALO_JINJA_STRING ? halo_jinja_steps(run, a.string->n / 256) : 0;
}

int halo_jinja_equal(struct halo_jinja_run *run, struct halo_jinja_value a, struct halo_jinja_value b, bool *ret)
{
    *ret = false;
    int r = halo_jinja_enter(run);
    if (r == 0)
        r = equal_inner(run, a, b, ret);
    run->depth--;
    return r;
}

int halo_jinja_order(struct halo_jinja_run *run, struct halo_jinja_value a, struct halo_jinja_value b, const char *op,
                     int *ret)
{
    int64_t i, j;
    double x, y;
    int r = halo_jinja_enter(run);
    *ret = 0;
    if (r) {
        /* falls through to the end */
    } else if (as_integer(a, &i) && as_integer(b, &j)) {
        *ret = (i > j) - (i < j);
    } else if (are_big(a, b)) {
        *ret = halo_jinja_compare_big(a, b);
    } else if (as_float(a, &x) && as_float(b, &y)) {
        *ret = x != x || y != y ? 2 : (x > y) - (x < y);
    } else if (a.kind == HALO_JINJA_STRING && b.kind == HALO_JINJA_STRING) {
        int order = halo_jinja_compare_text(a.string, b.string);
        *ret = (order > 0) - (order < 0);
    } else if ((a.kind == HALO_JINJA_LIST || a.kind == HALO_JINJA_TUPLE) && a.kind == b.kind) {
        size_t n = a.list->n < b.list->n ? a.list->n : b.list->n;
        bool equal = true;
        *ret = (a.list->n > b.list->n) - (a.list->n < b.list->n);
        for (size_t at = 0; r == 0 && equal && at < n; at++) {
            r = halo_jinja_equal(run, a.list->items[at], b.list->items[at], &equal);
            if (r == 0 && !equal)
                r = halo_jinja_order(run, a.list->items[at], b.list->items[at], op, ret);
        }
    } else if (a.kind == HALO_JINJA_UNDEFINED || b.kind == HALO_JINJA_UNDEFINED) {
        r = halo_jinja_undefined_error(run, a.kind == HALO_JINJA_UNDEFINED ? a : b);
    } else {
        r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "'%s' cannot compare %s and %s", op, halo_jinja_type_name(a),
                            halo_jinja_type_name(b));
    }
    run->depth--;
    return r;
}

int halo_jinja_contains(struct halo_jinja_run *run, struct halo_jinja_value container, struct halo_jinja_value item,
                        bool *ret)
{
    int r = 0;
    *ret = false;
    if (container.kind == HALO_JINJA_STRING) {
        if (item.kind != HALO_JINJA_STRING)
            return halo_jinja_type_error(run, "a string can only contain a string", item);
        *ret = halo_jinja_find(container.string, 0, item.string) >= 0;
        return halo_jinja_steps(run, container.string->n / 64);
    }
    if (container.kind == HALO_JINJA_DICT) {
        if (!halo_jinja_hashable(item))
            return halo_jinja_type_error(run, "cannot be a key", item);
        *ret = halo_jinja_dict_find(container.dict, item) >= 0;
        return 0;
    }
    struct halo_jinja_list *list;
    r = halo_jinja_iterate(run, container, &list);
    for (size_t i = 0; r == 0 && !*ret && i < list->n; i++)
        r = halo_jinja_equal(run, list->items[i], item, ret);
    return r;
}

int halo_jinja_compare(struct halo_jinja_run *run, int op, struct halo_jinja_value a, struct halo_jinja_value b,
                       bool *ret)
{
    int order, r;
    switch (op) {
    case '=': return halo_jinja_equal(run, a, b, ret);
    case '!':
        r = halo_jinja_equal(run, a, b, ret);
        *ret = !*ret;
        return r;
    case 'i': return halo_jinja_contains(run, b, a, ret);
    case 'n':
        r = halo_jinja_contains(run, b, a, ret);
        *ret = !*ret;
        return r;
    default:
        r = halo_jinja_order(run, a, b, op == '<' ? "<" : op == '>' ? ">" : op == 'l' ? "<=" : ">=", &order);
        *ret = op == '<' ? order < 0 : op == '>' ? order == 1 : op == 'l' ? order <= 0 : order == 0 || order == 1;
        return r;
    }
}

/* ---- arithmetic ---- */

static int overflow(struct halo_jinja_run *run)
{
    return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "an integer of more than 64 bits");
}

static int integer_power(int64_t base, int64_t exponent, int64_t *ret)
{
    *ret = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(*ret, base, ret))
            return -1;
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return -1;
    }
    return 0;
}

static int integer_binary(struct halo_jinja_run *run, int op, int64_t a, int64_t b, int64_t *ret)
{
    bool over = false;
    switch (op) {
    case '+': over = __builtin_add_overflow(a, b, ret); break;
    case '-': over = __builtin_sub_overflow(a, b, ret); break;
    case '*': over = __builtin_mul_overflow(a, b, ret); break;
    case 'p': over = integer_power(a, b, ret) < 0; break;
    default: /* f and %: rounded down */
        if (b == 0)
            return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "division by zero");
        if (b == -1) {
            over = op == 'f' && __builtin_sub_overflow(0, a, ret);
            *ret = op == 'f' ? *ret : 0;
        } else {
            bool down = a % b != 0 && (a % b < 0) != (b < 0);
            *ret = op == 'f' ? a / b - down : a % b + (down ? b : 0);
        }
    }
    return over ? overflow(run) : 0;
}

static int float_binary(struct halo_jinja_run *run, int op, double a, double b, double *ret)
{
    if ((op == '/' || op == 'f' || op == '%') && b == 0)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "division by zero");
    double rest = op == 'f' || op == '%' ? fmod(a, b) : 0;
    if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
    *ret = op == '+'   ? a + b
           : op == '-' ? a - b
           : op == '*' ? a * b
           : op == '/' ? a / b
           : op == 'f' ? floor((a - rest) / b + 0.5)
           : op == '%' ? rest
                       : pow(a, b);
    return 0;
}

/* text * times, or a list * times. */
static int repeat(struct halo_jinja_run *run, struct halo_jinja_value what, int64_t times, struct halo_jinja_value *ret)
{
    struct halo_jinja_text text = {0};
    int r = 0;
    if (what.kind == HALO_JINJA_STRING) {
        for (int64_t i = 0; r == 0 && what.string->n && i < times; i++)
            if ((r = halo_jinja_steps(run, 1)) == 0)
                r = halo_jinja_add_string(run, &text, what.string);
        return r ? r : halo_jinja_finish_text(run, &text, ret);
    }
    r = halo_jinja_new_list(run, what.kind, ret);
    for (int64_t i = 0; r == 0 && what.list->n && i < times; i++)
        for (size_t at = 0; r == 0 && at < what.list->n; at++)
            r = halo_jinja_push(run, *ret, what.list->items[at]);
    return r;
}

static bool repeats(struct halo_jinja_value v)
{
    return v.kind == HALO_JINJA_STRING || v.kind == HALO_JINJA_LIST || v.kind == HALO_JINJA_TUPLE;
}

static int add_lists(struct halo_jinja_run *run, struct halo_jinja_value a, struct halo_jinja_value b,
                     struct halo_jinja_value *ret)
{
    int r = halo_jinja_new_list(run, a.kind, ret);
    for (size_t i = 0; r == 0 && i < a.list->n + b.list->n; i++)
        r = halo_jinja_push(run, *ret, i < a.list->n ? a.list->items[i] : b.list->items[i - a.list->n]);
    return r;
}

static int join_strings(struct halo_jinja_run *run, struct halo_jinja_value a, struct halo_jinja_value b,
                        struct halo_jinja_value *ret)
{
    int r = 0;
    if (a.string->is_safe != b.string->is_safe)
        r = a.string->is_safe ? halo_jinja_escape(run, b.string, &b) : halo_jinja_escape(run, a.string, &a);
    return r ? r : halo_jinja_join_two(run, a.string, b.string, ret);
}

int halo_jinja_binary(struct halo_jinja_run *run, int op, struct halo_jinja_value a, struct halo_jinja_value b,
                      struct halo_jinja_value *ret)
{
    struct halo_jinja_value result = {.is_template = a.is_template && b.is_template};
    int64_t i = 0, j = 0;
    double x, y;
    int r;
    if (op == '+' && a.kind == HALO_JINJA_STRING && b.kind == HALO_JINJA_STRING)
        return join_strings(run, a, b, ret);
    if (op == '%' && a.kind == HALO_JINJA_STRING)
        return halo_jinja_format_percent(run, a.string, b, ret);
    if (a.kind == HALO_JINJA_UNDEFINED || b.kind == HALO_JINJA_UNDEFINED)
        return halo_jinja_undefined_error(run, a.kind == HALO_JINJA_UNDEFINED ? a : b);
    bool a_is_integer = as_integer(a, &i), b_is_integer = as_integer(b, &j);
    if (op != '/' && !(op == 'p' && j < 0) && a_is_integer && b_is_integer) {
        result.kind = HALO_JINJA_INT;
        r = integer_binary(run, op, i, j, &result.integer);
    } else if (as_float(a, &x) && as_float(b, &y)) {
        result.kind = HALO_JINJA_FLOAT;
        r = float_binary(run, op, x, y, &result.number);
    } else if (op == '*' && ((repeats(a) && b_is_integer) || (repeats(b) && a_is_integer))) {
        return repeat(run, repeats(a) ? a : b, repeats(a) ? j : i, ret);
    } else if (op == '+' && a.kind == b.kind && (a.kind == HALO_JINJA_LIST || a.kind == HALO_JINJA_TUPLE)) {
        return add_lists(run, a, b, ret);
    } else {
        char name[3] = {(char)(op == 'f' ? '/' : op == 'p' ? '*' : op), op == 'f' ? '/' : op == 'p' ? '*' : 0};
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "'%s' cannot be applied to %s and %s", name,
                               halo_jinja_type_name(a), halo_jinja_type_name(b));
    }
    *ret = result;
    return r;
}

int halo_jinja_unary(struct halo_jinja_run *run, int op, struct halo_jinja_value a, struct halo_jinja_value *ret)
{
    int64_t integer;
    *ret = a;
    if (as_integer(a, &integer)) {
        ret->kind = HALO_JINJA_INT;
        ret->integer = integer;
        return op == '-' && __builtin_sub_overflow(0, integer, &ret->integer) ? overflow(run) : 0;
    }
    if (a.kind != HALO_JINJA_FLOAT)
        return halo_jinja_type_error(run, "a sign needs a number", a);
    ret->number = op == '-' ? -a.number : a.number;
    return 0;
}
