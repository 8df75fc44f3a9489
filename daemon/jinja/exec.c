/* exec.c: statements.
 *
 * What a statement prints goes to the run's output, which a capture replaces for a while. A scope is made for each
 * iteration, macro call, set block, filter block, with and generation; `if` has none. Fails as a run does
 * (jinja_priv.h), and hands on the flow codes of break and continue.
 */
#include <string.h>

#include "jinja_priv.h"

int halo_jinja_bind(struct halo_jinja_run *run, struct halo_jinja_scope *scope, uint32_t id,
                    struct halo_jinja_value value)
{
    if (!scope->parent) {
        run->roots[id] = value;
        return 0;
    }
    for (size_t i = 0; i < scope->n; i++)
        if (scope->bindings[i].id == id) {
            scope->bindings[i].value = value;
            return 0;
        }
    if (scope->n == scope->n_held) {
        size_t n_held = scope->n_held ? 2 * scope->n_held : 4;
        struct halo_jinja_binding *bindings;
        int r = halo_jinja_alloc(run, n_held, sizeof *bindings, &bindings);
        if (r)
            return r;
        if (scope->n)
            memcpy(bindings, scope->bindings, scope->n * sizeof *bindings);
        scope->bindings = bindings;
        scope->n_held = n_held;
    }
    scope->bindings[scope->n++] = (struct halo_jinja_binding){id, value};
    return halo_jinja_steps(run, scope->n / 16);
}

static int assign_attribute(struct halo_jinja_run *run, struct halo_jinja_scope *scope,
                            const struct halo_jinja_node *target, struct halo_jinja_value value)
{
    struct halo_jinja_value object;
    int r = halo_jinja_eval(run, scope, target->a, &object);
    run->node = target;
    if (r)
        return r;
    if (object.kind != HALO_JINJA_NAMESPACE)
        return halo_jinja_fail(run, HALO_JINJA_RUNTIME, "cannot assign to an attribute of a %s, only of a namespace",
                               halo_jinja_type_name(object));
    return halo_jinja_put(run, object, target->value, value);
}

int halo_jinja_assign(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *target,
                      struct halo_jinja_value value)
{
    struct halo_jinja_list *list;
    if (target->kind == HALO_JINJA_N_NAME)
        return halo_jinja_bind(run, scope, target->id, value);
    if (target->kind == HALO_JINJA_N_ATTR)
        return assign_attribute(run, scope, target, value);
    run->node = target;
    int r = halo_jinja_iterate(run, value, &list);
    if (r == 0 && list->n != target->n_items)
        r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "unpacks %zu values into %u names", list->n, target->n_items);
    for (size_t i = 0; r == 0 && i < target->n_items; i++)
        r = halo_jinja_assign(run, scope, target->items[i], list->items[i]);
    return r;
}

int halo_jinja_capture(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *body,
                       struct halo_jinja_value *ret)
{
    struct halo_jinja_text text = {0}, *out = run->out;
    run->out = &text;
    int r = halo_jinja_exec(run, scope, body);
    run->out = out;
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

static int new_scope(struct halo_jinja_run *run, struct halo_jinja_scope *parent, struct halo_jinja_scope **ret)
{
    int r = halo_jinja_alloc(run, 1, sizeof **ret, ret);
    if (r == 0)
        (*ret)->parent = parent;
    return r;
}

/* ---- statements ---- */

static int exec_body(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < node->n_items; i++)
        r = halo_jinja_exec(run, scope, node->items[i]);
    return r;
}

static int exec_output(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node)
{
    struct halo_jinja_value value;
    int r = halo_jinja_eval(run, scope, node->a, &value);
    run->node = node;
    return r ? r : halo_jinja_print(run, run->out, value);
}

static int exec_if(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node)
{
    struct halo_jinja_value condition;
    for (; node && node->kind == HALO_JINJA_N_IF; node = node->c) {
        int r = halo_jinja_eval(run, scope, node->a, &condition);
        if (r)
            return r;
        if (halo_jinja_truth(condition))
            return halo_jinja_exec(run, scope, node->b);
    }
    return node ? halo_jinja_exec(run, scope, node) : 0;
}

static int exec_set(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node)
{
    struct halo_jinja_value value;
    int r = halo_jinja_eval(run, scope, node->b, &value);
    return r ? r : halo_jinja_assign(run, scope, node->a, value);
}

/* What a body prints in a scope of its own, through filters if there are any. */
static int filtered_body(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *body,
                         const struct halo_jinja_node *filters, struct halo_jinja_value *ret)
{
    struct halo_jinja_scope *inner;
    struct halo_jinja_value printed = run->printed;
    int r = new_scope(run, scope, &inner);
    if (r == 0)
        r = halo_jinja_capture(run, inner, body, ret);
    if (r || !filters)
        return r;
    run->printed = *ret;
    r = halo_jinja_eval(run, scope, filters, ret);
    run->printed = printed;
    return r;
}

static int exec_set_block(struct halo_jinja_run *run, struct halo_jinja_scope *scope,
                          const struct halo_jinja_node *node)
{
    struct halo_jinja_value value;
    int r = filtered_body(run, scope, node->b, node->c, &value);
    return r ? r : halo_jinja_assign(run, scope, node->a, value);
}

static int exec_filter_block(struct halo_jinja_run *run, struct halo_jinja_scope *scope,
                             const struct halo_jinja_node *node)
{
    struct halo_jinja_value value;
    int r = filtered_body(run, scope, node->b, node->a, &value);
    return r ? r : halo_jinja_print(run, run->out, value);
}

static int make_macro(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                      struct halo_jinja_value *ret)
{
    struct halo_jinja_macro *macro;
    int r = halo_jinja_alloc(run, 1, sizeof *macro, &macro);
    if (r)
        return r;
    *macro = (struct halo_jinja_macro){node, scope};
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_MACRO, .object = macro};
    return 0;
}

static int exec_macro(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node)
{
    struct halo_jinja_value macro;
    int r = make_macro(run, scope, node, &macro);
    return r ? r : halo_jinja_bind(run, scope, node->id, macro);
}

static int exec_call_block(struct halo_jinja_run *run, struct halo_jinja_scope *scope,
                           const struct halo_jinja_node *node)
{
    struct halo_jinja_value callee, caller, value;
    struct halo_jinja_args args;
    int r = halo_jinja_eval(run, scope, node->a->a, &callee);
    if (r == 0)
        r = halo_jinja_eval_args(run, scope, node->a, &args);
    if (r == 0)
        r = make_macro(run, scope, node->b, &caller);
    run->node = node;
    if (r == 0)
        r = halo_jinja_call_value(run, callee, &args, &caller, &value);
    return r ? r : halo_jinja_print(run, run->out, value);
}

static int exec_with(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node)
{
    struct halo_jinja_scope *inner;
    struct halo_jinja_value value;
    int r = new_scope(run, scope, &inner);
    for (size_t i = 0; r == 0 && i < node->n_items; i += 2)
        if ((r = halo_jinja_eval(run, scope, node->items[i + 1], &value)) == 0)
            r = halo_jinja_assign(run, inner, node->items[i], value);
    return r ? r : halo_jinja_exec(run, inner, node->b);
}

static int exec_inner(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node)
{
    run->node = node;
    switch (node->kind) {
    case HALO_JINJA_N_CONST: return halo_jinja_add_string(run, run->out, node->value.string);
    case HALO_JINJA_N_BODY: return exec_body(run, scope, node);
    case HALO_JINJA_N_OUTPUT: return exec_output(run, scope, node);
    case HALO_JINJA_N_IF: return exec_if(run, scope, node);
    case HALO_JINJA_N_FOR: return halo_jinja_exec_for(run, scope, node);
    case HALO_JINJA_N_SET: return exec_set(run, scope, node);
    case HALO_JINJA_N_SET_BLOCK: return exec_set_block(run, scope, node);
    case HALO_JINJA_N_FILTER_BLOCK: return exec_filter_block(run, scope, node);
    case HALO_JINJA_N_MACRO: return exec_macro(run, scope, node);
    case HALO_JINJA_N_CALL_BLOCK: return exec_call_block(run, scope, node);
    case HALO_JINJA_N_WITH:
    case HALO_JINJA_N_SCOPE: return exec_with(run, scope, node);
    case HALO_JINJA_N_BREAK: return HALO_JINJA_FLOW_BREAK;
    default: return HALO_JINJA_FLOW_CONTINUE;
    }
}

int halo_jinja_exec(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node)
{
    int r = halo_jinja_enter(run);
    if (r == 0)
        r = exec_inner(run, scope, node);
    run->depth--;
    return r;
}
