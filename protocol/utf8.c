/* utf8.c: one UTF-8 character at a time. No state, no failures. */
#include <protocol/utf8.h>

#define REPLACEMENT_BYTES 3 /* of U+FFFD */

int halo_utf8_char(const char *s, size_t n)
{
    unsigned char lead = (unsigned char)s[0], least = 0x80, greatest = 0xBF;
    size_t more;

    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return -1;
    if (lead < 0xE0) {
        more = 1;
    } else if (lead < 0xF0) {
        more = 2;
        if (lead == 0xE0)
            least = 0xA0;
        if (lead == 0xED)
            greatest = 0x9F;
    } else {
        more = 3;
        if (lead == 0xF0)
            least = 0x90;
        if (lead == 0xF4)
            greatest = 0x8F;
    }
    for (size_t i = 1; i <= more; i++) {
        if (i >= n || (unsigned char)s[i] < least || (unsigned char)s[i] > greatest)
            return -(int)i;
        least = 0x80;
        greatest = 0xBF;
    }
    return (int)more + 1;
}

size_t halo_utf8_whole(const char *s, size_t n)
{
    size_t at = 0;
    int len = 1;
    while (at < n && (len = halo_utf8_char(s + at, n - at)) > 0)
        at += (size_t)len;
    return at;
}

size_t halo_utf8_put(char ret[static 4], uint32_t code)
{
    if (code < 0x80) {
        ret[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        ret[0] = (char)(0xC0 | code >> 6);
        ret[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        ret[0] = (char)(0xE0 | code >> 12);
        ret[1] = (char)(0x80 | (code >> 6 & 0x3F));
        ret[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    ret[0] = (char)(0xF0 | code >> 18);
    ret[1] = (char)(0x80 | (code >> 12 & 0x3F));
    ret[2] = (char)(0x80 | (code >> 6 & 0x3F));
    ret[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

size_t halo_utf8_cut(const char *s, size_t n)
{
    size_t start = n;

    for (int back = 0; back < 4 && start > 0; back++) {
        start--;
        if (((unsigned char)s[start] & 0xC0) != 0x80)
            return halo_utf8_char(s + start, n - start) > 0 ? n : start;
    }
    return n;
}

size_t halo_utf8_fit(const char *s, size_t n, size_t most)
{
    size_t at = 0, bytes = 0;

    if (n <= most / REPLACEMENT_BYTES)
        return n;
    while (at < n) {
        int len = halo_utf8_char(s + at, n - at);

        bytes += len > 0 ? (size_t)len : REPLACEMENT_BYTES;
        if (bytes > most)
            break;
        at += (size_t)(len > 0 ? len : -len);
    }
    return at;
}

size_t halo_utf8_bytes(const char *s, size_t n)
{
    size_t bytes = 0;

    for (size_t at = 0; at < n;) {
        int len = halo_utf8_char(s + at, n - at);

        bytes += len > 0 ? (size_t)len : REPLACEMENT_BYTES;
        at += (size_t)(len > 0 ? len : -len);
    }
    return bytes;
}
