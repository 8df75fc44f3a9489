/* message_check.c: whether the decoder would accept what the encoder makes of an event.
 *
 * Walks the field table as the encoder does and compares each value with the range that message_field.c enforces.
 * No memory, no state. Fails with: HALO_MSG_E_REFUSED and the field in the refusal.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json_scan_priv.h"
#include "message_decode_priv.h"
#include <protocol/utf8.h>

#define RAW_DEPTH                                                                                                      \
    (HALO_LIMIT_DEPTH + 2) /* what bounds the scan; how deep the whole line may be is the encoder's business */

static int check_object(struct halo_decode *d, const struct halo_where *where, const struct halo_shape *shape,
                        const void *base);

static int check_i64(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi, int64_t value)
{
    if (value >= lo && value <= hi)
        return 0;
    return halo_decode_refuse(d, where, "%" PRId64 " is out of range %" PRId64 " to %" PRId64, value, lo, hi);
}

/* What JSON has no number for travels as null and is read as NAN. */
static int check_f64(struct halo_decode *d, const struct halo_where *where, double lo, double hi, double value)
{
    if (!isfinite(value) || (value >= lo && value <= hi))
        return 0;
    return halo_decode_refuse(d, where, "%g is out of range %g to %g", value, lo, hi);
}

static int check_str(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi,
                     const struct halo_str *str)
{
    size_t n = halo_utf8_bytes(str->at, str->len);

    if (n >= (size_t)lo && n <= (size_t)hi)
        return 0;
    return halo_decode_refuse(d, where, "%zu bytes long, %" PRId64 " to %" PRId64 " are allowed", n, lo, hi);
}

static int check_count(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f, size_t n)
{
    if (n >= (size_t)f->i.lo && n <= (size_t)f->i.hi)
        return 0;
    return halo_decode_refuse(d, where, "%zu entries, %" PRId64 " to %" PRId64 " are allowed", n, f->i.lo, f->i.hi);
}

static int check_id(struct halo_decode *d, const struct halo_where *where, int64_t lo, int64_t hi,
                    const struct halo_id *id)
{
    if (id->kind == HALO_ID_NONE)
        return halo_decode_refuse(d, where, "neither a string nor an integer");
    return id->kind == HALO_ID_STR ? check_str(d, where, lo, hi, &id->str) : 0;
}

static int check_strs(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f,
                      const struct halo_str_list *list)
{
    int r = check_count(d, where, f, list->n);

    for (size_t i = 0; r == 0 && i < list->n; i++) {
        struct halo_where item = {.up = where, .index = i};

        r = check_str(d, &item, 0, f->i.dflt, &list->at[i]);
    }
    return r;
}

static int check_toks(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f,
                      const struct halo_token_list *list)
{
    int r = check_count(d, where, f, list->n);

    for (size_t i = 0; r == 0 && i < list->n; i++) {
        struct halo_where item = {.up = where, .index = i};

        r = check_i64(d, &item, 0, INT32_MAX, list->at[i]);
    }
    return r;
}

static int check_tops(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f,
                      const struct halo_top_list *list)
{
    int r = check_count(d, where, f, list->n);

    for (size_t i = 0; r == 0 && i < list->n; i++) {
        struct halo_where item = {.up = where, .index = i};

        r = check_i64(d, &item, 0, INT32_MAX, list->at[i].tok_id);
        if (r == 0)
            r = check_f64(d, &item, HALO_LOGPROB_LEAST, HALO_LOGPROB_MOST, list->at[i].logprob);
    }
    return r;
}

static int check_objs(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f,
                      struct halo_any_list list)
{
    int r = check_count(d, where, f, list.n);

    for (size_t i = 0; r == 0 && i < list.n; i++) {
        struct halo_where item = {.up = where, .index = i};

        r = check_object(d, &item, f->part, (const char *)list.at + i * f->part->bytes);
    }
    return r;
}

/* Text that a program made, so what can be wrong with it is a defect there. */
static int check_json(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f,
                      const struct halo_raw *raw)
{
    static const struct halo_scan_limits limits = {
        .depth = RAW_DEPTH, .n_values = SIZE_MAX, .n_containers = SIZE_MAX, .n_keys = SIZE_MAX};
    struct halo_scan scan = {.text = raw->at, .len = raw->len, .limits = &limits, .allow_nul = true};
    enum halo_scan_fault fault = halo_scan_object(&scan);
    bool is_array = raw->len > 0 && raw->at[0] == '[';

    if (fault == HALO_SCAN_OK && (f->form == HALO_FORM_object || f->form == HALO_FORM_any))
        return 0;
    if (fault == HALO_SCAN_NOT_OBJECT && (f->form == HALO_FORM_any || (f->form == HALO_FORM_array && is_array)))
        return 0;
    return halo_decode_refuse(d, where, "not JSON of the right kind, fault %d at byte %zu", (int)fault, scan.bad_at);
}

static int check_value(struct halo_decode *d, const struct halo_where *where, const struct halo_field *f,
                       const void *at)
{
    switch (f->kind) {
    case HALO_KIND_ID: return check_id(d, where, f->i.lo, f->i.hi, at);
    case HALO_KIND_I64: return check_i64(d, where, f->i.lo, f->i.hi, *(const int64_t *)at);
    case HALO_KIND_F64: return check_f64(d, where, f->f.lo, f->f.hi, *(const double *)at);
    case HALO_KIND_STR: return check_str(d, where, f->i.lo, f->i.hi, at);
    case HALO_KIND_STRS: return check_strs(d, where, f, at);
    case HALO_KIND_TOKS: return check_toks(d, where, f, at);
    case HALO_KIND_OBJ: return check_object(d, where, f->part, at);
    case HALO_KIND_OBJS: return check_objs(d, where, f, halo_any_list_of(at));
    case HALO_KIND_TOPS: return check_tops(d, where, f, at);
    case HALO_KIND_JSON: return check_json(d, where, f, at);
    case HALO_KIND_BOOL:
    case HALO_KIND_WORD: /* without a name it is refused by the encoder itself */
    case HALO_KIND_BIAS:
    case HALO_KIND_CONT:
    case HALO_KIND_VOID: /* of requests */
    case HALO_KIND_END: break;
    }
    return 0;
}

static int check_object(struct halo_decode *d, const struct halo_where *where, const struct halo_shape *shape,
                        const void *base)
{
    int r = 0;

    for (const struct halo_field *f = shape->fields(); r == 0 && f->kind != HALO_KIND_END; f++) {
        struct halo_where at = {.up = where, .name = f->name};

        if (!f->has_offset || *((const bool *)base + f->has_offset))
            r = check_value(d, &at, f, (const char *)base + f->offset);
    }
    return r;
}

/* What an error says in numbers, it says to programs too. */
static int check_error(struct halo_decode *d, const struct halo_where *where, const struct halo_ev_error *error)
{
    const char *names = halo_error_numbers(error->code);
    char key[64];

    for (const char *at = names; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        int n_key = snprintf(key, sizeof key, "\"%.*s\":", (int)n, at);

        if (error->has_detail && memmem(error->detail.at, error->detail.len, key, (size_t)n_key))
            return 0;
        at += n;
    }
    return *names
               ? halo_decode_refuse(d, where, "an error %s has %s in its detail", halo_error_name(error->code), names)
               : 0;
}

int halo_ev_check(const struct halo_ev *ev, struct halo_refusal *ret_refusal)
{
    const struct halo_shape *shape = &halo_ev_table[ev->type].shape;
    struct halo_decode d = {.refusal = ret_refusal, .events = true};
    struct halo_where top = {.name = shape->name}, id = {.up = &top, .name = "id"};
    int r = ev->id.kind == HALO_ID_STR ? check_id(&d, &id, 1, HALO_LIMIT_ID_BYTES, &ev->id) : 0;

    if (r == 0)
        r = check_object(&d, &top, shape, &ev->hello);
    return r == 0 && ev->type == HALO_EV_ERROR ? check_error(&d, &top, &ev->error) : r;
}
