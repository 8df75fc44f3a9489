/* json_number.c: doubles as JSON text, whatever the locale.
 *
 * printf and strtod are right but slow (a committed event with 20 alternatives would spend 10 us on them), so the usual
 * magnitudes go through integer arithmetic, and only when that is certain to give the same digits.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/json_write.h>

static size_t put_null(char *buf)
{
    memcpy(buf, "null", 4);
    return 4;
}

/* Writes `value` with at least `width` digits. */
static size_t put_digits(char *buf, uint64_t value, size_t width)
{
    char text[20];
    size_t at = sizeof text, n;

    do
        text[--at] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    while (sizeof text - at < width)
        text[--at] = '0';
    n = sizeof text - at;
    memcpy(buf, text + at, n);
    return n;
}

/* Copies what printf made; anything that is not part of a C-locale number is the locale's decimal point. */
static size_t put_printed(char *buf, const char *printed)
{
    size_t n = 0;
    bool in_point = false;

    for (const char *p = printed; *p; p++) {
        bool plain = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e';

        if (plain)
            buf[n++] = *p;
        else if (!in_point)
            buf[n++] = '.';
        in_point = !plain;
    }
    return n;
}

/* -1, or the length of `value` written as units of 10^-6, if that is exact. A decimal of at most 15 digits that the
 * division gives back exactly is the only such decimal, hence the shortest. */
static int put_short_decimal(char *buf, double value)
{
    double magnitude = fabs(value);
    uint64_t units, part;
    size_t n = 0;

    if (!(magnitude < 1e9))
        return -1;
    units = (uint64_t)(magnitude * 1e6 + 0.5);
    if ((double)units / 1e6 != magnitude)
        return -1;
    part = units % 1000000;
    if (signbit(value))
        buf[n++] = '-';
    n += put_digits(buf + n, units / 1000000, 1);
    if (part) {
        buf[n++] = '.';
        n += put_digits(buf + n, part, 6);
        while (buf[n - 1] == '0')
            n--;
    } else if (magnitude == 0 && signbit(value)) {
        memcpy(buf + n, ".0", 2); /* "-0" would be an integer, which has no sign of zero */
        n += 2;
    }
    return (int)n;
}

size_t halo_json_format_f64(char *buf, double value)
{
    char printed[40];
    int n;

    if (!isfinite(value))
        return put_null(buf);
    n = put_short_decimal(buf, value);
    if (n >= 0)
        return (size_t)n;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(printed, sizeof printed, "%.*g", digits, value);
        if (strtod(printed, NULL) == value)
            break;
    }
    return put_printed(buf, printed);
}

static size_t print_sig9(char *buf, double value)
{
    char printed[40];

    snprintf(printed, sizeof printed, "%.9g", value);
    return put_printed(buf, printed);
}

size_t halo_json_format_sig9(char *buf, double value)
{
    static const double power[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
    static const double least[] = {1e-4, 1e-3, 1e-2, 1e-1};
    double magnitude = fabs(value), scaled, rest;
    char digits[10];
    size_t n = 0, n_digits = 9;
    uint64_t whole;
    int exponent;

    if (!isfinite(value))
        return put_null(buf);
    if (magnitude == 0)
        return put_digits(buf, 0, 1); /* without printf's sign: "-0" is an integer to a reader */
    if (!(magnitude >= 1e-4 && magnitude < 1e8))
        return print_sig9(buf, value);
    if (magnitude < 1) {
        exponent = -1;
        while (magnitude < least[exponent + 4])
            exponent--;
    } else {
        exponent = 0;
        while (magnitude >= power[exponent + 1])
            exponent++;
    }
    /* The product is off by less than 2e-7; that near to a tie, or at the next power of ten, printf decides. */
    scaled = magnitude * power[8 - exponent];
    whole = (uint64_t)scaled;
    rest = scaled - (double)whole;
    if (fabs(rest - 0.5) < 1e-6 || scaled >= 999999999.0)
        return print_sig9(buf, value);
    put_digits(digits, whole + (rest > 0.5), 9);
    while (n_digits > 1 && digits[n_digits - 1] == '0')
        n_digits--;

    if (value < 0)
        buf[n++] = '-';
    if (exponent < 0) {
        memcpy(buf + n, "0.000", 5);
        n += (size_t)(1 - exponent);
        memcpy(buf + n, digits, n_digits);
        return n + n_digits;
    }
    memcpy(buf + n, digits, (size_t)exponent + 1); /* zeros that belong to the whole part are still there */
    n += (size_t)exponent + 1;
    if (n_digits > (size_t)exponent + 1) {
        buf[n++] = '.';
        memcpy(buf + n, digits + exponent + 1, n_digits - (size_t)exponent - 1);
        n += n_digits - (size_t)exponent - 1;
    }
    return n;
}

size_t halo_json_format_fix3(char *buf, double value)
{
    double magnitude = fabs(value);
    uint64_t units;
    size_t n = 0;

    if (!isfinite(value))
        return put_null(buf);
    if (magnitude >= 1e12)
        return halo_json_format_f64(buf, value); /* a double has no 3 decimals there */
    units = (uint64_t)(magnitude * 1000 + 0.5);
    if (value < 0 && units)
        buf[n++] = '-';
    n += put_digits(buf + n, units / 1000, 1);
    buf[n++] = '.';
    return n + put_digits(buf + n, units % 1000, 3);
}
