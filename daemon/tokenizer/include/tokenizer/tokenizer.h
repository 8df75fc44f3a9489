/* tokenizer.h: text to token ids and back, as the model file says.
 *
 * Byte-level BPE (tokenizer.ggml.model "gpt2", merges, pre-tokenizer expression chosen by tokenizer.ggml.pre), SPM
 * ("llama", scores, byte fallback) and SPM with merges ("gemma4"). Built from the GGUF directory, self-contained
 * afterwards (copies what it needs into its own arena) and immutable, so any thread may use it. Encoding allocates its
 * own scratch memory, proportional to the text, and frees it; finding pieces, kinds and ids allocates nothing. Time is
 * O(n log n) in the text whatever it holds.
 */
#ifndef HALO_TOKENIZER_TOKENIZER_H
#define HALO_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <base/remarks.h>
#include <base/turn.h>
#include <store/gguf.h>

struct halo_tokenizer;

enum halo_token_kind { /* tokenizer.ggml.token_type */
                       HALO_TOKEN_NORMAL = 1,
                       HALO_TOKEN_UNKNOWN = 2,
                       HALO_TOKEN_CONTROL = 3,
                       HALO_TOKEN_USER_DEFINED = 4,
                       HALO_TOKEN_UNUSED = 5,
                       HALO_TOKEN_BYTE = 6,
};

/* LOAD_FAILED for a broken vocabulary (names key and numbers), UNSUPPORTED for a tokenizer model or pre-tokenizer
 * that is not known (names it). */
int halo_tokenizer_create(struct halo_tokenizer **ret, const struct halo_gguf *gguf, struct halo_fault *fault);
void halo_tokenizer_destroy(struct halo_tokenizer *tokenizer);

/* What the file leaves open, so that defaults apply. The tokenizer's. */
const struct halo_remarks *halo_tokenizer_remarks(const struct halo_tokenizer *tokenizer);

/* A growing list of ids; the caller owns it. */
struct halo_tokens {
    int32_t *ids;
    size_t n, capacity;
};
void halo_tokens_finish(struct halo_tokens *tokens);
int halo_tokens_push(struct halo_tokens *tokens, int32_t id); /* 0 or -ENOMEM */

/* Appends the ids of `text` (UTF-8, any bytes are tolerated; invalid ones are tokenized as bytes). On failure `out` is
 * as it was. A byte that a byte-level vocabulary has no token for gives no id (Falcon's 0x0B, and in some others the
 * bytes that UTF-8 never uses).
 * turn: NULL, or asked as the work goes on; what its check returns ends the encoding, without a fault.
 * special: text that spells a control token becomes that token; otherwise it stays text (user-defined tokens are always
 * recognised).
 * first: this is the start of the sequence (SPM adds its space prefix there, and after a special token). No BOS is
 * added. */
int halo_tokenizer_encode(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special, bool first,
                          struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault);

/* The same for a text that is given in parts: the ids are those of the parts' concatenation, except that a control
 * token is recognised only where its whole spelling lies in parts with `special` set (neighbouring ones count as
 * one). So text of a user in a part without `special` cannot become a control token, and a part border changes
 * nothing else. */
struct halo_tokenizer_part {
    const char *bytes;
    size_t n;
    bool special;
};
int halo_tokenizer_encode_parts(const struct halo_tokenizer *tokenizer, const struct halo_tokenizer_part *parts,
                                size_t n_parts, bool first, struct halo_turn *turn, struct halo_tokens *out,
                                struct halo_fault *fault);

/* The same for a whole prompt: when `out` is empty the text is the start of the sequence, and BOS goes in front if the
 * tokenizer adds one and the text does not begin with it. */
int halo_tokenizer_encode_prompt(const struct halo_tokenizer *tokenizer, const struct halo_tokenizer_part *parts,
                                 size_t n_parts, struct halo_turn *turn, struct halo_tokens *out,
                                 struct halo_fault *fault);

/* A lower bound on the number of ids of a text: no token stands for more bytes than the longest one of the vocabulary,
 * and bytes that may give no id are not counted. Linear in the text. */
size_t halo_tokenizer_least_tokens(const struct halo_tokenizer *tokenizer, const char *text, size_t n);

/* The bytes of one token as they appear in running text. `special`: control tokens give their text, otherwise
 * nothing. For SPM the space prefix of a sequence's first token is the caller's business
 * (halo_tokenizer_strips_first_space). The span is static. */
struct halo_span halo_tokenizer_piece(const struct halo_tokenizer *tokenizer, int32_t id, bool special);
/* Of the longest piece, control tokens included. */
size_t halo_tokenizer_max_piece_bytes(const struct halo_tokenizer *tokenizer);

uint32_t halo_tokenizer_n_vocab(const struct halo_tokenizer *tokenizer);
enum halo_token_kind halo_tokenizer_kind(const struct halo_tokenizer *tokenizer, int32_t id);
/* The raw vocabulary text of a token (for display: "Ġthe", "▁the", "<|im_end|>"). */
struct halo_span halo_tokenizer_text(const struct halo_tokenizer *tokenizer, int32_t id);
/* The id of a token with exactly this vocabulary text, or -1. */
int32_t halo_tokenizer_find(const struct halo_tokenizer *tokenizer, const char *text, size_t n);
int32_t halo_tokenizer_bos(const struct halo_tokenizer *tokenizer); /* -1: none */
int32_t halo_tokenizer_eos(const struct halo_tokenizer *tokenizer); /* -1: none */
/* By the file's flag, else by the default of its kind; never without such a token. */
bool halo_tokenizer_adds_bos(const struct halo_tokenizer *tokenizer);
bool halo_tokenizer_adds_eos(const struct halo_tokenizer *tokenizer);
/* Detokenizing a whole text drops one leading space. */
bool halo_tokenizer_strips_first_space(const struct halo_tokenizer *tokenizer);
/* End of generation: eos, eot, eom and every token whose text is in the list of known end markers. */
bool halo_tokenizer_is_end(const struct halo_tokenizer *tokenizer, int32_t id);

#endif
