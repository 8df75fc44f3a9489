/* numbers.c: numbers as Python's int() and float() read them, and integers of any size by their digits.
 *
 * Blanks around it, decimal digits of any script, single underscores between digits, a prefix that fits the base. Fails
 * as a run does (jinja_priv.h).
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/unicode.h>

#include "jinja_priv.h"

#define MAX_DIGITS 512 /* of a number in a text; a longer one is none */

struct digits {
    char text[MAX_DIGITS];
    size_t n;
};

/* The value of a decimal digit: those of a script are ten in a row, and runs of them end with a nine. */
static uint32_t decimal_value(uint32_t c)
{
    uint32_t last;
    if (c < 0x80)
        return c - '0';
    halo_unicode_category(c, &last);
    return 9 - (last - c) % 10;
}

static bool is_ascii_alnum(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* ASCII without the blanks around and the underscores between digits. False: no number looks like this. */
static bool read_digits(const struct halo_jinja_string *s, struct digits *ret)
{
    size_t from = halo_jinja_skip_space(s->bytes, s->n), to = halo_jinja_without_space(s->bytes, s->n);
    bool underscore = false;
    ret->n = 0;
    if (from >= to)
        return false;
    for (size_t at = from, n; at < to; at += n) {
        uint32_t c = halo_jinja_char(s->bytes + at, to - at, &n);
        bool digit = halo_jinja_is_decimal(c);
        if (c == '_' && !underscore && ret->n > 0 && is_ascii_alnum(ret->text[ret->n - 1])) {
            underscore = true;
            continue;
        }
        char plain = digit ? (char)('0' + decimal_value(c)) : (char)c;
        if ((!digit && (c == 0 || c >= 0x80)) || (underscore && !is_ascii_alnum(plain)) || ret->n + 1 >= MAX_DIGITS)
            return false;
        ret->text[ret->n++] = plain;
        underscore = false;
    }
    ret->text[ret->n] = '\0';
    return ret->n > 0 && !underscore;
}

/* The value of a digit in any base; 36: it is none. */
static unsigned digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? (unsigned)((c | 32) - 'a') + 10 : 36;
}

/* decimal = decimal * base + digit; the least significant digit comes first. */
static size_t append_digit(uint8_t *decimal, size_t n, unsigned base, unsigned digit)
{
    unsigned carry = digit;
    for (size_t i = 0; i < n || carry; i++) {
        carry += i < n ? decimal[i] * base : 0;
        decimal[i] = (uint8_t)(carry % 10);
        carry /= 10;
        n = i < n ? n : i + 1;
    }
    return n;
}

/* A whole number of any size: INT when it fits, else BIG. */
static int make_integer(struct halo_jinja_run *run, const char *decimal, size_t n, bool is_template,
                        struct halo_jinja_value *ret)
{
    struct halo_jinja_text text = {0};
    errno = 0;
    *ret = (struct halo_jinja_value){
        .kind = HALO_JINJA_INT, .is_template = is_template, .integer = strtoll(decimal, NULL, 10)};
    if (errno == 0)
        return 0;
    int r = halo_jinja_add(run, &text, decimal, n, is_template);
    if (r == 0)
        r = halo_jinja_finish_text(run, &text, ret);
    ret->kind = HALO_JINJA_BIG;
    return r;
}

int halo_jinja_read_integer(struct halo_jinja_run *run, const struct halo_jinja_string *s, unsigned base,
                            struct halo_jinja_value *ret, bool *ret_found)
{
    struct digits digits;
    uint8_t decimal[MAX_DIGITS * 2]; /* a digit of base 36 takes less than two */
    char text[MAX_DIGITS * 2 + 2];
    size_t n = 0, n_text = 0, at = 0;
    *ret_found = false;
    if (!read_digits(s, &digits))
        return 0;
    bool negative = digits.text[0] == '-';
    at += negative || digits.text[0] == '+';
    char prefix = digits.text[at] == '0' ? (char)(digits.text[at + 1] | 32) : 0;
    if ((prefix == 'x' && base == 16) || (prefix == 'o' && base == 8) || (prefix == 'b' && base == 2))
        at += 2;
    if (at == digits.n)
        return 0;
    for (; at < digits.n; at++) {
        unsigned value = digit_value(digits.text[at]);
        if (value >= base)
            return 0;
        n = append_digit(decimal, n, base, value);
    }
    if (negative)
        text[n_text++] = '-';
    for (size_t i = n; i-- > 0;)
        text[n_text++] = (char)('0' + decimal[i]);
    if (n == 0)
        text[n_text++] = '0';
    text[n_text] = '\0';
    *ret_found = true;
    int r = halo_jinja_steps(run, digits.n * digits.n / 64);
    return r ? r : make_integer(run, text, n_text, halo_jinja_all_template(s), ret);
}

bool halo_jinja_read_float(const struct halo_jinja_string *s, struct halo_jinja_value *ret)
{
    struct digits digits;
    char *end;
    if (!read_digits(s, &digits) || strpbrk(digits.text, "xXpP()"))
        return false;
    *ret = (struct halo_jinja_value){
        .kind = HALO_JINJA_FLOAT, .is_template = halo_jinja_all_template(s), .number = strtod(digits.text, &end)};
    return end == digits.text + digits.n;
}

int halo_jinja_truncate(struct halo_jinja_run *run, struct halo_jinja_value number, struct halo_jinja_value *ret)
{
    char decimal[320];
    int n = snprintf(decimal, sizeof(decimal), "%.0f", trunc(number.number));
    return make_integer(run, decimal[0] == '-' && decimal[1] == '0' ? "0" : decimal, (size_t)n, number.is_template,
                        ret);
}

/* The digits of a whole number. A float beside a larger integer may lose its fraction. */
static size_t decimal_text(struct halo_jinja_value v, char own[320], const char **ret)
{
    *ret = own;
    switch (v.kind) {
    case HALO_JINJA_BIG: *ret = v.string->bytes; return v.string->n;
    case HALO_JINJA_FLOAT: return (size_t)snprintf(own, 320, "%.0f", v.number);
    case HALO_JINJA_BOOL: return (size_t)snprintf(own, 320, "%d", v.boolean);
    default: return (size_t)snprintf(own, 320, "%lld", (long long)v.integer);
    }
}

int halo_jinja_compare_big(struct halo_jinja_value a, struct halo_jinja_value b)
{
    char own[2][320];
    const char *text[2];
    if (a.kind == HALO_JINJA_FLOAT && !isfinite(a.number))
        return isnan(a.number) ? 2 : a.number > 0 ? 1 : -1;
    if (b.kind == HALO_JINJA_FLOAT && !isfinite(b.number))
        return isnan(b.number) ? 2 : b.number > 0 ? -1 : 1;
    size_t n_a = decimal_text(a, own[0], &text[0]), n_b = decimal_text(b, own[1], &text[1]);
    bool negative = text[0][0] == '-';
    if (negative != (text[1][0] == '-'))
        return negative ? -1 : 1;
    int order = n_a != n_b ? (n_a > n_b ? 1 : -1) : memcmp(text[0], text[1], n_a);
    order = (order > 0) - (order < 0);
    return negative ? -order : order;
}
