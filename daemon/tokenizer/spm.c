/* spm.c: SentencePiece's byte-pair model.
 *
 * Spaces are written as U+2581, and one is put in front where a text begins. A pair may merge when its text is a
 * token; the highest score goes first. A character that is no token is spelled by byte tokens. Merges know no words;
 * but where no token has a space mark in its middle, none can cross the start of a word, and cutting there changes
 * nothing but time and memory. Scratch of one call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/utf8.h>

#include "tokenizer_priv.h"

#define SPACE_MARK "\xE2\x96\x81"
#define SPACE_MARK_BYTES 3

static bool is_mark(const char *text, size_t n)
{
    return n >= SPACE_MARK_BYTES && memcmp(text, SPACE_MARK, SPACE_MARK_BYTES) == 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int halo_spm_parse_byte(struct halo_span text)
{
    if (text.n != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>')
        return -1;
    int high = hex_digit(text.bytes[3]), low = hex_digit(text.bytes[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

size_t halo_spm_decode(const char *text, size_t n, char *out)
{
    size_t n_out = 0;
    for (size_t at = 0; at < n;) {
        bool mark = is_mark(text + at, n - at);
        out[n_out++] = mark ? ' ' : text[at];
        at += mark ? SPACE_MARK_BYTES : 1;
    }
    return n_out;
}

int halo_spm_find_bytes(struct halo_tokenizer *t, struct halo_fault *fault)
{
    int n_missing = 0;
    for (int byte = 0; byte < 256; byte++)
        t->byte_ids[byte] = -1;
    for (uint32_t id = t->vocab.n; id-- > 0;) /* backwards: of two spellings the lower id stays */
        if (t->kinds[id] == HALO_TOKEN_BYTE)
            t->byte_ids[halo_spm_parse_byte(halo_strings_get(&t->vocab, id))] = (int32_t)id;
    for (int byte = 0; byte < 256; byte++)
        n_missing += t->byte_ids[byte] < 0;
    if (n_missing && t->unknown < 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "the vocabulary has no token for %d of 256 bytes and no unknown token to stand for them",
                              n_missing);
    return 0;
}

void halo_spm_find_words(struct halo_tokenizer *t)
{
    t->spm_words = true;
    for (uint32_t id = 0; id < t->vocab.n && t->spm_words; id++) {
        struct halo_span text = halo_strings_get(&t->vocab, id);
        size_t at = 0;
        while (is_mark(text.bytes + at, text.n - at))
            at += SPACE_MARK_BYTES;
        t->spm_words = !memmem(text.bytes + at, text.n - at, SPACE_MARK, SPACE_MARK_BYTES);
    }
}

static void pair_by_score(const struct halo_encoder *encoder, struct halo_merge_symbol *left,
                          const struct halo_merge_symbol *right)
{
    const struct halo_tokenizer *t = encoder->tokenizer;
    int32_t id = halo_strings_find(&t->vocab, encoder->merge_text + left->start, (size_t)left->n + right->n);
    if (id < 0)
        return;
    left->key = t->score_keys[id];
    left->result = id;
}

static size_t escape(char *out, const char *text, size_t n, bool prefix)
{
    size_t n_out = 0;
    if (prefix) {
        memcpy(out, SPACE_MARK, SPACE_MARK_BYTES);
        n_out = SPACE_MARK_BYTES;
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ') {
            out[n_out++] = text[i];
            continue;
        }
        memcpy(out + n_out, SPACE_MARK, SPACE_MARK_BYTES);
        n_out += SPACE_MARK_BYTES;
    }
    return n_out;
}

/* The end of the word at `at`: where a space mark follows something else. */
static size_t word_end(const char *text, size_t n, size_t at)
{
    bool marks_only = true;
    while (at < n) {
        bool mark = is_mark(text + at, n - at);
        if (mark && !marks_only)
            break;
        marks_only &= mark;
        at += mark ? SPACE_MARK_BYTES : 1;
    }
    return at;
}

static int32_t find_token(const struct halo_tokenizer *t, const char *text, size_t n)
{
    return halo_strings_find(&t->vocab, text, n);
}

int halo_spm_word(struct halo_encoder *encoder, const char *word, size_t n, halo_character_fn *find,
                  halo_merge_pair_fn *pair)
{
    if (halo_merger_reserve(&encoder->merger, n) < 0)
        return halo_encoder_no_memory(encoder);
    encoder->merge_text = word;
    struct halo_merge_symbol *symbols = encoder->merger.symbols;
    size_t n_symbols = 0;
    int r = 0;
    for (size_t at = 0, length; r == 0 && at < n; at += length) {
        if (halo_utf8_scan(word + at, n - at, &length) != HALO_UTF8_VALID)
            length = 1;
        symbols[n_symbols++] = (struct halo_merge_symbol){
            .start = (uint32_t)at,
            .n = (uint32_t)length,
            .id = find(encoder->tokenizer, word + at, length),
        };
        r = halo_turn_work(encoder->turn, 1);
    }
    if (r == 0)
        r = halo_merger_run(encoder, n_symbols, pair);
    return r < 0 ? r : halo_encoder_push_merged(encoder);
}

int halo_spm_escape(struct halo_encoder *encoder, const char *text, size_t n, bool prefix, size_t *ret_n)
{
    size_t n_escaped = n + (prefix ? SPACE_MARK_BYTES : 0);
    for (size_t i = 0; i < n; i++)
        n_escaped += text[i] == ' ' ? SPACE_MARK_BYTES - 1 : 0;
    if (n_escaped > HALO_TOKENIZER_MAX_TEXT_BYTES)
        return halo_fault_set(encoder->fault, HALO_FAULT_BAD_REQUEST, "a text of %zu bytes is too long", n);
    free(encoder->buffer);
    encoder->buffer = malloc(n_escaped);
    if (!encoder->buffer)
        return halo_encoder_no_memory(encoder);
    int r = halo_turn_work(encoder->turn, n / HALO_BYTES_PER_WORK);
    if (r == 0) {
        escape(encoder->buffer, text, n, prefix);
        r = halo_turn_work(encoder->turn, n / HALO_BYTES_PER_WORK);
    }
    *ret_n = n_escaped;
    return r;
}

int halo_spm_encode(struct halo_encoder *encoder, const char *text, size_t n, bool prefix)
{
    size_t n_escaped;
    int r = halo_spm_escape(encoder, text, n, prefix, &n_escaped);
    for (size_t at = 0, end; r == 0 && at < n_escaped; at = end) {
        end = encoder->tokenizer->spm_words ? word_end(encoder->buffer, n_escaped, at) : n_escaped;
        r = halo_spm_word(encoder, encoder->buffer + at, end - at, find_token, pair_by_score);
    }
    return r;
}
