/* json_scan.c: one strict pass over JSON text.
 *
 * Recursive descent; the depth limit bounds the recursion. No memory, no state outside the struct.
 * Fails with: a halo_scan_fault and the byte.
 */
#include <stdint.h>
#include <string.h>

#include "json_scan_priv.h"
#include <protocol/limits.h>
#include <protocol/utf8.h>

const struct halo_scan_limits halo_scan_client = {.depth = HALO_LIMIT_DEPTH,
                                                  .n_values = HALO_LIMIT_VALUES,
                                                  .n_containers = HALO_LIMIT_CONTAINERS,
                                                  .n_keys = HALO_LIMIT_KEYS};
const struct halo_scan_limits halo_scan_link = {
    .depth = HALO_LIMIT_DEPTH, .n_values = SIZE_MAX, .n_containers = SIZE_MAX, .n_keys = SIZE_MAX};
const struct halo_scan_limits halo_scan_answer = {.depth = HALO_LIMIT_DEPTH,
                                                  .n_values = HALO_LIMIT_ANSWER_VALUES,
                                                  .n_containers = HALO_LIMIT_ANSWER_CONTAINERS,
                                                  .n_keys = HALO_LIMIT_ANSWER_KEYS};

static int scan_value(struct halo_scan *s);

static int fail(struct halo_scan *s, enum halo_scan_fault fault, size_t at, const char *what)
{
    s->fault = fault;
    s->what = what;
    s->bad_at = at;
    return -1;
}

static int peek(const struct halo_scan *s)
{
    return s->at < s->len ? (unsigned char)s->text[s->at] : -1;
}

static void skip_space(struct halo_scan *s)
{
    while (s->at < s->len) {
        char c = s->text[s->at];

        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return;
        s->at++;
    }
}

/* A byte that no rule expects: bad UTF-8 is called that, not an unexpected character. */
static int fail_here(struct halo_scan *s, const char *what)
{
    if (s->at >= s->len)
        return fail(s, HALO_SCAN_SYNTAX, s->len, "the line ends too early");
    if ((unsigned char)s->text[s->at] >= 0x80 && halo_utf8_char(s->text + s->at, s->len - s->at) < 0)
        return fail(s, HALO_SCAN_UTF8, s->at, NULL);
    return fail(s, HALO_SCAN_SYNTAX, s->at, what);
}

/* The four digits after \u, or -1. */
static int hex4(const char *text, size_t len)
{
    int value = 0;

    if (len < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = text[i];

        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            value = value * 16 + ((c | 0x20) - 'a' + 10);
        else
            return -1;
    }
    return value;
}

static int scan_unicode_escape(struct halo_scan *s, bool allow_nul)
{
    size_t start = s->at; /* the backslash */
    int code = hex4(s->text + s->at + 2, s->len - s->at - 2);

    if (code < 0)
        return fail(s, HALO_SCAN_SYNTAX, start, "\\u needs four hex digits");
    s->at += 6;
    if (code == 0 && !allow_nul)
        return fail(s, HALO_SCAN_NUL, start, NULL);
    if (code < 0xD800 || code > 0xDFFF)
        return 0;
    if (code < 0xDC00 && s->len - s->at >= 6 && s->text[s->at] == '\\' && s->text[s->at + 1] == 'u') {
        int low = hex4(s->text + s->at + 2, 4);

        s->at += 6;
        if (low >= 0xDC00 && low <= 0xDFFF)
            return 0;
    }
    return fail(s, HALO_SCAN_SYNTAX, start, "a surrogate without its other half");
}

static int scan_escape(struct halo_scan *s, bool allow_nul)
{
    if (s->len - s->at < 2)
        return fail(s, HALO_SCAN_SYNTAX, s->len, "the line ends inside a string");
    switch (s->text[s->at + 1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': s->at += 2; return 0;
    case 'u': return scan_unicode_escape(s, allow_nul);
    default: return fail(s, HALO_SCAN_SYNTAX, s->at, "no such escape");
    }
}

static int scan_string(struct halo_scan *s, bool allow_nul, struct halo_range *ret_raw)
{
    size_t start = ++s->at;

    while (s->at < s->len) {
        unsigned char c = (unsigned char)s->text[s->at];

        if (c == '"') {
            *ret_raw = (struct halo_range){start, s->at - start};
            s->at++;
            return 0;
        }
        if (c == '\\') {
            if (scan_escape(s, allow_nul) < 0)
                return -1;
        } else if (c < 0x20) {
            return fail(s, HALO_SCAN_SYNTAX, s->at, "a control byte inside a string");
        } else if (c < 0x80) {
            s->at++;
        } else {
            int n = halo_utf8_char(s->text + s->at, s->len - s->at);

            if (n < 0)
                return fail(s, HALO_SCAN_UTF8, s->at, NULL);
            s->at += (size_t)n;
        }
    }
    return fail(s, HALO_SCAN_SYNTAX, s->len, "the line ends inside a string");
}

static bool scan_digits(struct halo_scan *s)
{
    size_t start = s->at;

    while (s->at < s->len && s->text[s->at] >= '0' && s->text[s->at] <= '9')
        s->at++;
    return s->at > start;
}

static int scan_number(struct halo_scan *s)
{
    size_t start = s->at;

    if (peek(s) == '-')
        s->at++;
    if (peek(s) == '0') {
        s->at++;
        if (scan_digits(s))
            return fail(s, HALO_SCAN_SYNTAX, start, "a number has a leading zero");
    } else if (!scan_digits(s)) {
        return fail_here(s, "a number needs a digit here");
    }
    if (peek(s) == '.') {
        s->at++;
        if (!scan_digits(s))
            return fail_here(s, "a number needs a digit here");
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-')
            s->at++;
        if (!scan_digits(s))
            return fail_here(s, "a number needs a digit here");
    }
    return 0;
}

static int scan_word(struct halo_scan *s, const char *word)
{
    size_t n = strlen(word);

    if (s->len - s->at < n || memcmp(s->text + s->at, word, n) != 0)
        return fail_here(s, "no JSON value starts here");
    s->at += n;
    return 0;
}

static int enter(struct halo_scan *s)
{
    if (s->depth == s->limits->depth)
        return fail(s, HALO_SCAN_DEPTH, s->at, NULL);
    if (++s->n_containers > s->limits->n_containers)
        return fail(s, HALO_SCAN_TOO_MANY, s->at, NULL);
    s->depth++;
    s->at++;
    skip_space(s);
    return 0;
}

static int scan_member(struct halo_scan *s)
{
    struct halo_range key, value;

    if (peek(s) != '"')
        return fail_here(s, "a field needs a name in quotes here");
    if (scan_string(s, false, &key) < 0)
        return -1;
    if (++s->n_keys > s->limits->n_keys)
        return fail(s, HALO_SCAN_TOO_MANY, key.at, NULL);
    skip_space(s);
    if (peek(s) != ':')
        return fail_here(s, "':' is missing here");
    s->at++;
    skip_space(s);
    value.at = s->at;
    if (scan_value(s) < 0)
        return -1;
    value.len = s->at - value.at;
    if (s->depth == 1 && s->on_member)
        s->on_member(s->ud, s->text, key, value);
    return 0;
}

/* An object or an array, from its bracket on. */
static int scan_container(struct halo_scan *s, char close)
{
    size_t open = s->at;

    if (enter(s) < 0)
        return -1;
    if (peek(s) != close) {
        for (;;) {
            if ((close == '}' ? scan_member(s) : scan_value(s)) < 0)
                return -1;
            skip_space(s);
            if (peek(s) == close)
                break;
            if (peek(s) != ',')
                return fail_here(s, close == '}' ? "',' or '}' is missing here" : "',' or ']' is missing here");
            s->at++;
            skip_space(s);
        }
    }
    if (s->depth == 1)
        s->body = (struct halo_range){open + 1, s->at - open - 1};
    s->at++;
    s->depth--;
    return 0;
}

static int scan_value(struct halo_scan *s)
{
    struct halo_range raw;

    if (++s->n_values > s->limits->n_values)
        return fail(s, HALO_SCAN_TOO_MANY, s->at, NULL);
    switch (peek(s)) {
    case '{': return scan_container(s, '}');
    case '[': return scan_container(s, ']');
    case '"': return scan_string(s, s->allow_nul, &raw);
    case 't': return scan_word(s, "true");
    case 'f': return scan_word(s, "false");
    case 'n': return scan_word(s, "null");
    case '-':
    case '0' ... '9': return scan_number(s);
    default: return fail_here(s, "no JSON value starts here");
    }
}

enum halo_scan_fault halo_scan_object(struct halo_scan *s)
{
    size_t start;
    bool object;

    skip_space(s);
    start = s->at;
    object = peek(s) == '{';
    if (scan_value(s) < 0)
        return s->fault;
    skip_space(s);
    if (s->at < s->len)
        fail_here(s, "something follows the object");
    else if (!object)
        fail(s, HALO_SCAN_NOT_OBJECT, start, NULL);
    return s->fault;
}

static void append(char *buf, size_t cap, size_t *n, const char *bytes, size_t n_bytes)
{
    if (n_bytes > 0 && *n + n_bytes <= cap)
        memcpy(buf + *n, bytes, n_bytes);
    *n += n_bytes;
}

size_t halo_scan_unescape(const char *raw, size_t len, char *buf, size_t cap)
{
    static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t at = 0, n = 0;

    while (at < len) {
        const char *escape = memchr(raw + at, '\\', len - at);
        size_t run = escape ? (size_t)(escape - raw) - at : len - at;
        char utf8[4];

        append(buf, cap, &n, raw + at, run);
        at += run;
        if (!escape)
            break;
        if (raw[at + 1] != 'u') {
            append(buf, cap, &n, meant + (strchr(plain, raw[at + 1]) - plain), 1);
            at += 2;
        } else {
            uint32_t code = (uint32_t)hex4(raw + at + 2, 4);

            at += 6;
            if (code >= 0xD800 && code <= 0xDBFF) {
                code = 0x10000 + ((code - 0xD800) << 10) + ((uint32_t)hex4(raw + at + 2, 4) - 0xDC00);
                at += 6;
            }
            append(buf, cap, &n, utf8, halo_utf8_put(utf8, code));
        }
    }
    return n;
}

bool halo_scan_key_is_slow(const char *text, struct halo_range key, const char *name)
{
    size_t n = strlen(name);
    char plain[64];

    if (key.len <= n) /* an escape is longer than what it stands for */
        return key.len == n && memcmp(text + key.at, name, n) == 0;
    return memchr(text + key.at, '\\', key.len) &&
           halo_scan_unescape(text + key.at, key.len, plain, sizeof plain) == n && n <= sizeof plain &&
           memcmp(plain, name, n) == 0;
}
