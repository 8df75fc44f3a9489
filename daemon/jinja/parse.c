/* parse.c: statements, and the life of a compiled template.
 *
 * Runs where a model is loaded; the tree lives in the template's arena and is sealed afterwards. Statements that read
 * other files (include, import, extends, block) are refused. Fails with UNSUPPORTED and OUT_OF_MEMORY.
 */
#include <stdlib.h>
#include <string.h>

#include <base/utf8.h>

#include "jinja_priv.h"

static int parse_body(struct halo_jinja_parser *parser, const char *const *ends, struct halo_jinja_node **ret);

#define ENDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static int end_block(struct halo_jinja_parser *parser)
{
    if (halo_jinja_peek(parser)->kind != HALO_JINJA_T_BLOCK_END)
        return halo_jinja_expected(parser, "'%%}'");
    parser->at++;
    return 0;
}

/* The body of a block up to {% end %}, that tag included. */
static int parse_block_body(struct halo_jinja_parser *parser, const char *end, struct halo_jinja_node **ret)
{
    int r = end_block(parser);
    if (r == 0)
        r = parse_body(parser, ENDS(end), ret);
    if (r == 0)
        parser->at++; /* the word itself */
    return r < 0 ? r : end_block(parser);
}

static int parse_target_one(struct halo_jinja_parser *parser, bool attributes, struct halo_jinja_node **ret)
{
    struct halo_jinja_node *object;
    if (halo_jinja_peek(parser)->kind != HALO_JINJA_T_NAME)
        return halo_jinja_expected(parser, "the name of a variable");
    int r = halo_jinja_parse_primary(parser, ret);
    if (r < 0)
        return r;
    if ((*ret)->kind != HALO_JINJA_N_NAME)
        return halo_jinja_parse_fault(parser->fault, &parser->jinja->source, (*ret)->at, "cannot assign to a constant");
    if (!attributes || !halo_jinja_is_op(halo_jinja_peek(parser), "."))
        return 0;
    object = *ret;
    parser->at++;
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    if (token->kind != HALO_JINJA_T_NAME)
        return halo_jinja_expected(parser, "a name after '.'");
    parser->at++;
    if ((r = halo_jinja_node(parser, HALO_JINJA_N_ATTR, object->at, ret)) < 0)
        return r;
    (*ret)->a = object;
    return halo_jinja_node_name(parser, *ret, token);
}

int halo_jinja_parse_target(struct halo_jinja_parser *parser, bool attributes, bool tuple, struct halo_jinja_node **ret)
{
    struct halo_jinja_node *item, *all;
    bool parens = tuple && halo_jinja_take_op(parser, "(");
    int r = parse_target_one(parser, attributes, &item);
    *ret = item;
    if (r == 0 && tuple && halo_jinja_is_op(halo_jinja_peek(parser), ",")) {
        r = halo_jinja_node(parser, HALO_JINJA_N_TUPLE, item->at, &all);
        if (r == 0)
            r = halo_jinja_node_add(parser, all, item);
        while (r == 0 && halo_jinja_take_op(parser, ",") && halo_jinja_peek(parser)->kind == HALO_JINJA_T_NAME &&
               !halo_jinja_is_name(halo_jinja_peek(parser), "in")) {
            r = parse_target_one(parser, attributes, &item);
            if (r == 0)
                r = halo_jinja_node_add(parser, all, item);
        }
        if (r == 0)
            *ret = all;
    }
    return r == 0 && parens ? halo_jinja_need_op(parser, ")") : r;
}

/* ---- statements, from behind their word ---- */

static int parse_if(struct halo_jinja_parser *parser, struct halo_jinja_node *node)
{
    size_t n_unknown = parser->unknown.n;
    int r = 0;
    for (;;) {
        if ((r = halo_jinja_parse_tuple(parser, 0, &node->a)) < 0 || (r = end_block(parser)) < 0 ||
            (r = parse_body(parser, ENDS("elif", "else", "endif"), &node->b)) < 0)
            return r;
        if (!halo_jinja_take_name(parser, "elif"))
            break;
        if ((r = halo_jinja_node(parser, HALO_JINJA_N_IF, halo_jinja_peek(parser)->at, &node->c)) < 0)
            return r;
        node = node->c;
    }
    if (halo_jinja_take_name(parser, "else"))
        r = parse_block_body(parser, "endif", &node->c);
    else if (halo_jinja_take_name(parser, "endif"))
        r = end_block(parser);
    parser->unknown.n = n_unknown;
    return r;
}

static int parse_for(struct halo_jinja_parser *parser, struct halo_jinja_node *node)
{
    struct halo_jinja_node *body, *otherwise = NULL;
    int r = halo_jinja_parse_target(parser, false, true, &node->a);
    if (r == 0 && !halo_jinja_take_name(parser, "in"))
        r = halo_jinja_expected(parser, "'in'");
    if (r == 0)
        r = halo_jinja_parse_tuple(parser, HALO_JINJA_TUPLE_FOR, &node->b);
    if (r == 0 && halo_jinja_take_name(parser, "if"))
        r = halo_jinja_parse_expression(parser, true, &node->c);
    node->flag = halo_jinja_take_name(parser, "recursive");
    if (r == 0)
        r = end_block(parser);
    unsigned n_macros = parser->n_macros;
    parser->loops++;
    if (r == 0)
        r = parse_body(parser, ENDS("else", "endfor"), &body);
    parser->loops--;
    node->op = parser->n_macros != n_macros;
    if (r < 0)
        return r;
    if (halo_jinja_take_name(parser, "else")) {
        r = parse_block_body(parser, "endfor", &otherwise);
    } else {
        parser->at++;
        r = end_block(parser);
    }
    if (r == 0)
        r = halo_jinja_node_add(parser, node, body);
    return r < 0 ? r : halo_jinja_node_add(parser, node, otherwise);
}

static int parse_set(struct halo_jinja_parser *parser, struct halo_jinja_node *node)
{
    int r = halo_jinja_parse_target(parser, true, true, &node->a);
    if (r < 0)
        return r;
    if (halo_jinja_take_op(parser, "=")) {
        r = halo_jinja_parse_tuple(parser, HALO_JINJA_TUPLE_CONDITIONAL, &node->b);
        return r < 0 ? r : end_block(parser);
    }
    node->kind = HALO_JINJA_N_SET_BLOCK;
    r = halo_jinja_parse_filters(parser, false, &node->c);
    return r < 0 ? r : parse_block_body(parser, "endset", &node->b);
}

/* (name, name = default ...) */
static int parse_params(struct halo_jinja_parser *parser, struct halo_jinja_node *macro)
{
    struct halo_jinja_node *param;
    bool defaults = false;
    int r = halo_jinja_need_op(parser, "(");
    while (r == 0 && !halo_jinja_take_op(parser, ")")) {
        if (macro->n_items && (r = halo_jinja_need_op(parser, ",")) < 0)
            return r;
        const struct halo_jinja_token *token = halo_jinja_peek(parser);
        if (token->kind != HALO_JINJA_T_NAME)
            return halo_jinja_expected(parser, "the name of a parameter");
        if ((r = halo_jinja_node(parser, HALO_JINJA_N_PARAM, token->at, &param)) < 0 ||
            (r = halo_jinja_node_name(parser, param, token)) < 0)
            return r;
        parser->at++;
        if (halo_jinja_take_op(parser, "=")) {
            defaults = true;
            r = halo_jinja_parse_expression(parser, true, &param->a);
        } else if (defaults) {
            return halo_jinja_expected(parser, "a default value, because the parameter before has one");
        }
        if (r == 0)
            r = halo_jinja_node_add(parser, macro, param);
    }
    return r;
}

/* A macro's body is no part of the loop around it. */
static int parse_macro_body(struct halo_jinja_parser *parser, const char *end, struct halo_jinja_node *macro)
{
    unsigned loops = parser->loops, uses = parser->uses;
    parser->n_macros++;
    parser->loops = 0;
    parser->uses = 0;
    int r = parse_block_body(parser, end, &macro->b);
    macro->op = (uint8_t)parser->uses;
    parser->loops = loops;
    parser->uses = uses;
    return r;
}

static int parse_macro(struct halo_jinja_parser *parser, struct halo_jinja_node *node)
{
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    if (token->kind != HALO_JINJA_T_NAME)
        return halo_jinja_expected(parser, "the name of a macro");
    parser->at++;
    int r = halo_jinja_node_name(parser, node, token);
    if (r == 0)
        r = parse_params(parser, node);
    return r < 0 ? r : parse_macro_body(parser, "endmacro", node);
}

static int parse_call_block(struct halo_jinja_parser *parser, struct halo_jinja_node *node)
{
    int r = halo_jinja_node(parser, HALO_JINJA_N_MACRO, node->at, &node->b);
    if (r < 0)
        return r;
    node->b->id = HALO_JINJA_NO_ID;
    if (halo_jinja_is_op(halo_jinja_peek(parser), "("))
        r = parse_params(parser, node->b);
    if (r == 0)
        r = halo_jinja_parse_expression(parser, true, &node->a);
    if (r == 0 && node->a->kind != HALO_JINJA_N_CALL)
        r = halo_jinja_parse_fault(parser->fault, &parser->jinja->source, node->a->at, "expected a call");
    return r < 0 ? r : parse_macro_body(parser, "endcall", node->b);
}

static int parse_filter_block(struct halo_jinja_parser *parser, struct halo_jinja_node *node)
{
    int r = halo_jinja_parse_filters(parser, true, &node->a);
    return r < 0 ? r : parse_block_body(parser, "endfilter", &node->b);
}

static int parse_with(struct halo_jinja_parser *parser, struct halo_jinja_node *node)
{
    struct halo_jinja_node *target, *value;
    int r = 0;
    while (r == 0 && halo_jinja_peek(parser)->kind != HALO_JINJA_T_BLOCK_END) {
        if (node->n_items && (r = halo_jinja_need_op(parser, ",")) < 0)
            return r;
        if ((r = halo_jinja_parse_target(parser, false, false, &target)) < 0 ||
            (r = halo_jinja_need_op(parser, "=")) < 0 || (r = halo_jinja_parse_expression(parser, true, &value)) < 0 ||
            (r = halo_jinja_node_add(parser, node, target)) < 0)
            return r;
        r = halo_jinja_node_add(parser, node, value);
    }
    return r < 0 ? r : parse_block_body(parser, "endwith", &node->b);
}

static int parse_generation(struct halo_jinja_parser *parser, struct halo_jinja_node *node)
{
    return parse_block_body(parser, "endgeneration", &node->b);
}

static int parse_flow(struct halo_jinja_parser *parser, struct halo_jinja_node *node)
{
    if (parser->loops == 0)
        return halo_jinja_parse_fault(parser->fault, &parser->jinja->source, node->at,
                                      "break or continue outside of a loop");
    return end_block(parser);
}

static const struct statement {
    const char *word;
    int (*parse)(struct halo_jinja_parser *parser, struct halo_jinja_node *node);
    enum halo_jinja_node_kind kind;
} statements[] = {
    {"if", parse_if, HALO_JINJA_N_IF},
    {"for", parse_for, HALO_JINJA_N_FOR},
    {"set", parse_set, HALO_JINJA_N_SET},
    {"macro", parse_macro, HALO_JINJA_N_MACRO},
    {"call", parse_call_block, HALO_JINJA_N_CALL_BLOCK},
    {"filter", parse_filter_block, HALO_JINJA_N_FILTER_BLOCK},
    {"with", parse_with, HALO_JINJA_N_WITH},
    {"generation", parse_generation, HALO_JINJA_N_SCOPE},
    {"break", parse_flow, HALO_JINJA_N_BREAK},
    {"continue", parse_flow, HALO_JINJA_N_CONTINUE},
};

static int parse_statement(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (halo_jinja_is_name(token, statements[i].word)) {
            int r = halo_jinja_node(parser, statements[i].kind, token->at, ret);
            if (r < 0)
                return r;
            parser->at++;
            r = halo_jinja_parse_enter(parser);
            if (r == 0)
                r = statements[i].parse(parser, *ret);
            parser->depth--;
            return r;
        }
    return halo_jinja_expected(parser, "a statement");
}

static bool is_end(const struct halo_jinja_token *token, const char *const *ends)
{
    for (; *ends; ends++)
        if (halo_jinja_is_name(token, *ends))
            return true;
    return false;
}

static int parse_output(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    int r = halo_jinja_node(parser, HALO_JINJA_N_OUTPUT, halo_jinja_peek(parser)->at, ret);
    parser->at++;
    if (r == 0)
        r = halo_jinja_parse_tuple(parser, HALO_JINJA_TUPLE_CONDITIONAL, &(*ret)->a);
    if (r == 0 && halo_jinja_peek(parser)->kind != HALO_JINJA_T_OUTPUT_END)
        r = halo_jinja_expected(parser, "'}}'");
    parser->at += r == 0;
    return r;
}

/* Up to a tag whose word is one of `ends`, which is next then; NULL: up to the end of the template. */
static int parse_body(struct halo_jinja_parser *parser, const char *const *ends, struct halo_jinja_node **ret)
{
    struct halo_jinja_node *item;
    int r = halo_jinja_node(parser, HALO_JINJA_N_BODY, halo_jinja_peek(parser)->at, ret);
    while (r == 0) {
        const struct halo_jinja_token *token = halo_jinja_peek(parser);
        if (token->kind == HALO_JINJA_T_END) {
            if (ends)
                r = halo_jinja_expected(parser, "'%s'", ends[0]);
            break;
        }
        if (token->kind == HALO_JINJA_T_BLOCK) {
            parser->at++;
            if (ends && is_end(token + 1, ends))
                break;
            r = parse_statement(parser, &item);
        } else if (token->kind == HALO_JINJA_T_OUTPUT) {
            r = parse_output(parser, &item);
        } else {
            parser->at++;
            if ((r = halo_jinja_node(parser, HALO_JINJA_N_CONST, token->at, &item)) == 0 &&
                halo_jinja_string_template(&parser->jinja->arena, &item->value, token->bytes, token->n) < 0)
                r = halo_fault_set(parser->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a chat template");
        }
        if (r == 0)
            r = halo_jinja_node_add(parser, *ret, item);
    }
    return r;
}

int halo_jinja_parse(struct halo_jinja_parser *parser, struct halo_jinja_node **ret)
{
    int r = parse_body(parser, NULL, ret);
    if (r == 0 && parser->unknown.n) {
        const struct halo_jinja_node *node = parser->unknown.items[0].object;
        r = halo_jinja_parse_fault(parser->fault, &parser->jinja->source, node->at, "there is no %s '%.*s'",
                                   node->kind == HALO_JINJA_N_FILTER ? "filter" : "test",
                                   node->value.string->n < 40 ? (int)node->value.string->n : 40,
                                   node->value.string->bytes);
    }
    return r;
}

/* ---- the compiled template ---- */

/* Copies the text with \n as its only line break and without the last one. */
static int copy_source(struct halo_jinja *jinja, const char *text, size_t n)
{
    char *copy = halo_arena_alloc(&jinja->arena, n + 1, 1);
    size_t to = 0;
    if (!copy)
        return -1;
    for (size_t i = 0; i < n; i++) {
        copy[to++] = text[i] == '\r' ? '\n' : text[i];
        i += text[i] == '\r' && i + 1 < n && text[i + 1] == '\n';
    }
    to -= to > 0 && copy[to - 1] == '\n';
    jinja->source = (struct halo_jinja_source){copy, to};
    return 0;
}

static int special_names(struct halo_jinja *jinja)
{
    return halo_jinja_name_id(jinja, "loop", 4, &jinja->id_loop) < 0 ||
                   halo_jinja_name_id(jinja, "caller", 6, &jinja->id_caller) < 0 ||
                   halo_jinja_name_id(jinja, "varargs", 7, &jinja->id_varargs) < 0 ||
                   halo_jinja_name_id(jinja, "kwargs", 6, &jinja->id_kwargs) < 0
               ? -1
               : 0;
}

int halo_jinja_compile(struct halo_jinja **ret, const char *text, size_t n, struct halo_fault *fault)
{
    *ret = NULL;
    if (n > HALO_JINJA_MAX_BYTES)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "the template has %zu bytes, the limit is %zu", n,
                              HALO_JINJA_MAX_BYTES);
    if (halo_utf8_valid_run(text, n) != n)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "the template is not UTF-8 at byte %zu",
                              halo_utf8_valid_run(text, n));
    struct halo_jinja *jinja = calloc(1, sizeof *jinja);
    if (!jinja)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a chat template");
    halo_arena_init(&jinja->arena, 0);
    struct halo_jinja_parser parser = {.jinja = jinja, .fault = fault};
    struct halo_jinja_token *tokens;
    size_t n_tokens;
    int r = 0;
    if (copy_source(jinja, text, n) < 0 || special_names(jinja) < 0)
        r = halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a chat template of %zu bytes", n);
    if (r == 0)
        r = halo_jinja_lex(&jinja->arena, &jinja->source, &tokens, &n_tokens, fault);
    if (r == 0) {
        parser.tokens = tokens;
        r = halo_jinja_parse(&parser, &jinja->body);
    }
    if (r < 0) {
        halo_jinja_destroy(jinja);
        return r;
    }
    halo_arena_seal(&jinja->arena);
    *ret = jinja;
    return 0;
}

void halo_jinja_destroy(struct halo_jinja *jinja)
{
    if (!jinja)
        return;
    halo_arena_finish(&jinja->arena);
    free(jinja);
}
