/* call.c: arguments, and calls of macros, of what is built in and of loops.
 *
 * A macro runs in a scope under the one it was made in. Arguments that do not fit are a TYPE_ERROR.
 */
#include "jinja_priv.h"

/* ---- arguments ---- */

static int add_named(struct halo_jinja_run *run, struct halo_jinja_value named, struct halo_jinja_value key,
                     struct halo_jinja_value value)
{
    if (key.kind != HALO_JINJA_STRING)
        return halo_jinja_type_error(run, "the name of an argument must be a string", key);
    if (halo_jinja_dict_find(named.dict, key) >= 0)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "an argument is given twice");
    return halo_jinja_put(run, named, key, value);
}

static int add_spread(struct halo_jinja_run *run, int op, struct halo_jinja_value value, struct halo_jinja_value items,
                      struct halo_jinja_value named)
{
    struct halo_jinja_list *list;
    int r = 0;
    if (op == 'd') {
        if (value.kind != HALO_JINJA_DICT)
            return halo_jinja_type_error(run, "the value after ** must be a dict", value);
        for (size_t i = 0; r == 0 && i < value.dict->n; i++)
            r = add_named(run, named, value.dict->entries[i].key, value.dict->entries[i].value);
        return r;
    }
    r = halo_jinja_iterate(run, value, &list);
    for (size_t i = 0; r == 0 && i < list->n; i++)
        r = halo_jinja_push(run, items, list->items[i]);
    return r;
}

int halo_jinja_eval_args(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                         struct halo_jinja_args *ret)
{
    struct halo_jinja_list list = {.n_held = node->n_items};
    struct halo_jinja_value items = {.kind = HALO_JINJA_LIST, .list = &list}, named = halo_jinja_missing(), value;
    *ret = (struct halo_jinja_args){0};
    if (node->n_items == 0)
        return 0;
    int r = halo_jinja_alloc(run, node->n_items, sizeof *list.items, &list.items);
    for (size_t i = 0; r == 0 && i < node->n_items; i++) {
        const struct halo_jinja_node *arg = node->items[i];
        if ((r = halo_jinja_eval(run, scope, arg->a, &value)))
            break;
        if ((arg->op == 'k' || arg->op == 'd') && named.kind == HALO_JINJA_MISSING)
            r = halo_jinja_new_dict(run, &named);
        if (r == 0 && arg->op == 'k')
            r = add_named(run, named, arg->value, value);
        else if (r == 0)
            r = arg->op ? add_spread(run, arg->op, value, items, named) : halo_jinja_push(run, items, value);
    }
    *ret = (struct halo_jinja_args){.items = list.items, .n = list.n};
    if (r == 0 && named.kind == HALO_JINJA_DICT) {
        ret->named = named.dict->entries;
        ret->n_named = named.dict->n;
    }
    return r;
}

/* ---- macros ---- */

/* The value of a parameter that got none by position: by name, by default, or undefined. */
static int param_value(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *param,
                       const struct halo_jinja_args *args, bool *used, struct halo_jinja_value *ret)
{
    const struct halo_jinja_string *name = param->value.string;
    for (size_t i = 0; i < args->n_named; i++)
        if (halo_jinja_is_text(args->named[i].key, name->bytes, name->n)) {
            used[i] = true;
            *ret = args->named[i].value;
            return 0;
        }
    if (param->a)
        return halo_jinja_eval(run, scope, param->a, ret);
    return halo_jinja_undefined(run, (struct halo_jinja_hint){.name = name->bytes, .n_name = name->n}, ret);
}

/* Arguments that no parameter takes: `varargs` and `kwargs`, where the body reads them. */
static int bind_rest(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                     const struct halo_jinja_args *args, const bool *used)
{
    struct halo_jinja_value rest, named;
    int r = halo_jinja_new_list(run, HALO_JINJA_TUPLE, &rest);
    if (r == 0)
        r = halo_jinja_new_dict(run, &named);
    for (size_t i = node->n_items; r == 0 && i < args->n; i++)
        r = halo_jinja_push(run, rest, args->items[i]);
    for (size_t i = 0; r == 0 && i < args->n_named; i++)
        if (!used[i])
            r = halo_jinja_put(run, named, args->named[i].key, args->named[i].value);
    if (r)
        return r;
    if (rest.list->n && !(node->op & HALO_JINJA_USES_VARARGS))
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the macro takes at most %u arguments, not %zu",
                               node->n_items, args->n);
    if (named.dict->n && !(node->op & HALO_JINJA_USES_KWARGS))
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the macro has no parameter of this name");
    if (node->op & HALO_JINJA_USES_VARARGS)
        r = halo_jinja_bind(run, scope, run->jinja->id_varargs, rest);
    if (r == 0 && (node->op & HALO_JINJA_USES_KWARGS))
        r = halo_jinja_bind(run, scope, run->jinja->id_kwargs, named);
    return r;
}

static int call_macro(struct halo_jinja_run *run, const struct halo_jinja_macro *macro,
                      const struct halo_jinja_args *args, const struct halo_jinja_value *caller,
                      struct halo_jinja_value *ret)
{
    const struct halo_jinja_node *node = macro->node;
    struct halo_jinja_scope *scope;
    struct halo_jinja_value value;
    bool *used;
    int r = halo_jinja_alloc(run, 1, sizeof *scope, &scope);
    if (r == 0)
        r = halo_jinja_alloc(run, args->n_named + 1, sizeof *used, &used);
    if (r)
        return r;
    scope->parent = macro->scope;
    for (size_t i = 0; r == 0 && i < node->n_items; i++) {
        if (i < args->n)
            value = args->items[i];
        else
            r = param_value(run, scope, node->items[i], args, used, &value);
        if (r == 0)
            r = halo_jinja_bind(run, scope, node->items[i]->id, value);
    }
    if (r == 0)
        r = bind_rest(run, scope, node, args, used);
    if (r == 0 && caller && !(node->op & HALO_JINJA_USES_CALLER))
        r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the macro is called with a block but does not call caller()");
    if (r == 0 && (node->op & HALO_JINJA_USES_CALLER)) {
        struct halo_jinja_hint hint = {.name = "caller", .n_name = 6};
        r = caller ? 0 : halo_jinja_undefined(run, hint, &value);
        if (r == 0)
            r = halo_jinja_bind(run, scope, run->jinja->id_caller, caller ? *caller : value);
    }
    return r ? r : halo_jinja_capture(run, scope, node->b, ret);
}

static int call_loop(struct halo_jinja_run *run, const struct halo_jinja_loop *loop, const struct halo_jinja_args *args,
                     struct halo_jinja_value *ret)
{
    struct halo_jinja_text text = {0}, *out = run->out;
    if (!loop->node->flag || args->n != 1 || args->n_named)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR,
                               "only a recursive loop can be called, with what to loop over");
    run->out = &text;
    int r = halo_jinja_loop_over(run, loop->scope, loop->node, args->items[0], loop->depth + 1);
    run->out = out;
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

int halo_jinja_call_value(struct halo_jinja_run *run, struct halo_jinja_value callee,
                          const struct halo_jinja_args *args, const struct halo_jinja_value *caller,
                          struct halo_jinja_value *ret)
{
    const struct halo_jinja_method *method = callee.object;
    int r = halo_jinja_enter(run);
    if (r) {
        /* falls through to the end */
    } else if (callee.kind == HALO_JINJA_MACRO) {
        r = call_macro(run, callee.object, args, caller, ret);
    } else if (caller) {
        r = halo_jinja_type_error(run, "cannot be called with a block", callee);
    } else if (callee.kind == HALO_JINJA_METHOD) {
        r = halo_jinja_call_native(run, method->native, method->self, args, ret);
    } else if (callee.kind == HALO_JINJA_FUNCTION) {
        r = halo_jinja_call_native(run, callee.object, halo_jinja_missing(), args, ret);
    } else if (callee.kind == HALO_JINJA_LOOP) {
        r = call_loop(run, callee.object, args, ret);
    } else {
        r = halo_jinja_type_error(run, "cannot be called", callee);
    }
    run->depth--;
    return r;
}
