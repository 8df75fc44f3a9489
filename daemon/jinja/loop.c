/* loop.c: the `loop` variable: where a loop is, and its methods.
 *
 * Fails as a run does (jinja_priv.h).
 */
#include <string.h>

#include "jinja_priv.h"

static int loop_cycle(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)
{
    const struct halo_jinja_loop *loop = call->self.object;
    if (call->raw->n == 0)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "loop.cycle has nothing to cycle through");
    *ret = call->raw->items[loop->at % call->raw->n];
    return 0;
}

static int loop_changed(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)
{
    struct halo_jinja_loop *loop = call->self.object;
    struct halo_jinja_value now;
    bool equal = false;
    int r = halo_jinja_new_list(run, HALO_JINJA_TUPLE, &now);
    for (size_t i = 0; r == 0 && i < call->raw->n; i++)
        r = halo_jinja_push(run, now, call->raw->items[i]);
    if (r == 0 && loop->changed.kind != HALO_JINJA_MISSING)
        r = halo_jinja_equal(run, loop->changed, now, &equal);
    loop->changed = now;
    *ret = halo_jinja_own_bool(!equal);
    return r;
}

static int loop_method(struct halo_jinja_run *run, struct halo_jinja_value loop, const struct halo_jinja_native *native,
                       struct halo_jinja_value *ret)
{
    struct halo_jinja_method *method;
    int r = halo_jinja_alloc(run, 1, sizeof *method, &method);
    if (r)
        return r;
    *method = (struct halo_jinja_method){loop, native};
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_METHOD, .object = method};
    return 0;
}

int halo_jinja_loop_attribute(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_value name,
                              struct halo_jinja_value *ret)
{
    static const struct halo_jinja_native methods[] = {{.name = "cycle", .call = loop_cycle, .any = true},
                                                       {.name = "changed", .call = loop_changed, .any = true}};
    static const char *const names[] = {"index",    "index0", "revindex", "revindex0", "first", "last",   "previtem",
                                        "nextitem", "length", "depth",    "depth0",    "cycle", "changed"};
    const struct halo_jinja_loop *loop = value.object;
    int64_t at = (int64_t)loop->at, n = (int64_t)loop->items->n, which = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (halo_jinja_is_text(name, names[i], strlen(names[i])))
            which = (int64_t)i;
    const int64_t numbers[] = {at + 1,
                               at,
                               n - at,
                               n - at - 1,
                               at == 0,
                               at == n - 1,
                               at - 1,
                               at + 1,
                               n,
                               (int64_t)loop->depth + 1,
                               (int64_t)loop->depth};
    *ret = halo_jinja_missing();
    if (which < 0)
        return 0;
    if (which > 10)
        return loop_method(run, value, &methods[which - 11], ret);
    if (which == 4 || which == 5) {
        *ret = halo_jinja_own_bool(numbers[which]);
    } else if (which == 6 || which == 7) {
        if (numbers[which] < 0 || numbers[which] >= n)
            return halo_jinja_undefined(run, (struct halo_jinja_hint){.name = names[which], .n_name = 8}, ret);
        *ret = loop->items->items[numbers[which]];
    } else {
        *ret = halo_jinja_own_int(numbers[which]);
    }
    return 0;
}
