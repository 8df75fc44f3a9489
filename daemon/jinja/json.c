/* json.c: one JSON text to a value, for tools, arguments and variables that arrive as JSON.
 *
 * Strict: RFC 8259, UTF-8, nothing behind the value, no duplicate keys, no lone surrogates, 64 levels. Pure apart from
 * the arena, which gets copies of all strings. Fails with BAD_REQUEST and the byte offset, or OUT_OF_MEMORY.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/utf8.h>

#include "jinja_priv.h"

struct reader {
    struct halo_arena *arena;
    struct halo_fault *fault;
    const char *text;
    size_t n, at;
    unsigned depth;
};

static int read_value(struct reader *reader, struct halo_jinja_value *ret);

static int bad(struct reader *reader, const char *what)
{
    return halo_fault_set(reader->fault, HALO_FAULT_BAD_REQUEST, "JSON at byte %zu: %s", reader->at, what);
}

static int no_memory(struct reader *reader)
{
    return halo_fault_set(reader->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to read %zu bytes of JSON", reader->n);
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->n && reader->text[reader->at] && strchr(" \t\r\n", reader->text[reader->at]))
        reader->at++;
}

static char next(struct reader *reader)
{
    skip_blanks(reader);
    return reader->at < reader->n ? reader->text[reader->at] : 0;
}

/* ---- strings ---- */

static int hex4(struct reader *reader, uint32_t *ret)
{
    *ret = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        char c = reader->at < reader->n ? reader->text[reader->at] : 0;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return bad(reader, "expected four hexadecimal digits after \\u");
        *ret = *ret << 4 | (uint32_t)digit;
    }
    return 0;
}

/* Behind the backslash. */
static int read_escape(struct reader *reader, char **to)
{
    static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    char c = reader->at < reader->n ? reader->text[reader->at++] : 0;
    uint32_t code, low = 0;
    for (size_t i = 0; i + 1 < sizeof letters; i += 2)
        if (c == letters[i]) {
            *(*to)++ = letters[i + 1];
            return 0;
        }
    if (c != 'u')
        return bad(reader, "an unknown escape");
    int r = hex4(reader, &code);
    if (r == 0 && code >= 0xD800 && code < 0xDC00 && reader->n - reader->at > 1 && reader->text[reader->at] == '\\' &&
        reader->text[reader->at + 1] == 'u') {
        reader->at += 2;
        if ((r = hex4(reader, &low)) == 0 && low >= 0xDC00 && low < 0xE000)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (r == 0 && code >= 0xD800 && code < 0xE000)
        return bad(reader, "an unpaired surrogate");
    if (r == 0)
        *to += halo_utf8_encode(*to, code);
    return r;
}

static int read_string(struct reader *reader, struct halo_jinja_value *ret)
{
    size_t end = ++reader->at;
    while (end < reader->n && reader->text[end] != '"')
        end += reader->text[end] == '\\' ? 2 : 1;
    if (end >= reader->n)
        return bad(reader, "a string does not end");
    char *bytes = halo_arena_alloc(reader->arena, end - reader->at + 1, 1), *to = bytes;
    if (!bytes)
        return no_memory(reader);
    while (reader->at < end) {
        unsigned char c = (unsigned char)reader->text[reader->at++];
        if (c < 0x20)
            return bad(reader, "a control character in a string");
        int r = 0;
        if (c == '\\')
            r = read_escape(reader, &to);
        else
            *to++ = (char)c;
        if (r < 0)
            return r;
    }
    reader->at = end + 1;
    return halo_jinja_string(reader->arena, ret, bytes, (size_t)(to - bytes)) < 0 ? no_memory(reader) : 0;
}

/* ---- numbers ---- */

static size_t digits_at(const struct reader *reader, size_t at)
{
    size_t start = at;
    while (at < reader->n && reader->text[at] >= '0' && reader->text[at] <= '9')
        at++;
    return at - start;
}

static int read_number(struct reader *reader, struct halo_jinja_value *ret)
{
    size_t start = reader->at, at = start + (reader->text[start] == '-'), n = digits_at(reader, at);
    bool whole = true;
    if (n == 0 || (n > 1 && reader->text[at] == '0'))
        return bad(reader, "a malformed number");
    at += n;
    if (at < reader->n && reader->text[at] == '.') {
        n = digits_at(reader, at + 1);
        at += n + 1;
        whole = false;
    }
    if (n && at < reader->n && (reader->text[at] | 32) == 'e') {
        at++;
        at += at < reader->n && (reader->text[at] == '+' || reader->text[at] == '-');
        n = digits_at(reader, at);
        at += n;
        whole = false;
    }
    if (n == 0)
        return bad(reader, "a malformed number");
    char *digits = halo_arena_strndup(reader->arena, reader->text + start, at - start);
    if (!digits)
        return no_memory(reader);
    reader->at = at;
    errno = 0;
    long long integer = whole ? strtoll(digits, NULL, 10) : 0;
    if (!whole) {
        *ret = halo_jinja_float(strtod(digits, NULL));
    } else if (errno == 0) {
        *ret = halo_jinja_int(integer);
    } else {
        if (halo_jinja_string(reader->arena, ret, digits, at - start) < 0)
            return no_memory(reader);
        ret->kind = HALO_JINJA_BIG;
    }
    return 0;
}

/* ---- lists, objects ---- */

static int read_list(struct reader *reader, struct halo_jinja_value *ret)
{
    struct halo_jinja_value item;
    if (halo_jinja_list(reader->arena, ret) < 0)
        return no_memory(reader);
    reader->at++;
    for (bool first = true; next(reader) != ']' || !first; first = false) {
        int r = read_value(reader, &item);
        if (r < 0)
            return r;
        if (halo_jinja_list_push(reader->arena, *ret, item) < 0)
            return no_memory(reader);
        char c = next(reader);
        if (c == ']')
            break;
        if (c != ',')
            return bad(reader, "expected ',' or ']'");
        reader->at++;
    }
    reader->at++;
    return 0;
}

static int read_object(struct reader *reader, struct halo_jinja_value *ret)
{
    struct halo_jinja_value key, value;
    if (halo_jinja_dict(reader->arena, ret) < 0)
        return no_memory(reader);
    reader->at++;
    for (bool first = true; next(reader) != '}' || !first; first = false) {
        if (next(reader) != '"')
            return bad(reader, "expected a key");
        int r = read_string(reader, &key);
        if (r < 0)
            return r;
        if (halo_jinja_dict_find(ret->dict, key) >= 0)
            return bad(reader, "duplicate key");
        if (next(reader) != ':')
            return bad(reader, "expected ':'");
        reader->at++;
        if ((r = read_value(reader, &value)) < 0)
            return r;
        if (halo_jinja_dict_set(reader->arena, ret->dict, key, value) < 0)
            return no_memory(reader);
        char c = next(reader);
        if (c == '}')
            break;
        if (c != ',')
            return bad(reader, "expected ',' or '}'");
        reader->at++;
    }
    reader->at++;
    return 0;
}

static int read_word(struct reader *reader, struct halo_jinja_value *ret)
{
    static const struct {
        const char *word;
        struct halo_jinja_value value;
    } words[] = {
        {"true", {.kind = HALO_JINJA_BOOL, .boolean = true}},
        {"false", {.kind = HALO_JINJA_BOOL}},
        {"null", {.kind = HALO_JINJA_NONE}},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if (reader->n - reader->at >= n && memcmp(reader->text + reader->at, words[i].word, n) == 0) {
            reader->at += n;
            *ret = words[i].value;
            return 0;
        }
    }
    return bad(reader, "expected a value");
}

static int read_value(struct reader *reader, struct halo_jinja_value *ret)
{
    char c = next(reader);
    if (c == '"')
        return read_string(reader, ret);
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(reader, ret);
    if (c != '[' && c != '{')
        return read_word(reader, ret);
    if (++reader->depth > HALO_JINJA_JSON_MAX_DEPTH)
        return bad(reader, "it nests too deeply");
    int r = c == '[' ? read_list(reader, ret) : read_object(reader, ret);
    reader->depth--;
    return r;
}

int halo_jinja_json(struct halo_arena *arena, struct halo_jinja_value *ret, const char *text, size_t n,
                    struct halo_fault *fault)
{
    struct reader reader = {.arena = arena, .fault = fault, .text = text, .n = n};
    size_t valid = halo_utf8_valid_run(text, n);
    *ret = halo_jinja_none();
    if (valid != n) {
        reader.at = valid;
        return bad(&reader, "it is not UTF-8");
    }
    int r = read_value(&reader, ret);
    if (r < 0)
        return r;
    next(&reader);
    return reader.at == n ? 0 : bad(&reader, "there is more after the value");
}
