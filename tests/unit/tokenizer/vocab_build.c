/* vocab_build.c: writes a vocabulary as a GGUF file in memory. Version 3, little-endian; the key count is patched
 * when it is opened. */
#include "vocab_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void put(struct vocab_build *build, const void *bytes, size_t n)
{
    if (build->n + n > build->capacity) {
        build->capacity = (build->n + n) * 2;
        build->bytes = realloc(build->bytes, build->capacity);
        assert_non_null(build->bytes);
    }
    if (n)
        memcpy(build->bytes + build->n, bytes, n);
    build->n += n;
}

static void put_u32(struct vocab_build *build, uint32_t value)
{
    put(build, &value, 4);
}

static void put_u64(struct vocab_build *build, uint64_t value)
{
    put(build, &value, 8);
}

static void put_text(struct vocab_build *build, const char *text, size_t n)
{
    put_u64(build, n);
    put(build, text, n);
}

static void put_key(struct vocab_build *build, const char *key, enum halo_gguf_kind kind)
{
    put_text(build, key, strlen(key));
    put_u32(build, kind);
    build->n_keys++;
}

void build_init(struct vocab_build *build)
{
    *build = (struct vocab_build){0};
    put(build, "GGUF", 4);
    put_u32(build, 3);
    put_u64(build, 0);
    put_u64(build, 0);
    build_string(build, "general.architecture", "llama");
}

void build_finish(struct vocab_build *build)
{
    free(build->bytes);
    *build = (struct vocab_build){0};
}

void build_bytes(struct vocab_build *build, const char *key, const char *value, size_t n)
{
    put_key(build, key, HALO_GGUF_STRING);
    put_text(build, value, n);
}

void build_string(struct vocab_build *build, const char *key, const char *value)
{
    build_bytes(build, key, value, strlen(value));
}

void build_bool(struct vocab_build *build, const char *key, bool value)
{
    uint8_t byte = value;
    put_key(build, key, HALO_GGUF_BOOL);
    put(build, &byte, 1);
}

void build_u32(struct vocab_build *build, const char *key, uint32_t value)
{
    put_key(build, key, HALO_GGUF_U32);
    put_u32(build, value);
}

void build_i32(struct vocab_build *build, const char *key, int32_t value)
{
    put_key(build, key, HALO_GGUF_I32);
    put_u32(build, (uint32_t)value);
}

static void put_array(struct vocab_build *build, const char *key, enum halo_gguf_kind kind, const void *values,
                      size_t n, size_t size)
{
    put_key(build, key, HALO_GGUF_ARRAY);
    put_u32(build, kind);
    put_u64(build, n);
    put(build, values, n * size);
}

void build_i32s(struct vocab_build *build, const char *key, const int32_t *values, size_t n)
{
    put_array(build, key, HALO_GGUF_I32, values, n, 4);
}

void build_f32s(struct vocab_build *build, const char *key, const float *values, size_t n)
{
    put_array(build, key, HALO_GGUF_F32, values, n, 4);
}

void build_u8s(struct vocab_build *build, const char *key, const uint8_t *values, size_t n)
{
    put_array(build, key, HALO_GGUF_U8, values, n, 1);
}

void build_strings(struct vocab_build *build, const char *key, const char *const *values, size_t n)
{
    put_array(build, key, HALO_GGUF_STRING, NULL, n, 0);
    for (size_t i = 0; i < n; i++)
        put_text(build, values[i], strlen(values[i]));
}

struct halo_gguf *build_open(struct vocab_build *build)
{
    struct halo_gguf *gguf = NULL;
    struct halo_fault fault = {0};
    memcpy(build->bytes + 16, &build->n_keys, 8);
    if (halo_gguf_open_memory(&gguf, build->bytes, build->n, &fault) < 0)
        fail_msg("the built file is not GGUF: %s", fault.text);
    return gguf;
}

int build_tokenizer(struct vocab_build *build, struct halo_tokenizer **ret, struct halo_fault *fault)
{
    struct halo_gguf *gguf = build_open(build);
    *fault = (struct halo_fault){0};
    int r = halo_tokenizer_create(ret, gguf, fault);
    halo_gguf_close(gguf);
    return r;
}

static bool is_printable(unsigned byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

int32_t build_bpe_byte(uint8_t byte)
{
    int32_t n_before = 0;
    for (unsigned other = 0; other < 256; other++)
        n_before += is_printable(byte) ? is_printable(other) && other < byte : is_printable(other) || other < byte;
    return n_before;
}

size_t build_bpe_spelling(uint8_t byte, char text[3])
{
    unsigned point = byte;
    if (!is_printable(byte)) {
        point = 256;
        for (unsigned other = 0; other < byte; other++)
            point += !is_printable(other);
    }
    size_t n = point < 128 ? 1 : 2;
    text[0] = (char)(n == 1 ? point : 0xC0 | point >> 6);
    text[1] = (char)(n == 1 ? 0 : 0x80 | (point & 0x3F));
    text[2] = 0;
    return n;
}

void build_bpe(struct vocab_build *build, const char *const *extra, const int32_t *kinds, size_t n_extra,
               const char *const *merges, size_t n_merges)
{
    build_bpe_pre(build, "gpt-2", extra, kinds, n_extra, merges, n_merges);
}

void build_bpe_pre(struct vocab_build *build, const char *pre, const char *const *extra, const int32_t *kinds,
                   size_t n_extra, const char *const *merges, size_t n_merges)
{
    char spellings[256][3];
    const char **tokens = calloc(256 + n_extra, sizeof *tokens);
    int32_t *all_kinds = calloc(256 + n_extra, sizeof *all_kinds);
    for (int byte = 0; byte < 256; byte++) {
        int32_t id = build_bpe_byte((uint8_t)byte);
        build_bpe_spelling((uint8_t)byte, spellings[id]);
        tokens[id] = spellings[id];
        all_kinds[id] = HALO_TOKEN_NORMAL;
    }
    for (size_t i = 0; i < n_extra; i++) {
        tokens[256 + i] = extra[i];
        all_kinds[256 + i] = kinds[i];
    }
    build_string(build, "tokenizer.ggml.model", "gpt2");
    build_string(build, "tokenizer.ggml.pre", pre);
    build_strings(build, "tokenizer.ggml.tokens", tokens, 256 + n_extra);
    build_i32s(build, "tokenizer.ggml.token_type", all_kinds, 256 + n_extra);
    build_strings(build, "tokenizer.ggml.merges", merges, n_merges);
    free(tokens);
    free(all_kinds);
}

void build_spm(struct vocab_build *build, const struct spm_token *extra, size_t n_extra)
{
    size_t n = BUILD_SPM_FIRST + n_extra;
    char names[256][8];
    const char **tokens = calloc(n, sizeof *tokens);
    int32_t *kinds = calloc(n, sizeof *kinds);
    float *scores = calloc(n, sizeof *scores);
    static const char *const first[] = {"<unk>", "<s>", "</s>"};
    for (int i = 0; i < 3; i++) {
        tokens[i] = first[i];
        kinds[i] = i ? HALO_TOKEN_CONTROL : HALO_TOKEN_UNKNOWN;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        snprintf(names[byte], sizeof names[byte], "<0x%02X>", byte);
        tokens[3 + byte] = names[byte];
        kinds[3 + byte] = HALO_TOKEN_BYTE;
    }
    for (size_t i = 0; i < n_extra; i++) {
        tokens[BUILD_SPM_FIRST + i] = extra[i].text;
        kinds[BUILD_SPM_FIRST + i] = extra[i].kind;
        scores[BUILD_SPM_FIRST + i] = extra[i].score;
    }
    build_string(build, "tokenizer.ggml.model", "llama");
    build_strings(build, "tokenizer.ggml.tokens", tokens, n);
    build_i32s(build, "tokenizer.ggml.token_type", kinds, n);
    build_f32s(build, "tokenizer.ggml.scores", scores, n);
    free(tokens);
    free(kinds);
    free(scores);
}

void build_spm_bpe(struct vocab_build *build, const char *const *extra, const int32_t *kinds, size_t n_extra,
                   const char *const *merges, size_t n_merges)
{
    size_t n = 256 + n_extra;
    char names[256][8];
    const char **tokens = calloc(n, sizeof *tokens);
    int32_t *all_kinds = calloc(n, sizeof *all_kinds);
    for (unsigned byte = 0; byte < 256; byte++) {
        snprintf(names[byte], sizeof names[byte], "<0x%02X>", byte);
        tokens[byte] = names[byte];
        all_kinds[byte] = HALO_TOKEN_BYTE;
    }
    for (size_t i = 0; i < n_extra; i++) {
        tokens[256 + i] = extra[i];
        all_kinds[256 + i] = kinds[i];
    }
    build_string(build, "tokenizer.ggml.model", "gemma4");
    build_strings(build, "tokenizer.ggml.tokens", tokens, n);
    build_i32s(build, "tokenizer.ggml.token_type", all_kinds, n);
    build_strings(build, "tokenizer.ggml.merges", merges, n_merges);
    free(tokens);
    free(all_kinds);
}

void check_refused(struct vocab_build *build, enum halo_fault_code code, const char *words)
{
    struct halo_tokenizer *tokenizer = NULL;
    struct halo_fault fault;
    assert_true(build_tokenizer(build, &tokenizer, &fault) < 0);
    assert_null(tokenizer);
    if (fault.code != code || !strstr(fault.text, words))
        fail_msg("wanted code %d with \"%s\", got %d: %s", (int)code, words, (int)fault.code, fault.text);
    build_finish(build);
}

struct halo_tokenizer *check_accepted(struct vocab_build *build)
{
    struct halo_tokenizer *tokenizer = NULL;
    struct halo_fault fault;
    if (build_tokenizer(build, &tokenizer, &fault) < 0)
        fail_msg("refused: %s", fault.text);
    build_finish(build);
    return tokenizer;
}

void check_ids(const struct halo_tokenizer *tokenizer, const char *text, bool special, bool first, const int32_t *ids,
               size_t n)
{
    struct halo_tokens tokens = {0};
    struct halo_fault fault = {0};
    assert_int_equal(halo_tokenizer_encode(tokenizer, text, strlen(text), special, first, NULL, &tokens, &fault), 0);
    if (tokens.n != n || memcmp(tokens.ids, ids, n * sizeof *ids) != 0) {
        for (size_t i = 0; i < tokens.n; i++)
            print_error("%d ", tokens.ids[i]);
        fail_msg("these are the ids of \"%s\"; wanted %zu others", text, n);
    }
    halo_tokens_finish(&tokens);
}
