/* json_check.c: whether a text is one JSON object, by RFC 8259, nested at most 64 levels deep.
 *
 * One pass, no recursion, no memory: the open containers are bits of a number. A reply's text is UTF-8 already, so
 * bytes past ASCII are not looked at.
 */
#include <stdint.h>
#include <string.h>

#include "json_priv.h"

#define MAX_DEPTH 64

struct check {
    const char *text;
    size_t n, at;
    uint64_t is_object; /* bit d: the container at depth d + 1 is an object */
    unsigned depth;
};

static char peek(const struct check *c)
{
    return c->at < c->n ? c->text[c->at] : '\0';
}

static bool take(struct check *c, char wanted)
{
    bool found = c->at < c->n && c->text[c->at] == wanted;
    c->at += found;
    return found;
}

static void skip_space(struct check *c)
{
    while (c->at < c->n && memchr(" \t\r\n", c->text[c->at], 4))
        c->at++;
}

/* The value of four hex digits; -1: they are not. */
static int take_hex4(struct check *c)
{
    int value = 0;
    if (c->n - c->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *digit = memchr(digits, c->text[c->at++], sizeof(digits) - 1);
        if (!digit)
            return -1;
        int d = (int)(digit - digits);
        value = value * 16 + (d < 16 ? d : d - 6);
    }
    return value;
}

/* After the backslash. A surrogate needs its other half. */
static bool take_escape(struct check *c)
{
    if (!take(c, 'u')) {
        bool known = c->at < c->n && memchr("\"\\/bfnrt", c->text[c->at], 8);
        c->at++;
        return known;
    }
    int code = take_hex4(c);
    if (code < 0xD800 || code > 0xDFFF)
        return code >= 0;
    if (code > 0xDBFF || !take(c, '\\') || !take(c, 'u'))
        return false;
    code = take_hex4(c);
    return code >= 0xDC00 && code <= 0xDFFF;
}

static bool take_string(struct check *c)
{
    if (!take(c, '"'))
        return false;
    while (c->at < c->n) {
        unsigned char byte = (unsigned char)c->text[c->at++];
        if (byte == '"')
            return true;
        if (byte < ' ' || (byte == '\\' && !take_escape(c)))
            return false;
    }
    return false;
}

static bool take_digits(struct check *c)
{
    size_t start = c->at;
    while (peek(c) >= '0' && peek(c) <= '9')
        c->at++;
    return c->at > start;
}

static bool take_number(struct check *c)
{
    take(c, '-');
    if (!take(c, '0') && !take_digits(c))
        return false;
    if (take(c, '.') && !take_digits(c))
        return false;
    if (!take(c, 'e') && !take(c, 'E'))
        return true;
    if (!take(c, '+'))
        take(c, '-');
    return take_digits(c);
}

static bool take_word(struct check *c, const char *word)
{
    size_t n = strlen(word);
    bool found = c->n - c->at >= n && memcmp(c->text + c->at, word, n) == 0;
    c->at += found ? n : 0;
    return found;
}

static bool take_scalar(struct check *c)
{
    switch (peek(c)) {
    case '"': return take_string(c);
    case 't': return take_word(c, "true");
    case 'f': return take_word(c, "false");
    case 'n': return take_word(c, "null");
    default: return take_number(c);
    }
}

static bool in_object(const struct check *c)
{
    return c->depth > 0 && c->is_object >> (c->depth - 1) & 1;
}

static bool take_key(struct check *c)
{
    skip_space(c);
    if (!take_string(c))
        return false;
    skip_space(c);
    return take(c, ':');
}

/* The front of a value: a scalar, or the opening of a container and its first key. *ret_done: the value is complete.
 */
static bool open_value(struct check *c, bool *ret_done)
{
    skip_space(c);
    *ret_done = false;
    char open = peek(c);
    if (open != '{' && open != '[') {
        *ret_done = true;
        return take_scalar(c);
    }
    if (c->depth == MAX_DEPTH)
        return false;
    c->at++;
    uint64_t bit = (uint64_t)1 << c->depth++;
    c->is_object = open == '{' ? c->is_object | bit : c->is_object & ~bit;
    skip_space(c);
    if (take(c, open == '{' ? '}' : ']')) {
        c->depth--;
        *ret_done = true;
        return true;
    }
    return open == '[' || take_key(c);
}

bool halo_text_is_object(struct halo_text text)
{
    struct check c = {.text = text.at, .n = text.n};
    skip_space(&c);
    if (peek(&c) != '{')
        return false;
    bool done;
    do {
        if (!open_value(&c, &done))
            return false;
        while (done && c.depth > 0) { /* what follows a value: another one, or the end of its container */
            skip_space(&c);
            bool closes = take(&c, in_object(&c) ? '}' : ']');
            if (!closes && (!take(&c, ',') || (in_object(&c) && !take_key(&c))))
                return false;
            done = closes;
            c.depth -= closes;
        }
    } while (!done);
    skip_space(&c);
    return c.at == c.n;
}
