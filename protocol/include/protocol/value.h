/* value.h: the C shapes of the values that travel in messages.
 *
 * None of them owns memory: in a decoded message they point into the message (until halo_msg_finish or
 * halo_ev_finish), in a message to be encoded they point to whatever the caller keeps alive until the encoder returns.
 */
#ifndef HALO_PROTOCOL_VALUE_H
#define HALO_PROTOCOL_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* UTF-8 of `len` bytes. Decoded strings are NUL-terminated too, and those of requests hold no other NUL. The empty
 * string of a decoded message has a non-NULL `at`. */
struct halo_str {
    const char *at;
    size_t len;
};

static inline struct halo_str halo_str_of(const char *text)
{
    return (struct halo_str){text, text ? strlen(text) : 0};
}

static inline bool halo_str_is(struct halo_str s, const char *text)
{
    return s.len == strlen(text) && (s.len == 0 || memcmp(s.at, text, s.len) == 0);
}

struct halo_str_list {
    const struct halo_str *at;
    size_t n;
};

struct halo_token_list {
    const int32_t *at; /* token ids, >= 0 */
    size_t n;
};

enum halo_id_kind { HALO_ID_NONE, HALO_ID_INT, HALO_ID_STR };

/* A request id, or another value that may be an integer or a string. */
struct halo_id {
    enum halo_id_kind kind;
    int64_t num;         /* HALO_ID_INT */
    struct halo_str str; /* HALO_ID_STR */
};

static inline struct halo_id halo_id_of(int64_t num)
{
    return (struct halo_id){HALO_ID_INT, num, {NULL, 0}};
}

static inline struct halo_id halo_id_of_str(struct halo_str str)
{
    return (struct halo_id){HALO_ID_STR, 0, str};
}

static inline bool halo_id_equal(const struct halo_id *a, const struct halo_id *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == HALO_ID_STR)
        return a->str.len == b->str.len && memcmp(a->str.at, b->str.at, a->str.len) == 0;
    return a->kind == HALO_ID_NONE || a->num == b->num;
}

enum halo_content_kind { HALO_CONTENT_ABSENT, HALO_CONTENT_NULL, HALO_CONTENT_TEXT, HALO_CONTENT_PARTS };

/* What a message of a conversation says: a text, or texts in a list of parts. A message that only calls tools may say
 * nothing, or null. */
struct halo_content {
    enum halo_content_kind kind;
    struct halo_str text;       /* HALO_CONTENT_TEXT */
    struct halo_str_list parts; /* HALO_CONTENT_PARTS: the text of each */
};

static inline struct halo_content halo_content_of(struct halo_str text)
{
    return (struct halo_content){.kind = HALO_CONTENT_TEXT, .text = text};
}

/* One entry of logit_bias: {"1234": -2.5}. */
struct halo_bias {
    int32_t tok_id;
    double bias; /* added to the logit */
};

struct halo_bias_list {
    const struct halo_bias *at;
    size_t n;
};

/* One entry of `top`: [1234, -0.25]. */
struct halo_top {
    int32_t tok_id;
    double logprob; /* natural logarithm */
};

struct halo_top_list {
    const struct halo_top *at;
    size_t n;
};

/* JSON text that the protocol does not interpret: an object, an array or any other value, without a raw newline. */
struct halo_raw {
    const char *at;
    size_t len;
};

/* A field that is read but not kept: no bytes. */
struct halo_void {
};

static inline struct halo_raw halo_raw_of(const char *json)
{
    return (struct halo_raw){json, json ? strlen(json) : 0};
}

#endif
