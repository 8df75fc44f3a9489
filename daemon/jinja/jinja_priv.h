/* jinja_priv.h: what the files of the template engine share: tokens, the tree, strings with marks, a rendering.
 *
 * lexer -> tokens -> parser -> tree (in the template's arena, immutable) -> evaluation (in the run's arena).
 * Inside a run every function returns 0, -ENOMEM, or a positive enum halo_jinja_outcome with the fault filled;
 * statements may return a flow code too.
 */
#ifndef HALO_JINJA_JINJA_PRIV_H
#define HALO_JINJA_JINJA_PRIV_H

#include <jinja/jinja.h>

/* ---- strings, lists, dicts ---- */

struct halo_jinja_mark {
    size_t end;
    bool is_template;
};

/* Immutable. Without marks all of it is of one kind; with marks they cover it in order, neighbours differ. */
struct halo_jinja_string {
    const char *bytes;
    size_t n;
    const struct halo_jinja_mark *marks;
    size_t n_marks;
    bool is_template;
    bool is_safe; /* went through `safe` or `escape`: `+` escapes the other side, as Markup does */
};

struct halo_jinja_list {
    struct halo_jinja_value *items;
    size_t n, n_held;
};

struct halo_jinja_entry {
    struct halo_jinja_value key, value;
    uint64_t hash;
};

struct halo_jinja_dict {
    struct halo_jinja_entry *entries; /* in order of insertion */
    size_t n, n_held;
    uint32_t *index; /* open addressing, entry number + 1; NULL while the dict is small */
    size_t n_index;
};

/* Keys are equal as Python says for str, int, float, bool, None and tuples of them; -1: no such entry. */
bool halo_jinja_hashable(struct halo_jinja_value key);
bool halo_jinja_key_equal(struct halo_jinja_value a, struct halo_jinja_value b);
ptrdiff_t halo_jinja_dict_find(const struct halo_jinja_dict *dict, struct halo_jinja_value key);
int halo_jinja_dict_set(struct halo_arena *arena, struct halo_jinja_dict *dict, struct halo_jinja_value key,
                        struct halo_jinja_value value);
const char *halo_jinja_type_name(struct halo_jinja_value value); /* Python's name of its type */
int halo_jinja_list_add(struct halo_arena *arena, struct halo_jinja_list *list, struct halo_jinja_value item);

/* Scalars that no variable went into. */
static inline struct halo_jinja_value halo_jinja_own_int(int64_t value)
{
    return (struct halo_jinja_value){.kind = HALO_JINJA_INT, .is_template = true, .integer = value};
}

static inline struct halo_jinja_value halo_jinja_own_bool(bool value)
{
    return (struct halo_jinja_value){.kind = HALO_JINJA_BOOL, .is_template = true, .boolean = value};
}

static inline struct halo_jinja_value halo_jinja_missing(void)
{
    return (struct halo_jinja_value){.kind = HALO_JINJA_MISSING};
}

static inline bool halo_jinja_is_listlike(struct halo_jinja_value v)
{
    return v.kind == HALO_JINJA_LIST || (v.kind >= HALO_JINJA_TUPLE && v.kind <= HALO_JINJA_GENERATOR);
}

static inline bool halo_jinja_is_text(struct halo_jinja_value v, const char *text, size_t n)
{
    return v.kind == HALO_JINJA_STRING && v.string->n == n && __builtin_memcmp(v.string->bytes, text, n) == 0;
}

/* What an undefined value says when it is used. */
struct halo_jinja_hint {
    const char *owner; /* "dict object", "None"; NULL: a variable */
    const char *name;
    size_t n_name;
    bool is_element; /* an item of a sequence rather than an attribute */
    bool is_unsafe;  /* using it is a SECURITY outcome */
};

/* ---- characters ---- */

/* character.c: as Python's methods of str tell them. */
bool halo_jinja_is_alpha(uint32_t c);
bool halo_jinja_is_decimal(uint32_t c);
bool halo_jinja_is_digit(uint32_t c);
bool halo_jinja_is_numeric(uint32_t c);
bool halo_jinja_is_alnum(uint32_t c);
bool halo_jinja_is_lower(uint32_t c);
bool halo_jinja_is_upper(uint32_t c);
bool halo_jinja_is_title(uint32_t c);
bool halo_jinja_is_printable(uint32_t c);
bool halo_jinja_begins_name(uint32_t c);
bool halo_jinja_continues_name(uint32_t c);

/* unicode.c: UTF-8, white space and case mappings. */

bool halo_jinja_is_space(uint32_t c); /* as Python's str.isspace */
uint32_t halo_jinja_lower(uint32_t c);
uint32_t halo_jinja_upper(uint32_t c);
uint32_t halo_jinja_title(uint32_t c);
size_t halo_jinja_char_bytes(const char *bytes, size_t n);                     /* 1 ... 4, never more than n; n >= 1 */
uint32_t halo_jinja_char(const char *bytes, size_t n, size_t *ret_n);          /* n >= 1; a bad byte is itself */
uint32_t halo_jinja_char_before(const char *bytes, size_t end, size_t *ret_n); /* the last one; end >= 1 */
size_t halo_jinja_char_count(const char *bytes, size_t n);
size_t halo_jinja_char_offset(const char *bytes, size_t n, size_t chars); /* bytes of the first `chars` characters */
size_t halo_jinja_skip_space(const char *bytes, size_t n);                /* white space at the front, in bytes */
size_t halo_jinja_without_space(const char *bytes, size_t n); /* length without the white space at the end */

/* ---- tokens (lex.c) ---- */

enum halo_jinja_token_kind {
    HALO_JINJA_T_END,
    HALO_JINJA_T_DATA,
    HALO_JINJA_T_OUTPUT, /* {{ */
    HALO_JINJA_T_OUTPUT_END,
    HALO_JINJA_T_BLOCK, /* {% */
    HALO_JINJA_T_BLOCK_END,
    HALO_JINJA_T_NAME,
    HALO_JINJA_T_STRING, /* bytes are decoded */
    HALO_JINJA_T_INT,
    HALO_JINJA_T_FLOAT,
    HALO_JINJA_T_OP, /* bytes are the operator, 1 or 2 of them */
};

struct halo_jinja_token {
    uint8_t kind;
    uint32_t at; /* byte offset in the source */
    const char *bytes;
    size_t n;
    union {
        int64_t integer;
        double number;
    };
};

struct halo_jinja_source {
    const char *text;
    size_t n;
}; /* line breaks are \n */

int halo_jinja_lex(struct halo_arena *arena, const struct halo_jinja_source *source, struct halo_jinja_token **ret,
                   size_t *ret_n, struct halo_fault *fault);

/* Fills the fault with "template line L, column C: ..." and returns the errno of UNSUPPORTED. */
__attribute__((format(printf, 4, 5))) int halo_jinja_parse_fault(struct halo_fault *fault,
                                                                 const struct halo_jinja_source *source, size_t at,
                                                                 const char *format, ...);
void halo_jinja_place(const struct halo_jinja_source *source, size_t at, size_t *ret_line, size_t *ret_column);

/* ---- the tree (jinja_parse*.c) ---- */

enum halo_jinja_node_kind {
    /* expressions */
    HALO_JINJA_N_CONST,
    HALO_JINJA_N_NAME,    /* id */
    HALO_JINJA_N_LIST,    /* items */
    HALO_JINJA_N_TUPLE,   /* items */
    HALO_JINJA_N_DICT,    /* items: key, value, key, value ... */
    HALO_JINJA_N_ATTR,    /* a . value */
    HALO_JINJA_N_ITEM,    /* a [ b ] */
    HALO_JINJA_N_SLICE,   /* items: a, start, stop, step; the last three may be NULL */
    HALO_JINJA_N_CALL,    /* a ( items ) */
    HALO_JINJA_N_FILTER,  /* a | id ( items ); a NULL: what the block printed */
    HALO_JINJA_N_TEST,    /* a is id ( items ) */
    HALO_JINJA_N_ARG,     /* op: 0 positional, 'k' named value, '*' list, 'd' dict; a */
    HALO_JINJA_N_UNARY,   /* op: + - */
    HALO_JINJA_N_BINARY,  /* op: + - * / f (//) % p (**) */
    HALO_JINJA_N_CONCAT,  /* items */
    HALO_JINJA_N_COMPARE, /* a, items: N_ARG with op = < > l (<=) g (>=) ! i (in) n (not in) */
    HALO_JINJA_N_AND,
    HALO_JINJA_N_OR,
    HALO_JINJA_N_NOT,
    HALO_JINJA_N_COND, /* b if a else c; c may be NULL */
    /* statements */
    HALO_JINJA_N_BODY,         /* items */
    HALO_JINJA_N_OUTPUT,       /* a */
    HALO_JINJA_N_IF,           /* a, b, c: another statement or NULL */
    HALO_JINJA_N_FOR,          /* target a in b if c; items: body, else or NULL; flag: recursive;
                                * op: the body makes macros */
    HALO_JINJA_N_SET,          /* a = b */
    HALO_JINJA_N_SET_BLOCK,    /* a = body b through the filters c (may be NULL) */
    HALO_JINJA_N_MACRO,        /* id, value its name; items: N_PARAM; b body; op: HALO_JINJA_USES_* */
    HALO_JINJA_N_PARAM,        /* id; value its name; a default or NULL */
    HALO_JINJA_N_CALL_BLOCK,   /* a: the call; b: a macro without a name */
    HALO_JINJA_N_FILTER_BLOCK, /* a: filters; b body */
    HALO_JINJA_N_WITH,         /* items: target, value ...; b body */
    HALO_JINJA_N_SCOPE,        /* b body */
    HALO_JINJA_N_BREAK,
    HALO_JINJA_N_CONTINUE,
};

struct halo_jinja_node {
    uint8_t kind, op;
    bool flag;
    uint32_t at, n_items;
    uint32_t id; /* of a name; of a filter or test in its table, HALO_JINJA_NO_ID when there is none of that name */
    struct halo_jinja_value value; /* a constant, or the name that the node is about */
    struct halo_jinja_node *a, *b, *c, **items;
};

#define HALO_JINJA_NO_ID UINT32_MAX

struct halo_jinja {
    struct halo_arena arena;
    struct halo_jinja_source source;
    struct halo_jinja_node *body;
    struct halo_jinja_string *names; /* id -> name */
    size_t n_names, n_names_held;
    uint32_t id_loop, id_caller, id_varargs, id_kwargs;
};

/* The parser: tokens of one template, and where it is in them. */
struct halo_jinja_parser {
    struct halo_jinja *jinja;
    struct halo_fault *fault;
    const struct halo_jinja_token *tokens;
    size_t at;
    unsigned depth, loops;
    unsigned n_macros;              /* macros and call blocks so far: each keeps the scope that it is made in */
    unsigned uses;                  /* HALO_JINJA_USES_*: special names that the macro being parsed reads */
    struct halo_jinja_list unknown; /* nodes whose filter or test does not exist and that are not inside of an if */
};

#define HALO_JINJA_PARSE_DEPTH 200

enum { HALO_JINJA_USES_CALLER = 1, HALO_JINJA_USES_VARARGS = 2, HALO_JINJA_USES_KWARGS = 4 };

int halo_jinja_name_id(struct halo_jinja *jinja, const char *bytes, size_t n, uint32_t *ret); /* 0 or -ENOMEM */
ptrdiff_t halo_jinja_name_find(const struct halo_jinja *jinja, const char *bytes, size_t n);

int halo_jinja_parse(struct halo_jinja_parser *parser, struct halo_jinja_node **ret);

/* Of parse_tokens.c, for both parsers. */
const struct halo_jinja_token *halo_jinja_peek(const struct halo_jinja_parser *parser);
bool halo_jinja_is_op(const struct halo_jinja_token *token, const char *op);
bool halo_jinja_is_name(const struct halo_jinja_token *token, const char *name);
bool halo_jinja_take_op(struct halo_jinja_parser *parser, const char *op);
bool halo_jinja_take_name(struct halo_jinja_parser *parser, const char *name);
int halo_jinja_need_op(struct halo_jinja_parser *parser, const char *op);
__attribute__((format(printf, 2, 3))) int halo_jinja_expected(struct halo_jinja_parser *parser, const char *format,
                                                              ...);
int halo_jinja_node(struct halo_jinja_parser *parser, enum halo_jinja_node_kind kind, size_t at,
                    struct halo_jinja_node **ret);
int halo_jinja_node_add(struct halo_jinja_parser *parser, struct halo_jinja_node *node, struct halo_jinja_node *item);
int halo_jinja_node_name(struct halo_jinja_parser *parser, struct halo_jinja_node *node,
                         const struct halo_jinja_token *token); /* value and id */
int halo_jinja_parse_enter(struct halo_jinja_parser *parser);   /* one level deeper, or a fault */

/* Of parse_expr.c. */
enum halo_jinja_tuple { HALO_JINJA_TUPLE_CONDITIONAL = 1, HALO_JINJA_TUPLE_PARENS = 2, HALO_JINJA_TUPLE_FOR = 4 };
int halo_jinja_parse_expression(struct halo_jinja_parser *parser, bool conditional, struct halo_jinja_node **ret);
int halo_jinja_parse_tuple(struct halo_jinja_parser *parser, unsigned how, struct halo_jinja_node **ret);
int halo_jinja_parse_target(struct halo_jinja_parser *parser, bool attributes, bool tuple,
                            struct halo_jinja_node **ret);
int halo_jinja_parse_filters(struct halo_jinja_parser *parser, bool first_is_name, struct halo_jinja_node **node);
int halo_jinja_parse_postfix(struct halo_jinja_parser *parser, struct halo_jinja_node **node);
int halo_jinja_parse_primary(struct halo_jinja_parser *parser, struct halo_jinja_node **ret);
int halo_jinja_parse_args(struct halo_jinja_parser *parser, struct halo_jinja_node *call);

/* ---- a rendering ---- */

struct halo_jinja_scope { /* lexical; the root's variables are in the run */
    struct halo_jinja_scope *parent;
    struct halo_jinja_binding {
        uint32_t id;
        struct halo_jinja_value value;
    } * bindings;
    size_t n, n_held;
};

struct halo_jinja_text { /* output or a string under construction */
    char *bytes;
    size_t n, n_held;
    struct halo_jinja_mark *marks;
    size_t n_marks, n_marks_held;
};

struct halo_jinja_native;

/* What is built in, by name; ids are HALO_JINJA_NO_ID when there is none. For natives that call others by name (map,
 * select): they lie in these tables themselves. */
struct halo_jinja_builtins {
    uint32_t (*filter_id)(const char *name, size_t n);
    uint32_t (*test_id)(const char *name, size_t n);
    const struct halo_jinja_native *(*filter)(uint32_t id);
    const struct halo_jinja_native *(*test)(uint32_t id);
};
extern const struct halo_jinja_builtins halo_jinja_builtins;

struct halo_jinja_run {
    const struct halo_jinja *jinja;
    const struct halo_jinja_builtins *builtins;
    const struct tm *now;
    struct halo_arena arena;
    struct halo_jinja_limits limits;
    struct halo_fault *fault;
    struct halo_turn *turn;    /* may be NULL */
    uint64_t steps, next_look; /* done; when to look at the clock again */
    uint64_t end_ns;
    unsigned depth;
    const struct halo_jinja_node *node; /* where it is, for the fault */
    struct halo_jinja_value *roots;     /* by name id; MISSING: undefined */
    struct halo_jinja_text *out;
    struct halo_jinja_value printed; /* the input of a filter without an expression */
    char *tail;                      /* end of the string that was joined last, and the room behind it */
    size_t tail_room;
    struct halo_jinja_value *numbers; /* 0, 1, 2 ...: what ranges of step 1 are cut from */
    size_t n_numbers;
};

enum { HALO_JINJA_FLOW_BREAK = 100, HALO_JINJA_FLOW_CONTINUE };

struct halo_jinja_args {
    struct halo_jinja_value *items;
    size_t n;
    struct halo_jinja_entry *named; /* keys are strings */
    size_t n_named;
};

#define HALO_JINJA_MAX_PARAMS 6

/* A function, filter, test or method that is built in. */
struct halo_jinja_call {
    const struct halo_jinja_native *native;
    struct halo_jinja_value self;                       /* input of a filter or test, object of a method */
    struct halo_jinja_value arg[HALO_JINJA_MAX_PARAMS]; /* MISSING: not given */
    const struct halo_jinja_args *raw;
};

struct halo_jinja_native {
    const char *name;
    int (*call)(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret);
    const char *params[HALO_JINJA_MAX_PARAMS];
    uint8_t n_required;
    bool any; /* takes whatever it gets, from `raw` */
    int op;   /* what distinguishes natives that share a function */
};

struct halo_jinja_method {
    struct halo_jinja_value self;
    const struct halo_jinja_native *native;
};
struct halo_jinja_macro {
    const struct halo_jinja_node *node;
    struct halo_jinja_scope *scope;
};
struct halo_jinja_loop {
    const struct halo_jinja_node *node;
    struct halo_jinja_scope *scope; /* around the loop */
    struct halo_jinja_list *items;
    size_t at, depth;
    struct halo_jinja_value changed; /* what changed() was last asked about; MISSING: nothing yet */
};

/* limits.c: faults and limits. */
__attribute__((format(printf, 3, 4))) int halo_jinja_fail(struct halo_jinja_run *run, enum halo_jinja_outcome outcome,
                                                          const char *format, ...);
int halo_jinja_type_error(struct halo_jinja_run *run, const char *what, struct halo_jinja_value value);
int halo_jinja_undefined_error(struct halo_jinja_run *run, struct halo_jinja_value value);
int halo_jinja_steps(struct halo_jinja_run *run, uint64_t n);       /* LIMIT when they are used up, or the time is */
int halo_jinja_no_memory(struct halo_jinja_run *run, size_t bytes); /* after a NULL of the arena: LIMIT or -ENOMEM */
int halo_jinja_enter(struct halo_jinja_run *run);                   /* one level deeper; pair with run->depth-- */
int halo_jinja_alloc(struct halo_jinja_run *run, size_t n, size_t size, void *ret); /* ret: address of a pointer */
/* make.c: values of this run. */
int halo_jinja_new_list(struct halo_jinja_run *run, enum halo_jinja_kind kind, struct halo_jinja_value *ret);
int halo_jinja_new_dict(struct halo_jinja_run *run, struct halo_jinja_value *ret);
int halo_jinja_push(struct halo_jinja_run *run, struct halo_jinja_value list, struct halo_jinja_value item);
int halo_jinja_put(struct halo_jinja_run *run, struct halo_jinja_value dict, struct halo_jinja_value key,
                   struct halo_jinja_value value); /* TYPE_ERROR: not hashable */
int halo_jinja_undefined(struct halo_jinja_run *run, struct halo_jinja_hint hint, struct halo_jinja_value *ret);

/* string.c: strings with their marks. */
int halo_jinja_add(struct halo_jinja_run *run, struct halo_jinja_text *text, const char *bytes, size_t n,
                   bool is_template);
int halo_jinja_add_slice(struct halo_jinja_run *run, struct halo_jinja_text *text,
                         const struct halo_jinja_string *string, size_t from, size_t to);
int halo_jinja_add_string(struct halo_jinja_run *run, struct halo_jinja_text *text,
                          const struct halo_jinja_string *string);
int halo_jinja_finish_text(struct halo_jinja_run *run, const struct halo_jinja_text *text,
                           struct halo_jinja_value *ret);
int halo_jinja_own_string(struct halo_jinja_run *run, const char *bytes, size_t n, struct halo_jinja_value *ret);
int halo_jinja_cut(struct halo_jinja_run *run, const struct halo_jinja_string *string, size_t from, size_t to,
                   struct halo_jinja_value *ret); /* shares the bytes */
int halo_jinja_join_two(struct halo_jinja_run *run, const struct halo_jinja_string *a,
                        const struct halo_jinja_string *b, struct halo_jinja_value *ret);
bool halo_jinja_mark_at(const struct halo_jinja_string *string, size_t at);
bool halo_jinja_all_template(const struct halo_jinja_string *string);
struct halo_jinja_value halo_jinja_byte(const struct halo_jinja_string *bytes, size_t at); /* as a number */
int halo_jinja_compare_text(const struct halo_jinja_string *a, const struct halo_jinja_string *b);

/* print.c: values as text. */
int halo_jinja_to_string(struct halo_jinja_run *run, struct halo_jinja_value value,
                         struct halo_jinja_value *ret); /* str() */
int halo_jinja_print(struct halo_jinja_run *run, struct halo_jinja_text *text, struct halo_jinja_value value);
int halo_jinja_repr(struct halo_jinja_run *run, struct halo_jinja_text *text, struct halo_jinja_value value);
size_t halo_jinja_float_text(char *at, double number); /* as Python's repr; at most 32 bytes */

struct halo_jinja_json_style {
    struct halo_jinja_value indent;                                 /* NONE, INT or STRING */
    const struct halo_jinja_string *item_separator, *key_separator; /* NULL: the usual ones */
    bool ascii, sort_keys;
};
int halo_jinja_to_json(struct halo_jinja_run *run, struct halo_jinja_text *text, struct halo_jinja_value value,
                       const struct halo_jinja_json_style *style);

/* numbers.c */
int halo_jinja_read_integer(struct halo_jinja_run *run, const struct halo_jinja_string *string, unsigned base,
                            struct halo_jinja_value *ret, bool *ret_found);
bool halo_jinja_read_float(const struct halo_jinja_string *string, struct halo_jinja_value *ret); /* false: none */
int halo_jinja_truncate(struct halo_jinja_run *run, struct halo_jinja_value number,
                        struct halo_jinja_value *ret); /* of a finite float */
/* Of numbers one of which is BIG: -1, 0, 1; 2: the other one is a NaN. */
int halo_jinja_compare_big(struct halo_jinja_value a, struct halo_jinja_value b);

/* ops.c: operators. */
bool halo_jinja_truth(struct halo_jinja_value value);
int halo_jinja_equal(struct halo_jinja_run *run, struct halo_jinja_value a, struct halo_jinja_value b, bool *ret);
int halo_jinja_order(struct halo_jinja_run *run, struct halo_jinja_value a, struct halo_jinja_value b, const char *op,
                     int *ret); /* < 0, 0, > 0; 2: not comparable (a NaN) */
int halo_jinja_contains(struct halo_jinja_run *run, struct halo_jinja_value container, struct halo_jinja_value item,
                        bool *ret);
int halo_jinja_compare(struct halo_jinja_run *run, int op, struct halo_jinja_value a, struct halo_jinja_value b,
                       bool *ret);
int halo_jinja_binary(struct halo_jinja_run *run, int op, struct halo_jinja_value a, struct halo_jinja_value b,
                      struct halo_jinja_value *ret);
int halo_jinja_unary(struct halo_jinja_run *run, int op, struct halo_jinja_value a, struct halo_jinja_value *ret);
int halo_jinja_length(struct halo_jinja_run *run, struct halo_jinja_value value, size_t *ret);

/* access.c: attributes, items, slices. */
int halo_jinja_attribute(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_value name,
                         struct halo_jinja_value *ret);
int halo_jinja_item(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_value key,
                    struct halo_jinja_value *ret);
/* constant: all of it stands in the template; then what Python calls a TypeError is an undefined value. */
int halo_jinja_slice(struct halo_jinja_run *run, struct halo_jinja_value value, const struct halo_jinja_value bounds[3],
                     bool constant, struct halo_jinja_value *ret);
/* iterate.c: the items of anything that can be iterated; a generator is empty afterwards. The list must not be changed.
 */
int halo_jinja_iterate(struct halo_jinja_run *run, struct halo_jinja_value value, struct halo_jinja_list **ret);
/* loop.c */
int halo_jinja_loop_attribute(struct halo_jinja_run *run, struct halo_jinja_value loop, struct halo_jinja_value name,
                              struct halo_jinja_value *ret); /* MISSING: it has none of that name */

/* call.c: arguments and calls. */
int halo_jinja_eval_args(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                         struct halo_jinja_args *ret);
int halo_jinja_call_value(struct halo_jinja_run *run, struct halo_jinja_value callee,
                          const struct halo_jinja_args *args, const struct halo_jinja_value *caller,
                          struct halo_jinja_value *ret);
/* native.c */
int halo_jinja_call_native(struct halo_jinja_run *run, const struct halo_jinja_native *native,
                           struct halo_jinja_value self, const struct halo_jinja_args *args,
                           struct halo_jinja_value *ret);

/* eval.c, exec.c, for.c */
int halo_jinja_eval(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                    struct halo_jinja_value *ret);
int halo_jinja_exec(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node);
int halo_jinja_capture(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *body,
                       struct halo_jinja_value *ret); /* what a body prints */
int halo_jinja_assign(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *target,
                      struct halo_jinja_value value);
int halo_jinja_bind(struct halo_jinja_run *run, struct halo_jinja_scope *scope, uint32_t id,
                    struct halo_jinja_value value);
int halo_jinja_exec_for(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node);
int halo_jinja_loop_over(struct halo_jinja_run *run, struct halo_jinja_scope *scope, const struct halo_jinja_node *node,
                         struct halo_jinja_value iterable, size_t depth);

/* builtins.c: tables of what is built in: index by name, NO_ID when there is none. */
uint32_t halo_jinja_filter_id(const char *name, size_t n);
uint32_t halo_jinja_test_id(const char *name, size_t n);
const struct halo_jinja_native *halo_jinja_filter(uint32_t id);
const struct halo_jinja_native *halo_jinja_test(uint32_t id);
const struct halo_jinja_native *halo_jinja_global(const char *name, size_t n); /* NULL: none */
enum halo_jinja_method_state { HALO_JINJA_METHOD_NONE, HALO_JINJA_METHOD_UNSAFE, HALO_JINJA_METHOD_FOUND };
enum halo_jinja_method_state halo_jinja_method_find(struct halo_jinja_value self, const char *name, size_t n,
                                                    const struct halo_jinja_native **ret);
extern const struct halo_jinja_native halo_jinja_sequence_filters[], halo_jinja_text_filters[];
extern const size_t halo_jinja_n_sequence_filters, halo_jinja_n_text_filters;
extern const struct halo_jinja_native halo_jinja_tests[], halo_jinja_globals[];
extern const size_t halo_jinja_n_tests, halo_jinja_n_globals;
extern const struct halo_jinja_native halo_jinja_string_methods[], halo_jinja_character_methods[];
extern const size_t halo_jinja_n_string_methods, halo_jinja_n_character_methods;
extern const struct halo_jinja_native halo_jinja_bytes_methods[];
extern const size_t halo_jinja_n_bytes_methods;

int halo_jinja_encode(struct halo_jinja_run *run, const struct halo_jinja_call *call,
                      struct halo_jinja_value *ret); /* methods_bytes.c: the method of strings */

/* Text operations that filters and methods share (text_ops.c). */
enum halo_jinja_side { HALO_JINJA_LEFT = 1, HALO_JINJA_RIGHT = 2 };
int halo_jinja_strip(struct halo_jinja_run *run, const struct halo_jinja_string *string, struct halo_jinja_value chars,
                     unsigned sides, struct halo_jinja_value *ret);
int halo_jinja_replace(struct halo_jinja_run *run, const struct halo_jinja_string *string,
                       const struct halo_jinja_string *old, const struct halo_jinja_string *with, int64_t max,
                       struct halo_jinja_value *ret);
int halo_jinja_change_case(
    struct halo_jinja_run *run, const struct halo_jinja_string *string, int how,
    struct halo_jinja_value *ret); /* how: l u c(apitalize) t(itle, method) T(itle, filter) s(wap) */
int halo_jinja_format_percent(struct halo_jinja_run *run, const struct halo_jinja_string *format,
                              struct halo_jinja_value values, struct halo_jinja_value *ret);
int halo_jinja_split_lines(struct halo_jinja_run *run, const struct halo_jinja_string *string, bool keep_ends,
                           struct halo_jinja_value *ret);
int halo_jinja_join(struct halo_jinja_run *run, const struct halo_jinja_string *between,
                    const struct halo_jinja_list *items, bool only_strings, struct halo_jinja_value *ret);
/* There is a letter with case, and all of them have this one: l or u. */
bool halo_jinja_has_case(const struct halo_jinja_string *string, int which);
/* First occurrence at or after `from`, or -1. */
ptrdiff_t halo_jinja_find(const struct halo_jinja_string *string, size_t from, const struct halo_jinja_string *what);
/* For HTML, unless it is safe already; the result is safe. */
int halo_jinja_escape(struct halo_jinja_run *run, const struct halo_jinja_string *string, struct halo_jinja_value *ret);

#endif
