/* message_table_priv.h: message.def as data, for the code that walks it: decoder, encoder, the generator of the
 * document.
 *
 * Constant; any thread.
 */
#ifndef HALO_PROTOCOL_MESSAGE_TABLE_PRIV_H
#define HALO_PROTOCOL_MESSAGE_TABLE_PRIV_H

#include <protocol/message.h>

/* The range of the logprobs in `top`; those of fields are in message.def. */
#define HALO_LOGPROB_LEAST (-1e300)
#define HALO_LOGPROB_MOST 1e300

enum halo_kind {
    HALO_KIND_END, /* after the last field */
    HALO_KIND_ID,
    HALO_KIND_BOOL,
    HALO_KIND_I64,
    HALO_KIND_F64,
    HALO_KIND_STR,
    HALO_KIND_WORD,
    HALO_KIND_STRS,
    HALO_KIND_TOKS,
    HALO_KIND_OBJ,
    HALO_KIND_OBJS,
    HALO_KIND_BIAS,
    HALO_KIND_TOPS,
    HALO_KIND_CONT,
    HALO_KIND_JSON,
    HALO_KIND_VOID,
};

enum halo_presence { HALO_PRESENCE_REQ, HALO_PRESENCE_DEF, HALO_PRESENCE_OPT, HALO_PRESENCE_NUL, HALO_PRESENCE_LINK };

/* How an F64 is written; what a JSON value must be. */
enum halo_form {
    HALO_FORM_none,
    HALO_FORM_short,
    HALO_FORM_sig9,
    HALO_FORM_fix3,
    HALO_FORM_any,
    HALO_FORM_object,
    HALO_FORM_array,
    HALO_FORM_objects,
    HALO_FORM_call
};

struct halo_words {
    const char *const *names; /* [n]; an entry may be NULL: a value without a word */
    int n;
};

struct halo_shape;

struct halo_field {
    const char *name;
    const char *doc;
    enum halo_kind kind;
    enum halo_presence presence;
    enum halo_form form;
    uint32_t offset;     /* of the value in its struct */
    uint32_t has_offset; /* of has_<name>; 0 when there is none (it never comes first) */
    union {
        struct {
            int64_t lo, hi, dflt; /* STRS: dflt is the limit of each string's bytes; BIAS: of each bias */
        } i;
        struct {
            double lo, hi, dflt;
        } f;
    };
    const struct halo_words *words; /* WORD */
    const struct halo_shape *part;  /* OBJ, OBJS, CONT */
};

/* A message or a part. */
struct halo_shape {
    const char *name;                         /* on the wire */
    size_t bytes;                             /* of the struct */
    const struct halo_field *(*fields)(void); /* ends with HALO_KIND_END */
    bool null_is_absent; /* in a field that is not required, unless null is a value of its own there */
};

struct halo_msg_row {
    struct halo_shape shape;
    bool link_only, needs_id;
    const char *reply, *doc;
};

struct halo_ev_row {
    struct halo_shape shape;
    bool terminal;
    const char *doc;
};

extern const struct halo_msg_row halo_msg_table[HALO_N_MSGS];
extern const struct halo_ev_row halo_ev_table[HALO_N_EVS];

enum {
#define PART(name, nulls) HALO_PART_##name,
#include <protocol/message.def>
    HALO_N_PARTS
};
extern const struct halo_shape *const halo_part_table[HALO_N_PARTS];

/* What every struct halo_part_<name>_list looks like. */
struct halo_any_list {
    const void *at;
    size_t n;
};

static inline struct halo_any_list halo_any_list_of(const void *list)
{
    struct halo_any_list any;

    memcpy(&any, list, sizeof any);
    return any;
}

/* The default values of all fields, nested parts too, into a zeroed struct. */
void halo_shape_defaults(const struct halo_shape *shape, void *ret_base);

/* Index of the word, or -1. */
int halo_words_find(const struct halo_words *words, const char *name, size_t len);

#endif
