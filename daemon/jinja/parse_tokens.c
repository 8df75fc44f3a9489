/* parse_tokens.c: what both parsers of the template engine stand on: tokens, nodes, names, faults.
 *
 * Runs where a template is compiled; nodes and names live in its arena. Fails with UNSUPPORTED and OUT_OF_MEMORY.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "jinja_priv.h"

#define MAX_NAMES 4096 /* they are searched one by one */

void halo_jinja_place(const struct halo_jinja_source *source, size_t at, size_t *ret_line, size_t *ret_column)
{
    *ret_line = 1;
    *ret_column = 1;
    for (size_t i = 0; i < at && i < source->n; i++) {
        bool line = source->text[i] == '\n';
        *ret_line += line;
        *ret_column = line ? 1 : *ret_column + (((unsigned char)source->text[i] & 0xC0) != 0x80);
    }
}

int halo_jinja_parse_fault(struct halo_fault *fault, const struct halo_jinja_source *source, size_t at,
                           const char *format, ...)
{
    char text[200];
    size_t line, column;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    halo_jinja_place(source, at, &line, &column);
    return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "template line %zu, column %zu: %s", line, column, text);
}

const struct halo_jinja_token *halo_jinja_peek(const struct halo_jinja_parser *parser)
{
    return &parser->tokens[parser->at];
}

bool halo_jinja_is_op(const struct halo_jinja_token *token, const char *op)
{
    return token->kind == HALO_JINJA_T_OP && token->n == strlen(op) && memcmp(token->bytes, op, token->n) == 0;
}

bool halo_jinja_is_name(const struct halo_jinja_token *token, const char *name)
{
    return token->kind == HALO_JINJA_T_NAME && token->n == strlen(name) && memcmp(token->bytes, name, token->n) == 0;
}

bool halo_jinja_take_op(struct halo_jinja_parser *parser, const char *op)
{
    bool is = halo_jinja_is_op(halo_jinja_peek(parser), op);
    parser->at += is;
    return is;
}

bool halo_jinja_take_name(struct halo_jinja_parser *parser, const char *name)
{
    bool is = halo_jinja_is_name(halo_jinja_peek(parser), name);
    parser->at += is;
    return is;
}

int halo_jinja_need_op(struct halo_jinja_parser *parser, const char *op)
{
    return halo_jinja_take_op(parser, op) ? 0 : halo_jinja_expected(parser, "'%s'", op);
}

int halo_jinja_expected(struct halo_jinja_parser *parser, const char *format, ...)
{
    char text[120];
    va_list args;
    const struct halo_jinja_token *token = halo_jinja_peek(parser);
    bool shown = token->kind == HALO_JINJA_T_OP || token->kind == HALO_JINJA_T_NAME ||
                 token->kind == HALO_JINJA_T_BLOCK_END || token->kind == HALO_JINJA_T_OUTPUT_END;
    const char *what = token->kind == HALO_JINJA_T_END ? "the end of the template" : "something else";
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (shown)
        return halo_jinja_parse_fault(parser->fault, &parser->jinja->source, token->at, "expected %s, found '%.*s'",
                                      text, token->n < 40 ? (int)token->n : 40, token->bytes);
    return halo_jinja_parse_fault(parser->fault, &parser->jinja->source, token->at, "expected %s, found %s", text,
                                  what);
}

static int out_of_memory(struct halo_jinja_parser *parser)
{
    return halo_fault_set(parser->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the tree of a chat template");
}

int halo_jinja_node(struct halo_jinja_parser *parser, enum halo_jinja_node_kind kind, size_t at,
                    struct halo_jinja_node **ret)
{
    struct halo_jinja_node *node = halo_arena_alloc(&parser->jinja->arena, 1, sizeof *node);
    if (!node)
        return out_of_memory(parser);
    node->kind = (uint8_t)kind;
    node->at = (uint32_t)at;
    *ret = node;
    return 0;
}

int halo_jinja_node_add(struct halo_jinja_parser *parser, struct halo_jinja_node *node, struct halo_jinja_node *item)
{
    uint32_t n = node->n_items;
    if ((n & (n - 1)) == 0 && (n == 0 || n >= 2)) { /* room for 2, then 4, 8 ... */
        struct halo_jinja_node **items = halo_arena_alloc(&parser->jinja->arena, n ? 2 * (size_t)n : 2, sizeof *items);
        if (!items)
            return out_of_memory(parser);
        if (n)
            memcpy(items, node->items, n * sizeof(struct halo_jinja_node *));
        node->items = items;
    }
    node->items[node->n_items++] = item;
    return 0;
}

int halo_jinja_parse_enter(struct halo_jinja_parser *parser)
{
    if (++parser->depth > HALO_JINJA_PARSE_DEPTH)
        return halo_jinja_parse_fault(parser->fault, &parser->jinja->source, halo_jinja_peek(parser)->at,
                                      "nests too deeply");
    return 0;
}

/* ---- names ---- */

ptrdiff_t halo_jinja_name_find(const struct halo_jinja *jinja, const char *bytes, size_t n)
{
    for (size_t i = 0; i < jinja->n_names; i++)
        if (jinja->names[i].n == n && memcmp(jinja->names[i].bytes, bytes, n) == 0)
            return (ptrdiff_t)i;
    return -1;
}

int halo_jinja_name_id(struct halo_jinja *jinja, const char *bytes, size_t n, uint32_t *ret)
{
    ptrdiff_t found = halo_jinja_name_find(jinja, bytes, n);
    if (found >= 0) {
        *ret = (uint32_t)found;
        return 0;
    }
    if (jinja->n_names == jinja->n_names_held) {
        size_t n_held = jinja->n_names_held ? 2 * jinja->n_names_held : 64;
        struct halo_jinja_string *names = halo_arena_alloc(&jinja->arena, n_held, sizeof *names);
        if (!names)
            return -ENOMEM;
        if (jinja->n_names)
            memcpy(names, jinja->names, jinja->n_names * sizeof *names);
        jinja->names = names;
        jinja->n_names_held = n_held;
    }
    *ret = (uint32_t)jinja->n_names;
    jinja->names[jinja->n_names++] = (struct halo_jinja_string){.bytes = bytes, .n = n, .is_template = true};
    return 0;
}

int halo_jinja_node_name(struct halo_jinja_parser *parser, struct halo_jinja_node *node,
                         const struct halo_jinja_token *token)
{
    if (parser->jinja->n_names >= MAX_NAMES)
        return halo_jinja_parse_fault(parser->fault, &parser->jinja->source, token->at, "more than %d names",
                                      MAX_NAMES);
    if (halo_jinja_name_id(parser->jinja, token->bytes, token->n, &node->id) < 0 ||
        halo_jinja_string_template(&parser->jinja->arena, &node->value, token->bytes, token->n) < 0)
        return out_of_memory(parser);
    return 0;
}
