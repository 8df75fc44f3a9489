/* message_field.c: the kinds of fields that hold no messages, from the JSON tree into C.
 *
 * No thread of its own. What is read lives in the pool of the message.
 * Fails with: -ENOMEM, HALO_MSG_E_REFUSED (the refusal names the place, what was wanted and what was there).
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_read_priv.h"
#include "message_decode_priv.h"
#include "pool_priv.h"

static const char *type_name(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return halo_json_is_large(json) ? "an integer beyond 64 bits" : "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number with a fraction or exponent";
    case JSON_NULL: return "null";
    default: return "a boolean";
    }
}

int halo_decode_wrong_type(struct halo_decode *d, const struct halo_where *where, const char *wanted,
                           const json_t *json)
{
    return halo_decode_refuse(d, where, "expected %s, got %s", wanted, type_name(json));
}

/* Of at most 40 digits, which is where a person stops reading. */
static int refuse_large(struct halo_decode *d, const struct halo_where *where, const json_t *json, const char *range)
{
    struct halo_raw digits = halo_json_large(json);

    return halo_decode_refuse(d, where, "%.*s%s is out of range %s", (int)(digits.len <= 40 ? digits.len : 40),
                              digits.at, digits.len <= 40 ? "" : "...", range);
}

static int read_i64(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi, json_t *json,
                    int64_t *ret)
{
    int64_t value = json_integer_value(json);
    char range[48];

    if (halo_json_is_large(json)) {
        snprintf(range, sizeof range, "%" PRId64 " to %" PRId64, lo, hi);
        return refuse_large(d, where, json, range);
    }
    if (!json_is_integer(json))
        return halo_decode_wrong_type(d, where, "an integer", json);
    if (value < lo || value > hi)
        return halo_decode_refuse(d, where, "%" PRId64 " is out of range %" PRId64 " to %" PRId64, value, lo, hi);
    *ret = value;
    return 0;
}

static int read_f64(struct halo_decode *d, const struct halo_where *where, double lo, double hi, json_t *json,
                    double *ret)
{
    char text[3][HALO_JSON_NUMBER_BYTES];
    double value = halo_json_is_large(json) ? strtod(halo_json_large(json).at, NULL) : json_number_value(json);

    if (d->events && json_is_null(json)) {
        *ret = NAN; /* how the writer sends what JSON has no number for */
        return 0;
    }
    if (!json_is_number(json) && !halo_json_is_large(json))
        return halo_decode_wrong_type(d, where, "a number", json);
    if (value < lo || value > hi)
        return halo_decode_refuse(
            d, where, "%.*s is out of range %.*s to %.*s", (int)halo_json_format_f64(text[0], value), text[0],
            (int)halo_json_format_f64(text[1], lo), text[1], (int)halo_json_format_f64(text[2], hi), text[2]);
    *ret = value;
    return 0;
}

static int check_bytes(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi, size_t len)
{
    if (len < (size_t)lo)
        return halo_decode_refuse(d, where, "must not be empty");
    if (len > (size_t)hi)
        return halo_decode_refuse(d, where, "%zu bytes long, at most %" PRId64 " are allowed", len, hi);
    return 0;
}

static int copy_text(struct halo_decode *d, const char *text, size_t len, struct halo_str *ret)
{
    char *copy = halo_pool_alloc(d->pool, len + 1);

    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, len);
    copy[len] = '\0';
    *ret = (struct halo_str){copy, len};
    return 0;
}

int halo_decode_str(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi, json_t *json,
                    struct halo_str *ret)
{
    int r;

    if (!halo_json_is_text(json))
        return halo_decode_wrong_type(d, where, "a string", json);
    r = check_bytes(d, where, lo, hi, json_string_length(json));
    return r ? r : copy_text(d, json_string_value(json), json_string_length(json), ret);
}

int halo_decode_id(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi, json_t *json,
                   struct halo_id *ret_id)
{
    int r;

    if (json_is_integer(json)) {
        *ret_id = halo_id_of(json_integer_value(json));
        return 0;
    }
    if (halo_json_is_large(json))
        return refuse_large(d, where, json, "-9223372036854775808 to 9223372036854775807");
    if (!json_is_string(json))
        return halo_decode_wrong_type(d, where, "a string or an integer", json);
    r = halo_decode_str(d, where, lo, hi, json, &ret_id->str);
    if (r == 0)
        ret_id->kind = HALO_ID_STR;
    return r;
}

static int read_word(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                     int *ret)
{
    char words[200];
    size_t n = 0;

    if (!halo_json_is_text(json))
        return halo_decode_wrong_type(d, where, "a string", json);
    *ret = halo_words_find(f->words, json_string_value(json), json_string_length(json));
    if (*ret >= 0 || d->tolerant)
        return 0;
    for (int i = 0; i < f->words->n && n < sizeof words; i++) {
        if (f->words->names[i])
            n += (size_t)snprintf(words + n, sizeof words - n, "%s%s", n ? ", " : "", f->words->names[i]);
    }
    return halo_decode_refuse(d, where, "\"%.40s\" is not one of %s", json_string_value(json), words);
}

void *halo_decode_list_room(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, size_t n,
                            size_t item_bytes, int *ret_rc)
{
    void *room = NULL;

    if (n < (size_t)f->i.lo) {
        *ret_rc = halo_decode_refuse(d, where, "must not be empty");
    } else if (n > (size_t)f->i.hi) {
        *ret_rc = halo_decode_refuse(d, where, "%zu entries, at most %" PRId64 " are allowed", n, f->i.hi);
    } else {
        room = halo_pool_alloc(d->pool, n ? n * item_bytes : 1);
        *ret_rc = room ? 0 : -ENOMEM;
        if (room)
            memset(room, 0, n * item_bytes);
    }
    return room;
}

static int read_strs(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                     struct halo_str_list *ret)
{
    int r;
    struct halo_str *items = halo_decode_list_room(d, where, f, json_array_size(json), sizeof *items, &r);

    for (size_t i = 0; r == 0 && i < json_array_size(json); i++) {
        struct halo_where item = {.up = where, .index = i};

        r = halo_decode_str(d, &item, !d->events, f->i.dflt, json_array_get(json, i), &items[i]);
    }
    if (r == 0)
        *ret = (struct halo_str_list){items, json_array_size(json)};
    return r;
}

static int read_toks(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                     struct halo_token_list *ret)
{
    int r;
    int32_t *items = halo_decode_list_room(d, where, f, json_array_size(json), sizeof *items, &r);

    for (size_t i = 0; r == 0 && i < json_array_size(json); i++) {
        struct halo_where item = {.up = where, .index = i};
        int64_t id = 0;

        r = read_i64(d, &item, 0, INT32_MAX, json_array_get(json, i), &id);
        items[i] = (int32_t)id;
    }
    if (r == 0)
        *ret = (struct halo_token_list){items, json_array_size(json)};
    return r;
}

/* A token id as the key of an object: decimal digits, no sign, no leading zero. */
static int read_token_key(struct halo_decode *d, const struct halo_where *where, const char *key, int32_t *ret)
{
    int64_t value = 0;

    for (const char *p = key; *p; p++) {
        if (*p < '0' || *p > '9' || (*key == '0' && key[1]))
            return halo_decode_refuse(d, where, "the key is not a token id; ids are decimal integers from 0");
        value = value * 10 + (*p - '0');
        if (value > INT32_MAX)
            return halo_decode_refuse(d, where, "the key is out of range 0 to %d", INT32_MAX);
    }
    if (!*key)
        return halo_decode_refuse(d, where, "an empty key is not a token id");
    *ret = (int32_t)value;
    return 0;
}

static int read_bias(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                     struct halo_bias_list *ret)
{
    int r;
    struct halo_bias *items = halo_decode_list_room(d, where, f, json_object_size(json), sizeof *items, &r);
    size_t n = 0;

    for (void *it = json_object_iter(json); r == 0 && it; it = json_object_iter_next(json, it)) {
        struct halo_where item = {.up = where, .name = json_object_iter_key(it)};

        r = read_token_key(d, &item, item.name, &items[n].tok_id);
        if (r == 0)
            r = read_f64(d, &item, (double)-f->i.dflt, (double)f->i.dflt, json_object_iter_value(it), &items[n].bias);
        n++;
    }
    if (r == 0)
        *ret = (struct halo_bias_list){items, n};
    return r;
}

static int read_tops(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                     struct halo_top_list *ret)
{
    int r;
    struct halo_top *items = halo_decode_list_room(d, where, f, json_array_size(json), sizeof *items, &r);

    for (size_t i = 0; r == 0 && i < json_array_size(json); i++) {
        struct halo_where item = {.up = where, .index = i};
        json_t *pair = json_array_get(json, i);
        int64_t id = 0;

        if (json_array_size(pair) != 2)
            return halo_decode_refuse(d, &item, "expected a pair [token id, logprob], got %s", type_name(pair));
        r = read_i64(d, &item, 0, INT32_MAX, json_array_get(pair, 0), &id);
        items[i].tok_id = (int32_t)id;
        if (r == 0)
            r = read_f64(d, &item, HALO_LOGPROB_LEAST, HALO_LOGPROB_MOST, json_array_get(pair, 1), &items[i].logprob);
    }
    if (r == 0)
        *ret = (struct halo_top_list){items, json_array_size(json)};
    return r;
}

/* A number with a fraction or exponent stays one: to a template 2.0 is not 2. */
static void write_real(struct halo_json *w, double value)
{
    char text[HALO_JSON_NUMBER_BYTES + 2];
    size_t n = halo_json_format_f64(text, value);

    if (!memchr(text, '.', n) && !memchr(text, 'e', n)) {
        text[n++] = '.';
        text[n++] = '0';
    }
    halo_json_raw(w, text, n);
}

static void write_tree(struct halo_json *w, json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        halo_json_object_begin(w);
        for (void *it = json_object_iter(json); it; it = json_object_iter_next(json, it)) {
            halo_json_key(w, json_object_iter_key(it));
            write_tree(w, json_object_iter_value(it));
        }
        halo_json_object_end(w);
        break;
    case JSON_ARRAY:
        halo_json_array_begin(w);
        for (size_t i = 0; i < json_array_size(json); i++)
            write_tree(w, json_array_get(json, i));
        halo_json_array_end(w);
        break;
    case JSON_STRING:
        if (halo_json_is_large(json))
            halo_json_raw(w, halo_json_large(json).at, halo_json_large(json).len);
        else
            halo_json_str_n(w, json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER: halo_json_i64(w, json_integer_value(json)); break;
    case JSON_REAL: write_real(w, json_real_value(json)); break;
    case JSON_NULL: halo_json_null(w); break;
    default: halo_json_bool(w, json_is_true(json)); break;
    }
}

static int check_form(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json)
{
    if (f->form == HALO_FORM_object && !json_is_object(json))
        return halo_decode_wrong_type(d, where, "an object", json);
    if (f->form == HALO_FORM_call && !json_is_object(json) && !halo_json_is_text(json))
        return halo_decode_wrong_type(d, where, "an object or a string", json);
    if ((f->form == HALO_FORM_array || f->form == HALO_FORM_objects) && !json_is_array(json))
        return halo_decode_wrong_type(d, where, "an array", json);
    if (f->form != HALO_FORM_objects)
        return 0;
    if (json_array_size(json) > (size_t)f->i.hi)
        return halo_decode_refuse(d, where, "%zu entries, at most %" PRId64 " are allowed", json_array_size(json),
                                  f->i.hi);
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct halo_where item = {.up = where, .index = i};

        if (!json_is_object(json_array_get(json, i)))
            return halo_decode_wrong_type(d, &item, "an object", json_array_get(json, i));
    }
    return 0;
}

static int read_json(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                     struct halo_raw *ret)
{
    struct halo_json w;
    struct halo_str text;
    int r;

    r = check_form(d, where, f, json);
    if (r)
        return r;
    halo_json_init(&w);
    write_tree(&w, json);
    r = w.error ? w.error : copy_text(d, w.at, w.len, &text);
    halo_json_finish(&w);
    if (r == 0)
        *ret = (struct halo_raw){text.at, text.len};
    return r;
}

static int read_void(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json)
{
    bool empty = (json_is_array(json) && json_array_size(json) == 0) ||
                 (json_is_object(json) && json_object_size(json) == 0) || json_is_null(json);

    if (empty || (f->i.hi > 0 && json_is_integer(json)))
        return 0;
    return halo_decode_refuse(d, where, "expected null, got %s; %s", type_name(json), f->doc);
}

int halo_decode_field(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, json_t *json,
                      void *base)
{
    void *at = (char *)base + f->offset;

    switch (f->kind) {
    case HALO_KIND_STRS:
    case HALO_KIND_TOKS:
    case HALO_KIND_TOPS:
        if (!json_is_array(json))
            return halo_decode_wrong_type(d, where, "an array", json);
        break;
    case HALO_KIND_BIAS:
        if (!json_is_object(json))
            return halo_decode_wrong_type(d, where, "an object", json);
        break;
    default: break;
    }
    switch (f->kind) {
    case HALO_KIND_ID: return halo_decode_id(d, where, f->i.lo, f->i.hi, json, at);
    case HALO_KIND_BOOL:
        if (!json_is_boolean(json))
            return halo_decode_wrong_type(d, where, "true or false", json);
        *(bool *)at = json_is_true(json);
        return 0;
    case HALO_KIND_I64: return read_i64(d, where, f->i.lo, f->i.hi, json, at);
    case HALO_KIND_F64: return read_f64(d, where, f->f.lo, f->f.hi, json, at);
    case HALO_KIND_STR: return halo_decode_str(d, where, f->i.lo, f->i.hi, json, at);
    case HALO_KIND_WORD: return read_word(d, where, f, json, at);
    case HALO_KIND_STRS: return read_strs(d, where, f, json, at);
    case HALO_KIND_TOKS: return read_toks(d, where, f, json, at);
    case HALO_KIND_BIAS: return read_bias(d, where, f, json, at);
    case HALO_KIND_TOPS: return read_tops(d, where, f, json, at);
    case HALO_KIND_JSON: return read_json(d, where, f, json, at);
    case HALO_KIND_VOID: return read_void(d, where, f, json);
    case HALO_KIND_OBJ:
    case HALO_KIND_OBJS:
    case HALO_KIND_CONT: /* message_object.c */
    case HALO_KIND_END: break;
    }
    assert(!"a field of no kind");
    return -EINVAL;
}
