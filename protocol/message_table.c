/* message_table.c: message.def as data.
 *
 * The macros make one function for each message and part that returns its field table; a function, because inside it
 * the struct can be called `here` and offsetof() needs no name from the list. Constant; any thread; no failures.
 */
#include <assert.h>
#include <string.h>

#include "message_table_priv.h"

/* ---- words ---- */

/* Macros that make a part of a table or a type. */
/* clang-format off */
#define WORDS(set, ID) static const char *const names_##set[] = {
#define WORD(set, ID, text) [HALO_##ID] = text,
#define WORDS_END(set)                                                                                                \
    };                                                                                                                \
    static const struct halo_words words_##set = {names_##set, sizeof names_##set / sizeof *names_##set};
#include <protocol/message.def>

static const char *const names_error[] = {
#define X(ID, name, retryable, numbers, meaning) [HALO_ERROR_##ID] = #name,
    HALO_ERROR_LIST(X)
#undef X
};
static const struct halo_words words_error = {names_error, HALO_N_ERRORS};

/* ---- fields ---- */

#define NULLS_WRONG false
#define NULLS_ABSENT true

#define RANGE_ID(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_BOOL(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_I64(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_F64(lo, hi, dflt) .f = {lo, hi, dflt}
#define RANGE_STR(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_WORD(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_STRS(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_TOKS(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_OBJ(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_OBJS(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_BIAS(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_TOPS(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_CONT(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_JSON(lo, hi, dflt) .i = {lo, hi, dflt}
#define RANGE_VOID(lo, hi, dflt) .i = {lo, hi, dflt}

#define REF_ID(ref) .form = HALO_FORM_##ref
#define REF_BOOL(ref) .form = HALO_FORM_##ref
#define REF_I64(ref) .form = HALO_FORM_##ref
#define REF_F64(ref) .form = HALO_FORM_##ref
#define REF_STR(ref) .form = HALO_FORM_##ref
#define REF_WORD(ref) .words = &words_##ref
#define REF_STRS(ref) .form = HALO_FORM_##ref
#define REF_TOKS(ref) .form = HALO_FORM_##ref
#define REF_OBJ(ref) .part = &part_##ref
#define REF_OBJS(ref) .part = &part_##ref
#define REF_BIAS(ref) .form = HALO_FORM_##ref
#define REF_TOPS(ref) .form = HALO_FORM_##ref
#define REF_CONT(ref) .part = &part_##ref
#define REF_JSON(ref) .form = HALO_FORM_##ref
#define REF_VOID(ref) .form = HALO_FORM_##ref

#define HAS_REQ(name) 0
#define HAS_DEF(name) 0
#define HAS_OPT(name) offsetof(here, has_##name)
#define HAS_NUL(name) offsetof(here, has_##name)
#define HAS_LINK(name) offsetof(here, has_##name)

#define BEGIN(kind, name)                                                                                             \
    static const struct halo_field *fields_of_##kind##_##name(void)                                                   \
    {                                                                                                                 \
        typedef struct halo_##kind##_##name here;                                                                     \
        static const struct halo_field fields[] = {
#define END                                                                                                           \
            {.kind = HALO_KIND_END, .offset = sizeof(here)},                                                          \
        };                                                                                                            \
        return fields;                                                                                                \
    }

#define PART(name, nulls)                                                                                             \
    enum { nulls_of_part_##name = NULLS_##nulls };                                                                    \
    BEGIN(part, name)
#define PART_END(name)                                                                                                \
    END static const struct halo_shape part_##name = {#name, sizeof(struct halo_part_##name), fields_of_part_##name,  \
                                                      nulls_of_part_##name};
#define REQUEST(ID, name, wire, from, id, reply, doc) BEGIN(msg, name)
#define REQUEST_END(name) END
#define EVENT(ID, name, wire, terminal, doc) BEGIN(ev, name)
#define EVENT_END(name) END
#define F(knd, prs, nam, lo, hi, dflt, ref, text)                                                                     \
    {.name = #nam,                                                                                                    \
     .doc = text,                                                                                                     \
     .kind = HALO_KIND_##knd,                                                                                         \
     .presence = HALO_PRESENCE_##prs,                                                                                 \
     .offset = offsetof(here, nam),                                                                                   \
     .has_offset = HAS_##prs(nam),                                                                                    \
     RANGE_##knd(lo, hi, dflt),                                                                                       \
     REF_##knd(ref)},
#include <protocol/message.def>

/* ---- messages ---- */

#define FROM_CLIENT false
#define FROM_LINK true
#define ID_NEED true
#define ID_FREE false

const struct halo_msg_row halo_msg_table[HALO_N_MSGS] = {
#define REQUEST(ID, name, wire, from, id, reply, doc)                                                                 \
    [HALO_MSG_##ID] = {{wire, sizeof(struct halo_msg_##name), fields_of_msg_##name}, FROM_##from, ID_##id, reply, doc},
#include <protocol/message.def>
};

const struct halo_ev_row halo_ev_table[HALO_N_EVS] = {
#define EVENT(ID, name, wire, terminal, doc)                                                                          \
    [HALO_EV_##ID] = {{wire, sizeof(struct halo_ev_##name), fields_of_ev_##name}, terminal, doc},
#include <protocol/message.def>
};

const struct halo_shape *const halo_part_table[HALO_N_PARTS] = {
#define PART(name, nulls) [HALO_PART_##name] = &part_##name,
#include <protocol/message.def>
};

#define PART(name, nulls)                                                                                             \
    static_assert(sizeof(struct halo_part_##name##_list) == sizeof(struct halo_any_list) &&                           \
                      offsetof(struct halo_part_##name##_list, n) == offsetof(struct halo_any_list, n), #name);
#include <protocol/message.def>

/* ---- names ---- */

int halo_words_find(const struct halo_words *words, const char *name, size_t len)
{
    for (int i = 0; i < words->n; i++) {
        if (words->names[i] && strlen(words->names[i]) == len && memcmp(words->names[i], name, len) == 0)
            return i;
    }
    return -1;
}

#define WORDS(set, ID)                                                                                                \
    const char *halo_word_name_##set(enum halo_##set word)                                                            \
    {                                                                                                                 \
        return (int)word >= 0 && (int)word < words_##set.n ? words_##set.names[word] : NULL;                          \
    }                                                                                                                 \
    enum halo_##set halo_word_from_name_##set(const char *name, size_t len)                                           \
    {                                                                                                                 \
        return (enum halo_##set)halo_words_find(&words_##set, name, len);                                             \
    }
#include <protocol/message.def>
/* clang-format on */

const char *halo_msg_type_name(enum halo_msg_type type)
{
    assert((int)type >= 0 && type < HALO_N_MSGS);
    return halo_msg_table[type].shape.name;
}

int halo_msg_type_from_name(const char *name, size_t len)
{
    for (int i = 0; i < HALO_N_MSGS; i++) {
        if (strlen(halo_msg_table[i].shape.name) == len && memcmp(halo_msg_table[i].shape.name, name, len) == 0)
            return i;
    }
    return -1;
}

const char *halo_ev_type_name(enum halo_ev_type type)
{
    assert((int)type >= 0 && type < HALO_N_EVS);
    return halo_ev_table[type].shape.name;
}

int halo_ev_type_from_name(const char *name, size_t len)
{
    for (int i = 0; i < HALO_N_EVS; i++) {
        if (strlen(halo_ev_table[i].shape.name) == len && memcmp(halo_ev_table[i].shape.name, name, len) == 0)
            return i;
    }
    return -1;
}

bool halo_ev_is_terminal(enum halo_ev_type type)
{
    assert((int)type >= 0 && type < HALO_N_EVS);
    return halo_ev_table[type].terminal;
}

/* ---- defaults ---- */

void halo_shape_defaults(const struct halo_shape *shape, void *ret_base)
{
    for (const struct halo_field *f = shape->fields(); f->kind != HALO_KIND_END; f++) {
        void *at = (char *)ret_base + f->offset;

        if (f->kind == HALO_KIND_OBJ)
            halo_shape_defaults(f->part, at);
        if (f->presence != HALO_PRESENCE_DEF)
            continue;
        switch (f->kind) {
        case HALO_KIND_BOOL: *(bool *)at = f->i.dflt != 0; break;
        case HALO_KIND_I64: *(int64_t *)at = f->i.dflt; break;
        case HALO_KIND_F64: *(double *)at = f->f.dflt; break;
        case HALO_KIND_WORD: *(int *)at = (int)f->i.dflt; break;
        default: break; /* lists, strings, objects: empty */
        }
    }
}
