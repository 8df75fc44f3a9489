/* envelope.c: type and id of a line without decoding it, and the same line with another id.
 *
 * No memory, no state. Fails with: HALO_ENVELOPE_E_BAD, and what the writer says.
 */
#include <protocol/envelope.h>

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json_scan_priv.h"

/* The integer that a number's text is; false if it is none, or too large. */
static bool parse_i64(const char *text, size_t len, int64_t *ret_value)
{
    bool minus = len > 0 && text[0] == '-';
    uint64_t value = 0, most = (uint64_t)INT64_MAX + minus;

    if (len == (size_t)minus)
        return false;
    for (size_t i = minus; i < len; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');

        if (text[i] < '0' || text[i] > '9' || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = minus ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

struct collect {
    struct halo_envelope *env;
    struct halo_envelope_field *fields;
    size_t n_fields;
    bool twice; /* id or type appears twice: no way to know which one the other side takes */
    size_t twice_at;
};

static void on_id(struct halo_envelope *env, const char *text, struct halo_range value)
{
    const char *at = text + value.at;

    env->id = value;
    if (at[0] == '"') {
        size_t n = halo_scan_unescape(at + 1, value.len - 2, NULL, 0);

        if (n >= 1 && n <= HALO_LIMIT_ID_BYTES)
            env->id_kind = HALO_ID_STR;
    } else if (parse_i64(at, value.len, &env->id_num)) {
        env->id_kind = HALO_ID_INT;
    }
}

static void on_member(void *ud, const char *text, struct halo_range key, struct halo_range value)
{
    struct collect *c = ud;
    bool is_id = halo_scan_key_is(text, key, "id");

    for (size_t i = 0; i < c->n_fields; i++)
        if (halo_scan_key_is(text, key, c->fields[i].key))
            c->fields[i].value = value;
    if (!is_id && !halo_scan_key_is(text, key, "type"))
        return;
    if (is_id ? c->env->id.len > 0 : c->env->type.len > 0) {
        if (!c->twice)
            c->twice_at = key.at;
        c->twice = true;
    } else if (is_id) {
        on_id(c->env, text, value);
    } else if (text[value.at] == '"') {
        c->env->type = (struct halo_range){value.at + 1, value.len - 2};
    }
}

static int scan_fields(struct halo_scan *scan, struct halo_envelope *ret_env, struct halo_envelope_field *fields,
                       size_t n_fields)
{
    struct collect collect = {.env = ret_env, .fields = fields, .n_fields = n_fields};

    for (size_t i = 0; i < n_fields; i++)
        fields[i].value = (struct halo_range){0};
    *ret_env = (struct halo_envelope){0};
    scan->on_member = on_member;
    scan->ud = &collect;
    if (halo_scan_object(scan) != HALO_SCAN_OK) {
        ret_env->bad_at = scan->bad_at;
        return HALO_ENVELOPE_E_BAD;
    }
    ret_env->body = scan->body;
    if (collect.twice) {
        ret_env->bad_at = collect.twice_at;
        return HALO_ENVELOPE_E_BAD;
    }
    return 0;
}

/* ---- the id of a line that is refused ---- */

/* A member of the outer object, while it is looked for. */
struct skim {
    int depth;
    struct halo_range key;
    size_t value_at; /* 0: the colon has not come */
    struct halo_range id;
};

/* Whether a part of the line is one JSON value, but no object. */
static bool is_value(const char *text, struct halo_range part)
{
    struct halo_scan scan = {.text = text + part.at, .len = part.len, .limits = &halo_scan_answer, .allow_nul = true};

    return halo_scan_object(&scan) == HALO_SCAN_NOT_OBJECT;
}

/* Only a key that is JSON may be read: skimming looks at no escape. */
static bool is_id_key(const char *text, struct halo_range key)
{
    return key.len > 0 && is_value(text, (struct halo_range){key.at - 1, key.len + 2}) &&
           halo_scan_key_is(text, key, "id");
}

/* A ',' or the closing '}' at `at` ends a member. */
static void skim_member(struct skim *s, const char *text, size_t at)
{
    if (s->value_at > 0 && s->id.len == 0 && is_id_key(text, s->key))
        s->id = (struct halo_range){s->value_at, at - s->value_at};
    s->key = (struct halo_range){0};
    s->value_at = 0;
}

/* Past the string that begins at `at`; `len` when it has no end. */
static size_t skim_string(const char *text, size_t len, size_t at)
{
    for (at++; at < len && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at < len ? at + 1 : len;
}

static size_t count_space(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && (text[n] == ' ' || text[n] == '\t' || text[n] == '\r' || text[n] == '\n'))
        n++;
    return n;
}

/* A value that is an id, if it is JSON at all. */
static void take_skimmed(struct halo_envelope *env, const char *text, struct halo_range value)
{
    size_t space = count_space(text + value.at, value.len);

    value.at += space;
    value.len -= space;
    while (value.len > 0 && count_space(text + value.at + value.len - 1, 1) > 0)
        value.len--;
    if (is_value(text, value))
        on_id(env, text, value);
}

/* The id of a line in which the scan stopped at something that leaves quotes and brackets as they are. They alone are
 * followed; when they do not match up to the end, the line may be anything and has no id. */
static void skim_id(const char *text, size_t len, struct halo_envelope *env)
{
    struct skim s = {0};
    size_t at = 0;

    while (at < len) {
        char c = text[at];
        size_t start = at;

        at = c == '"' ? skim_string(text, len, at) : at + 1;
        if (c == '"' && s.depth == 1 && s.value_at == 0)
            s.key = (struct halo_range){start + 1, at - start - 2};
        else if (c == ':' && s.depth == 1 && s.value_at == 0)
            s.value_at = at;
        else if (s.depth == 1 && (c == ',' || c == '}'))
            skim_member(&s, text, start);
        s.depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (s.depth == 0 && count_space(text + at, len - at) == len - at)
            break;
        if (s.depth <= 0)
            return;
    }
    if (s.depth == 0 && s.id.len > 0)
        take_skimmed(env, text, s.id);
}

int halo_scan_envelope(struct halo_scan *scan, struct halo_envelope *ret_env)
{
    int r = scan_fields(scan, ret_env, NULL, 0);

    if (r != 0 && ret_env->id.len == 0 &&
        (scan->fault == HALO_SCAN_NUL || scan->fault == HALO_SCAN_UTF8 || scan->fault == HALO_SCAN_DEPTH ||
         scan->fault == HALO_SCAN_TOO_MANY))
        skim_id(scan->text, scan->len, ret_env);
    return r;
}

int halo_envelope_scan_fields(const char *line, size_t len, struct halo_envelope *ret_env,
                              struct halo_envelope_field *fields, size_t n_fields)
{
    struct halo_scan scan = {.text = line, .len = len, .limits = &halo_scan_answer, .allow_nul = true};

    return scan_fields(&scan, ret_env, fields, n_fields);
}

int halo_envelope_scan(const char *line, size_t len, struct halo_envelope *ret_env)
{
    return halo_envelope_scan_fields(line, len, ret_env, NULL, 0);
}

struct halo_id halo_envelope_id(const char *line, const struct halo_envelope *env, char buf[static HALO_ID_BUF_BYTES])
{
    struct halo_id id = {.kind = env->id_kind, .num = env->id_num};

    if (id.kind == HALO_ID_STR) {
        size_t n = halo_scan_unescape(line + env->id.at + 1, env->id.len - 2, buf, HALO_LIMIT_ID_BYTES);

        assert(n <= HALO_LIMIT_ID_BYTES);
        buf[n] = '\0';
        id.str = (struct halo_str){buf, n};
    }
    return id;
}

static void write_id(struct halo_json *w, const struct halo_id *id)
{
    if (id->kind == HALO_ID_INT)
        halo_json_i64(w, id->num);
    else if (id->kind == HALO_ID_STR)
        halo_json_str_n(w, id->str.at, id->str.len);
    else
        halo_json_null(w);
}

/* Puts bytes of the line into the open object. The writer takes them for the value of a key, so it adds no comma before
 * them and a comma before what comes next. */
static void pass_on(struct halo_json *w, const char *bytes, size_t len)
{
    if (len == 0)
        return;
    w->has_key = true;
    halo_json_raw(w, bytes, len);
}

void halo_envelope_rewrite_begin(struct halo_json *w, const char *line, const struct halo_envelope *env,
                                 const struct halo_id *id)
{
    const char *body = line + env->body.at;
    size_t before = env->id.len ? env->id.at - env->body.at : 0;
    size_t after = env->id.at + env->id.len - env->body.at;
    bool empty = true;

    for (size_t i = 0; i < env->body.len && empty; i++)
        empty = body[i] == ' ' || body[i] == '\t' || body[i] == '\r' || body[i] == '\n';

    halo_json_object_begin(w);
    if (env->id.len) {
        pass_on(w, body, before);
        w->has_key = true;
        write_id(w, id);
        pass_on(w, body + after, env->body.len - after);
    } else {
        halo_json_key(w, "id");
        write_id(w, id);
        if (!empty) {
            pass_on(w, ",", 1);
            pass_on(w, body, env->body.len);
        }
    }
}

int halo_envelope_rewrite_end(struct halo_json *w)
{
    halo_json_object_end(w);
    return halo_json_line_end(w);
}

int halo_envelope_rewrite(struct halo_json *w, const char *line, const struct halo_envelope *env,
                          const struct halo_id *id)
{
    struct halo_json_mark mark = halo_json_mark(w);
    int r = w->error;

    if (r < 0)
        return r;
    halo_envelope_rewrite_begin(w, line, env, id);
    r = halo_envelope_rewrite_end(w);
    if (r < 0)
        halo_json_rollback(w, mark);
    return r;
}

bool halo_envelope_i64(const char *line, struct halo_range value, int64_t *ret_value)
{
    return value.len > 0 && parse_i64(line + value.at, value.len, ret_value);
}

/* Every number is followed by at least the closing brace: strtod stops inside the line. */
bool halo_envelope_f64(const char *line, struct halo_range value, double *ret_value)
{
    if (value.len == 0 || (line[value.at] != '-' && (line[value.at] < '0' || line[value.at] > '9')))
        return false;
    *ret_value = strtod(line + value.at, NULL);
    return isfinite(*ret_value);
}

bool halo_envelope_str_bytes(const char *line, struct halo_range value, size_t *ret_bytes)
{
    if (value.len == 0 || line[value.at] != '"')
        return false;
    *ret_bytes = halo_scan_unescape(line + value.at + 1, value.len - 2, NULL, 0);
    return true;
}
