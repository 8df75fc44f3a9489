/* for.c: loops.
 *
 * The items are all known before the first iteration, so `loop.last` and its like cost nothing. Where the body
 * makes macros each iteration has a scope of its own, for a macro keeps it; otherwise the iterations share one. Fails
 * as a run does (jinja_priv.h).
 */
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
