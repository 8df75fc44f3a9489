/* vocab_build.h: writes a vocabulary as a GGUF file in memory, correct or broken on purpose. Test code, one thread. */
#ifndef TEST_VOCAB_BUILD_H
#define TEST_VOCAB_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tokenizer/tokenizer.h>

struct vocab_build { /* the file so far; owned */
    char *bytes;
    size_t n, capacity;
    uint64_t n_keys;
};

void build_init(struct vocab_build *build);
void build_finish(struct vocab_build *build);

void build_string(struct vocab_build *build, const char *key, const char *value);
void build_bytes(struct vocab_build *build, const char *key, const char *value, size_t n);
void build_bool(struct vocab_build *build, const char *key, bool value);
void build_u32(struct vocab_build *build, const char *key, uint32_t value);
void build_i32(struct vocab_build *build, const char *key, int32_t value);
void build_strings(struct vocab_build *build, const char *key, const char *const *values, size_t n);
void build_i32s(struct vocab_build *build, const char *key, const int32_t *values, size_t n);
void build_f32s(struct vocab_build *build, const char *key, const float *values, size_t n);
void build_u8s(struct vocab_build *build, const char *key, const uint8_t *values, size_t n);

/* The directory of the file; `build` must stay. Fails the test when the file itself is not well-formed. */
struct halo_gguf *build_open(struct vocab_build *build);
/* Tries to make a tokenizer of it: what create returns. */
int build_tokenizer(struct vocab_build *build, struct halo_tokenizer **ret, struct halo_fault *fault);

/* A byte-level vocabulary: the 256 bytes (ids as their spelling is ordered), then `extra`, each of the kind in
 * `kinds`. Writes all keys but the special ids. Merges may be NULL. */
void build_bpe(struct vocab_build *build, const char *const *extra, const int32_t *kinds, size_t n_extra,
               const char *const *merges, size_t n_merges);
/* The same for another tokenizer.ggml.pre than gpt-2. */
void build_bpe_pre(struct vocab_build *build, const char *pre, const char *const *extra, const int32_t *kinds,
                   size_t n_extra, const char *const *merges, size_t n_merges);
/* How a byte is spelled in it, NUL-terminated; returns the length. */
size_t build_bpe_spelling(uint8_t byte, char text[3]);
/* The id of byte b in it. */
int32_t build_bpe_byte(uint8_t byte);

/* A SentencePiece vocabulary: <unk> <s> </s>, 256 byte tokens (3 to 258), then `extra` from 259. */
#define BUILD_SPM_FIRST 259
struct spm_token {
    const char *text;
    float score;
    int32_t kind;
};
void build_spm(struct vocab_build *build, const struct spm_token *extra, size_t n_extra);

/* Gemma 4's kind: 256 byte tokens (their byte is their id), then `extra` from 256. */
void build_spm_bpe(struct vocab_build *build, const char *const *extra, const int32_t *kinds, size_t n_extra,
                   const char *const *merges, size_t n_merges);

/* Each makes a tokenizer of the file and frees `build`; the test fails when the outcome is another one. */
void check_refused(struct vocab_build *build, enum halo_fault_code code, const char *words);
struct halo_tokenizer *check_accepted(struct vocab_build *build);
/* Fails the test when these are not the ids of `text`. */
void check_ids(const struct halo_tokenizer *tokenizer, const char *text, bool special, bool first, const int32_t *ids,
               size_t n);
#define IDS(...) ((const int32_t[]){__VA_ARGS__}), sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)

#endif
