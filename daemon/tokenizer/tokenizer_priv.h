/* tokenizer_priv.h: the parts of a tokenizer.
 *
 * tokenizer_strings.c  a table of texts: text to index and back
 * tokenizer_load.c     reads the vocabulary from the directory, refuses broken ones
 * tokenizer_ends.c     which tokens end a generation; control tokens that a converter forgot to mark
 * tokenizer_special.c  finds added tokens in a text
 * tokenizer_merge.c    the merge loop that all kinds of tokenizer share
 * pretokenize*.c, bpe.c, spm.c, spm_bpe.c   the three kinds
 *
 * All tables lie in the tokenizer's arena and do not change after create. An encoder is the scratch of one call.
 */
#ifndef HALO_TOKENIZER_TOKENIZER_PRIV_H
#define HALO_TOKENIZER_TOKENIZER_PRIV_H

#include <base/arena.h>
#include <base/fault.h>

#include <tokenizer/tokenizer.h>

#include "pretokenize_priv.h"

#define HALO_TOKENIZER_MAX_VOCAB (1u << 24)
#define HALO_TOKENIZER_MAX_MERGES (1u << 26)
#define HALO_TOKENIZER_MAX_SPECIAL_BYTES 1024 /* an added token's text: bounds the work at each place of a text */
#define HALO_TOKENIZER_MAX_TEXT_BYTES INT32_MAX

/* ---- tokenizer_strings.c ---- */

struct halo_string_slot {
    uint32_t tag;  /* more bits of the hash, so that most misses do not touch the text */
    uint32_t next; /* index + 1, 0: free */
};

struct halo_strings {
    struct halo_arena *arena; /* not owned */
    char *bytes;              /* all texts, one after another */
    uint32_t *ends;           /* [n]: end offset of each in `bytes` */
    struct halo_string_slot *slots;
    uint64_t seed; /* of the hash, drawn for each table: a file cannot choose texts that collide */
    size_t n_bytes, capacity_bytes;
    uint32_t n, capacity, n_slots, max_bytes; /* max_bytes: of the longest text */
};

#define HALO_STRINGS_DUPLICATE 1

void halo_strings_init(struct halo_strings *strings, struct halo_arena *arena);
/* 0 or -ENOMEM. Adding grows as needed; reserving avoids the copies. */
int halo_strings_reserve(struct halo_strings *strings, uint32_t n, size_t n_bytes);
/* 0, -ENOMEM or HALO_STRINGS_DUPLICATE. *ret: the index of this text (of the earlier one). Empty texts take an index
 * but are not found. */
int halo_strings_add(struct halo_strings *strings, const char *text, size_t n, uint32_t *ret);
int32_t halo_strings_find(const struct halo_strings *strings, const char *text, size_t n); /* -1: absent */
struct halo_span halo_strings_get(const struct halo_strings *strings, uint32_t index);

/* ---- the tokenizer ---- */

enum halo_tokenizer_model {
    HALO_TOKENIZER_BPE,     /* merges of bytes */
    HALO_TOKENIZER_SPM,     /* scores, characters, space marks, byte tokens */
    HALO_TOKENIZER_SPM_BPE, /* the same with merges instead of scores */
};

struct halo_special { /* added tokens in the order of their bytes */
    uint32_t *ids;
    uint32_t n;
    uint32_t first[257]; /* [b] to [b + 1]: those whose first byte is b */
};

struct halo_merge_slot {
    uint32_t left, right, rank_1, result;
}; /* rank + 1, 0: free */

struct halo_bpe {
    struct halo_merge_slot *slots; /* by (left, right) */
    uint32_t n_slots;              /* a power of two */
    uint64_t seed;
    struct halo_strings extra; /* texts of merges that are no tokens; their symbol is n_vocab + index */
    uint32_t last_result;      /* while loading */
};

#define HALO_TOKEN_FLAG_END 1    /* ends a generation */
#define HALO_TOKEN_FLAG_RSTRIP 2 /* swallows the white space after it */

struct halo_tokenizer {
    struct halo_arena arena;
    enum halo_tokenizer_model model;
    struct halo_strings vocab;
    uint8_t *kinds;       /* [n_vocab] enum halo_token_kind */
    uint8_t *flags;       /* [n_vocab] HALO_TOKEN_FLAG_* */
    uint32_t *score_keys; /* [n_vocab], SPM: the score as a number that is smaller when the score is higher */
    bool spm_words;       /* no token has a space mark after another character: no merge crosses the start of a word */
    char *pieces;
    uint32_t *piece_ends; /* [n_vocab] into `pieces` */
    size_t max_piece_bytes;
    size_t max_span_bytes; /* of a text, that become one token */
    int32_t byte_ids[256]; /* the token that is this one byte, -1: none */
    int32_t bos, eos, eot, eom, unknown;
    int32_t *stated_ends; /* what else the file says to end a generation */
    size_t n_stated_ends;
    bool lists_ends; /* ... and there is nothing else */
    bool add_bos, add_eos, add_space_prefix;
    bool swallows_space; /* some token has HALO_TOKEN_FLAG_RSTRIP */
    struct halo_special special;
    struct halo_pretokenizer *pre; /* BPE */
    struct halo_bpe bpe;
    struct halo_remarks remarks;
};

/* tokenizer_load.c: everything but the derived tables below. */
int halo_tokenizer_load(struct halo_tokenizer *tokenizer, const struct halo_gguf *gguf, struct halo_fault *fault);

/* quote.c: makes a text from the file fit for a message: at most 48 bytes, printable ASCII. Returns `buffer`. */
#define HALO_TOKENIZER_QUOTE_BYTES 52
const char *halo_tokenizer_quote(struct halo_span text, char buffer[HALO_TOKENIZER_QUOTE_BYTES]);

/* tokenizer_ends.c */
void halo_tokenizer_mark(struct halo_tokenizer *tokenizer, struct halo_span model_name);

/* tokenizer_special.c */
int halo_special_init(struct halo_special *special, struct halo_tokenizer *tokenizer, struct halo_fault *fault);
struct halo_special_match {
    size_t at, n;
    int32_t id;
};
struct halo_encoder;
#define HALO_SPECIAL_FOUND 1
/* The first added token at or after `at`, the longest of those that begin there. `at` never goes back within one call
 * of encode. 0: there is none; HALO_SPECIAL_FOUND; or what the turn's check returned. */
int halo_special_next(struct halo_encoder *encoder, size_t at, struct halo_special_match *ret);

/* bpe.c */
int halo_bpe_load(struct halo_tokenizer *tokenizer, const struct halo_gguf *gguf, struct halo_fault *fault);
int halo_bpe_encode(struct halo_encoder *encoder, const char *text, size_t n);
/* Turns the vocabulary's spelling of bytes into bytes; `out` has room for n. Returns those used. */
size_t halo_bpe_decode(const char *text, size_t n, char *out);
void halo_bpe_find_bytes(struct halo_tokenizer *tokenizer);
/* The symbol of a text that is a token or that merges spell, or -1. */
int32_t halo_bpe_symbol(const struct halo_tokenizer *tokenizer, const char *text, size_t n);
/* Cuts a text into words (what is not UTF-8 makes words of its own) and hands each to `encode`. */
typedef int halo_bpe_word_fn(struct halo_encoder *encoder, const char *word, size_t n);
int halo_bpe_words(struct halo_encoder *encoder, const char *text, size_t n, halo_bpe_word_fn *encode);

/* spm.c */
int halo_spm_encode(struct halo_encoder *encoder, const char *text, size_t n, bool prefix);
size_t halo_spm_decode(const char *text, size_t n, char *out);
/* The text with marks for spaces, in encoder->buffer. Fails with BAD_REQUEST (too long) and OUT_OF_MEMORY. */
int halo_spm_escape(struct halo_encoder *encoder, const char *text, size_t n, bool prefix, size_t *ret_n);
int halo_spm_find_bytes(struct halo_tokenizer *tokenizer, struct halo_fault *fault);
void halo_spm_find_words(struct halo_tokenizer *tokenizer);
/* The byte that "<0x2A>" means, or -1. */
int halo_spm_parse_byte(struct halo_span text);

/* spm_bpe.c */
int halo_spm_bpe_encode(struct halo_encoder *encoder, const char *text, size_t n);

/* ---- tokenizer_merge.c ---- */

#define HALO_MERGE_NONE UINT32_MAX

struct halo_merge_symbol {
    uint32_t start, n;   /* in the text */
    int32_t id;          /* token, or a symbol above n_vocab (bpe), or -1 */
    uint32_t prev, next; /* HALO_MERGE_NONE at the ends */
    uint32_t key;        /* priority of merging with `next`, smaller first; HALO_MERGE_NONE: not possible */
    int32_t result;      /* what that merge makes */
};

struct halo_merger {
    struct halo_merge_symbol *symbols; /* the caller fills start, n and id of the first n */
    uint64_t *heap;                    /* key << 32 | index of the left symbol */
    size_t capacity, n_heap;
};

/* Sets left->key and left->result for the pair. */
typedef void halo_merge_pair_fn(const struct halo_encoder *encoder, struct halo_merge_symbol *left,
                                const struct halo_merge_symbol *right);

int halo_merger_reserve(struct halo_merger *merger, size_t n_symbols); /* 0 or -ENOMEM */
void halo_merger_finish(struct halo_merger *merger);
/* Merges until nothing can be merged; what is left is linked from symbol 0 by `next`. Ties go to the left. 0, or what
 * the turn's check returned. */
int halo_merger_run(struct halo_encoder *encoder, size_t n_symbols, halo_merge_pair_fn *pair);

/* The pairs that merges name. */
halo_merge_pair_fn halo_bpe_pair;
/* The id of a character. */
typedef int32_t halo_character_fn(const struct halo_tokenizer *tokenizer, const char *text, size_t n);
/* Encodes a word whose first symbols are its characters. */
int halo_spm_word(struct halo_encoder *encoder, const char *word, size_t n, halo_character_fn *find,
                  halo_merge_pair_fn *pair);

/* ---- encoder.c ---- */

struct halo_encoder {
    const struct halo_tokenizer *tokenizer;
    struct halo_tokens *out;
    struct halo_fault *fault;
    struct halo_turn *turn; /* may be NULL */
    const char *text;       /* the whole text of the call, all parts joined */
    size_t n;
    const struct halo_tokenizer_part *parts;
    size_t n_parts;
    size_t part, part_start;   /* the part that the search for added tokens has reached */
    size_t open_from, open_to; /* the run of `special` parts at or after it */
    struct halo_merger merger;
    struct halo_words words;
    char *buffer;           /* spm: the escaped text */
    const char *merge_text; /* what the symbols' offsets refer to */
};

/* The id of one byte that is in no longer token. A byte-level vocabulary that lacks a byte (Falcon's lacks 0x0B)
 * loses it, as the models were trained; its unknown token, where one is named, is often the end of text and never
 * meant. SentencePiece says unknown. */
int halo_encoder_push_byte(struct halo_encoder *encoder, uint8_t byte);
/* Pushes what the merger left, from its first symbol on: tokens as they are, other symbols byte by byte. */
int halo_encoder_push_merged(struct halo_encoder *encoder);
int halo_encoder_no_memory(struct halo_encoder *encoder);

#endif
