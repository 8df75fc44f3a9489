/* eval.c: expressions to values, a walk over the tree.
 *
 * Names are looked up in the scopes from the inside out, then among the run's roots. Each node costs a step and a level
 * of depth. Fails as a run does (jinja_priv.h).
 */
#include <string.h>

#include "jinja_priv.h"

static int eval_name(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                     struct halo_jinja_value *ret)
{
    for (; scope; scope = scope->parent)
        for (size_t i = 0; i < scope->n; i++)
            if (scope->bindings[i].id == node->id) {
                *ret = scope->bindings[i].value;
                return 0;
            }
    *ret = run->roots[node->id];
    if (ret->kind != HALO_JINJA_MISSING)
        return 0;
    const struct halo_jinja_string *name = node->value.string;
    return halo_jinja_undefined(run, (struct halo_jinja_hint){.name = name->bytes, .n_name = name->n}, ret);
}

static int eval_list(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                     struct halo_jinja_value *ret)
{
    struct halo_jinja_value item;
    int r = halo_jinja_new_list(run, node->kind == HALO_JINJA_N_LIST ? HALO_JINJA_LIST : HALO_JINJA_TUPLE, ret);
    for (size_t i = 0; r == 0 && i < node->n_items; i++)
        if ((r = halo_jinja_eval(run, scope, node->items[i], &item)) == 0)
            r = halo_jinja_push(run, *ret, item);
    return r;
}

static int eval_dict(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                     struct halo_jinja_value *ret)
{
    struct halo_jinja_value key, value;
    int r = halo_jinja_new_dict(run, ret);
    for (size_t i = 0; r == 0 && i < node->n_items; i += 2)
        if ((r = halo_jinja_eval(run, scope, node->items[i], &key)) == 0 &&
            (r = halo_jinja_eval(run, scope, node->items[i + 1], &value)) == 0)
            r = halo_jinja_put(run, *ret, key, value);
    return r;
}

static int eval_item(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                     struct halo_jinja_value *ret)
{
    struct halo_jinja_value object, key;
    int r = halo_jinja_eval(run, scope, node->a, &object);
    if (r == 0)
        r = halo_jinja_eval(run, scope, node->b, &key);
    run->node = node;
    return r ? r : halo_jinja_item(run, object, key, ret);
}

/* Whether Jinja computes it when it compiles: literals, and lists of them. */
static bool is_constant(const struct halo_jinja_node *node)
{
    bool constant = true;
    if (!node)
        return true;
    for (uint32_t i = 0; constant && i < node->n_items; i++)
        constant = is_constant(node->items[i]);
    switch (node->kind) {
    case HALO_JINJA_N_CONST:
    case HALO_JINJA_N_LIST:
    case HALO_JINJA_N_TUPLE:
    case HALO_JINJA_N_DICT:
    case HALO_JINJA_N_SLICE: return constant;
    case HALO_JINJA_N_UNARY: return is_constant(node->a);
    default: return false;
    }
}

static int eval_slice(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                      struct halo_jinja_value *ret)
{
    struct halo_jinja_value object, bounds[3];
    int r = halo_jinja_eval(run, scope, node->items[0], &object);
    for (int i = 0; r == 0 && i < 3; i++) {
        bounds[i] = halo_jinja_missing();
        if (node->items[i + 1])
            r = halo_jinja_eval(run, scope, node->items[i + 1], &bounds[i]);
    }
    run->node = node;
    return r ? r : halo_jinja_slice(run, object, bounds, is_constant(node), ret);
}

static int eval_call(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                     struct halo_jinja_value *ret)
{
    struct halo_jinja_value callee;
    struct halo_jinja_args args;
    int r = halo_jinja_eval(run, scope, node->a, &callee);
    if (r == 0)
        r = halo_jinja_eval_args(run, scope, node, &args);
    run->node = node;
    return r ? r : halo_jinja_call_value(run, callee, &args, NULL, ret);
}

/* A filter or a test. */
static int eval_native(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                       struct halo_jinja_value *ret)
{
    struct halo_jinja_value input = run->printed;
    struct halo_jinja_args args;
    bool is_filter = node->kind == HALO_JINJA_N_FILTER;
    int r = 0;
    if (node->id == HALO_JINJA_NO_ID)
        return halo_jinja_fail(run, HALO_JINJA_RUNTIME, "there is no %s '%.*s'", is_filter ? "filter" : "test",
                               node->value.string->n < 40 ? (int)node->value.string->n : 40, node->value.string->bytes);
    if (node->a)
        r = halo_jinja_eval(run, scope, node->a, &input);
    if (r == 0)
        r = halo_jinja_eval_args(run, scope, node, &args);
    run->node = node;
    const struct halo_jinja_native *native = is_filter ? halo_jinja_filter(node->id) : halo_jinja_test(node->id);
    return r ? r : halo_jinja_call_native(run, native, input, &args, ret);
}

static int eval_binary(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                       struct halo_jinja_value *ret)
{
    struct halo_jinja_value a, b;
    int r = halo_jinja_eval(run, scope, node->a, &a);
    if (r == 0)
        r = halo_jinja_eval(run, scope, node->b, &b);
    run->node = node;
    return r ? r : halo_jinja_binary(run, node->op, a, b, ret);
}

static int eval_unary(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                      struct halo_jinja_value *ret)
{
    struct halo_jinja_value value;
    int r = halo_jinja_eval(run, scope, node->a, &value);
    run->node = node;
    return r ? r : halo_jinja_unary(run, node->op, value, ret);
}

static int eval_concat(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                       struct halo_jinja_value *ret)
{
    struct halo_jinja_value item, joined;
    int r = halo_jinja_own_string(run, "", 0, &joined);
    for (size_t i = 0; r == 0 && i < node->n_items; i++) {
        if ((r = halo_jinja_eval(run, scope, node->items[i], &item)) == 0 &&
            (r = halo_jinja_to_string(run, item, &item)) == 0)
            r = halo_jinja_join_two(run, joined.string, item.string, &joined);
        joined.string->is_safe = false; /* unlike +, ~ makes plain text */
    }
    *ret = joined;
    return r;
}

static int eval_compare(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                        struct halo_jinja_value *ret)
{
    struct halo_jinja_value left, right;
    bool holds = true;
    int r = halo_jinja_eval(run, scope, node->a, &left);
    for (size_t i = 0; r == 0 && holds && i < node->n_items; i++) {
        if ((r = halo_jinja_eval(run, scope, node->items[i]->a, &right)))
            break;
        run->node = node->items[i];
        r = halo_jinja_compare(run, node->items[i]->op, left, right, &holds);
        left = right;
    }
    *ret = halo_jinja_own_bool(holds);
    return r;
}

/* and, or give the operand that decided, as Python's do. */
static int eval_logic(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                      struct halo_jinja_value *ret)
{
    int r = halo_jinja_eval(run, scope, node->a, ret);
    if (r || node->kind == HALO_JINJA_N_NOT) {
        *ret = halo_jinja_own_bool(r == 0 && !halo_jinja_truth(*ret));
        return r;
    }
    return halo_jinja_truth(*ret) == (node->kind == HALO_JINJA_N_AND) ? halo_jinja_eval(run, scope, node->b, ret) : 0;
}

static int eval_condition(struct halo_jinja_run *run, struct halo_jinja_scope *scope,
                          const struct halo_jinja_node *node, struct halo_jinja_value *ret)
{
    int r = halo_jinja_eval(run, scope, node->a, ret);
    if (r)
        return r;
    if (halo_jinja_truth(*ret))
        return halo_jinja_eval(run, scope, node->b, ret);
    if (node->c)
        return halo_jinja_eval(run, scope, node->c, ret);
    static const char name[] = "the value of an if without else";
    return halo_jinja_undefined(run, (struct halo_jinja_hint){.name = name, .n_name = sizeof name - 1}, ret);
}

static int eval_inner(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                      struct halo_jinja_value *ret)
{
    struct halo_jinja_value object;
    int r;
    run->node = node;
    switch (node->kind) {
    case HALO_JINJA_N_CONST: *ret = node->value; return 0;
    case HALO_JINJA_N_NAME: return eval_name(run, scope, node, ret);
    case HALO_JINJA_N_LIST:
    case HALO_JINJA_N_TUPLE: return eval_list(run, scope, node, ret);
    case HALO_JINJA_N_DICT: return eval_dict(run, scope, node, ret);
    case HALO_JINJA_N_ATTR:
        r = halo_jinja_eval(run, scope, node->a, &object);
        run->node = node;
        return r ? r : halo_jinja_attribute(run, object, node->value, ret);
    case HALO_JINJA_N_ITEM: return eval_item(run, scope, node, ret);
    case HALO_JINJA_N_SLICE: return eval_slice(run, scope, node, ret);
    case HALO_JINJA_N_CALL: return eval_call(run, scope, node, ret);
    case HALO_JINJA_N_FILTER:
    case HALO_JINJA_N_TEST: return eval_native(run, scope, node, ret);
    case HALO_JINJA_N_UNARY: return eval_unary(run, scope, node, ret);
    case HALO_JINJA_N_BINARY: return eval_binary(run, scope, node, ret);
    case HALO_JINJA_N_CONCAT: return eval_concat(run, scope, node, ret);
    case HALO_JINJA_N_COMPARE: return eval_compare(run, scope, node, ret);
    case HALO_JINJA_N_COND: return eval_condition(run, scope, node, ret);
    default: return eval_logic(run, scope, node, ret);
    }
}

int halo_jinja_eval(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                    struct halo_jinja_value *ret)
{
    int r = halo_jinja_enter(run);
    if (r == 0)
        r = eval_inner(run, scope, node, ret);
    run->depth--;
    return r;
}
