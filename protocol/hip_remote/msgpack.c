/* msgpack.c: the part of msgpack that metadata of code objects uses; the rest can be skipped. */
#include "msgpack_priv.h"

#include <string.h>

static const uint8_t *take(struct halo_msgpack *m, size_t n)
{
    if (n > m->n)
        return NULL;
    m->at += n;
    m->n -= n;
    return m->at - n;
}

/* Lengths and numbers are big-endian. */
static bool take_number(struct halo_msgpack *m, size_t n, uint64_t *ret)
{
    const uint8_t *at = take(m, n);
    *ret = 0;
    for (size_t i = 0; at && i < n; i++)
        *ret = *ret << 8 | at[i];
    return at;
}

/* What a first byte begins: bytes that follow as they are, values that follow, or the size of a length. */
struct head {
    uint64_t n_bytes, n_values;
    bool is_map, is_array, is_text, is_number;
    uint64_t number;
};

/* Numbers of 1, 2, 4, 8 bytes from `first` on. */
static unsigned width_of(uint8_t byte, uint8_t first)
{
    return 1u << (byte - first);
}

static bool take_long_head(struct halo_msgpack *m, uint8_t byte, struct head *h)
{
    uint64_t n = 0;
    if (byte == 0xc0 || byte == 0xc2 || byte == 0xc3) /* nil, booleans */
        return true;
    if (byte >= 0xc4 && byte <= 0xc6) /* binary */
        return take_number(m, width_of(byte, 0xc4), &h->n_bytes);
    if (byte >= 0xc7 && byte <= 0xc9) { /* extension: length, then a type */
        bool ok = take_number(m, width_of(byte, 0xc7), &n);
        h->n_bytes = n + 1;
        return ok;
    }
    if (byte == 0xca || byte == 0xcb) /* floating point */
        return h->n_bytes = byte == 0xca ? 4 : 8, true;
    if (byte >= 0xcc && byte <= 0xcf)
        return h->is_number = true, take_number(m, width_of(byte, 0xcc), &h->number);
    if (byte >= 0xd0 && byte <= 0xd3) /* negative numbers are not used */
        return h->n_bytes = width_of(byte, 0xd0), true;
    if (byte >= 0xd4 && byte <= 0xd8) /* extension of a fixed length */
        return h->n_bytes = 1 + width_of(byte, 0xd4), true;
    if (byte >= 0xd9 && byte <= 0xdb)
        return h->is_text = true, take_number(m, width_of(byte, 0xd9), &h->n_bytes);
    if (byte == 0xdc || byte == 0xdd)
        return h->is_array = true, take_number(m, byte == 0xdc ? 2 : 4, &h->n_values);
    if (byte == 0xde || byte == 0xdf)
        return h->is_map = true, take_number(m, byte == 0xde ? 2 : 4, &h->n_values);
    return false;
}

/* Fails on a count that the bytes left cannot hold: each value takes at least one. */
static bool take_head(struct halo_msgpack *m, struct head *ret)
{
    const uint8_t *byte = take(m, 1);
    *ret = (struct head){0};
    if (!byte)
        return false;
    if (*byte < 0x80 || *byte >= 0xe0) {
        ret->is_number = *byte < 0x80;
        ret->number = *byte;
        return true;
    }
    if (*byte >= 0xc0) {
        if (!take_long_head(m, *byte, ret))
            return false;
    } else {
        ret->is_map = *byte < 0x90;
        ret->is_array = *byte >= 0x90 && *byte < 0xa0;
        ret->is_text = *byte >= 0xa0;
        *(ret->is_text ? &ret->n_bytes : &ret->n_values) = *byte & (ret->is_text ? 31 : 15);
    }
    return ret->n_bytes <= m->n && (ret->is_map ? 2 : 1) * ret->n_values <= m->n;
}

bool halo_msgpack_map(struct halo_msgpack *m, uint32_t *ret_pairs)
{
    struct head h;
    if (!take_head(m, &h) || !h.is_map)
        return false;
    *ret_pairs = (uint32_t)h.n_values;
    return true;
}

bool halo_msgpack_array(struct halo_msgpack *m, uint32_t *ret_items)
{
    struct head h;
    if (!take_head(m, &h) || !h.is_array)
        return false;
    *ret_items = (uint32_t)h.n_values;
    return true;
}

bool halo_msgpack_text(struct halo_msgpack *m, struct halo_remote_bytes *ret)
{
    struct head h;
    if (!take_head(m, &h) || !h.is_text)
        return false;
    *ret = (struct halo_remote_bytes){take(m, h.n_bytes), (uint32_t)h.n_bytes};
    return true;
}

bool halo_msgpack_u32(struct halo_msgpack *m, uint32_t *ret)
{
    struct head h;
    if (!take_head(m, &h) || !h.is_number || h.number > UINT32_MAX)
        return false;
    *ret = (uint32_t)h.number;
    return true;
}

bool halo_msgpack_skip(struct halo_msgpack *m)
{
    for (uint64_t left = 1; left > 0; left--) {
        struct head h;
        if (left > m->n || !take_head(m, &h) || !take(m, h.n_bytes))
            return false;
        left += (h.is_map ? 2 : 1) * h.n_values;
    }
    return true;
}

bool halo_msgpack_is(struct halo_remote_bytes text, const char *word)
{
    size_t n = strlen(word);
    return text.n == n && memcmp(text.at, word, n) == 0;
}
