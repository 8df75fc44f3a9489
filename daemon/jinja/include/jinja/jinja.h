/* jinja.h: chat templates, programs in the Jinja language that a model's author wrote.
 *
 * A template is compiled once and is immutable afterwards: any thread may render it. It reads nothing but the variables
 * that it is given, and it cannot change them. A rendering is bounded in steps, memory, output, depth and time. The
 * output is a list of spans marked template or content: every byte that came from a variable is content,
 * through concatenation, slicing, replacing, JSON and the rest, unless the variable was made with
 * halo_jinja_string_template(). docs/TEMPLATES.md lists the language.
 * The setting is that of Hugging Face transformers: trim_blocks, lstrip_blocks, loop controls, no escaping, an
 * immutable sandbox, `tojson` without HTML escapes.
 */
#ifndef HALO_JINJA_JINJA_H
#define HALO_JINJA_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/arena.h>
#include <base/fault.h>
#include <base/turn.h>

struct halo_jinja; /* a compiled template */
struct tm;

/* ---- values ---- */

enum halo_jinja_kind {
    HALO_JINJA_UNDEFINED,
    HALO_JINJA_NONE,
    HALO_JINJA_BOOL,
    HALO_JINJA_INT,
    HALO_JINJA_BIG, /* an integer past 64 bits: its digits; prints and compares, no arithmetic */
    HALO_JINJA_FLOAT,
    HALO_JINJA_STRING,
    HALO_JINJA_LIST,
    HALO_JINJA_DICT,
    /* From here on only templates make them. */
    HALO_JINJA_TUPLE,
    HALO_JINJA_RANGE,
    HALO_JINJA_KEYS, /* views of a dict, as lists */
    HALO_JINJA_VALUES,
    HALO_JINJA_ITEMS,
    HALO_JINJA_GENERATOR, /* a list that can be read once */
    HALO_JINJA_NAMESPACE,
    HALO_JINJA_MACRO,
    HALO_JINJA_FUNCTION,
    HALO_JINJA_METHOD,
    HALO_JINJA_LOOP,
    HALO_JINJA_BYTES,   /* a string that was encoded: its bytes and their marks */
    HALO_JINJA_MISSING, /* no value at all: an argument that was not given */
};

struct halo_jinja_string;
struct halo_jinja_list;
struct halo_jinja_dict;

struct halo_jinja_value {
    uint8_t kind;     /* enum halo_jinja_kind */
    bool is_template; /* of a scalar: it was not computed from a variable. Strings carry their own marks. */
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct halo_jinja_string *string; /* also BIG and BYTES */
        struct halo_jinja_list *list;
        struct halo_jinja_dict *dict;
        void *object;
    };
};

static inline struct halo_jinja_value halo_jinja_none(void)
{
    return (struct halo_jinja_value){.kind = HALO_JINJA_NONE};
}

static inline struct halo_jinja_value halo_jinja_bool(bool value)
{
    return (struct halo_jinja_value){.kind = HALO_JINJA_BOOL, .boolean = value};
}

static inline struct halo_jinja_value halo_jinja_int(int64_t value)
{
    return (struct halo_jinja_value){.kind = HALO_JINJA_INT, .integer = value};
}

static inline struct halo_jinja_value halo_jinja_float(double value)
{
    return (struct halo_jinja_value){.kind = HALO_JINJA_FLOAT, .number = value};
}

/* Builders. Everything lives in the arena; the bytes of strings and keys are borrowed and should be UTF-8.
 * 0 or -ENOMEM. A key that is there keeps its place and gets the new value. */
int halo_jinja_string(struct halo_arena *arena, struct halo_jinja_value *ret, const char *bytes, size_t n);
int halo_jinja_string_template(struct halo_arena *arena, struct halo_jinja_value *ret, const char *bytes, size_t n);
int halo_jinja_list(struct halo_arena *arena, struct halo_jinja_value *ret);
int halo_jinja_list_push(struct halo_arena *arena, struct halo_jinja_value list, struct halo_jinja_value item);
size_t halo_jinja_list_n(struct halo_jinja_value list);
int halo_jinja_dict(struct halo_arena *arena, struct halo_jinja_value *ret);
int halo_jinja_dict_put(struct halo_arena *arena, struct halo_jinja_value dict, const char *key, size_t n_key,
                        struct halo_jinja_value value);

/* The value of a key; false: there is none, or it is no dict. */
bool halo_jinja_dict_get(struct halo_jinja_value dict, const char *key, struct halo_jinja_value *ret);

/* The at-th entry: its key as a string, its value in `ret`. NULL: there are not so many, its key is no string or holds
 * a NUL, or no memory. */
const char *halo_jinja_dict_at(struct halo_arena *arena, struct halo_jinja_value dict, size_t at,
                               struct halo_jinja_value *ret);

/* Deeper JSON is refused. */
#define HALO_JINJA_JSON_MAX_DEPTH 64

/* One JSON text, strict (RFC 8259, UTF-8, no duplicate keys, no lone surrogates), copied into the arena; its strings
 * are content. Key order is kept, a number is an integer when it is written as one. BAD_REQUEST with the byte offset.
 */
int halo_jinja_json(struct halo_arena *arena, struct halo_jinja_value *ret, const char *text, size_t n,
                    struct halo_fault *fault);

/* ---- templates ---- */

/* Rendered text: template text may hold special tokens, content may not unless the request asks for it. */
struct halo_chat_span {
    const char *bytes;
    size_t n;
    bool is_template;
};
struct halo_chat_text {
    struct halo_chat_span *spans;
    size_t n;
};

#define HALO_JINJA_MAX_BYTES ((size_t)1 << 20)

/* UNSUPPORTED with line and column when the text does not parse, uses a statement that needs other files, or names a
 * filter or test that does not exist outside of an `if`. The text is copied. */
int halo_jinja_compile(struct halo_jinja **ret, const char *text, size_t n, struct halo_fault *fault);
void halo_jinja_destroy(struct halo_jinja *jinja);

/* What stopped a rendering: positive outcomes of halo_jinja_render. */
enum halo_jinja_outcome {
    HALO_JINJA_RAISED = 1, /* the template called raise_exception: the fault is its sentence */
    HALO_JINJA_TYPE_ERROR, /* what Python calls TypeError, ValueError, ZeroDivisionError, OverflowError */
    HALO_JINJA_IS_UNDEFINED,
    HALO_JINJA_SECURITY, /* the sandbox refuses it */
    HALO_JINJA_RUNTIME,  /* no such filter or test, assignment to what is no namespace */
    HALO_JINJA_LIMIT,    /* one of the limits below */
};

const char *halo_jinja_outcome_name(enum halo_jinja_outcome outcome); /* "raise_exception", "type_error", ... */

struct halo_jinja_limits {   /* 0: the default */
    uint64_t max_steps;      /* one for each node that runs and for each 16 bytes that are copied; 20 million */
    size_t max_memory_bytes; /* of all intermediate values; 256 MiB */
    size_t max_output_bytes; /* 32 MiB */
    unsigned max_depth;      /* of nested evaluation, macro calls included; 1200 */
    unsigned max_time_ms;    /* 2000 */
};

struct halo_jinja_var {
    const char *name;
    struct halo_jinja_value value;
};

struct halo_jinja_params {
    const struct halo_jinja_var *vars; /* a name that is not here is undefined; the last of equal names counts */
    size_t n_vars;
    const struct tm *now; /* for strftime_now; NULL: the local time */
    struct halo_jinja_limits limits;
    struct halo_arena *scratch; /* NULL, or an empty arena whose chunks hold intermediate values and are left to it */
    struct halo_turn *turn;     /* NULL, or asked every few thousand steps; time in its check is not counted */
};

/* The output's spans and bytes live in the arena, neighbours of one kind are joined. 0, -ENOMEM, what the turn's check
 * returned, or a positive outcome with BAD_REQUEST and a sentence (line and column in it, except for RAISED). */
int halo_jinja_render(const struct halo_jinja *jinja, const struct halo_jinja_params *params, struct halo_arena *arena,
                      struct halo_chat_text *ret, struct halo_fault *fault);

#endif
