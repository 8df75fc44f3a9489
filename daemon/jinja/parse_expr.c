/* parse_expr.c: expressions, by recursive descent.
 *
 * From the weakest: if-else, or, and, not, comparisons, + -, ~, * / // %, **, signs, then what follows a value: .name
 * [item] (call), and | filters and `is` tests, which bind tighter than any operator. A filter or test that does not
 * exist is noted in `unknown`; a condition around it takes the note back, for then only running into it is an error.
 * Fails with UNSUPPORTED and OUT_OF_MEMORY.
 */
#include <string.h>

#include "jinja_priv.h"

typedef int level(struct halo_jinja_parser *parser, struct halo_jinja_node **ret);

static int parse_or(struct halo_jinja_parser *parser, struct halo_jinja_node **ret);
static int parse_unary(struct halo_jinja_parser *parser, bool with_filters, struct halo_jinja_node **ret);

static int value_name(struct halo_jinja_parser *parser, struct halo_jinja_node *node, const char *bytes, size_t n)
{
    if (halo_jinja_string_template(&parser->jinja->arena, &node->value, bytes, n) < 0)
        return halo_fault_set(parser->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a constant of a chat template");
    return 0;
}

static int need_name(struct halo_jinja_parser *parser, struct halo_jinja_node *node, const char *what)
{
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    if (token->kind != HALO_JINJA_T_NAME)
        return halo_jinja_expected(parser, "%s", what);
    parser->at++;
    return value_name(parser, node, token->bytes, token->n);
}

/* ---- values ---- */

/* Neighbouring literals are one string. */
static int parse_string(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    const struct halo_jinja_token *first = halo_jinja_peek(parser), *token = first;
    size_t n = 0;
    for (; token->kind == HALO_JINJA_T_STRING; token++)
        n += token->n;
    int r = halo_jinja_node(parser, HALO_JINJA_N_CONST, first->at, ret);
    if (r < 0)
        return r;
    const char *bytes = first->bytes;
    if (token - first > 1) {
        char *joined = halo_arena_alloc(&parser->jinja->arena, n + 1, 1);
        if (!joined)
            return halo_fault_set(parser->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a string of a chat template");
        bytes = joined;
        for (const struct halo_jinja_token *t = first; t < token; joined += t->n, t++)
            memcpy(joined, t->bytes, t->n);
    }
    parser->at += (size_t)(token - first);
    return value_name(parser, *ret, bytes, n);
}

static int parse_dict(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    struct halo_jinja_node *item;
    int r = halo_jinja_node(parser, HALO_JINJA_N_DICT, halo_jinja_peek(parser)->at, ret);
    parser->at++;
    while (r == 0 && !halo_jinja_take_op(parser, "}")) {
        if ((*ret)->n_items && (r = halo_jinja_need_op(parser, ",")) < 0)
            return r;
        if (halo_jinja_take_op(parser, "}"))
            break;
        for (int i = 0; i < 2 && r == 0; i++) {
            if (i == 1 && (r = halo_jinja_need_op(parser, ":")) < 0)
                return r;
            r = halo_jinja_parse_expression(parser, true, &item);
            if (r == 0)
                r = halo_jinja_node_add(parser, *ret, item);
        }
    }
    return r;
}

static int parse_list(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    struct halo_jinja_node *item;
    int r = halo_jinja_node(parser, HALO_JINJA_N_LIST, halo_jinja_peek(parser)->at, ret);
    parser->at++;
    while (r == 0 && !halo_jinja_take_op(parser, "]")) {
        if ((*ret)->n_items && (r = halo_jinja_need_op(parser, ",")) < 0)
            return r;
        if (halo_jinja_take_op(parser, "]"))
            break;
        r = halo_jinja_parse_expression(parser, true, &item);
        if (r == 0)
            r = halo_jinja_node_add(parser, *ret, item);
    }
    return r;
}

static int parse_name(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    static const struct {
        const char *name;
        struct halo_jinja_value value;
    } constants[] = {
        {"true", {.kind = HALO_JINJA_BOOL, .is_template = true, .boolean = true}},
        {"True", {.kind = HALO_JINJA_BOOL, .is_template = true, .boolean = true}},
        {"false", {.kind = HALO_JINJA_BOOL, .is_template = true}},
        {"False", {.kind = HALO_JINJA_BOOL, .is_template = true}},
        {"none", {.kind = HALO_JINJA_NONE, .is_template = true}},
        {"None", {.kind = HALO_JINJA_NONE, .is_template = true}},
    };
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    int r = halo_jinja_node(parser, HALO_JINJA_N_CONST, token->at, ret);
    if (r < 0)
        return r;
    parser->at++;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (halo_jinja_is_name(token, constants[i].name)) {
            (*ret)->value = constants[i].value;
            return 0;
        }
    (*ret)->kind = HALO_JINJA_N_NAME;
    r = halo_jinja_node_name(parser, *ret, token);
    parser->uses |= (*ret)->id == parser->jinja->id_caller    ? HALO_JINJA_USES_CALLER
                    : (*ret)->id == parser->jinja->id_varargs ? HALO_JINJA_USES_VARARGS
                    : (*ret)->id == parser->jinja->id_kwargs  ? HALO_JINJA_USES_KWARGS
                                                              : 0;
    return r;
}

int halo_jinja_parse_primary(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    int r;
    switch (token->kind) {
    case HALO_JINJA_T_NAME: return parse_name(parser, ret);
    case HALO_JINJA_T_STRING: return parse_string(parser, ret);
    case HALO_JINJA_T_INT:
    case HALO_JINJA_T_FLOAT:
        parser->at++;
        r = halo_jinja_node(parser, HALO_JINJA_N_CONST, token->at, ret);
        if (r < 0)
            return r;
        (*ret)->value = halo_jinja_own_int(token->integer);
        if (token->kind == HALO_JINJA_T_FLOAT) {
            (*ret)->value.kind = HALO_JINJA_FLOAT;
            (*ret)->value.number = token->number;
        }
        return 0;
    default:
        if (halo_jinja_take_op(parser, "(")) {
            r = halo_jinja_parse_tuple(parser, HALO_JINJA_TUPLE_CONDITIONAL | HALO_JINJA_TUPLE_PARENS, ret);
            return r < 0 ? r : halo_jinja_need_op(parser, ")");
        }
        if (halo_jinja_is_op(token, "["))
            return parse_list(parser, ret);
        if (halo_jinja_is_op(token, "{"))
            return parse_dict(parser, ret);
        return halo_jinja_expected(parser, "a value");
    }
}

/* ---- what follows a value ---- */

static int parse_arg(struct halo_jinja_parser *parser, struct halo_jinja_node *call, bool *named)
{
    struct halo_jinja_node *arg;
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    int r = halo_jinja_node(parser, HALO_JINJA_N_ARG, token->at, &arg);
    if (r < 0)
        return r;
    if (halo_jinja_take_op(parser, "*"))
        arg->op = '*';
    else if (halo_jinja_take_op(parser, "**"))
        arg->op = 'd';
    else if (token->kind == HALO_JINJA_T_NAME && halo_jinja_is_op(token + 1, "="))
        arg->op = 'k';
    else if (*named)
        return halo_jinja_expected(parser, "another named argument");
    *named |= arg->op == 'k' || arg->op == 'd';
    if (arg->op == 'k') {
        parser->at += 2;
        r = value_name(parser, arg, token->bytes, token->n);
    }
    if (r == 0)
        r = halo_jinja_parse_expression(parser, true, &arg->a);
    return r < 0 ? r : halo_jinja_node_add(parser, call, arg);
}

int halo_jinja_parse_args(struct halo_jinja_parser *parser, struct halo_jinja_node *call)
{
    bool named = false;
    int r = halo_jinja_need_op(parser, "(");
    while (r == 0 && !halo_jinja_take_op(parser, ")")) {
        if (call->n_items && (r = halo_jinja_need_op(parser, ",")) < 0)
            return r;
        if (halo_jinja_take_op(parser, ")"))
            break;
        r = parse_arg(parser, call, &named);
    }
    return r;
}

/* start:stop:step inside of brackets, or an index. `ret` holds the object. */
static int parse_subscript(struct halo_jinja_parser *parser, size_t at, struct halo_jinja_node **ret)
{
    struct halo_jinja_node *object = *ret, *part = NULL, *slice;
    int r = 0;
    if (!halo_jinja_is_op(halo_jinja_peek(parser), ":")) {
        r = halo_jinja_parse_tuple(parser, HALO_JINJA_TUPLE_CONDITIONAL, &part);
        if (r < 0)
            return r;
        if (halo_jinja_take_op(parser, "]")) {
            if ((r = halo_jinja_node(parser, HALO_JINJA_N_ITEM, at, ret)) < 0)
                return r;
            (*ret)->a = object;
            (*ret)->b = part;
            return 0;
        }
    }
    if ((r = halo_jinja_node(parser, HALO_JINJA_N_SLICE, at, &slice)) < 0 ||
        (r = halo_jinja_node_add(parser, slice, object)) < 0 || (r = halo_jinja_node_add(parser, slice, part)) < 0)
        return r;
    while (slice->n_items < 4) {
        part = NULL;
        if (halo_jinja_take_op(parser, ":") && !halo_jinja_is_op(halo_jinja_peek(parser), ":") &&
            !halo_jinja_is_op(halo_jinja_peek(parser), "]"))
            r = halo_jinja_parse_expression(parser, true, &part);
        if (r < 0 || (r = halo_jinja_node_add(parser, slice, part)) < 0)
            return r;
    }
    *ret = slice;
    return halo_jinja_need_op(parser, "]");
}

static int parse_dot(struct halo_jinja_parser *parser, size_t at, struct halo_jinja_node **node)
{
    struct halo_jinja_node *object = *node;
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    int r = halo_jinja_node(parser, HALO_JINJA_N_ATTR, at, node);
    if (r < 0)
        return r;
    (*node)->a = object;
    if (token->kind != HALO_JINJA_T_INT)
        return need_name(parser, *node, "a name after '.'");
    (*node)->kind = HALO_JINJA_N_ITEM;
    return halo_jinja_parse_primary(parser, &(*node)->b);
}

static int parse_call(struct halo_jinja_parser *parser, struct halo_jinja_node **node)
{
    struct halo_jinja_node *callee = *node;
    int r = halo_jinja_node(parser, HALO_JINJA_N_CALL, callee->at, node);
    if (r < 0)
        return r;
    (*node)->a = callee;
    return halo_jinja_parse_args(parser, *node);
}

int halo_jinja_parse_postfix(struct halo_jinja_parser *parser, struct halo_jinja_node **node)
{
    int r = 0;
    while (r == 0) {
        size_t at = halo_jinja_peek(parser)->at;
        if (halo_jinja_take_op(parser, "."))
            r = parse_dot(parser, at, node);
        else if (halo_jinja_take_op(parser, "["))
            r = parse_subscript(parser, at, node);
        else if (halo_jinja_is_op(halo_jinja_peek(parser), "("))
            r = parse_call(parser, node);
        else
            break;
    }
    return r;
}

/* name.name.name of a filter or test, into value and id. */
static int parse_native_name(struct halo_jinja_parser *parser, struct halo_jinja_node *node, bool is_filter)
{
    int r = need_name(parser, node, is_filter ? "the name of a filter" : "the name of a test");
    if (r < 0)
        return r;
    bool dotted = halo_jinja_is_op(halo_jinja_peek(parser), ".");
    while (halo_jinja_take_op(parser, "."))
        if ((r = need_name(parser, node, "a name")) < 0)
            return r;
    const struct halo_jinja_string *name = node->value.string;
    node->id = dotted      ? HALO_JINJA_NO_ID
               : is_filter ? halo_jinja_filter_id(name->bytes, name->n)
                           : halo_jinja_test_id(name->bytes, name->n);
    if (node->id != HALO_JINJA_NO_ID)
        return 0;
    struct halo_jinja_value note = {.kind = HALO_JINJA_NONE, .object = node};
    if (halo_jinja_list_add(&parser->jinja->arena, &parser->unknown, note) < 0)
        return halo_fault_set(parser->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the tree of a chat template");
    return 0;
}

int halo_jinja_parse_filters(struct halo_jinja_parser *parser, bool first_is_name, struct halo_jinja_node **node)
{
    int r = 0;
    while (r == 0 && (first_is_name || halo_jinja_take_op(parser, "|"))) {
        struct halo_jinja_node *input = *node;
        first_is_name = false;
        if ((r = halo_jinja_node(parser, HALO_JINJA_N_FILTER, halo_jinja_peek(parser)->at, node)) < 0)
            return r;
        (*node)->a = input;
        r = parse_native_name(parser, *node, true);
        if (r == 0 && halo_jinja_is_op(halo_jinja_peek(parser), "("))
            r = halo_jinja_parse_args(parser, *node);
    }
    return r;
}

/* A test may take one argument without parentheses: a value that is not one of the words that go on after it. */
static bool begins_argument(const struct halo_jinja_token *token)
{
    static const char *const words[] = {"else", "or", "and", "is", "if", "in", "not"};
    if (token->kind == HALO_JINJA_T_STRING || token->kind == HALO_JINJA_T_INT || token->kind == HALO_JINJA_T_FLOAT)
        return true;
    if (token->kind != HALO_JINJA_T_NAME)
        return halo_jinja_is_op(token, "[") || halo_jinja_is_op(token, "{");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (halo_jinja_is_name(token, words[i]))
            return false;
    return true;
}

static int parse_test(struct halo_jinja_parser *parser, struct halo_jinja_node **node)
{
    struct halo_jinja_node *test, *arg;
    size_t at = halo_jinja_peek(parser)->at;
    bool negated = halo_jinja_take_name(parser, "not");
    int r = halo_jinja_node(parser, HALO_JINJA_N_TEST, at, &test);
    if (r < 0)
        return r;
    test->a = *node;
    if ((r = parse_native_name(parser, test, false)) < 0)
        return r;
    if (halo_jinja_is_op(halo_jinja_peek(parser), "(")) {
        r = halo_jinja_parse_args(parser, test);
    } else if (begins_argument(halo_jinja_peek(parser))) {
        r = halo_jinja_node(parser, HALO_JINJA_N_ARG, halo_jinja_peek(parser)->at, &arg);
        if (r == 0)
            r = halo_jinja_parse_primary(parser, &arg->a);
        if (r == 0)
            r = halo_jinja_parse_postfix(parser, &arg->a);
        if (r == 0)
            r = halo_jinja_node_add(parser, test, arg);
    }
    *node = test;
    if (r == 0 && negated && (r = halo_jinja_node(parser, HALO_JINJA_N_NOT, at, node)) == 0)
        (*node)->a = test;
    return r;
}

static int parse_filters_and_tests(struct halo_jinja_parser *parser, struct halo_jinja_node **node)
{
    int r = 0;
    while (r == 0) {
        if (halo_jinja_is_op(halo_jinja_peek(parser), "|"))
            r = halo_jinja_parse_filters(parser, false, node);
        else if (halo_jinja_take_name(parser, "is"))
            r = parse_test(parser, node);
        else if (halo_jinja_is_op(halo_jinja_peek(parser), "("))
            r = parse_call(parser, node);
        else
            break;
    }
    return r;
}

/* ---- operators ---- */

static int parse_unary_inner(struct halo_jinja_parser *parser, bool with_filters, struct halo_jinja_node **ret)
{
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    int r;
    if (halo_jinja_take_op(parser, "-") || halo_jinja_take_op(parser, "+")) {
        if ((r = halo_jinja_node(parser, HALO_JINJA_N_UNARY, token->at, ret)) < 0)
            return r;
        (*ret)->op = (uint8_t)token->bytes[0];
        r = parse_unary(parser, false, &(*ret)->a);
    } else {
        r = halo_jinja_parse_primary(parser, ret);
    }
    if (r == 0)
        r = halo_jinja_parse_postfix(parser, ret);
    return r == 0 && with_filters ? parse_filters_and_tests(parser, ret) : r;
}

static int parse_unary(struct halo_jinja_parser *parser, bool with_filters, struct halo_jinja_node **ret)
{
    int r = halo_jinja_parse_enter(parser);
    if (r == 0)
        r = parse_unary_inner(parser, with_filters, ret);
    parser->depth--;
    return r;
}

static int parse_operand(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    return parse_unary(parser, true, ret);
}

/* Left-associative operators of one level: `ops` holds pairs of spelling and code. */
static int parse_binary(struct halo_jinja_parser *parser, level *next, const char *const *ops,
                        struct halo_jinja_node **ret)
{
    int r = next(parser, ret);
    for (size_t i = 0; r == 0 && ops[i];) {
        size_t at = halo_jinja_peek(parser)->at;
        if (!halo_jinja_take_op(parser, ops[i])) {
            i += 2;
            continue;
        }
        struct halo_jinja_node *left = *ret;
        if ((r = halo_jinja_node(parser, HALO_JINJA_N_BINARY, at, ret)) < 0)
            return r;
        (*ret)->op = (uint8_t)ops[i + 1][0];
        (*ret)->a = left;
        r = next(parser, &(*ret)->b);
        i = 0;
    }
    return r;
}

static int parse_power(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    static const char *const ops[] = {"**", "p", NULL};
    return parse_binary(parser, parse_operand, ops, ret);
}

static int parse_product(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    static const char *const ops[] = {"*", "*", "/", "/", "//", "f", "%", "%", NULL};
    return parse_binary(parser, parse_power, ops, ret);
}

static int parse_concat(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    struct halo_jinja_node *item, *concat = NULL;
    int r = parse_product(parser, ret);
    while (r == 0 && halo_jinja_is_op(halo_jinja_peek(parser), "~")) {
        size_t at = halo_jinja_peek(parser)->at;
        parser->at++;
        if (!concat && ((r = halo_jinja_node(parser, HALO_JINJA_N_CONCAT, at, &concat)) < 0 ||
                        (r = halo_jinja_node_add(parser, concat, *ret)) < 0))
            return r;
        r = parse_product(parser, &item);
        if (r == 0)
            r = halo_jinja_node_add(parser, concat, item);
        *ret = concat;
    }
    return r;
}

static int parse_sum(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    static const char *const ops[] = {"+", "+", "-", "-", NULL};
    return parse_binary(parser, parse_concat, ops, ret);
}

/* The code of a comparison that comes next, taken; 0: none does. */
static char take_comparison(struct halo_jinja_parser *parser)
{
    static const char *const ops[] = {"==", "=", "!=", "!", "<=", "l", ">=", "g", "<", "<", ">", ">"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i += 2)
        if (halo_jinja_take_op(parser, ops[i]))
            return ops[i + 1][0];
    if (halo_jinja_take_name(parser, "in"))
        return 'i';
    if (halo_jinja_is_name(halo_jinja_peek(parser), "not") && halo_jinja_is_name(halo_jinja_peek(parser) + 1, "in")) {
        parser->at += 2;
        return 'n';
    }
    return 0;
}

static int parse_comparison(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    struct halo_jinja_node *compare = NULL, *arg;
    int r = parse_sum(parser, ret);
    while (r == 0) {
        size_t at = halo_jinja_peek(parser)->at;
        char op = take_comparison(parser);
        if (op == 0)
            break;
        if (!compare) {
            if ((r = halo_jinja_node(parser, HALO_JINJA_N_COMPARE, at, &compare)) < 0)
                return r;
            compare->a = *ret;
        }
        if ((r = halo_jinja_node(parser, HALO_JINJA_N_ARG, at, &arg)) < 0)
            return r;
        arg->op = (uint8_t)op;
        r = parse_sum(parser, &arg->a);
        if (r == 0)
            r = halo_jinja_node_add(parser, compare, arg);
        *ret = compare;
    }
    return r;
}

static int parse_not(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    size_t at = halo_jinja_peek(parser)->at;
    if (!halo_jinja_take_name(parser, "not"))
        return parse_comparison(parser, ret);
    int r = halo_jinja_parse_enter(parser);
    if (r == 0)
        r = halo_jinja_node(parser, HALO_JINJA_N_NOT, at, ret);
    if (r == 0)
        r = parse_not(parser, &(*ret)->a);
    parser->depth--;
    return r;
}

static int parse_words(struct halo_jinja_parser *parser, level *next, const char *word, enum halo_jinja_node_kind kind,
                       struct halo_jinja_node **ret)
{
    int r = next(parser, ret);
    while (r == 0 && halo_jinja_is_name(halo_jinja_peek(parser), word)) {
        struct halo_jinja_node *left = *ret;
        if ((r = halo_jinja_node(parser, kind, halo_jinja_peek(parser)->at, ret)) < 0)
            return r;
        parser->at++;
        (*ret)->a = left;
        r = next(parser, &(*ret)->b);
    }
    return r;
}

static int parse_and(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    return parse_words(parser, parse_not, "and", HALO_JINJA_N_AND, ret);
}

static int parse_or(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    return parse_words(parser, parse_and, "or", HALO_JINJA_N_OR, ret);
}

static int parse_conditional(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    size_t n_unknown = parser->unknown.n;
    int r = parse_or(parser, ret);
    while (r == 0 && halo_jinja_is_name(halo_jinja_peek(parser), "if")) {
        struct halo_jinja_node *value = *ret;
        if ((r = halo_jinja_node(parser, HALO_JINJA_N_COND, halo_jinja_peek(parser)->at, ret)) < 0)
            return r;
        parser->at++;
        (*ret)->b = value;
        r = parse_or(parser, &(*ret)->a);
        if (r == 0 && halo_jinja_take_name(parser, "else"))
            r = halo_jinja_parse_expression(parser, true, &(*ret)->c);
        parser->unknown.n = n_unknown;
    }
    return r;
}

int halo_jinja_parse_expression(struct halo_jinja_parser *parser, bool conditional, struct halo_jinja_node **ret)
{
    int r = halo_jinja_parse_enter(parser);
    if (r == 0)
        r = conditional ? parse_conditional(parser, ret) : parse_or(parser, ret);
    parser->depth--;
    return r;
}

static bool ends_tuple(const struct halo_jinja_token *token, unsigned how)
{
    return token->kind == HALO_JINJA_T_OUTPUT_END || token->kind == HALO_JINJA_T_BLOCK_END ||
           token->kind == HALO_JINJA_T_END || halo_jinja_is_op(token, ")") || halo_jinja_is_op(token, "]") ||
           halo_jinja_is_op(token, "=") ||
           ((how & HALO_JINJA_TUPLE_FOR) &&
            (halo_jinja_is_name(token, "recursive") || halo_jinja_is_name(token, "in")));
}

/* One expression, or several with commas between them. */
int halo_jinja_parse_tuple(struct halo_jinja_parser *parser, unsigned how, struct halo_jinja_node **ret)
{
    struct halo_jinja_node *tuple, *item = NULL;
    size_t at = halo_jinja_peek(parser)->at;
    bool comma = false;
    int r = halo_jinja_node(parser, HALO_JINJA_N_TUPLE, at, &tuple);
    while (r == 0 && !ends_tuple(halo_jinja_peek(parser), how)) {
        r = halo_jinja_parse_expression(parser, how & HALO_JINJA_TUPLE_CONDITIONAL, &item);
        if (r == 0)
            r = halo_jinja_node_add(parser, tuple, item);
        if (r < 0 || !halo_jinja_take_op(parser, ","))
            break;
        comma = true;
    }
    if (r == 0 && !comma && tuple->n_items == 0 && !(how & HALO_JINJA_TUPLE_PARENS))
        return halo_jinja_expected(parser, "an expression");
    *ret = tuple->n_items == 1 && !comma ? item : tuple;
    return r;
}
