/* pretokenize_priv.h: cutting a text into the words that byte-level BPE merges within.
 *
 * A pre-tokenizer is a list of expressions. Each one cuts every word that is there so far into its matches and the
 * gaps between them, seeing one word at a time (so that look-ahead ends at the word's end). Immutable after create; a
 * halo_words per thread. Expressions see one byte for each character (pretokenize_alphabet.c).
 */
#ifndef HALO_TOKENIZER_PRETOKENIZE_PRIV_H
#define HALO_TOKENIZER_PRETOKENIZE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <base/turn.h>
#include <base/unicode.h>
#include <store/gguf.h>

#define HALO_PRETOKENIZE_MAX_PASSES 6
#define HALO_BYTES_PER_WORK 32 /* of a text that are only looked at: one unit of a turn's work */

struct halo_pretokenizer_kind {
    const char *const *expressions; /* NULL-terminated, at most HALO_PRETOKENIZE_MAX_PASSES */
    bool ignore_merges;             /* a word that is a token is that token, whatever the merges say */
    bool space_marks;               /* merges join characters, and spaces are written as U+2581 (spm_bpe.c) */
    bool add_bos;                   /* when the file says nothing */
};

/* By tokenizer.ggml.pre, aliases included. NULL: unknown. */
const struct halo_pretokenizer_kind *halo_pretokenizer_find(const char *name, size_t n);

/* ---- pretokenize_alphabet.c: characters as bytes that the expressions cannot tell apart ---- */

#define HALO_ALPHABET_PAGE 256
#define HALO_ALPHABET_N_PAGES (HALO_UNICODE_END / HALO_ALPHABET_PAGE)

struct halo_alphabet {
    uint16_t page_of[HALO_ALPHABET_N_PAGES]; /* by code point / HALO_ALPHABET_PAGE */
    uint8_t (*pages)[HALO_ALPHABET_PAGE];    /* each once; owned */
    size_t n_pages;
};

/* Makes the alphabet of a NULL-terminated list of expressions, and the same expressions over its bytes: malloc, the
 * caller's, NULL past the end of the list. 0 or -ENOMEM; `alphabet` and the list are to be freed either way. */
int halo_alphabet_init(struct halo_alphabet *alphabet, const char *const *expressions,
                       char *ret_expressions[HALO_PRETOKENIZE_MAX_PASSES]);
void halo_alphabet_finish(struct halo_alphabet *alphabet);

static inline uint8_t halo_alphabet_byte(const struct halo_alphabet *alphabet, uint32_t c)
{
    return alphabet->pages[alphabet->page_of[c / HALO_ALPHABET_PAGE]][c % HALO_ALPHABET_PAGE];
}

/* Bytes of the character that begins with this byte. For valid UTF-8. */
static inline size_t halo_alphabet_length(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* A byte for each character of `text`, which is valid UTF-8; `ret` has room for n. Returns their number. */
size_t halo_alphabet_map(const struct halo_alphabet *alphabet, const char *text, size_t n, uint8_t *ret);

struct halo_pretokenizer;

struct halo_words {
    uint32_t *ends; /* of each word, in the text that was cut */
    size_t n;
    uint32_t *spare; /* the words of the pass before */
    size_t capacity; /* of both */
    uint8_t *bytes;  /* the text, a byte for each character */
    size_t n_held;   /* room in it */
    void *match;     /* pcre2_match_data */
};

/* UNSUPPORTED for a name that is not in the table; OUT_OF_MEMORY. */
int halo_pretokenizer_create(struct halo_pretokenizer **ret, struct halo_span name, struct halo_fault *fault);
void halo_pretokenizer_destroy(struct halo_pretokenizer *pre);
const struct halo_pretokenizer_kind *halo_pretokenizer_kind(const struct halo_pretokenizer *pre);

/* Cuts `text`, which is valid UTF-8. `turn` may be NULL; what its check returns ends the cutting. */
int halo_pretokenizer_split(const struct halo_pretokenizer *pre, const char *text, size_t n, struct halo_turn *turn,
                            struct halo_words *words, struct halo_fault *fault);
void halo_words_finish(struct halo_words *words);

#endif
