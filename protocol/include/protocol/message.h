/* message.h: requests and events as C structs, their decoders and encoders.
 *
 * The structs come from message.def: a request `load` is `struct halo_msg_load`, an event `loaded` is `struct
 * halo_ev_loaded`, an object inside a message is `struct halo_part_<name>`. Fields have the names that they have on
 * the wire; a field without a default has a `bool has_<name>` beside it.
 *
 * Memory: a decoded message owns everything it points to, until halo_msg_finish() or halo_ev_finish(); the line may
 * go away. A message made by hand owns nothing: init, set fields, encode.
 * Threads: any, each message on one thread at a time. No function here logs, exits or keeps state between calls.
 * Returns: 0; a negative errno (-ENOMEM, and the writer's errors from encoders); HALO_MSG_E_REFUSED with the reason.
 */
#ifndef HALO_PROTOCOL_MESSAGE_H
#define HALO_PROTOCOL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protocol/error.h>
#include <protocol/json_write.h>
#include <protocol/limits.h>
#include <protocol/notice.h>
#include <protocol/value.h>

#define HALO_MSG_E_REFUSED 1 /* the line is not a valid message; the refusal says why */

/* ---- generated: word enums (a word that a newer peer sent is ..._UNKNOWN = -1) ---- */

/* Macros that make a part of a table or a type. */
/* clang-format off */
#define WORDS(set, ID)                                                                                               \
    enum halo_##set {                                                                                                \
        HALO_##ID##_UNKNOWN = -1,
#define WORD(set, ID, text) HALO_##ID,
#define WORDS_END(set) };
#include <protocol/message.def>

/* ---- generated: the structs ---- */

#define HALO_CTYPE_ID(ref) struct halo_id
#define HALO_CTYPE_BOOL(ref) bool
#define HALO_CTYPE_I64(ref) int64_t
#define HALO_CTYPE_F64(ref) double
#define HALO_CTYPE_STR(ref) struct halo_str
#define HALO_CTYPE_WORD(ref) enum halo_##ref
#define HALO_CTYPE_STRS(ref) struct halo_str_list
#define HALO_CTYPE_TOKS(ref) struct halo_token_list
#define HALO_CTYPE_OBJ(ref) struct halo_part_##ref
#define HALO_CTYPE_OBJS(ref) struct halo_part_##ref##_list
#define HALO_CTYPE_BIAS(ref) struct halo_bias_list
#define HALO_CTYPE_TOPS(ref) struct halo_top_list
#define HALO_CTYPE_CONT(ref) struct halo_content
#define HALO_CTYPE_JSON(ref) struct halo_raw
#define HALO_CTYPE_VOID(ref) struct halo_void
#define HALO_HAS_REQ(name)
#define HALO_HAS_DEF(name)
#define HALO_HAS_OPT(name) bool has_##name;
#define HALO_HAS_NUL(name) bool has_##name;
#define HALO_HAS_LINK(name) bool has_##name;
#define HALO_MEMBER(kind, presence, name, lo, hi, dflt, ref, doc)                                                     \
    HALO_CTYPE_##kind(ref) name;                                                                                      \
    HALO_HAS_##presence(name)

#define PART(name, nulls) struct halo_part_##name {
#define PART_END(name)                                                                                                \
    };                                                                                                                \
    struct halo_part_##name##_list {                                                                                  \
        const struct halo_part_##name *at;                                                                            \
        size_t n;                                                                                                     \
    };
#define REQUEST(ID, name, wire, from, id, reply, doc) struct halo_msg_##name {
#define REQUEST_END(name) };
#define EVENT(ID, name, wire, terminal, doc) struct halo_ev_##name {
#define EVENT_END(name) };
#define F HALO_MEMBER
#include <protocol/message.def>

/* HALO_MSG_GENERATE, ...; HALO_N_MSGS of them. */
enum halo_msg_type {
#define REQUEST(ID, name, wire, from, id, reply, doc) HALO_MSG_##ID,
#include <protocol/message.def>
    HALO_N_MSGS
};

/* HALO_EV_COMMITTED, ...; HALO_N_EVS of them. */
enum halo_ev_type {
#define EVENT(ID, name, wire, terminal, doc) HALO_EV_##ID,
#include <protocol/message.def>
    HALO_N_EVS
};

/* A request. The union's members are named like the requests: msg.generate.top_k. */
struct halo_msg {
    enum halo_msg_type type;
    struct halo_id id;
    void *memory; /* of a decoded message; NULL otherwise */
    union {
#define REQUEST(ID, name, wire, from, id, reply, doc) struct halo_msg_##name name;
#include <protocol/message.def>
    };
};

/* An event. The union's members are named like the events: ev.committed.tok_id. */
struct halo_ev {
    enum halo_ev_type type;
    struct halo_id id; /* of the request; HALO_ID_NONE travels as null */
    void *memory;      /* of a decoded event; NULL otherwise */
    union {
#define EVENT(ID, name, wire, terminal, doc) struct halo_ev_##name name;
#include <protocol/message.def>
    };
};

/* Why a line was refused: all that an answer needs, without memory of its own. */
struct halo_refusal {
    enum halo_error code;
    enum halo_id_kind id_kind; /* not NONE: the id could be read, whatever else was wrong. See halo_refusal_id() */
    int64_t id_num;
    size_t id_bytes;
    char id_text[HALO_LIMIT_ID_BYTES + 1];
    size_t offset;     /* byte of the line at fault; 0 where no single byte is */
    char message[384]; /* one sentence, NUL-terminated */
};

/* The id to answer under; a string points into the refusal. */
static inline struct halo_id halo_refusal_id(const struct halo_refusal *refusal)
{
    return (struct halo_id){refusal->id_kind, refusal->id_num, {refusal->id_text, refusal->id_bytes}};
}

/* Who wrote the line. */
enum halo_role {
    HALO_ROLE_CLIENT, /* a client of halod */
    HALO_ROLE_LINK,   /* halod, or a person at `halod-engine --stdio` */
};

/* Names. `from_name` takes text that need not be NUL-terminated and gives -1 if there is no such type. Of the two
 * events called `done`, from_name gives HALO_EV_DONE. */
const char *halo_msg_type_name(enum halo_msg_type type);
int halo_msg_type_from_name(const char *name, size_t len);
const char *halo_ev_type_name(enum halo_ev_type type);
int halo_ev_type_from_name(const char *name, size_t len);

/* Whether this event ends its request. */
bool halo_ev_is_terminal(enum halo_ev_type type);

/* The word of a generated enum: halo_word_name_wire_kv(HALO_WIRE_KV_F16) is "f16"; NULL for a value that is none.
 * halo_word_from_name_wire_kv(text, len) gives the value or -1. */
#define WORDS(set, ID)                                                                                                \
    const char *halo_word_name_##set(enum halo_##set word);                                                           \
    enum halo_##set halo_word_from_name_##set(const char *name, size_t len);
#include <protocol/message.def>
/* clang-format on */

/* Zeroes `msg`, sets type and every default. */
void halo_msg_init(struct halo_msg *msg, enum halo_msg_type type);

/* Reads one line (no newline in it) of `len` bytes, strictly: an unknown, missing or repeated field, a wrong type, a
 * number out of range, bad UTF-8 or an embedded NUL refuse it. On 0 `msg` must be finished later; otherwise it needs
 * no finish. On any other return `ret_refusal` is filled (with HALO_ERROR_OUT_OF_MEMORY for -ENOMEM). */
int halo_msg_decode(struct halo_msg *msg, const char *line, size_t len, enum halo_role role,
                    struct halo_refusal *ret_refusal);

/* Frees what a decoded message owns and zeroes it. Takes NULL, zeroed and hand-made messages. */
void halo_msg_finish(struct halo_msg *msg);

/* Appends the message and a newline to `w`, which must be between two lines. Fields equal to their default are left
 * out. On failure `w` is as it was before. Does not allocate while the buffer has room. -ENOMEM, -ENOSPC (fixed
 * buffer), -EINVAL: a WORD without a name. */
int halo_msg_encode(struct halo_json *w, const struct halo_msg *msg);

/* The same for events. A null in place of a number (as NaN and infinities are written) reads as NAN, and as absent
 * where the number is optional. Strings of events may hold NUL. */
#define HALO_EV_STRICT 1u /* refuse unknown fields too; otherwise they are skipped, as a newer peer may send them */

void halo_ev_init(struct halo_ev *ev, enum halo_ev_type type, const struct halo_id *id);
int halo_ev_decode(struct halo_ev *ev, const char *line, size_t len, unsigned flags, struct halo_refusal *ret_refusal);
void halo_ev_finish(struct halo_ev *ev);

/* -EMSGSIZE: the event exceeds HALO_LIMIT_ANSWER_...; its request then ends with `unsupported`. halo_ev_decode()
 * accepts everything that this encodes. */
int halo_ev_encode(struct halo_json *w, const struct halo_ev *ev);

/* Whether each field is within the range that the decoder enforces: 0, or HALO_MSG_E_REFUSED and the field in
 * `ret_refusal`. In builds with -Dinject=true halo_ev_encode() aborts on an event that fails this. */
int halo_ev_check(const struct halo_ev *ev, struct halo_refusal *ret_refusal);

/* Makes the `error` event of a code; `id` may be NULL (travels as null). `message` must outlive the event. */
void halo_ev_init_error(struct halo_ev *ev, const struct halo_id *id, enum halo_error code, const char *message);

/* Makes a `notice` event; `message` must outlive it. */
void halo_ev_init_notice(struct halo_ev *ev, const struct halo_id *id, enum halo_notice code, const char *message);

/* The numbers of an `error` event for programs, its detail: {"queued":256,"limit":256}. Up to HALO_DETAIL_NUMBERS of
 * them, names of up to 32 bytes; none: no detail. `buf` must outlive the event. */
#define HALO_DETAIL_NUMBERS 4
#define HALO_DETAIL_BYTES 256

void halo_ev_set_detail(struct halo_ev *ev, struct halo_numbers numbers, char buf[static HALO_DETAIL_BYTES]);

/* Appends the `error` event that answers a refused line, with {"offset": N} as detail where there is one. */
int halo_refusal_encode(struct halo_json *w, const struct halo_refusal *refusal);

/* Appends the list of messages as JSON text, as their fields are spelled on the wire. */
void halo_chat_write(struct halo_json *w, const struct halo_part_chat_list *messages);

/* Appends a `resume` object, for a line that is passed on with halo_envelope_rewrite_begin(). */
void halo_resume_write(struct halo_json *w, const struct halo_part_resume *resume);

#endif
