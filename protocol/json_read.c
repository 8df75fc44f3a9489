/* json_read.c: JSON text to a tree of the library's, checked and bounded.
 *
 * Only the tree is jansson's. Its reader takes text byte by byte, 13 ns each and so a tenth of a second for the longest
 * line, in which nobody else is served; it also drops bytes of a token when memory runs out while the token grows, and
 * then runs past its end. The scan has been over the text already, so what is left to do is to follow its grammar and
 * make the nodes.
 *
 * Memory: the scan has counted what the text holds, one block that is large enough for all of it is allocated first,
 * and while a text is read jansson's allocator takes pieces of that block: one malloc, one free, and none in between
 * that could fail. Outside of a reading jansson's allocator is malloc.
 *
 * Threads: any; the block in use is thread-local. The allocator is put in place before main.
 * Fails with: -ENOMEM, before jansson is called; a key that appears twice, a number that no double holds.
 */
#include <assert.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "json_read_priv.h"
#include <protocol/message.h>

#define ALIGN alignof(max_align_t)
#define SMALL_BYTES 128
#define LARGE_MARK '\xFF' /* no UTF-8 text begins with it */

struct block {
    size_t used, cap;
    alignas(max_align_t) char bytes[];
};

static _Thread_local struct block *reading;
static locale_t c_locale; /* where the decimal point is a point */

static void *take(size_t n_bytes)
{
    size_t n = (n_bytes + ALIGN - 1) / ALIGN * ALIGN;

    if (!reading)
        return malloc(n_bytes);
    assert(n >= n_bytes && reading->cap - reading->used >= n && "bound_bytes() is too low");
    reading->used += n;
    return reading->bytes + reading->used - n;
}

static void give_back(void *at)
{
    if (!reading)
        free(at);
}

__attribute__((constructor)) static void install(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    json_set_alloc_funcs(take, give_back);
}

/* What is allocated for a text, at most, if nothing is freed. By kind: a value's node (40 bytes at most, 48 aligned);
 * its slot in an array whose table doubles (4 x 8); what the text of a string or large number is rounded up by (16,
 * twice); a key (node of 56 bytes and the text) and its share of hash tables that double (4 x 16); a container with its
 * first table (240 bytes); and the text of strings and keys, twice where it has escapes. */
static size_t bound_bytes(const struct halo_scan *scan)
{
    return 1024 + 128 * scan->n_values + 192 * scan->n_keys + 384 * scan->n_containers + 2 * scan->len;
}

/* ---- text to nodes ---- */

struct builder {
    const char *at; /* the text is well-formed, so no end is looked for */
    const char *text;
    struct halo_range last_key;
    struct halo_json_read *read;
};

static json_t *build_value(struct builder *b);

static void skip_space(struct builder *b)
{
    while (*b->at == ' ' || *b->at == '\t' || *b->at == '\n' || *b->at == '\r')
        b->at++;
}

static struct halo_range range_from(const struct builder *b, const char *start)
{
    return (struct halo_range){(size_t)(start - b->text), (size_t)(b->at - start)};
}

static json_t *refuse(struct builder *b, int fault, struct halo_range token)
{
    b->read->fault = fault;
    b->read->token = token;
    b->read->owner = b->last_key;
    b->read->bad_at = token.at;
    return NULL;
}

/* From one quote past the other. Returns the text as it stands, sets whether it is what it means. */
static struct halo_range take_quoted(struct builder *b, bool *ret_plain)
{
    const char *start = ++b->at;
    struct halo_range raw;

    *ret_plain = true;
    for (; *b->at != '"'; b->at++) {
        if (*b->at != '\\')
            continue;
        *ret_plain = false;
        b->at++;
    }
    raw = range_from(b, start);
    b->at++;
    return raw;
}

/* Its meaning, which the library copies: from the text, from `small`, or from the block. */
static const char *meaning_of(const struct builder *b, struct halo_range raw, bool plain, char small[SMALL_BYTES],
                              size_t *ret_n)
{
    char *buf = small;

    *ret_n = raw.len;
    if (plain)
        return b->text + raw.at;
    if (raw.len > SMALL_BYTES)
        buf = take(raw.len);
    *ret_n = halo_scan_unescape(b->text + raw.at, raw.len, buf, raw.len);
    return buf;
}

static json_t *build_string(struct builder *b)
{
    char small[SMALL_BYTES];
    bool plain;
    size_t n;
    struct halo_range raw = take_quoted(b, &plain);
    const char *text = meaning_of(b, raw, plain, small, &n);

    return json_stringn_nocheck(text, n);
}

/* See halo_json_is_large(). */
static json_t *build_large(const char *digits, size_t n)
{
    char small[SMALL_BYTES], *buf = n < SMALL_BYTES ? small : take(n + 1);

    buf[0] = LARGE_MARK;
    memcpy(buf + 1, digits, n);
    return json_stringn_nocheck(buf, n + 1);
}

static json_t *build_integer(struct builder *b, struct halo_range token)
{
    const char *at = b->text + token.at, *end = at + token.len;
    bool negative = *at == '-';
    int64_t value = 0;

    for (at += negative; at < end; at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, *at - '0', &value))
            return build_large(b->text + token.at, token.len);
    if (!negative && __builtin_sub_overflow(0, value, &value))
        return build_large(b->text + token.at, token.len);
    return json_integer(value);
}

static json_t *build_number(struct builder *b)
{
    const char *start = b->at;
    bool real = false;
    double value;

    for (;; b->at++) {
        if (*b->at == '.' || (*b->at | 0x20) == 'e')
            real = true;
        else if ((*b->at < '0' || *b->at > '9') && *b->at != '-' && *b->at != '+')
            break;
    }
    if (!real)
        return build_integer(b, range_from(b, start));
    value = strtod_l(start, NULL, c_locale); /* ends with the number: a ',', a bracket or white space follows */
    return isinf(value) ? refuse(b, HALO_READ_OVERFLOW, range_from(b, start)) : json_real(value);
}

static int build_member(struct builder *b, json_t *object)
{
    char small[SMALL_BYTES];
    bool plain;
    size_t n;
    const char *key;
    json_t *value;

    b->last_key = take_quoted(b, &plain);
    key = meaning_of(b, b->last_key, plain, small, &n);
    if (json_object_getn(object, key, n)) {
        refuse(b, HALO_READ_TWICE, b->last_key);
        return -1;
    }
    skip_space(b);
    b->at++; /* the colon */
    value = build_value(b);
    return value ? json_object_setn_new_nocheck(object, key, n, value) : -1;
}

static int build_item(struct builder *b, json_t *array)
{
    json_t *value = build_value(b);

    return value ? json_array_append_new(array, value) : -1;
}

static json_t *build_container(struct builder *b, char close)
{
    json_t *container = close == '}' ? json_object() : json_array();

    b->at++;
    skip_space(b);
    while (*b->at != close) {
        if ((close == '}' ? build_member(b, container) : build_item(b, container)) < 0)
            return NULL;
        skip_space(b);
        if (*b->at == ',') {
            b->at++;
            skip_space(b);
        }
    }
    b->at++;
    return container;
}

static json_t *build_word(struct builder *b, size_t n, json_t *value)
{
    b->at += n;
    return value;
}

/* NULL: refused. */
static json_t *build_value(struct builder *b)
{
    skip_space(b);
    switch (*b->at) {
    case '{': return build_container(b, '}');
    case '[': return build_container(b, ']');
    case '"': return build_string(b);
    case 't': return build_word(b, 4, json_true());
    case 'f': return build_word(b, 5, json_false());
    case 'n': return build_word(b, 4, json_null());
    default: return build_number(b);
    }
}

/* ---- both ---- */

int halo_json_read(struct halo_json_read *read, const struct halo_scan *scan)
{
    struct builder b = {.at = scan->text, .text = scan->text, .read = read};
    struct block *block;
    size_t cap;

    *read = (struct halo_json_read){0};
    if (scan->fault != HALO_SCAN_OK) {
        read->fault = HALO_READ_SCAN;
        read->bad_at = scan->bad_at;
        return HALO_MSG_E_REFUSED;
    }
    cap = bound_bytes(scan);
    block = malloc(sizeof *block + cap);
    if (!block)
        return -ENOMEM;
    block->used = 0;
    block->cap = cap;

    assert(!reading);
    reading = block;
    read->root = build_value(&b);
    reading = NULL;
    if (read->root) {
        read->memory = block;
        return 0;
    }
    assert(read->fault != HALO_READ_OK);
    free(block);
    return HALO_MSG_E_REFUSED;
}

void halo_json_read_end(struct halo_json_read *read)
{
    free(read->memory);
    read->memory = NULL;
    read->root = NULL;
}

/* ---- large integers ---- */

bool halo_json_is_large(const json_t *json)
{
    return json_is_string(json) && json_string_length(json) > 0 && json_string_value(json)[0] == LARGE_MARK;
}

struct halo_raw halo_json_large(const json_t *json)
{
    assert(halo_json_is_large(json));
    return (struct halo_raw){json_string_value(json) + 1, json_string_length(json) - 1};
}

bool halo_json_is_text(const json_t *json)
{
    return json_is_string(json) && !halo_json_is_large(json);
}
