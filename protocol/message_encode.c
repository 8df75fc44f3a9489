/* message_encode.c: a request or an event to a line, by the field table.
 *
 * Runs where the message is made. No memory but the writer's, and that only when its buffer is full.
 *
 * The decoder accepts whatever the encoder makes of an event: a number out of range is clamped, a text or list that is
 * too long is cut. Callers must not rely on that: test builds abort on such an event (HALO_ENCODE_GUARD). A release
 * sends it, because one wrong field does less harm than an answer that cannot be read. A request is encoded as it is:
 * its reader refuses it by name.
 * Fails with: what the writer says; -EINVAL for a WORD that has no name or a JSON text that is none; -EMSGSIZE for an
 * event that is larger than an answer may be.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "json_scan_priv.h"
#include "message_table_priv.h"
#include <protocol/message.h>
#include <protocol/utf8.h>

#ifndef HALO_ENCODE_GUARD
#define HALO_ENCODE_GUARD 0
#endif

struct encoder {
    struct halo_json *w;
    bool fit; /* of events: clamp and cut what is out of range */
};

static void write_object(const struct encoder *e, const struct halo_shape *shape, const void *base);

static void write_id(const struct encoder *e, const struct halo_id *id)
{
    if (id->kind == HALO_ID_INT)
        halo_json_i64(e->w, id->num);
    else if (id->kind == HALO_ID_STR)
        halo_json_str_n(e->w, id->str.at, id->str.len);
    else
        halo_json_null(e->w);
}

static int64_t within(const struct encoder *e, int64_t value, int64_t lo, int64_t hi)
{
    return !e->fit ? value : value < lo ? lo : value > hi ? hi : value;
}

static size_t at_most(const struct encoder *e, size_t n, int64_t most)
{
    return !e->fit || n < (size_t)most ? n : (size_t)most;
}

static void write_f64(const struct encoder *e, enum halo_form form, double lo, double hi, double value)
{
    if (e->fit && isfinite(value))
        value = value < lo ? lo : value > hi ? hi : value;
    if (form == HALO_FORM_sig9)
        halo_json_sig9(e->w, value);
    else if (form == HALO_FORM_fix3)
        halo_json_fix3(e->w, value);
    else
        halo_json_f64(e->w, value);
}

static void write_word(const struct encoder *e, const struct halo_words *words, int word)
{
    if (word >= 0 && word < words->n && words->names[word])
        halo_json_str(e->w, words->names[word]);
    else if (!e->w->error)
        e->w->error = -EINVAL;
}

static void write_str(const struct encoder *e, int64_t most, const struct halo_str *str)
{
    halo_json_str_n(e->w, str->at, e->fit ? halo_utf8_fit(str->at, str->len, (size_t)most) : str->len);
}

static void write_strs(const struct encoder *e, const struct halo_field *f, const struct halo_str_list *list)
{
    halo_json_array_begin(e->w);
    for (size_t i = 0; i < at_most(e, list->n, f->i.hi); i++)
        write_str(e, f->i.dflt, &list->at[i]);
    halo_json_array_end(e->w);
}

static void write_toks(const struct encoder *e, const struct halo_field *f, const struct halo_token_list *list)
{
    halo_json_array_begin(e->w);
    for (size_t i = 0; i < at_most(e, list->n, f->i.hi); i++)
        halo_json_i64(e->w, within(e, list->at[i], 0, INT32_MAX));
    halo_json_array_end(e->w);
}

static void write_objs(const struct encoder *e, const struct halo_shape *part, struct halo_any_list list)
{
    halo_json_array_begin(e->w);
    for (size_t i = 0; i < list.n; i++)
        write_object(e, part, (const char *)list.at + i * part->bytes);
    halo_json_array_end(e->w);
}

static void write_bias(const struct encoder *e, const struct halo_bias_list *list)
{
    halo_json_object_begin(e->w);
    for (size_t i = 0; i < list->n; i++) {
        char key[HALO_JSON_NUMBER_BYTES];

        halo_json_key_n(e->w, key, halo_json_format_f64(key, list->at[i].tok_id));
        halo_json_f64(e->w, list->at[i].bias);
    }
    halo_json_object_end(e->w);
}

static void write_tops(const struct encoder *e, const struct halo_field *f, const struct halo_top_list *list)
{
    halo_json_array_begin(e->w);
    for (size_t i = 0; i < at_most(e, list->n, f->i.hi); i++) {
        halo_json_array_begin(e->w);
        halo_json_i64(e->w, within(e, list->at[i].tok_id, 0, INT32_MAX));
        write_f64(e, HALO_FORM_sig9, HALO_LOGPROB_LEAST, HALO_LOGPROB_MOST, list->at[i].logprob);
        halo_json_array_end(e->w);
    }
    halo_json_array_end(e->w);
}

static void write_content(const struct encoder *e, const struct halo_shape *shape, const struct halo_content *content)
{
    if (content->kind == HALO_CONTENT_TEXT) {
        halo_json_str_n(e->w, content->text.at, content->text.len);
    } else if (content->kind == HALO_CONTENT_PARTS) {
        halo_json_array_begin(e->w);
        for (size_t i = 0; i < content->parts.n; i++) {
            struct halo_part_content_part part = {HALO_WIRE_CONTENT_TEXT, content->parts.at[i]};

            write_object(e, shape, &part);
        }
        halo_json_array_end(e->w);
    } else {
        halo_json_null(e->w);
    }
}

static void write_value(const struct encoder *e, const struct halo_field *f, const void *at)
{
    switch (f->kind) {
    case HALO_KIND_ID: write_id(e, at); break;
    case HALO_KIND_BOOL: halo_json_bool(e->w, *(const bool *)at); break;
    case HALO_KIND_I64: halo_json_i64(e->w, within(e, *(const int64_t *)at, f->i.lo, f->i.hi)); break;
    case HALO_KIND_F64: write_f64(e, f->form, f->f.lo, f->f.hi, *(const double *)at); break;
    case HALO_KIND_STR: write_str(e, f->i.hi, at); break;
    case HALO_KIND_WORD: write_word(e, f->words, *(const int *)at); break;
    case HALO_KIND_STRS: write_strs(e, f, at); break;
    case HALO_KIND_TOKS: write_toks(e, f, at); break;
    case HALO_KIND_OBJ: write_object(e, f->part, at); break;
    case HALO_KIND_OBJS: {
        struct halo_any_list list = halo_any_list_of(at);

        list.n = at_most(e, list.n, f->i.hi);
        write_objs(e, f->part, list);
        break;
    }
    case HALO_KIND_BIAS: write_bias(e, at); break;
    case HALO_KIND_TOPS: write_tops(e, f, at); break;
    case HALO_KIND_CONT: write_content(e, f->part, at); break;
    case HALO_KIND_JSON: {
        const struct halo_raw *raw = at;

        halo_json_raw(e->w, raw->at, raw->len);
        break;
    }
    case HALO_KIND_VOID:
    case HALO_KIND_END: assert(!"a field without a value");
    }
}

/* Whether the field has its default value, so that it need not be sent. */
static bool is_default(const struct halo_field *f, const void *at)
{
    switch (f->kind) {
    case HALO_KIND_BOOL: return *(const bool *)at == (f->i.dflt != 0);
    case HALO_KIND_I64: return *(const int64_t *)at == f->i.dflt;
    case HALO_KIND_F64: return *(const double *)at == f->f.dflt;
    case HALO_KIND_WORD: return *(const int *)at == (int)f->i.dflt;
    case HALO_KIND_STR: return ((const struct halo_str *)at)->len == 0;
    case HALO_KIND_STRS: return ((const struct halo_str_list *)at)->n == 0;
    case HALO_KIND_TOKS: return ((const struct halo_token_list *)at)->n == 0;
    case HALO_KIND_OBJS: return halo_any_list_of(at).n == 0;
    case HALO_KIND_BIAS: return ((const struct halo_bias_list *)at)->n == 0;
    case HALO_KIND_TOPS: return ((const struct halo_top_list *)at)->n == 0;
    case HALO_KIND_CONT: return ((const struct halo_content *)at)->kind == HALO_CONTENT_ABSENT;
    case HALO_KIND_VOID: return true;
    default: return false;
    }
}

/* Whether every member of the part has its default value. */
static bool is_default_part(const struct halo_shape *part, const void *base)
{
    for (const struct halo_field *f = part->fields(); f->kind != HALO_KIND_END; f++) {
        if (f->presence == HALO_PRESENCE_DEF ? !is_default(f, (const char *)base + f->offset)
                                             : !f->has_offset || *((const bool *)base + f->has_offset))
            return false;
    }
    return true;
}

static void write_members(const struct encoder *e, const struct halo_shape *shape, const void *base)
{
    for (const struct halo_field *f = shape->fields(); f->kind != HALO_KIND_END; f++) {
        const void *at = (const char *)base + f->offset;
        bool has = !f->has_offset || *((const bool *)base + f->has_offset);

        if (f->presence == HALO_PRESENCE_DEF)
            has = f->kind == HALO_KIND_OBJ ? !is_default_part(f->part, at) : !is_default(f, at);
        if (!has && f->presence != HALO_PRESENCE_NUL)
            continue;
        halo_json_key(e->w, f->name);
        if (has)
            write_value(e, f, at);
        else
            halo_json_null(e->w);
    }
}

static void write_object(const struct encoder *e, const struct halo_shape *shape, const void *base)
{
    halo_json_object_begin(e->w);
    write_members(e, shape, base);
    halo_json_object_end(e->w);
}

static int encode(const struct encoder *e, const struct halo_shape *shape, const struct halo_id *id, const void *base)
{
    struct halo_json_mark mark = halo_json_mark(e->w);
    int r = e->w->error;

    if (r < 0)
        return r;
    assert(e->w->depth == 0);
    halo_json_object_begin(e->w);
    halo_json_key(e->w, "type");
    halo_json_str(e->w, shape->name);
    if (id) {
        halo_json_key(e->w, "id");
        write_id(e, id);
    }
    write_members(e, shape, base);
    halo_json_object_end(e->w);
    r = halo_json_line_end(e->w);
    if (r < 0)
        halo_json_rollback(e->w, mark);
    return r;
}

int halo_msg_encode(struct halo_json *w, const struct halo_msg *msg)
{
    const struct encoder e = {.w = w};

    assert((int)msg->type >= 0 && msg->type < HALO_N_MSGS);
    return encode(&e, &halo_msg_table[msg->type].shape, msg->id.kind == HALO_ID_NONE ? NULL : &msg->id, &msg->hello);
}

static bool holds_json(const struct halo_shape *shape)
{
    for (const struct halo_field *f = shape->fields(); f->kind != HALO_KIND_END; f++)
        if (f->kind == HALO_KIND_JSON)
            return true;
    return false;
}

/* Whether whoever reads it takes the line. A short one cannot hold too much of anything, except levels and faults of
 * JSON text that it was given. */
static int check_line(const struct halo_shape *shape, const char *line, size_t len)
{
    struct halo_scan scan = {.text = line, .len = len, .limits = &halo_scan_answer, .allow_nul = true};

    if (len > HALO_LIMIT_ANSWER_BYTES)
        return -EMSGSIZE;
    if (len <= HALO_LIMIT_ANSWER_CONTAINERS && !holds_json(shape))
        return 0;
    switch (halo_scan_object(&scan)) {
    case HALO_SCAN_OK: return 0;
    case HALO_SCAN_TOO_MANY:
    case HALO_SCAN_DEPTH: return -EMSGSIZE;
    default: return -EINVAL;
    }
}

static void guard(const struct halo_ev *ev)
{
    struct halo_refusal refusal;

    if (!HALO_ENCODE_GUARD || halo_ev_check(ev, &refusal) == 0)
        return;
    fprintf(stderr, "an event that its reader would refuse: %s\n", refusal.message);
    abort();
}

int halo_ev_encode(struct halo_json *w, const struct halo_ev *ev)
{
    const struct halo_shape *shape = &halo_ev_table[ev->type].shape;
    const struct encoder e = {.w = w, .fit = true};
    struct halo_json_mark mark = halo_json_mark(w);
    int r;

    assert((int)ev->type >= 0 && ev->type < HALO_N_EVS);
    guard(ev);
    w->most = w->len + HALO_LIMIT_ANSWER_BYTES + 1;
    r = encode(&e, shape, &ev->id, &ev->hello);
    w->most = 0;
    if (r == 0)
        r = check_line(shape, w->at + mark.len, w->len - mark.len - 1);
    if (r < 0 && r != w->error)
        halo_json_rollback(w, mark);
    return r;
}

int halo_refusal_encode(struct halo_json *w, const struct halo_refusal *refusal)
{
    struct halo_id id = halo_refusal_id(refusal);
    char detail[HALO_DETAIL_BYTES];
    struct halo_ev ev;

    halo_ev_init_error(&ev, &id, refusal->code, refusal->message);
    if (refusal->offset > 0 || refusal->code == HALO_ERROR_BAD_JSON)
        halo_ev_set_detail(&ev, HALO_NUMBERS({"offset", (int64_t)refusal->offset}), detail);
    return halo_ev_encode(w, &ev);
}

void halo_chat_write(struct halo_json *w, const struct halo_part_chat_list *messages)
{
    const struct encoder e = {.w = w};

    write_objs(&e, halo_part_table[HALO_PART_chat], halo_any_list_of(messages));
}

void halo_resume_write(struct halo_json *w, const struct halo_part_resume *resume)
{
    const struct encoder e = {.w = w};

    write_object(&e, halo_part_table[HALO_PART_resume], resume);
}
