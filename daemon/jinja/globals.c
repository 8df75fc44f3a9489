/* globals.c: the global functions: range, dict, namespace, raise_exception, strftime_now.
 *
 * Fails as a run does (jinja_priv.h).
 */
#include <string.h>
#include <time.h>

#include "jinja_priv.h"

#define NATIVE(name)                                                                                                   \
    static int name(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)

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
            return halo_jinja_type_error(run, "the arguments of range() must be integers", call->raw->items[i]);
        bounds[n == 1 ? 1 : i] =
            call->raw->items[i].kind == HALO_JINJA_INT ? call->raw->items[i].integer : call->raw->items[i].boolean;
    }
    if (bounds[2] == 0)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the step of range() must not be 0");
    uint64_t from = (uint64_t)bounds[0], step = (uint64_t)bounds[2], n_numbers = 0;
    if (bounds[2] > 0 && bounds[0] < bounds[1])
        n_numbers = ((uint64_t)bounds[1] - from - 1) / step + 1;
    else if (bounds[2] < 0 && bounds[0] > bounds[1])
        n_numbers = (from - (uint64_t)bounds[1] - 1) / -step + 1;
    if (n_numbers > MAX_RANGE)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "range() makes more than %d numbers", MAX_RANGE);
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
                r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "%s() needs pairs", call->native->name);
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
        return halo_jinja_type_error(run, "a date format must be a short string", call->arg[0]);
    if (run->now)
        now = *run->now;
    else if (!localtime_r(&seconds, &now))
        return halo_jinja_fail(run, HALO_JINJA_RUNTIME, "the time is unknown");
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

const struct halo_jinja_native halo_jinja_globals[] = {
    {.name = "range", .call = function_range, .any = true},
    {.name = "dict", .call = function_dict, .any = true, .op = HALO_JINJA_DICT},
    {.name = "namespace", .call = function_dict, .any = true, .op = HALO_JINJA_NAMESPACE},
    {.name = "raise_exception", .call = function_raise, .params = {"message"}, .n_required = 1},
    {.name = "strftime_now", .call = function_strftime, .params = {"format"}, .n_required = 1},
};
const size_t halo_jinja_n_globals = sizeof(halo_jinja_globals) / sizeof(halo_jinja_globals[0]);
