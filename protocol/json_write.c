/* json_write.c: the JSON writer: buffer, structure, strings and integers. Doubles are in json_number.c.
 *
 * No thread of its own. Owns the buffer unless it is fixed. Fails with -ENOMEM, -ENOSPC or -EMSGSIZE, kept in the
 * writer.
 */
#include <protocol/json_write.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/utf8.h>

#define FIRST_BYTES 256

/* Bytes of a string that need a second look: control, quote, backslash, non-ASCII. */
static const bool is_special[256] = {
    [0 ... 31] = true, ['"'] = true, ['\\'] = true, [127] = true, [128 ... 255] = true,
};

void halo_json_init(struct halo_json *w)
{
    *w = (struct halo_json){0};
}

void halo_json_init_fixed(struct halo_json *w, char *buf, size_t cap)
{
    *w = (struct halo_json){.at = buf, .cap = cap, .fixed = true};
}

void halo_json_finish(struct halo_json *w)
{
    if (!w)
        return;
    if (!w->fixed)
        free(w->at);
    *w = (struct halo_json){0};
}

void halo_json_reset(struct halo_json *w)
{
    w->len = 0;
    w->error = 0;
    w->depth = 0;
    w->in_object = 0;
    w->has_value = w->has_key = false;
}

static bool grow(struct halo_json *w, size_t n_bytes)
{
    size_t cap;
    char *at;

    if (w->fixed) {
        w->error = -ENOSPC;
        return false;
    }
    if (n_bytes > SIZE_MAX / 4 || w->len > SIZE_MAX / 4) {
        w->error = -ENOMEM;
        return false;
    }
    if (w->most > 0 && w->len + n_bytes > w->most) {
        w->error = -EMSGSIZE;
        return false;
    }
    cap = w->cap ? w->cap * 2 : FIRST_BYTES;
    if (cap < w->len + n_bytes)
        cap = w->len + n_bytes;
    at = realloc(w->at, cap);
    if (!at) {
        w->error = -ENOMEM;
        return false;
    }
    w->at = at;
    w->cap = cap;
    return true;
}

static void put(struct halo_json *w, const char *bytes, size_t n)
{
    if (w->error || n == 0 || (w->cap - w->len < n && !grow(w, n)))
        return;
    memcpy(w->at + w->len, bytes, n);
    w->len += n;
}

static void put_byte(struct halo_json *w, char byte)
{
    if (w->error || (w->cap == w->len && !grow(w, 1)))
        return;
    w->at[w->len++] = byte;
}

int halo_json_reserve(struct halo_json *w, size_t n_bytes)
{
    if (!w->error && w->cap - w->len < n_bytes)
        grow(w, n_bytes);
    return w->error;
}

void halo_json_consume(struct halo_json *w, size_t n_bytes)
{
    assert(n_bytes <= w->len && w->depth == 0 && !w->has_value);
    memmove(w->at, w->at + n_bytes, w->len - n_bytes);
    w->len -= n_bytes;
}

struct halo_json_mark halo_json_mark(const struct halo_json *w)
{
    return (struct halo_json_mark){
        .len = w->len, .in_object = w->in_object, .depth = w->depth, .has_value = w->has_value, .has_key = w->has_key};
}

void halo_json_rollback(struct halo_json *w, struct halo_json_mark mark)
{
    assert(mark.len <= w->len);
    w->len = mark.len;
    w->error = 0;
    w->depth = mark.depth;
    w->in_object = mark.in_object;
    w->has_value = mark.has_value;
    w->has_key = mark.has_key;
}

static bool in_object(const struct halo_json *w)
{
    return w->depth > 0 && (w->in_object >> (w->depth - 1) & 1);
}

/* What comes before a value: a comma in an array, nothing after a key. */
static void lead(struct halo_json *w)
{
    if (w->error)
        return;
    if (w->has_key) {
        w->has_key = false;
    } else {
        assert(!in_object(w) && "a value in an object needs a key");
        assert((w->depth > 0 || !w->has_value) && "one value per line");
        if (w->has_value)
            put_byte(w, ',');
    }
    w->has_value = true;
}

static void open_level(struct halo_json *w, char bracket, bool object)
{
    lead(w);
    put_byte(w, bracket);
    if (w->error)
        return;
    assert(w->depth < HALO_JSON_DEPTH);
    w->in_object &= ~((uint64_t)1 << w->depth);
    w->in_object |= (uint64_t)object << w->depth;
    w->depth++;
    w->has_value = false;
}

static void close_level(struct halo_json *w, char bracket, bool object)
{
    if (w->error)
        return;
    assert(w->depth > 0 && in_object(w) == object && !w->has_key);
    put_byte(w, bracket);
    w->depth--;
    w->has_value = true;
}

void halo_json_object_begin(struct halo_json *w)
{
    open_level(w, '{', true);
}

void halo_json_object_end(struct halo_json *w)
{
    close_level(w, '}', true);
}

void halo_json_array_begin(struct halo_json *w)
{
    open_level(w, '[', false);
}

void halo_json_array_end(struct halo_json *w)
{
    close_level(w, ']', false);
}

static void put_escape(struct halo_json *w, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

    switch (c) {
    case '"':
    case '\\': text[1] = (char)c; break;
    case '\n': text[1] = 'n'; break;
    case '\r': text[1] = 'r'; break;
    case '\t': text[1] = 't'; break;
    case '\b': text[1] = 'b'; break;
    case '\f': text[1] = 'f'; break;
    default: put(w, text, 6); return;
    }
    put(w, text, 2);
}

static void put_string(struct halo_json *w, const char *text, size_t len)
{
    size_t at = 0, run = 0;

    put_byte(w, '"');
    while (at < len && !w->error) {
        unsigned char c = (unsigned char)text[at];
        int n;

        if (!is_special[c]) {
            at++;
            continue;
        }
        n = halo_utf8_char(text + at, len - at);
        if (c >= 0x80 && n > 0) {
            at += (size_t)n;
            continue;
        }
        put(w, text + run, at - run);
        if (n > 0)
            put_escape(w, c);
        else
            put(w, "\xEF\xBF\xBD", 3);
        at += (size_t)(n > 0 ? n : -n);
        run = at;
    }
    if (run < len) /* of an empty text there may be no address */
        put(w, text + run, len - run);
    put_byte(w, '"');
}

void halo_json_key_n(struct halo_json *w, const char *key, size_t len)
{
    if (w->error)
        return;
    assert(in_object(w) && !w->has_key);
    if (w->has_value)
        put_byte(w, ',');
    put_string(w, key, len);
    put_byte(w, ':');
    w->has_key = true;
}

void halo_json_key(struct halo_json *w, const char *key)
{
    halo_json_key_n(w, key, strlen(key));
}

void halo_json_null(struct halo_json *w)
{
    lead(w);
    put(w, "null", 4);
}

void halo_json_bool(struct halo_json *w, bool value)
{
    lead(w);
    put(w, value ? "true" : "false", value ? 4 : 5);
}

static void put_digits(struct halo_json *w, uint64_t value, bool minus)
{
    char text[21];
    size_t at = sizeof text;

    do
        text[--at] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    if (minus)
        text[--at] = '-';
    put(w, text + at, sizeof text - at);
}

void halo_json_i64(struct halo_json *w, int64_t value)
{
    lead(w);
    put_digits(w, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void halo_json_u64(struct halo_json *w, uint64_t value)
{
    lead(w);
    put_digits(w, value, false);
}

void halo_json_str_n(struct halo_json *w, const char *text, size_t len)
{
    lead(w);
    put_string(w, text, len);
}

void halo_json_str(struct halo_json *w, const char *text)
{
    if (text)
        halo_json_str_n(w, text, strlen(text));
    else
        halo_json_null(w);
}

void halo_json_f64(struct halo_json *w, double value)
{
    char text[HALO_JSON_NUMBER_BYTES];

    lead(w);
    put(w, text, halo_json_format_f64(text, value));
}

void halo_json_sig9(struct halo_json *w, double value)
{
    char text[HALO_JSON_NUMBER_BYTES];

    lead(w);
    put(w, text, halo_json_format_sig9(text, value));
}

void halo_json_fix3(struct halo_json *w, double value)
{
    char text[HALO_JSON_NUMBER_BYTES];

    lead(w);
    put(w, text, halo_json_format_fix3(text, value));
}

void halo_json_raw(struct halo_json *w, const char *json, size_t len)
{
    size_t start;

    if (!json || len == 0) {
        halo_json_null(w);
        return;
    }
    lead(w);
    start = w->len;
    put(w, json, len);
    if (w->error)
        return;
    /* In JSON text these bytes stand only between tokens. */
    for (size_t i = start; i < w->len; i++) {
        if (w->at[i] == '\n' || w->at[i] == '\r')
            w->at[i] = ' ';
    }
}

int halo_json_line_end(struct halo_json *w)
{
    if (!w->error) {
        assert(w->depth == 0 && w->has_value);
        put_byte(w, '\n');
        w->has_value = false;
    }
    return w->error;
}
