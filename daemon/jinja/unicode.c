/* unicode.c: characters of the template engine: length, white space, case.
 *
 * Pure functions, any thread. Strings of a template are UTF-8; should one not be, a bad byte counts as one character.
 */
#include <base/utf8.h>

#include "case_priv.h"
#include "jinja_priv.h"

bool halo_jinja_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static uint32_t map_case(const struct halo_jinja_case_run *runs, size_t n, uint32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < n && runs[low].first <= c && (c - runs[low].first) % runs[low].step == 0)
        return (uint32_t)((int32_t)c + runs[low].delta);
    return c;
}

uint32_t halo_jinja_lower(uint32_t c)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return map_case(halo_jinja_lower_runs, halo_jinja_n_lower_runs, c);
}

uint32_t halo_jinja_upper(uint32_t c)
{
    if (c < 0x80)
        return c >= 'a' && c <= 'z' ? c - 32 : c;
    return map_case(halo_jinja_upper_runs, halo_jinja_n_upper_runs, c);
}

/* Where the title case is not the upper case: the digraphs of Croatian, and Georgian, which has no title case. */
uint32_t halo_jinja_title(uint32_t c)
{
    if (c >= 0x1C4 && c <= 0x1CC)
        return c <= 0x1C6 ? 0x1C5 : c <= 0x1C9 ? 0x1C8 : 0x1CB;
    if (c >= 0x1F1 && c <= 0x1F3)
        return 0x1F2;
    return c >= 0x10D0 && c <= 0x10FF ? c : halo_jinja_upper(c);
}

size_t halo_jinja_char_bytes(const char *bytes, size_t n)
{
    size_t length;
    if ((unsigned char)bytes[0] < 0x80)
        return 1;
    return halo_utf8_scan(bytes, n, &length) == HALO_UTF8_VALID ? length : 1;
}

uint32_t halo_jinja_char(const char *bytes, size_t n, size_t *ret_n)
{
    *ret_n = halo_jinja_char_bytes(bytes, n);
    return *ret_n == 1 ? (unsigned char)bytes[0] : halo_utf8_decode(bytes, *ret_n);
}

uint32_t halo_jinja_char_before(const char *bytes, size_t end, size_t *ret_n)
{
    size_t back = 1;
    while (back < 4 && back < end && ((unsigned char)bytes[end - back] & 0xC0) == 0x80)
        back++;
    uint32_t c = halo_jinja_char(bytes + end - back, back, ret_n);
    if (*ret_n == back)
        return c;
    *ret_n = 1;
    return (unsigned char)bytes[end - 1];
}

size_t halo_jinja_char_count(const char *bytes, size_t n)
{
    size_t count = 0;
    for (size_t at = 0; at < n; at += halo_jinja_char_bytes(bytes + at, n - at))
        count++;
    return count;
}

size_t halo_jinja_char_offset(const char *bytes, size_t n, size_t chars)
{
    size_t at = 0;
    while (at < n && chars-- > 0)
        at += halo_jinja_char_bytes(bytes + at, n - at);
    return at;
}

size_t halo_jinja_skip_space(const char *bytes, size_t n)
{
    size_t at = 0, length;
    while (at < n && halo_jinja_is_space(halo_jinja_char(bytes + at, n - at, &length)))
        at += length;
    return at;
}

size_t halo_jinja_without_space(const char *bytes, size_t n)
{
    size_t back;
    while (n > 0 && halo_jinja_is_space(halo_jinja_char_before(bytes, n, &back)))
        n -= back;
    return n;
}
