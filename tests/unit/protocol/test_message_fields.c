/* test_message_fields.c: every field of every message, by the message table itself: round trips, wrong types, missing
 * fields, ranges.
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sample.h"

/* ---- the table as the tests see it ---- */

enum kind { ID, BOOL, I64, F64, STR, WORD, STRS, TOKS, OBJ, OBJS, BIAS, TOPS, CONT, JSON, VOID };
enum presence { REQ, DEF, OPT, NUL, LINK };

struct field {
    const char *message, *name, *ref;
    int type; /* of the message */
    enum kind kind;
    enum presence presence;
    double lo, hi, extra;
    int64_t lo_i, hi_i;
};

#define LIMIT_F64(x) 0
#define LIMIT_I64(x) (x)
#define LIMIT_ID(x) (x)
#define LIMIT_BOOL(x) (x)
#define LIMIT_STR(x) (x)
#define LIMIT_WORD(x) (x)
#define LIMIT_STRS(x) (x)
#define LIMIT_TOKS(x) (x)
#define LIMIT_OBJ(x) (x)
#define LIMIT_OBJS(x) (x)
#define LIMIT_BIAS(x) (x)
#define LIMIT_TOPS(x) (x)
#define LIMIT_CONT(x) (x)
#define LIMIT_JSON(x) (x)
#define LIMIT_VOID(x) (x)
/* Macros that make a part of a table or a type. */
/* clang-format off */
#define ROW(knd, prs, nam, lo, hi, dflt, ref)                                                                         \
    {NULL, #nam, #ref, MESSAGE_TYPE, knd, prs, (double)(lo), (double)(hi), (double)(dflt), LIMIT_##knd(lo),   \
     LIMIT_##knd(hi)},

/* One function for each message, as the message's name is known only there. */
#define BEGIN(fn, text, number)                                                                                       \
    static const struct field *fn(size_t *ret_n)                                                                      \
    {                                                                                                                 \
        enum { MESSAGE_TYPE = number };                                                                               \
        static const char *const name_of = text;                                                                      \
        static struct field rows[] = {
#define END                                                                                                           \
            {0},                                                                                                      \
        };                                                                                                            \
        *ret_n = sizeof rows / sizeof *rows - 1;                                                                      \
        for (size_t i = 0; i < *ret_n; i++)                                                                           \
            rows[i].message = name_of;                                                                                \
        return rows;                                                                                                  \
    }
#define REQUEST(id_, name, wire, from, id, reply, doc) BEGIN(fields_of_msg_##name, wire, HALO_MSG_##id_)
#define REQUEST_END(name) END
#define F(knd, prs, nam, lo, hi, dflt, ref, doc) ROW(knd, prs, nam, lo, hi, dflt, ref)
#define EVENT(id_, name, wire, terminal, doc) BEGIN(fields_of_ev_##name, wire, HALO_EV_##id_)
#define EVENT_END(name) END
#define PART(name, nulls) BEGIN(fields_of_part_##name, #name, 0)
#define PART_END(name) END
#include <protocol/message.def>

static const struct field *msg_fields(int type, size_t *ret_n)
{
    switch (type) {
#define REQUEST(id_, name, wire, from, id, reply, doc) case HALO_MSG_##id_: return fields_of_msg_##name(ret_n);
#include <protocol/message.def>
    }
    return NULL;
}

static const struct field *ev_fields(int type, size_t *ret_n)
{
    switch (type) {
#define EVENT(id_, name, wire, terminal, doc) case HALO_EV_##id_: return fields_of_ev_##name(ret_n);
#include <protocol/message.def>
    }
    return NULL;
}

static const struct field *part_fields(const char *part, size_t *ret_n)
{
#define PART(name, nulls)                                                                                             \
    if (strcmp(part, #name) == 0)                                                                                     \
        return fields_of_part_##name(ret_n);
#include <protocol/message.def>
    return NULL;
}
/* clang-format on */

/* ---- helpers ---- */

static json_t *msg_json(int type, int level, int choice)
{
    struct halo_json w;
    struct halo_msg msg;
    json_t *json;

    halo_json_init(&w);
    sample_msg(&msg, (enum halo_msg_type)type, level, choice);
    assert_int_equal(halo_msg_encode(&w, &msg), 0);
    json = json_loadb(w.at, w.len, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(json);
    halo_json_finish(&w);
    return json;
}

static json_t *ev_json(int type, int level)
{
    struct halo_json w;
    struct halo_ev ev;
    json_t *json;

    halo_json_init(&w);
    sample_ev(&ev, (enum halo_ev_type)type, level);
    assert_int_equal(halo_ev_encode(&w, &ev), 0);
    json = json_loadb(w.at, w.len, JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    halo_json_finish(&w);
    return json;
}

static int try_msg(json_t *json, struct halo_refusal *refusal)
{
    char *line = json_dumps(json, JSON_COMPACT);
    struct halo_msg msg;
    int r;

    assert_non_null(line);
    r = halo_msg_decode(&msg, line, strlen(line), HALO_ROLE_LINK, refusal);
    halo_msg_finish(&msg);
    free(line);
    return r;
}

static int try_ev(json_t *json, struct halo_refusal *refusal)
{
    char *line = json_dumps(json, JSON_COMPACT);
    struct halo_ev ev;
    int r;

    assert_non_null(line);
    r = halo_ev_decode(&ev, line, strlen(line), 0, refusal);
    halo_ev_finish(&ev);
    free(line);
    return r;
}

static void expect_bad_request(const struct halo_refusal *refusal, const char *place, const char *words)
{
    if (refusal->code != HALO_ERROR_BAD_REQUEST || strncmp(refusal->message, place, strlen(place)) != 0 ||
        !strstr(refusal->message, words))
        fail_msg("wanted \"%s... %s\", got %s: \"%s\"", place, words, halo_error_name(refusal->code), refusal->message);
}

/* ---- round trips ---- */

static void every_request_goes_round(void **state)
{
    int n = 0;

    for (int type = 0; type < HALO_N_MSGS; type++) {
        for (int level = 0; level < N_SAMPLE_LEVELS; level++) {
            for (int choice = 0; choice < sample_n_choices((enum halo_msg_type)type); choice++, n++) {
                struct halo_refusal refusal;
                struct halo_json a, b;
                struct halo_msg msg, copy;
                int r;

                halo_json_init(&a);
                halo_json_init(&b);
                sample_msg(&msg, (enum halo_msg_type)type, level, choice);
                assert_int_equal(halo_msg_encode(&a, &msg), 0);
                r = halo_msg_decode(&copy, a.at, a.len - 1, HALO_ROLE_LINK, &refusal);
                if (r != 0)
                    fail_msg("%s at level %d: %s", halo_msg_type_name(msg.type), level, refusal.message);
                assert_int_equal(copy.type, type);
                assert_int_equal(halo_msg_encode(&b, &copy), 0);
                assert_int_equal(a.len, b.len);
                assert_memory_equal(a.at, b.at, a.len);
                halo_msg_finish(&copy);
                halo_json_finish(&a);
                halo_json_finish(&b);
            }
        }
    }
    assert_true(n >= HALO_N_MSGS * N_SAMPLE_LEVELS);
}

static void every_event_goes_round(void **state)
{
    for (int type = 0; type < HALO_N_EVS; type++) {
        for (int level = 0; level < N_SAMPLE_LEVELS; level++) {
            struct halo_refusal refusal;
            struct halo_json a, b;
            struct halo_ev ev, copy;
            int r;

            halo_json_init(&a);
            halo_json_init(&b);
            sample_ev(&ev, (enum halo_ev_type)type, level);
            assert_int_equal(halo_ev_encode(&a, &ev), 0);
            r = halo_ev_decode(&copy, a.at, a.len - 1, HALO_EV_STRICT, &refusal);
            if (r != 0)
                fail_msg("%s at level %d: %s", halo_ev_type_name(ev.type), level, refusal.message);
            assert_int_equal(copy.type, type);
            assert_true(halo_id_equal(&copy.id, &ev.id));
            assert_int_equal(halo_ev_encode(&b, &copy), 0);
            assert_int_equal(a.len, b.len);
            assert_memory_equal(a.at, b.at, a.len);
            halo_ev_finish(&copy);
            halo_json_finish(&a);
            halo_json_finish(&b);
        }
    }
}

/* ---- wrong types ---- */

static const char *const typed[] = {"{}", "[]", "\"text\"", "1", "1.5", "true", "null"};
enum { T_OBJECT, T_ARRAY, T_STRING, T_INT, T_REAL, T_BOOL, T_NULL, N_TYPED };

static bool takes(const struct field *f, int t)
{
    switch (f->kind) {
    case ID: return t == T_INT || t == T_STRING;
    case BOOL: return t == T_BOOL;
    case I64: return t == T_INT;
    case F64: return t == T_INT || t == T_REAL;
    case STR:
    case WORD: return t == T_STRING;
    case STRS:
    case TOKS:
    case OBJS:
    case TOPS: return t == T_ARRAY;
    case OBJ:
    case BIAS: return t == T_OBJECT;
    case VOID: return t == T_NULL || t == T_ARRAY || t == T_OBJECT || (f->hi_i > 0 && t == T_INT);
    case CONT: return t == T_STRING || t == T_ARRAY || t == T_NULL;
    case JSON:
        if (strcmp(f->ref, "objects") == 0 || strcmp(f->ref, "array") == 0)
            return t == T_ARRAY;
        return strcmp(f->ref, "any") == 0 || t == T_OBJECT || (strcmp(f->ref, "call") == 0 && t == T_STRING);
    }
    return false;
}

/* Puts each JSON type into the field of `object`, and wants a refusal that names `place` for each that does not fit. */
static int wrong_types(json_t *root, json_t *object, const struct field *f, const char *place,
                       int (*try)(json_t *, struct halo_refusal *), bool null_fits)
{
    json_t *kept = json_incref(json_object_get(object, f->name));
    int n = 0;

    for (int t = 0; t < N_TYPED; t++) {
        struct halo_refusal refusal;

        if (takes(f, t) || (t == T_NULL && null_fits))
            continue;
        json_object_set_new(object, f->name, json_loads(typed[t], JSON_DECODE_ANY, NULL));
        assert_int_equal(try(root, &refusal), HALO_MSG_E_REFUSED);
        expect_bad_request(&refusal, place, "expected");
        n++;
    }
    if (kept)
        json_object_set_new(object, f->name, kept);
    else
        json_object_del(object, f->name);
    return n;
}

static int wrong_types_inside(json_t *root, const struct field *outer, const char *message,
                              int (*try)(json_t *, struct halo_refusal *), bool events)
{
    json_t *object = json_object_get(root, outer->name);
    const struct field *fields;
    char place[200];
    size_t n_fields = 0;
    int n = 0;

    if (outer->kind == OBJS)
        object = json_array_get(object, 0);
    if ((outer->kind != OBJ && outer->kind != OBJS) || !object)
        return 0;
    fields = part_fields(outer->ref, &n_fields);
    for (size_t i = 0; i < n_fields; i++) {
        snprintf(place, sizeof place, "%s.%s%s.%s: ", message, outer->name, outer->kind == OBJS ? "[0]" : "",
                 fields[i].name);
        bool lax =
            fields[i].presence != REQ && (strcmp(outer->ref, "chat") == 0 || strcmp(outer->ref, "tool_call") == 0);

        n += wrong_types(root, object, &fields[i], place, try, lax || (events && fields[i].kind == F64));
        if (fields[i].presence == REQ) {
            json_t *kept = json_incref(json_object_get(object, fields[i].name));
            struct halo_refusal refusal;

            json_object_del(object, fields[i].name);
            assert_int_equal(try(root, &refusal), HALO_MSG_E_REFUSED);
            expect_bad_request(&refusal, message, "is required");
            json_object_set_new(object, fields[i].name, kept);
            n++;
        }
    }
    return n;
}

static void wrong_types_are_named(void **state)
{
    char place[200];
    int n = 0;

    for (int type = 0; type < HALO_N_MSGS; type++) {
        for (int choice = 0; choice < sample_n_choices((enum halo_msg_type)type); choice++) {
            json_t *root = msg_json(type, 1, choice);
            size_t n_fields;
            const struct field *fields = msg_fields(type, &n_fields);

            for (size_t i = 0; i < n_fields; i++) {
                snprintf(place, sizeof place, "%s.%s: ", fields[i].message, fields[i].name);
                n += wrong_types(root, root, &fields[i], place, try_msg, false);
                n += wrong_types_inside(root, &fields[i], fields[i].message, try_msg, false);
            }
            json_decref(root);
        }
    }
    for (int type = 0; type < HALO_N_EVS; type++) {
        json_t *root = ev_json(type, 1);
        size_t n_fields;
        const struct field *fields = ev_fields(type, &n_fields);

        for (size_t i = 0; i < n_fields; i++) {
            snprintf(place, sizeof place, "%s.%s: ", fields[i].message, fields[i].name);
            n += wrong_types(root, root, &fields[i], place, try_ev, fields[i].kind == F64 || fields[i].presence == NUL);
            n += wrong_types_inside(root, &fields[i], fields[i].message, try_ev, true);
        }
        json_decref(root);
    }
    assert_true(n > 1000);
}

/* ---- presence ---- */

static void required_fields_are_missed(void **state)
{
    int n = 0;

    for (int type = 0; type < HALO_N_MSGS + HALO_N_EVS; type++) {
        bool event = type >= HALO_N_MSGS;
        json_t *root = event ? ev_json(type - HALO_N_MSGS, 1) : msg_json(type, 1, 0);
        size_t n_fields;
        const struct field *fields = event ? ev_fields(type - HALO_N_MSGS, &n_fields) : msg_fields(type, &n_fields);

        for (size_t i = 0; i < n_fields; i++) {
            json_t *kept = json_incref(json_object_get(root, fields[i].name));
            struct halo_refusal refusal;
            char words[100];

            if (fields[i].presence == REQ) {
                json_object_del(root, fields[i].name);
                assert_int_equal((event ? try_ev : try_msg)(root, &refusal), HALO_MSG_E_REFUSED);
                snprintf(words, sizeof words, "field \"%s\" is required", fields[i].name);
                expect_bad_request(&refusal, fields[i].message, words);
                json_object_set(root, fields[i].name, kept);
                n++;
            }
            json_decref(kept);
        }
        json_decref(root);
    }
    assert_true(n >= 90);
}

/* A name that is none is refused everywhere in requests and in strict events, and skipped in tolerant events. */
static void unknown_fields(void **state)
{
    for (int type = 0; type < HALO_N_MSGS; type++) {
        json_t *root = msg_json(type, 1, 0);
        struct halo_refusal refusal;

        json_object_set_new(root, "surprise", json_true());
        assert_int_equal(try_msg(root, &refusal), HALO_MSG_E_REFUSED);
        expect_bad_request(&refusal, halo_msg_type_name((enum halo_msg_type)type), "unknown field \"surprise\"");
        json_decref(root);
    }
    for (int type = 0; type < HALO_N_EVS; type++) {
        json_t *root = ev_json(type, 1);
        struct halo_refusal refusal;
        struct halo_ev ev;
        char *line;

        json_object_set_new(root, "surprise", json_true());
        assert_int_equal(try_ev(root, &refusal), 0);
        line = json_dumps(root, 0);
        assert_int_equal(halo_ev_decode(&ev, line, strlen(line), HALO_EV_STRICT, &refusal), HALO_MSG_E_REFUSED);
        expect_bad_request(&refusal, halo_ev_type_name((enum halo_ev_type)type), "unknown field \"surprise\"");
        free(line);
        json_decref(root);
    }
}

/* ---- ranges ---- */

static int out_of_range(json_t *root, const struct field *f, const char *place,
                        int (*try)(json_t *, struct halo_refusal *))
{
    json_t *kept = json_object_get(root, f->name), *bad[2] = {NULL, NULL};
    const char *words = "out of range";
    int n = 0;

    if (!kept)
        return 0;
    if (f->kind == I64) {
        bad[0] = f->lo_i > INT64_MIN ? json_integer(f->lo_i - 1) : NULL;
        bad[1] = f->hi_i < INT64_MAX ? json_integer(f->hi_i + 1) : NULL;
    } else if (f->kind == F64) {
        bad[0] = json_real(f->lo - 1e-3 - 1e-3 * (f->lo < 0 ? -f->lo : f->lo));
        bad[1] = json_real(f->hi + 1e-3 + 1e-3 * f->hi);
    } else if (f->kind == STR || f->kind == ID) {
        char *text = malloc((size_t)f->hi_i + 2);

        memset(text, 'x', (size_t)f->hi_i + 1);
        text[f->hi_i + 1] = '\0';
        bad[0] = f->lo_i > 0 ? json_string("") : NULL;
        bad[1] = f->hi_i < HALO_LIMIT_LINE_BYTES ? json_string(text) : NULL;
        words = bad[0] ? "m" : "are allowed"; /* "must not be empty", "at most" */
        free(text);
    } else if (f->kind == STRS || f->kind == TOKS || f->kind == OBJS || f->kind == TOPS ||
               (f->kind == JSON && strcmp(f->ref, "objects") == 0)) {
        if (f->hi_i < 2000) {
            bad[1] = json_array();
            for (int64_t i = 0; i <= f->hi_i; i++)
                json_array_append(bad[1], json_array_get(kept, 0));
        }
        bad[0] = f->lo_i > 0 ? json_array() : NULL;
        words = bad[0] ? "m" : "are allowed";
    } else if (f->kind == WORD && try == try_msg) {
        bad[0] = json_string("no such word");
        words = "is not one of";
    }
    kept = json_incref(kept);
    for (int i = 0; i < 2; i++) {
        struct halo_refusal refusal;

        if (!bad[i])
            continue;
        json_object_set_new(root, f->name, bad[i]);
        assert_int_equal(try(root, &refusal), HALO_MSG_E_REFUSED);
        expect_bad_request(&refusal, place, words);
        n++;
    }
    json_object_set_new(root, f->name, kept);
    return n;
}

static void ranges_are_kept(void **state)
{
    char place[200];
    int n = 0;

    for (int type = 0; type < HALO_N_MSGS + HALO_N_EVS; type++) {
        bool event = type >= HALO_N_MSGS;
        int n_choices = event ? 1 : sample_n_choices((enum halo_msg_type)type);

        for (int choice = 0; choice < n_choices; choice++) {
            json_t *root = event ? ev_json(type - HALO_N_MSGS, 1) : msg_json(type, 1, choice);
            size_t n_fields;
            const struct field *fields = event ? ev_fields(type - HALO_N_MSGS, &n_fields) : msg_fields(type, &n_fields);

            for (size_t i = 0; i < n_fields; i++) {
                snprintf(place, sizeof place, "%s.%s: ", fields[i].message, fields[i].name);
                n += out_of_range(root, &fields[i], place, event ? try_ev : try_msg);
            }
            json_decref(root);
        }
    }
    assert_true(n > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_goes_round), cmocka_unit_test(every_event_goes_round),
        cmocka_unit_test(wrong_types_are_named),    cmocka_unit_test(required_fields_are_missed),
        cmocka_unit_test(unknown_fields),           cmocka_unit_test(ranges_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
