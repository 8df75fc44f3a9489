/* utf8.c: where characters begin and end. Pure functions; any thread. See utf8.h for the definition used. */
#include <base/utf8.h>

/* Length by the lead byte and the range of the second byte, which alone rules out overlong forms, surrogates and too
 * large values. */
static size_t lead_length(uint8_t lead, uint8_t *ret_low, uint8_t *ret_high)
{
    *ret_low = 0x80;
    *ret_high = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2)
        return 0;
    if (lead < 0xE0)
        return 2;
    if (lead < 0xF0) {
        if (lead == 0xE0)
            *ret_low = 0xA0;
        if (lead == 0xED)
            *ret_high = 0x9F;
        return 3;
    }
    if (lead == 0xF0)
        *ret_low = 0x90;
    if (lead == 0xF4)
        *ret_high = 0x8F;
    return lead <= 0xF4 ? 4 : 0;
}

enum halo_utf8 halo_utf8_scan(const char *bytes, size_t n, size_t *ret_n)
{
    const uint8_t *at = (const uint8_t *)bytes;
    uint8_t low, high;
    size_t length = lead_length(at[0], &low, &high);
    *ret_n = 1;
    if (length == 0)
        return HALO_UTF8_BAD;
    for (size_t i = 1; i < length; i++) {
        *ret_n = i;
        if (i == n)
            return HALO_UTF8_PARTIAL;
        if (at[i] < low || at[i] > high)
            return HALO_UTF8_BAD;
        low = 0x80;
        high = 0xBF;
    }
    *ret_n = length;
    return HALO_UTF8_VALID;
}

size_t halo_utf8_valid_run(const char *bytes, size_t n)
{
    size_t at = 0;
    while (at < n) {
        size_t length = 1;
        if ((uint8_t)bytes[at] >= 0x80 && halo_utf8_scan(bytes + at, n - at, &length) != HALO_UTF8_VALID)
            break;
        at += length;
    }
    return at;
}

uint32_t halo_utf8_decode(const char *bytes, size_t n)
{
    static const uint8_t lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const uint8_t *at = (const uint8_t *)bytes;
    uint32_t point = at[0] & lead_bits[n];
    for (size_t i = 1; i < n; i++)
        point = point << 6 | (at[i] & 0x3F);
    return point;
}

size_t halo_utf8_encode(char *ret, uint32_t point)
{
    if (point < 0x80) {
        ret[0] = (char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, point >>= 6)
        ret[i] = (char)(0x80 | (point & 0x3F));
    ret[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | point);
    return n;
}
