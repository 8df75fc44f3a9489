/* sample.c: messages with something in every field, made from message.def. */
#include "sample.h"

#include <string.h>

#define LONGEST 300

static char text[LONGEST + 1];

static struct halo_str sample_str(int level, int64_t lo, int64_t hi)
{
    static const char middle[] = "na\xC3\xAFve \"\\\n\t\x01\x7F\xF0\x9F\xA6\x8A";
    size_t len = (size_t)(level == 0 ? lo : hi < LONGEST ? hi : LONGEST);

    memset(text, 'x', LONGEST);
    if (level == 2 && hi >= (int64_t)sizeof middle - 1)
        return (struct halo_str){middle, sizeof middle - 1};
    return (struct halo_str){text, len};
}

static struct halo_str_list sample_strs(int level, int64_t hi, int64_t bytes)
{
    static struct halo_str items[16];
    size_t n = hi < 16 ? (size_t)hi : 16;

    for (size_t i = 0; i < n; i++)
        items[i] = sample_str(level, 1, bytes);
    return (struct halo_str_list){items, level == 0 ? 0 : n};
}

static struct halo_token_list sample_toks(int level)
{
    static const int32_t items[] = {0, 1, 4711, INT32_MAX};

    return (struct halo_token_list){items, level == 0 ? 0 : 4};
}

static struct halo_bias_list sample_bias(int level, int64_t most)
{
    static struct halo_bias items[3];

    items[0] = (struct halo_bias){0, -(double)most};
    items[1] = (struct halo_bias){INT32_MAX, (double)most};
    items[2] = (struct halo_bias){77, 0.1};
    return (struct halo_bias_list){items, level == 0 ? 0 : 3};
}

static struct halo_top_list sample_tops(int level)
{
    static const struct halo_top items[] = {{5, -0.25}, {INT32_MAX, -12.3456789}};

    return (struct halo_top_list){items, level == 0 ? 0 : 2};
}

static struct halo_raw sample_object(int level)
{
    return halo_raw_of(level == 0 ? "{}" : "{\"a\":[1,2.5,null,true],\"b\":{\"c\":\"\\u0001\"}}");
}

static struct halo_raw sample_array(int level)
{
    return halo_raw_of(level == 0 ? "[]" : "[1,{\"a\":\"b\"},[]]");
}

static struct halo_raw sample_objects(int level)
{
    return halo_raw_of(level == 0 ? "[]" : "[{\"a\":\"b\",\"n\":[2.0,-0.0,1e+22]},{}]");
}

static struct halo_raw sample_call(int level)
{
    return halo_raw_of(level == 0 ? "{}" : level == 1 ? "{\"x\":{\"y\":[1]}}" : "\"{\\\"x\\\": 1}\"");
}

static struct halo_content sample_content(int level, struct halo_str said)
{
    static struct halo_str parts[2];

    parts[0] = said;
    parts[1] = halo_str_of("");
    if (level == 1)
        return (struct halo_content){.kind = HALO_CONTENT_PARTS, .parts = {parts, 2}};
    return level == 2 ? halo_content_of(said) : (struct halo_content){.kind = HALO_CONTENT_NULL};
}

static double between(int level, double lo, double hi, double middle)
{
    return level == 0 ? lo : level == 1 ? hi : middle;
}

static int64_t between_i(int level, int64_t lo, int64_t hi)
{
    return level == 0 ? lo : level == 1 ? hi : lo + (hi - lo) / 3;
}

/* Macros that make a part of a table or a type. */
/* clang-format off */
#define VALUE_ID(out, lo, hi, dflt, ref)                                                                               \
    out = level == 0 ? halo_id_of(INT64_MIN) : halo_id_of_str(sample_str(level, 1, hi))
#define VALUE_BOOL(out, lo, hi, dflt, ref) out = level != 0
#define VALUE_I64(out, lo, hi, dflt, ref) out = between_i(level, lo, hi)
#define VALUE_F64(out, lo, hi, dflt, ref) out = between(level, lo, hi, (lo) + 0.375)
#define VALUE_STR(out, lo, hi, dflt, ref) out = sample_str(level, lo, hi)
#define VALUE_WORD(out, lo, hi, dflt, ref) out = (enum halo_##ref)(level + WORD_FIRST_##ref)
#define VALUE_STRS(out, lo, hi, dflt, ref) out = sample_strs(level, hi, dflt)
#define VALUE_TOKS(out, lo, hi, dflt, ref) out = sample_toks(level)
#define VALUE_OBJ(out, lo, hi, dflt, ref) fill_part_##ref(&(out), level)
#define VALUE_OBJS(out, lo, hi, dflt, ref)                                                                             \
    do {                                                                                                              \
        static struct halo_part_##ref items[2];                                                                       \
        for (int i = 0; i < 2; i++)                                                                                   \
            fill_part_##ref(&items[i], level);                                                                        \
        (out).at = items;                                                                                              \
        (out).n = level == 0 ? (size_t)(lo) : 2;                                                                       \
    } while (0)
#define VALUE_BIAS(out, lo, hi, dflt, ref) out = sample_bias(level, dflt)
#define VALUE_TOPS(out, lo, hi, dflt, ref) out = sample_tops(level)
#define VALUE_CONT(out, lo, hi, dflt, ref)                                                                             \
    do {                                                                                                              \
        struct halo_part_##ref part = {0};                                                                            \
        fill_part_##ref(&part, level);                                                                                \
        out = sample_content(level, part.text);                                                                       \
    } while (0)
#define VALUE_VOID(out, lo, hi, dflt, ref) (void)here
#define VALUE_JSON(out, lo, hi, dflt, ref) out = sample_##ref(level)

#define WORD_FIRST_wire_kv 0
#define WORD_FIRST_wire_device 0
#define WORD_FIRST_wire_tiers 0
#define WORD_FIRST_wire_routing -level / 2 /* of two words */
#define WORD_FIRST_wire_activity 0
#define WORD_FIRST_wire_thread 0
#define WORD_FIRST_wire_phase 0
#define WORD_FIRST_wire_finish 0
#define WORD_FIRST_wire_unload 0
#define WORD_FIRST_wire_content -level
#define WORD_FIRST_wire_call -level
#define WORD_FIRST_error HALO_ERROR_DUPLICATE_ID /* and those behind it: errors without numbers */

#define HAS_REQ(name)
#define HAS_DEF(name)
#define HAS_OPT(name) here->has_##name = level != 2;
#define HAS_NUL(name) here->has_##name = level != 2;
#define HAS_LINK(name) here->has_##name = level != 2;

#define PART(name, nulls)                                                                                             \
    static void fill_part_##name(struct halo_part_##name *here, int level)                                            \
    {
#define PART_END(name) }
#define REQUEST(ID, name, wire, from, id, reply, doc)                                                                 \
    static void fill_msg_##name(struct halo_msg_##name *here, int level)                                              \
    {
#define REQUEST_END(name) }
#define EVENT(ID, name, wire, terminal, doc)                                                                          \
    static void fill_ev_##name(struct halo_ev_##name *here, int level)                                                \
    {
#define EVENT_END(name) }
#define F(kind, presence, name, lo, hi, dflt, ref, doc)                                                               \
    VALUE_##kind(here->name, lo, hi, dflt, ref);                                                                      \
    HAS_##presence(name)
#include <protocol/message.def>

int sample_n_choices(enum halo_msg_type type)
{
    return type == HALO_MSG_GENERATE ? 3 : type == HALO_MSG_SCORE || type == HALO_MSG_PLAN ? 2 : 1;
}

void sample_msg(struct halo_msg *msg, enum halo_msg_type type, int level, int choice)
{
    halo_msg_init(msg, type);
    msg->id = level == 1 ? halo_id_of_str(sample_str(1, 1, HALO_LIMIT_ID_BYTES)) : halo_id_of(level ? 7 : INT64_MIN);
    switch (type) {
#define REQUEST(ID, name, wire, from, id, reply, doc)                                                                 \
    case HALO_MSG_##ID: fill_msg_##name(&msg->name, level); break;
#include <protocol/message.def>
    default: break;
    }
    if (type == HALO_MSG_GENERATE) {
        msg->generate.has_prompt = choice == 0;
        msg->generate.has_messages = choice == 1;
        msg->generate.has_tokens = choice == 2;
        msg->generate.has_tools &= choice == 1;
        msg->generate.has_template_vars &= choice == 1;
    } else if (type == HALO_MSG_SCORE) {
        msg->score.has_tokens = choice == 0;
        msg->score.has_text = choice == 1;
    } else if (type == HALO_MSG_PLAN) {
        msg->plan.has_model = choice == 0;
        msg->plan.has_path = choice == 1;
    }
}

void sample_ev(struct halo_ev *ev, enum halo_ev_type type, int level)
{
    halo_ev_init(ev, type, NULL);
    if (level != 2)
        ev->id = level == 1 ? halo_id_of_str(sample_str(1, 1, HALO_LIMIT_ID_BYTES)) : halo_id_of(0);
    switch (type) {
#define EVENT(ID, name, wire, terminal, doc)                                                                          \
    case HALO_EV_##ID: fill_ev_##name(&ev->name, level); break;
#include <protocol/message.def>
    default: break;
    }
}
/* clang-format on */
