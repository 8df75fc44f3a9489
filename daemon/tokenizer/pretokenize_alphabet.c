/* pretokenize_alphabet.c: characters as bytes, so that what an expression means by \p{L} is the Unicode of
 * base/unicode.h and not that of the installed PCRE2.
 *
 * All that an expression can tell of a character past ASCII is which of its classes hold it. Characters that no class
 * tells apart become one byte from 0x80 on; ASCII stands for itself. Each class becomes the bytes that it holds, and
 * PCRE2 matches bytes. A handful of classes (letters, numbers, white space ...) makes a handful of bytes.
 *
 * Built once per tokenizer, in malloc memory. The expressions are those of pretokenize_table.c: what their classes use
 * is known here, anything else is a defect of the table. Fails with -ENOMEM.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/unicode.h>
#include <base/utf8.h>

#include "pretokenize_priv.h"

#define MAX_CLASSES 32
#define MAX_BYTES 256
#define CLASS_BYTES (4 + MAX_BYTES * sizeof("\\xFF")) /* of one that is written out */

struct class
{
    const char *text; /* "[...]" or "\p{...}" */
    size_t n;
};

struct builder {
    struct class classes[MAX_CLASSES]; /* each once */
    size_t n_classes;
    uint32_t *holders;         /* [code point]: bit i: class i holds it */
    uint32_t kinds[MAX_BYTES]; /* [byte]: the classes that hold what it stands for */
    size_t n_bytes;            /* bytes in use, ASCII included */
};

/* ---- reading expressions ---- */

static bool is_property(const char *at)
{
    return at[0] == '\\' && at[1] == 'p';
}

/* The length of the class that begins at `at`; 0: none does. */
static size_t class_length(const char *at)
{
    const char *end = at;
    if (is_property(at))
        return (size_t)(strchr(at, '}') + 1 - at);
    if (*at != '[')
        return 0;
    for (end++; *end != ']'; end++)
        end += *end == '\\';
    return (size_t)(end + 1 - at);
}

/* One character of a class, which may be written as \x{HEX}, \t, \r, \n or behind a backslash. */
static uint32_t take_character(const char **at)
{
    static const char escapes[] = "trn", meant[] = "\t\r\n";
    size_t n;
    if (**at != '\\') {
        enum halo_utf8 verdict = halo_utf8_scan(*at, strlen(*at), &n);
        assert(verdict == HALO_UTF8_VALID);
        *at += n;
        return halo_utf8_decode(*at - n, n);
    }
    char escaped = (*at)[1];
    *at += 2;
    if (escaped == 'x') {
        char *end;
        unsigned long c = strtoul(*at + 1, &end, 16);
        assert(**at == '{' && *end == '}');
        *at = end + 1;
        return (uint32_t)c;
    }
    const char *letter = strchr(escapes, escaped);
    assert(letter || strchr("$+^|[]\\-", escaped));
    return (uint32_t)(letter ? meant[letter - escapes] : escaped);
}

static void hold(struct builder *b, uint32_t bit, uint32_t first, uint32_t last)
{
    assert(first <= last && last < HALO_UNICODE_END);
    for (uint32_t c = first; c <= last; c++)
        b->holders[c] |= bit;
}

static const char *hold_property(struct builder *b, uint32_t bit, const char *at)
{
    const char *name = at + 3, *end = strchr(name, '}');
    uint32_t mask = halo_unicode_mask(name, (size_t)(end - name)), last;
    assert(at[2] == '{' && mask);
    for (uint32_t c = 0; c < HALO_UNICODE_END; c = last + 1)
        if (mask >> halo_unicode_category(c, &last) & 1)
            hold(b, bit, c, last);
    return end + 1;
}

static bool is_negated(const struct class *class)
{
    return class->text[0] == '[' && class->text[1] == '^';
}

/* What stands in the brackets; whether they are negated matters only when the class is written out. */
static void hold_class(struct builder *b, uint32_t bit, const struct class *class)
{
    if (is_property(class->text)) {
        hold_property(b, bit, class->text);
        return;
    }
    const char *at = class->text + (is_negated(class) ? 2 : 1), *end = class->text + class->n - 1;
    while (at < end) {
        if (is_property(at)) {
            at = hold_property(b, bit, at);
            continue;
        }
        uint32_t first = take_character(&at), last = first;
        if (*at == '-' && at + 1 < end) {
            at++;
            last = take_character(&at);
        }
        hold(b, bit, first, last);
    }
    assert(at == end);
}

static size_t class_index(const struct builder *b, const char *text, size_t n)
{
    size_t i = 0;
    while (i < b->n_classes && (b->classes[i].n != n || memcmp(b->classes[i].text, text, n) != 0))
        i++;
    return i;
}

/* Of what stands at `at`: a class, an escaped character, or one character. */
static size_t item_length(const char *at)
{
    size_t n = class_length(at);
    return n > 0 ? n : *at == '\\' ? 2 : 1;
}

static void collect_classes(struct builder *b, const char *expression)
{
    for (const char *at = expression; *at; at += item_length(at)) {
        size_t n = class_length(at), i = class_index(b, at, n);
        assert((unsigned char)*at < 0x80);
        if (n == 0 || i < b->n_classes)
            continue;
        assert(b->n_classes < MAX_CLASSES);
        b->classes[b->n_classes++] = (struct class){at, n};
        hold_class(b, 1u << i, &b->classes[i]);
    }
}

/* ---- bytes ---- */

static uint8_t byte_of(struct builder *b, uint32_t holders)
{
    size_t byte = 0x80;
    while (byte < b->n_bytes && b->kinds[byte] != holders)
        byte++;
    assert(byte < MAX_BYTES);
    if (byte == b->n_bytes)
        b->kinds[b->n_bytes++] = holders;
    return (uint8_t)byte;
}

/* The page of 256 characters from `first` on: one that is there already, or a new one. */
static size_t page_of(struct halo_alphabet *alphabet, struct builder *b, uint32_t first)
{
    uint8_t *page = alphabet->pages[alphabet->n_pages];
    for (uint32_t i = 0; i < HALO_ALPHABET_PAGE; i++) {
        uint32_t c = first + i;
        bool same = i > 0 && c > 0x80 && b->holders[c] == b->holders[c - 1];
        page[i] = c < 0x80 ? (uint8_t)c : same ? page[i - 1] : byte_of(b, b->holders[c]);
    }
    for (size_t i = 0; i < alphabet->n_pages; i++)
        if (memcmp(alphabet->pages[i], page, HALO_ALPHABET_PAGE) == 0)
            return i;
    return alphabet->n_pages++;
}

static int assign_bytes(struct halo_alphabet *alphabet, struct builder *b)
{
    b->n_bytes = 0x80;
    for (uint32_t c = 0; c < 0x80; c++)
        b->kinds[c] = b->holders[c];
    alphabet->pages = calloc(HALO_ALPHABET_N_PAGES + 1, HALO_ALPHABET_PAGE);
    if (!alphabet->pages)
        return -ENOMEM;
    for (uint32_t i = 0; i < HALO_ALPHABET_N_PAGES; i++)
        alphabet->page_of[i] = (uint16_t)page_of(alphabet, b, i * HALO_ALPHABET_PAGE);
    void *fitted = realloc(alphabet->pages, alphabet->n_pages * HALO_ALPHABET_PAGE);
    if (!fitted)
        return -ENOMEM;
    alphabet->pages = fitted;
    return 0;
}

/* ---- writing expressions ---- */

static char *put_class(char *out, const struct builder *b, const struct class *class, uint32_t bit)
{
    out += sprintf(out, "[%s", is_negated(class) ? "^" : "");
    for (size_t byte = 0; byte < b->n_bytes; byte++)
        if (b->kinds[byte] & bit)
            out += sprintf(out, "\\x%02X", (unsigned)byte);
    *out++ = ']';
    return out;
}

/* The expression over bytes; malloc. */
static int rewrite(const struct builder *b, const char *expression, char **ret)
{
    size_t n_held = strlen(expression) + 1;
    for (const char *at = expression; *at; at += item_length(at))
        n_held += class_length(at) > 0 ? CLASS_BYTES : 0;
    char *out = *ret = malloc(n_held);
    if (!out)
        return -ENOMEM;
    for (const char *at = expression; *at; at += item_length(at)) {
        size_t n = class_length(at), i = class_index(b, at, n);
        if (n > 0) {
            out = put_class(out, b, &b->classes[i], 1u << i);
            continue;
        }
        memcpy(out, at, item_length(at));
        out += item_length(at);
    }
    *out = '\0';
    return 0;
}

int halo_alphabet_init(struct halo_alphabet *alphabet, const char *const *expressions,
                       char *ret_expressions[HALO_PRETOKENIZE_MAX_PASSES])
{
    struct builder b = {.holders = calloc(HALO_UNICODE_END, sizeof(*b.holders))};
    *alphabet = (struct halo_alphabet){0};
    memset(ret_expressions, 0, HALO_PRETOKENIZE_MAX_PASSES * sizeof(*ret_expressions));
    for (size_t i = 0; b.holders && expressions[i]; i++)
        collect_classes(&b, expressions[i]);
    int r = b.holders ? assign_bytes(alphabet, &b) : -ENOMEM;
    for (size_t i = 0; r == 0 && expressions[i]; i++)
        r = rewrite(&b, expressions[i], &ret_expressions[i]);
    free(b.holders);
    return r;
}

void halo_alphabet_finish(struct halo_alphabet *alphabet)
{
    free(alphabet->pages);
}

/* ---- texts ---- */

size_t halo_alphabet_map(const struct halo_alphabet *alphabet, const char *text, size_t n, uint8_t *ret)
{
    size_t n_bytes = 0;
    for (size_t at = 0; at < n; n_bytes++) {
        uint8_t lead = (uint8_t)text[at];
        size_t length = halo_alphabet_length(lead);
        ret[n_bytes] = lead < 0x80 ? lead : halo_alphabet_byte(alphabet, halo_utf8_decode(text + at, length));
        at += length;
    }
    return n_bytes;
}
