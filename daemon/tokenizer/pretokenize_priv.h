/* pretokenize_priv.h: cutting a text into the words that byte-level BPE merges within.
 *
 * A pre-tokenizer is a list of expressions. Each one cuts every word that is there so far into its matches and the
 * gaps between them, seeing one word at a time (so that look-ahead ends at the word's end). Immutable after create; a
 * halo_words per thread.
 */
#ifndef HALO_TOKENIZER_PRETOKENIZE_PRIV_H
#define HALO_TOKENIZER_PRETOKENIZE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <store/gguf.h>

#define HALO_PRETOKENIZE_MAX_PASSES 6

struct halo_pretokenizer_kind {
    const char *const *expressions; /* NULL-terminated, at most HALO_PRETOKENIZE_MAX_PASSES */
    bool ignore_merges;             /* a word that is a token is that token, whatever the merges say */
    bool add_bos;                   /* when the file says nothing */
};

/* By tokenizer.ggml.pre, aliases included. NULL: unknown. */
const struct halo_pretokenizer_kind *halo_pretokenizer_find(const char *name, size_t n);

struct halo_pretokenizer;

struct halo_words {
    uint32_t *ends; /* of each word, in the text that was cut */
    size_t n;
    uint32_t *spare; /* the words of the pass before */
    size_t capacity; /* of both */
    void *match;     /* pcre2_match_data */
};

/* UNSUPPORTED for a name that is not in the table; OUT_OF_MEMORY. */
int halo_pretokenizer_create(struct halo_pretokenizer **ret, struct halo_span name, struct halo_fault *fault);
void halo_pretokenizer_destroy(struct halo_pretokenizer *pre);
const struct halo_pretokenizer_kind *halo_pretokenizer_kind(const struct halo_pretokenizer *pre);

/* Cuts `text`, which is valid UTF-8. */
int halo_pretokenizer_split(const struct halo_pretokenizer *pre, const char *text, size_t n, struct halo_words *words,
                            struct halo_fault *fault);
void halo_words_finish(struct halo_words *words);

#endif
