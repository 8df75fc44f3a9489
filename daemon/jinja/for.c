/* for.c: loops, and the `loop` variable.
 *
 * The items are all known before the first iteration, so `loop.last` and its like cost nothing. Where the body
 * makes macros each iteration has a scope of its own, for a macro keeps it; otherwise the iterations share one. Fails
 * as a run does (jinja_priv.h).
 */
#include <string.h>

#include "jinja_priv.h"

static int new_scope(struct halo_jinja_run *run, struct halo_jinja_scope *parent, struct halo_jinja_scope **ret)
{
    int r = halo_jinja_alloc(run, 1, sizeof **ret, ret);
    if (r == 0)
        (*ret)->parent = parent;
    return r;
}

/* Those items of `list` for which the loop's condition holds. */
static int filter_items(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                        struct halo_jinja_list **list)
{
    struct halo_jinja_value kept, condition;
    struct halo_jinja_scope *inner;
    int r = halo_jinja_new_list(run, HALO_JINJA_LIST, &kept);
    if (r == 0)
        r = new_scope(run, scope, &inner);
    for (size_t i = 0; r == 0 && i < (*list)->n; i++) {
        if ((r = halo_jinja_assign(run, inner, node->a, (*list)->items[i])) == 0 &&
            (r = halo_jinja_eval(run, inner, node->c, &condition)) == 0 && halo_jinja_truth(condition))
            r = halo_jinja_push(run, kept, (*list)->items[i]);
    }
    *list = kept.list;
    return r;
}

int halo_jinja_loop_over(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                         struct halo_jinja_value iterable, size_t depth)
{
    struct halo_jinja_loop *loop;
    struct halo_jinja_scope *inner = NULL;
    struct halo_jinja_list *items;
    int r = halo_jinja_iterate(run, iterable, &items);
    if (r == 0 && node->c)
        r = filter_items(run, scope, node, &items);
    if (r == 0)
        r = halo_jinja_alloc(run, 1, sizeof *loop, &loop);
    if (r)
        return r;
    *loop = (struct halo_jinja_loop){node, scope, items, 0, depth, halo_jinja_missing()};
    const struct halo_jinja_value loop_value = {.kind = HALO_JINJA_LOOP, .object = loop};
    for (; loop->at < items->n; loop->at++) {
        if (!inner || node->op)
            r = new_scope(run, scope, &inner);
        else
            inner->n = 0;
        if (r == 0)
            r = halo_jinja_bind(run, inner, run->jinja->id_loop, loop_value);
        if (r == 0)
            r = halo_jinja_assign(run, inner, node->a, items->items[loop->at]);
        if (r == 0)
            r = halo_jinja_exec(run, inner, node->items[0]);
        if (r == HALO_JINJA_FLOW_BREAK)
            return 0;
        if (r && r != HALO_JINJA_FLOW_CONTINUE)
            return r;
        r = 0;
    }
    if (items->n || !node->items[1])
        return 0;
    r = new_scope(run, scope, &inner);
    return r ? r : halo_jinja_exec(run, inner, node->items[1]);
}

int halo_jinja_exec_for(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node)
{
    struct halo_jinja_value iterable;
    int r = halo_jinja_eval(run, scope, node->b, &iterable);
    run->node = node;
    return r ? r : halo_jinja_loop_over(run, scope, node, iterable, 0);
}

/* ---- the loop variable ---- */

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
