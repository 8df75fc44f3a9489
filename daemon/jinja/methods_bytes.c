/* methods_bytes.c: str.encode, and the methods of the bytes that it gives.
 *
 * Bytes are a string of their own kind: they keep the marks of the text that they were, so that decoding cannot turn
 * content into template text. Encodings: UTF-8, ASCII, Latin-1. Fails as a run does (jinja_priv.h).
 */
#include <stdio.h>
#include <string.h>

#include <base/utf8.h>

#include "jinja_priv.h"

#define METHOD(name)                                                                                                   \
    static int name(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)

enum errors { STRICT, IGNORE, REPLACE };

struct codec {
    uint32_t end; /* one past the largest character it has */
    enum errors errors;
};

/* Letter by letter, where Python takes '-' and '_' for the same and looks at no case. */
static bool names(const struct halo_jinja_string *s, const char *name)
{
    size_t at = 0;
    for (; *name && at < s->n; name++, at++) {
        char c = s->bytes[at] == '_' ? '-' : s->bytes[at];
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != *name)
            return false;
    }
    return !*name && at == s->n;
}

static int take_codec(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct codec *ret)
{
    static const struct {
        const char *name;
        uint32_t end;
    } encodings[] = {{"utf-8", 0x110000}, {"utf8", 0x110000},    {"ascii", 0x80},  {"us-ascii", 0x80},
                     {"latin-1", 0x100},  {"iso-8859-1", 0x100}, {"latin1", 0x100}};
    static const char *const ways[] = {[STRICT] = "strict", [IGNORE] = "ignore", [REPLACE] = "replace"};
    *ret = (struct codec){.end = 0x110000};
    for (size_t i = 0; i < 2; i++)
        if (call->arg[i].kind != HALO_JINJA_MISSING && call->arg[i].kind != HALO_JINJA_STRING)
            return halo_jinja_type_error(run, "the encoding must be a string", call->arg[i]);
    if (call->arg[0].kind == HALO_JINJA_STRING) {
        ret->end = 0;
        for (size_t i = 0; i < sizeof(encodings) / sizeof(encodings[0]); i++)
            if (names(call->arg[0].string, encodings[i].name))
                ret->end = encodings[i].end;
        if (ret->end == 0)
            return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "the encoding must be utf-8, ascii or latin-1");
    }
    for (int i = STRICT; call->arg[1].kind == HALO_JINJA_STRING; i++) {
        if (i > REPLACE)
            return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "errors must be strict, ignore or replace");
        ret->errors = (enum errors)i;
        if (names(call->arg[1].string, ways[i]))
            break;
    }
    return 0;
}

int halo_jinja_encode(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)
{
    const struct halo_jinja_string *s = call->self.string;
    struct halo_jinja_text text = {0};
    struct codec codec;
    int r = take_codec(run, call, &codec);
    for (size_t at = 0, n; r == 0 && at < s->n; at += n) {
        uint32_t c = halo_jinja_char(s->bytes + at, s->n - at, &n);
        char byte = (char)c;
        if (c < 0x80 || codec.end > 0x100)
            r = halo_jinja_add_slice(run, &text, s, at, at + n);
        else if (c < codec.end || codec.errors == REPLACE)
            r = halo_jinja_add(run, &text, c < codec.end ? &byte : "?", 1, halo_jinja_mark_at(s, at));
        else if (codec.errors == STRICT)
            r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "character U+%04X does not exist in this encoding", c);
    }
    if (r == 0)
        r = halo_jinja_finish_text(run, &text, ret);
    if (r == 0)
        ret->kind = HALO_JINJA_BYTES;
    return r;
}

/* One character of the bytes at `at`, as UTF-8; false: they are none. *ret_n: the bytes that it takes. */
static bool decode_one(const struct halo_jinja_string *s, size_t at, const struct codec *codec, char character[4],
                       size_t *ret_n, size_t *ret_character)
{
    uint8_t byte = (uint8_t)s->bytes[at];
    *ret_n = 1;
    if (codec->end <= 0x100) {
        *ret_character = halo_utf8_encode(character, byte);
        return byte < codec->end;
    }
    bool valid = halo_utf8_scan(s->bytes + at, s->n - at, ret_n) == HALO_UTF8_VALID;
    if (valid)
        memcpy(character, s->bytes + at, *ret_n);
    *ret_character = *ret_n;
    return valid;
}

METHOD(decode)
{
    const struct halo_jinja_string *s = call->self.string;
    struct halo_jinja_text text = {0};
    struct codec codec;
    int r = take_codec(run, call, &codec);
    for (size_t at = 0, n, n_character; r == 0 && at < s->n; at += n) {
        char character[4];
        bool valid = decode_one(s, at, &codec, character, &n, &n_character);
        if (valid)
            r = halo_jinja_add(run, &text, character, n_character, halo_jinja_mark_at(s, at));
        else if (codec.errors == REPLACE)
            r = halo_jinja_add(run, &text, HALO_UTF8_REPLACEMENT, HALO_UTF8_REPLACEMENT_BYTES,
                               halo_jinja_mark_at(s, at));
        else if (codec.errors == STRICT)
            r = halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "byte 0x%02X at %zu is not a character of this encoding",
                                (uint8_t)s->bytes[at], at);
    }
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

METHOD(hex)
{
    const struct halo_jinja_string *s = call->self.string;
    struct halo_jinja_text text = {0};
    int r = 0;
    for (size_t at = 0; r == 0 && at < s->n; at++) {
        char digits[3];
        snprintf(digits, sizeof(digits), "%02x", (uint8_t)s->bytes[at]);
        r = halo_jinja_add(run, &text, digits, 2, halo_jinja_mark_at(s, at));
    }
    return r ? r : halo_jinja_finish_text(run, &text, ret);
}

const struct halo_jinja_native halo_jinja_bytes_methods[] = {
    {.name = "decode", .call = decode, .params = {"encoding", "errors"}},
    {.name = "hex", .call = hex},
};
const size_t halo_jinja_n_bytes_methods = sizeof(halo_jinja_bytes_methods) / sizeof(halo_jinja_bytes_methods[0]);
