/* mkgguf_vocab.c: a byte-level BPE vocabulary of any size that really tokenizes.
 *
 * The 256 bytes in their printable spelling come first, then tokens of two, three and four lower-case letters with and
 * without a space in front, each the result of exactly one merge, then the three special tokens. Any text can be
 * written with it.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "mkgguf.h"

#define VOCAB_SPECIALS 3
#define VOCAB_BYTES 256
#define SPACE "\xc4\xa0" /* how byte-level BPE spells a space: U+0120 */
#define LETTERS 26

static const char *const specials[VOCAB_SPECIALS] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

/* The printable spelling of a byte as UTF-8: itself where it is visible, else U+0100 and following in order. */
static void byte_spelling(unsigned byte, char ret[3])
{
    unsigned hidden = 0, code = byte;
    for (unsigned b = 0; b <= byte; b++) {
        bool visible = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        code = visible ? b : 256 + hidden++;
    }
    if (code < 0x80) {
        ret[0] = (char)code;
        ret[1] = '\0';
    } else {
        ret[0] = (char)(0xc0 | code >> 6);
        ret[1] = (char)(0x80 | (code & 0x3f));
        ret[2] = '\0';
    }
}

/* The i-th merged token as its two halves. False when the stock is used up. */
static bool merge_at(uint32_t i, char ret_left[8], char ret_right[8])
{
    const uint32_t pairs = LETTERS * LETTERS, triples = pairs * LETTERS, quads = pairs * pairs;
    const char *front = "";
    uint32_t letters;
    ret_left[0] = ret_right[0] = '\0';
    if (i < LETTERS) { /* " a" */
        snprintf(ret_left, 8, SPACE);
        snprintf(ret_right, 8, "%c", (char)('a' + i));
        return true;
    }
    i -= LETTERS;
    /* Twice each: first without, then with the space in front of the finished word. */
    if (i < 2 * pairs) {
        letters = 2;
        front = i < pairs ? "" : SPACE;
        i %= pairs;
    } else if ((i -= 2 * pairs) < 2 * triples) {
        letters = 3;
        front = i < triples ? "" : SPACE;
        i %= triples;
    } else if ((i -= 2 * triples) < 2 * quads) {
        letters = 4;
        front = i < quads ? "" : SPACE;
        i %= quads;
    } else {
        return false;
    }
    char word[5] = "";
    for (uint32_t at = letters; at-- > 0; i /= LETTERS)
        word[at] = (char)('a' + i % LETTERS);
    if (front[0]) {
        snprintf(ret_left, 8, "%s", front);
        snprintf(ret_right, 8, "%s", word);
    } else {
        uint32_t cut = letters == 2 ? 1 : 2;
        snprintf(ret_left, 8, "%.*s", (int)cut, word);
        snprintf(ret_right, 8, "%s", word + cut);
    }
    return true;
}

static uint32_t count_merges(uint32_t n_vocab)
{
    char left[8], right[8];
    uint32_t wanted = n_vocab - VOCAB_BYTES - VOCAB_SPECIALS;
    return merge_at(wanted ? wanted - 1 : 0, left, right) ? wanted : 0;
}

void mkgguf_vocab(struct gguf_writer *w, uint32_t n_vocab, const char *pre)
{
    assert(n_vocab >= VOCAB_BYTES + VOCAB_SPECIALS);
    uint32_t n_merges = count_merges(n_vocab);
    assert(n_merges == n_vocab - VOCAB_BYTES - VOCAB_SPECIALS);
    char left[8], right[8], text[20];
    gguf_writer_key_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_key_string(w, "tokenizer.ggml.pre", pre);
    gguf_writer_key_array(w, "tokenizer.ggml.tokens", HALO_GGUF_STRING, n_vocab);
    for (unsigned byte = 0; byte < VOCAB_BYTES; byte++) {
        byte_spelling(byte, text);
        gguf_writer_string(w, text);
    }
    for (uint32_t i = 0; i < n_merges; i++) {
        merge_at(i, left, right);
        snprintf(text, sizeof text, "%s%s", left, right);
        gguf_writer_string(w, text);
    }
    for (int i = 0; i < VOCAB_SPECIALS; i++)
        gguf_writer_string(w, specials[i]);
    gguf_writer_key_array(w, "tokenizer.ggml.token_type", HALO_GGUF_I32, n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++)
        gguf_writer_u32(w, i < n_vocab - VOCAB_SPECIALS ? 1 : 3); /* normal, control */
    gguf_writer_key_array(w, "tokenizer.ggml.merges", HALO_GGUF_STRING, n_merges);
    for (uint32_t i = 0; i < n_merges; i++) {
        merge_at(i, left, right);
        snprintf(text, sizeof text, "%s %s", left, right);
        gguf_writer_string(w, text);
    }
    gguf_writer_key_u32(w, "tokenizer.ggml.bos_token_id", n_vocab - 3);
    gguf_writer_key_u32(w, "tokenizer.ggml.padding_token_id", n_vocab - 3);
    gguf_writer_key_u32(w, "tokenizer.ggml.eos_token_id", n_vocab - 1);
    gguf_writer_key_bool(w, "tokenizer.ggml.add_bos_token", false);
}
