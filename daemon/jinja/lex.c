/* lex.c: template text to tokens.
 *
 * Pure: tokens and decoded strings live in the arena given. White space is settled here: `-` at a tag takes all of it
 * on that side, trim_blocks the line break after a block or comment tag (`+` keeps it), lstrip_blocks the blanks before
 * one that begins its line (`+` keeps them). Fails with UNSUPPORTED (the text is no template) and OUT_OF_MEMORY.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/utf8.h>

#include "jinja_priv.h"

struct lexer {
    struct halo_arena *arena;
    const struct halo_jinja_source *source;
    struct halo_fault *fault;
    struct halo_jinja_token *tokens;
    size_t n, n_held;
    size_t at; /* byte offset */
};

static int out_of_memory(struct lexer *lexer)
{
    return halo_fault_set(lexer->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the tokens of a chat template");
}

static int push(struct lexer *lexer, struct halo_jinja_token token)
{
    if (lexer->n == lexer->n_held) {
        size_t n_held = lexer->n_held ? 2 * lexer->n_held : 256;
        struct halo_jinja_token *tokens = halo_arena_alloc(lexer->arena, n_held, sizeof *tokens);
        if (!tokens)
            return out_of_memory(lexer);
        if (lexer->n)
            memcpy(tokens, lexer->tokens, lexer->n * sizeof *tokens);
        lexer->tokens = tokens;
        lexer->n_held = n_held;
    }
    lexer->tokens[lexer->n++] = token;
    return 0;
}

static int push_text(struct lexer *lexer, enum halo_jinja_token_kind kind, size_t at, const char *bytes, size_t n)
{
    return push(lexer, (struct halo_jinja_token){.kind = kind, .at = (uint32_t)at, .bytes = bytes, .n = n});
}

static bool looks_at(const struct lexer *lexer, size_t at, const char *text)
{
    size_t n = strlen(text);
    return lexer->source->n - at >= n && memcmp(lexer->source->text + at, text, n) == 0;
}

/* ---- text between tags ---- */

static size_t find_tag(const struct lexer *lexer, size_t from)
{
    const struct halo_jinja_source *s = lexer->source;
    while (from < s->n) {
        const char *brace = memchr(s->text + from, '{', s->n - from);
        if (!brace)
            return s->n;
        from = (size_t)(brace - s->text);
        if (from + 1 < s->n && (brace[1] == '{' || brace[1] == '%' || brace[1] == '#'))
            return from;
        from++;
    }
    return s->n;
}

/* Where the text [from, tag) ends when the tag's sign and lstrip_blocks have had their say. */
static size_t text_end(const struct lexer *lexer, size_t from, size_t tag, char sign, bool is_block)
{
    const char *text = lexer->source->text;
    if (sign == '-')
        return from + halo_jinja_without_space(text + from, tag - from);
    if (!is_block || sign == '+')
        return tag;
    size_t line = tag;
    while (line > from && text[line - 1] != '\n')
        line--;
    bool begins_line = line > 0 ? text[line - 1] == '\n' : true;
    if (begins_line && line + halo_jinja_skip_space(text + line, tag - line) == tag)
        return line;
    return tag;
}

static int push_data(struct lexer *lexer, size_t from, size_t to)
{
    if (from >= to)
        return 0;
    return push_text(lexer, HALO_JINJA_T_DATA, from, lexer->source->text + from, to - from);
}

/* Moves behind a tag's end of `n` bytes; `-` in front of it takes the white space, trim_blocks the line break. */
static void skip_after(struct lexer *lexer, char sign, size_t n, bool trims)
{
    const struct halo_jinja_source *s = lexer->source;
    lexer->at += n;
    if (sign == '-')
        lexer->at += halo_jinja_skip_space(s->text + lexer->at, s->n - lexer->at);
    else if (trims && sign != '+' && lexer->at < s->n && s->text[lexer->at] == '\n')
        lexer->at++;
}

static int lex_comment(struct lexer *lexer, size_t tag)
{
    const struct halo_jinja_source *s = lexer->source;
    size_t from = tag + 2;
    const char *end = s->n > from ? memmem(s->text + from, s->n - from, "#}", 2) : NULL;
    if (!end)
        return halo_jinja_parse_fault(lexer->fault, s, tag, "the comment does not end");
    lexer->at = (size_t)(end - s->text);
    char sign = lexer->at > from ? s->text[lexer->at - 1] : 0;
    skip_after(lexer, sign == '-' || sign == '+' ? sign : 0, 2, true);
    return 0;
}

/* A tag of one word, as in {%- raw -%}: its length without the end's effect on white space, 0 if it is none. */
static size_t word_tag(const struct lexer *lexer, size_t at, const char *word, char *ret_open, char *ret_close)
{
    const struct halo_jinja_source *s = lexer->source;
    size_t start = at;
    if (!looks_at(lexer, at, "{%"))
        return 0;
    at += 2;
    *ret_open = at < s->n && (s->text[at] == '-' || s->text[at] == '+') ? s->text[at++] : 0;
    at += halo_jinja_skip_space(s->text + at, s->n - at);
    if (!looks_at(lexer, at, word))
        return 0;
    at += strlen(word);
    at += halo_jinja_skip_space(s->text + at, s->n - at);
    *ret_close = at < s->n && (s->text[at] == '-' || s->text[at] == '+') ? s->text[at++] : 0;
    return looks_at(lexer, at, "%}") ? at + 2 - start : 0;
}

static int lex_raw(struct lexer *lexer, size_t tag, size_t n_tag, char close)
{
    const struct halo_jinja_source *s = lexer->source;
    char open = 0;
    lexer->at = tag;
    skip_after(lexer, close, n_tag, false);
    size_t from = lexer->at;
    for (size_t at = from; at < s->n; at++) {
        const char *brace = memchr(s->text + at, '{', s->n - at);
        if (!brace)
            break;
        at = (size_t)(brace - s->text);
        size_t n = word_tag(lexer, at, "endraw", &open, &close);
        if (n == 0)
            continue;
        lexer->at = at;
        skip_after(lexer, close, n, true);
        return push_data(lexer, from, text_end(lexer, from, at, open, true));
    }
    return halo_jinja_parse_fault(lexer->fault, s, tag, "the raw block does not end");
}

/* ---- inside of tags ---- */

static bool is_name_start(unsigned char c)
{
    return (unsigned)((c | 32) - 'a') < 26 || c == '_' || c >= 0x80;
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
    return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
}

/* The code of \xHH, \uHHHH, \UHHHHHHHH at `at` (behind the letter); false: not that many digits. */
static bool hex_code(const char *at, const char *end, int n, uint32_t *ret)
{
    *ret = 0;
    for (int i = 0; i < n; i++, at++) {
        if (at >= end || digit_value(*at) > 15)
            return false;
        *ret = *ret << 4 | (uint32_t)digit_value(*at);
    }
    return *ret <= 0x10FFFF && (*ret < 0xD800 || *ret > 0xDFFF);
}

/* One escape at `at` (the backslash), decoded to `to`. Returns the bytes read, 0 for one that is malformed. */
static size_t unescape(const char *at, const char *end, char **to)
{
    static const char letters[] = "n\nt\tr\rb\bf\fv\va\a\\\\''\"\"";
    char c = at[1];
    uint32_t code;
    for (size_t i = 0; i + 1 < sizeof letters; i += 2)
        if (c == letters[i]) {
            *(*to)++ = letters[i + 1];
            return 2;
        }
    if (c == '\n')
        return 2;
    if (c == 'x' || c == 'u' || c == 'U') {
        int n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (!hex_code(at + 2, end, n, &code))
            return 0;
        *to += halo_utf8_encode(*to, code);
        return (size_t)n + 2;
    }
    if (c >= '0' && c <= '7') {
        size_t n = 1;
        for (code = 0; n < 4 && at + n < end && at[n] >= '0' && at[n] <= '7'; n++)
            code = code * 8 + (uint32_t)(at[n] - '0');
        *to += halo_utf8_encode(*to, code);
        return n;
    }
    *(*to)++ = '\\'; /* an unknown escape is itself */
    return 1;
}

static int lex_string(struct lexer *lexer)
{
    const struct halo_jinja_source *s = lexer->source;
    const char *start = s->text + lexer->at, *limit = s->text + s->n, *end = start + 1;
    bool escapes = false;
    while (end < limit && *end != *start) {
        escapes |= *end == '\\';
        end += *end == '\\' ? 2 : 1;
    }
    if (end >= limit)
        return halo_jinja_parse_fault(lexer->fault, s, lexer->at, "the string does not end");
    size_t at = lexer->at;
    lexer->at += (size_t)(end + 1 - start);
    if (!escapes)
        return push_text(lexer, HALO_JINJA_T_STRING, at, start + 1, (size_t)(end - start) - 1);
    char *text = halo_arena_alloc(lexer->arena, (size_t)(end - start), 2), *to = text; /* \7 grows, to two bytes */
    if (!text)
        return out_of_memory(lexer);
    for (const char *from = start + 1; from < end;) {
        size_t n = *from == '\\' ? unescape(from, end, &to) : (*to++ = *from, 1u);
        if (n == 0)
            return halo_jinja_parse_fault(lexer->fault, s, (size_t)(from - s->text), "a malformed escape in a string");
        from += n;
    }
    return push_text(lexer, HALO_JINJA_T_STRING, at, text, (size_t)(to - text));
}

static int lex_integer(struct lexer *lexer, size_t at, int base)
{
    const struct halo_jinja_source *s = lexer->source;
    struct halo_jinja_token token = {.kind = HALO_JINJA_T_INT, .at = (uint32_t)lexer->at};
    for (; at < s->n && (digit_value(s->text[at]) < base || s->text[at] == '_'); at++)
        if (s->text[at] != '_' && (__builtin_mul_overflow(token.integer, base, &token.integer) ||
                                   __builtin_add_overflow(token.integer, digit_value(s->text[at]), &token.integer)))
            return halo_jinja_parse_fault(lexer->fault, s, lexer->at, "an integer of more than 64 bits");
    lexer->at = at;
    return push(lexer, token);
}

static size_t skip_digits(const struct halo_jinja_source *s, size_t at)
{
    while (at < s->n && (is_digit(s->text[at]) || (s->text[at] == '_' && at + 1 < s->n && is_digit(s->text[at + 1]))))
        at++;
    return at;
}

static int lex_number(struct lexer *lexer)
{
    const struct halo_jinja_source *s = lexer->source;
    size_t at = lexer->at;
    char second = at + 1 < s->n ? (char)(s->text[at + 1] | 32) : 0;
    if (s->text[at] == '0' && (second == 'x' || second == 'o' || second == 'b'))
        return lex_integer(lexer, at + 2, second == 'x' ? 16 : second == 'o' ? 8 : 2);
    at = skip_digits(s, at);
    size_t whole = at;
    if (at + 1 < s->n && s->text[at] == '.' && is_digit(s->text[at + 1]))
        at = skip_digits(s, at + 1);
    if (at + 1 < s->n && (s->text[at] | 32) == 'e') {
        size_t digits = at + 1 + (s->text[at + 1] == '+' || s->text[at + 1] == '-');
        if (digits < s->n && is_digit(s->text[digits]))
            at = skip_digits(s, digits);
    }
    if (at == whole)
        return lex_integer(lexer, lexer->at, 10);
    char digits[64];
    size_t n = 0;
    for (size_t i = lexer->at; i < at && n < sizeof digits - 1; i++)
        if (s->text[i] != '_')
            digits[n++] = s->text[i];
    digits[n] = 0;
    struct halo_jinja_token token = {
        .kind = HALO_JINJA_T_FLOAT, .at = (uint32_t)lexer->at, .number = strtod(digits, NULL)};
    lexer->at = at;
    return push(lexer, token);
}

static int lex_operator(struct lexer *lexer, char *open, size_t *n_open)
{
    static const char *const two[] = {"==", "!=", ">=", "<=", "//", "**"};
    const struct halo_jinja_source *s = lexer->source;
    const char *at = s->text + lexer->at;
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (looks_at(lexer, lexer->at, two[i]))
            n = 2;
    if (n == 1 && (*at == 0 || !strchr("+-/*%~[](){}<>=.:|,;", *at)))
        return halo_jinja_parse_fault(lexer->fault, s, lexer->at, "unexpected character");
    if (n == 1 && strchr("([{", *at)) {
        if (*n_open == HALO_JINJA_PARSE_DEPTH)
            return halo_jinja_parse_fault(lexer->fault, s, lexer->at, "brackets nest too deeply");
        open[(*n_open)++] = *at == '(' ? ')' : *at == '[' ? ']' : '}';
    } else if (n == 1 && strchr(")]}", *at)) {
        if (*n_open == 0 || open[--*n_open] != *at)
            return halo_jinja_parse_fault(lexer->fault, s, lexer->at, "unexpected '%c'", *at);
    }
    lexer->at += n;
    return push_text(lexer, HALO_JINJA_T_OP, (size_t)(at - s->text), at, n);
}

static int lex_name(struct lexer *lexer)
{
    const struct halo_jinja_source *s = lexer->source;
    size_t at = lexer->at, end = at;
    while (end < s->n && (is_name_start((unsigned char)s->text[end]) || is_digit(s->text[end])))
        end++;
    lexer->at = end;
    return push_text(lexer, HALO_JINJA_T_NAME, at, s->text + at, end - at);
}

/* From behind the opening of a tag to behind its end. */
static int lex_inside(struct lexer *lexer, bool is_block, size_t tag)
{
    const struct halo_jinja_source *s = lexer->source;
    const char *end = is_block ? "%}" : "}}";
    char open[HALO_JINJA_PARSE_DEPTH];
    size_t n_open = 0;
    int r = 0;
    while (r == 0) {
        lexer->at += halo_jinja_skip_space(s->text + lexer->at, s->n - lexer->at);
        if (lexer->at >= s->n)
            return halo_jinja_parse_fault(lexer->fault, s, tag, "the tag does not end");
        char c = s->text[lexer->at];
        bool signed_end = (c == '-' || (c == '+' && is_block)) && looks_at(lexer, lexer->at + 1, end);
        if (n_open == 0 && (signed_end || looks_at(lexer, lexer->at, end))) {
            r = push_text(lexer, is_block ? HALO_JINJA_T_BLOCK_END : HALO_JINJA_T_OUTPUT_END, lexer->at, end, 2);
            skip_after(lexer, signed_end ? c : 0, signed_end ? 3 : 2, is_block);
            return r;
        }
        if (c == '\'' || c == '"')
            r = lex_string(lexer);
        else if (is_digit(c))
            r = lex_number(lexer);
        else if (is_name_start((unsigned char)c))
            r = lex_name(lexer);
        else
            r = lex_operator(lexer, open, &n_open);
    }
    return r;
}

static int lex_tag(struct lexer *lexer, size_t from, size_t tag)
{
    const struct halo_jinja_source *s = lexer->source;
    char kind = s->text[tag + 1], sign = tag + 2 < s->n ? s->text[tag + 2] : 0, open, close;
    sign = sign == '-' || sign == '+' ? sign : 0;
    int r = push_data(lexer, from, text_end(lexer, from, tag, sign, kind != '{'));
    if (r < 0)
        return r;
    if (kind == '#')
        return lex_comment(lexer, tag);
    size_t n_raw = kind == '%' ? word_tag(lexer, tag, "raw", &open, &close) : 0;
    if (n_raw)
        return lex_raw(lexer, tag, n_raw, close);
    r = push_text(lexer, kind == '%' ? HALO_JINJA_T_BLOCK : HALO_JINJA_T_OUTPUT, tag, s->text + tag, 2);
    lexer->at = tag + 2 + (sign != 0);
    return r < 0 ? r : lex_inside(lexer, kind == '%', tag);
}

int halo_jinja_lex(struct halo_arena *arena, const struct halo_jinja_source *source, struct halo_jinja_token **ret,
                   size_t *ret_n, struct halo_fault *fault)
{
    struct lexer lexer = {.arena = arena, .source = source, .fault = fault};
    int r = 0;
    while (r == 0 && lexer.at < source->n) {
        size_t from = lexer.at, tag = find_tag(&lexer, from);
        if (tag == source->n) {
            r = push_data(&lexer, from, tag);
            lexer.at = tag;
        } else {
            r = lex_tag(&lexer, from, tag);
        }
    }
    if (r == 0)
        r = push_text(&lexer, HALO_JINJA_T_END, source->n, "", 0);
    *ret = lexer.tokens;
    *ret_n = lexer.n;
    return r;
}
