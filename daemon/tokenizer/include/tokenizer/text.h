/* text.h: from the bytes of tokens to text that may be shown.
 *
 * A token is not a unit of text: a character may be spread over several, and so may a stop string. The stream takes
 * the bytes of one token after another and releases valid UTF-8 as early as it safely can. It holds back the bytes of
 * an unfinished character and the longest end of the text that may still become a stop string, and nothing else.
 * Bytes that cannot be UTF-8 become U+FFFD, one for each maximal ill-formed part (Unicode 15, section 3.9, "U+FFFD
 * substitution of maximal subparts"), so the sum of everything released, plus what finish releases, is the decoded
 * reply up to the stop.
 *
 * Memory: taken from the arena at init, nothing afterwards. Owner: whoever owns the arena. Threads: one at a time.
 */
#ifndef HALO_TOKENIZER_TEXT_H
#define HALO_TOKENIZER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/arena.h>
#include <base/fault.h>

#include <tokenizer/tokenizer.h>

#define HALO_TEXT_MAX_STOPS 16
#define HALO_TEXT_MAX_STOP_BYTES 256 /* each */

/* Outcome: a stop string is complete; `stopped_by` says which, nothing is released any more. */
#define HALO_TEXT_STOPPED 1

struct halo_text_stop; /* one stop string and how far its match has come; private */

struct halo_text_stream {
    struct halo_text_stop *stops;
    size_t n_stops;
    size_t max_piece_bytes;
    char *buffer; /* held text, then what this call adds; the released span points into it */
    size_t capacity;
    size_t n_held;      /* bytes of valid text held because they may begin a stop string */
    size_t n_gone;      /* bytes at the front of `buffer` that the last call released: dropped by the next one */
    uint8_t partial[4]; /* bytes of an unfinished character */
    size_t n_partial;
    uint64_t skip_bytes;     /* released text still to be swallowed: a resumed stream has sent it before */
    uint64_t released_bytes; /* of the whole reply, swallowed ones included: what `skip` of a later resume needs */
    int stopped_by;          /* index of the stop string, -1: none yet */
    bool strip_space;        /* the next byte, if it is a space, is dropped */
};

struct halo_text_params {
    const struct halo_span *stops; /* valid UTF-8, 1 to HALO_TEXT_MAX_STOP_BYTES each; copied */
    size_t n_stops;                /* at most HALO_TEXT_MAX_STOPS */
    size_t max_piece_bytes;        /* the longest piece that feed will get: halo_tokenizer_max_piece_bytes() */
    bool strip_first_space;        /* detokenizing a whole SPM text; never for a reply, which continues its prompt */
};

/* BAD_REQUEST for a stop string that is empty, too long, one too many or not UTF-8 (its index and length are in the
 * text); OUT_OF_MEMORY. Takes about 3 * max_piece_bytes + 800 bytes, and 3 bytes for each byte of a stop string. */
int halo_text_stream_init(struct halo_text_stream *stream, struct halo_arena *arena,
                          const struct halo_text_params *params, struct halo_fault *fault);

/* Swallow the first `n_bytes` of released text: for a resumed reply, whose committed tokens are fed again. Before the
 * first feed. Stop strings and held bytes behave as if everything were shown. `skip_bytes` tells what is left to
 * swallow. */
void halo_text_stream_skip(struct halo_text_stream *stream, uint64_t n_bytes);

/* One token's bytes (n <= max_piece_bytes, 0 is fine). *ret is what may be shown now, often empty; it lies in the
 * stream and is valid until the next call. Returns 0 or HALO_TEXT_STOPPED: then *ret is the text before the stop
 * string. Of two stop strings that are complete at the same byte the longer one counts; otherwise the one that is
 * complete first. */
int halo_text_stream_feed(struct halo_text_stream *stream, const char *bytes, size_t n, struct halo_span *ret);

/* The reply is over: releases what was held; an unfinished character becomes U+FFFD. Returns as feed. The stream may
 * be fed no more. */
int halo_text_stream_finish(struct halo_text_stream *stream, struct halo_span *ret);

/* A whole list of ids as valid UTF-8, in the arena. `special`: control tokens give their text, otherwise nothing. For
 * SPM the space that encoding put in front is dropped. BAD_REQUEST for an id out of range; OUT_OF_MEMORY. */
int halo_text_detokenize(const struct halo_tokenizer *tokenizer, const int32_t *ids, size_t n, bool special,
                         struct halo_arena *arena, struct halo_span *ret, struct halo_fault *fault);

/* Any bytes as valid UTF-8 (for the pieces of `tokenize`): `out` has room for 3 * n bytes, or is NULL to count;
 * returns those used. */
size_t halo_text_sanitize(const char *bytes, size_t n, char *out);

/* Collapses each run of 3 or more '\n' to 2. `out` has room for n bytes and may be `text` itself. *ret_n: bytes used.
 * Returns the number of runs changed. */
size_t halo_text_normalize(const char *text, size_t n, char *out, size_t *ret_n);

#endif
