/* fuzz_tokenizer.c: any text through known vocabularies, any file as a vocabulary, any pieces through a text stream.
 *
 * The first byte picks: the fable model's vocabulary, a small SentencePiece one (with and without space prefix), a
 * hostile vocabulary (the rest is the file), or the stream. What must hold: no crash; ids are in range; byte-level
 * text comes back byte for byte; a text in parts is the text; what a stream releases is valid UTF-8 and together the
 * text up to the first stop string.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/arena.h>
#include <tokenizer/text.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the known vocabularies ---- */

static struct halo_tokenizer *tokenizer_of_file(void)
{
    char path[4096];
    struct halo_gguf *gguf = NULL;
    struct halo_tokenizer *tokenizer = NULL;
    struct halo_fault fault = {0};
    const char *root = getenv("HALO_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/models/fable-Q4_K_M.gguf", root ? root : ".");
    if (halo_gguf_open(&gguf, path, &fault) < 0 || halo_tokenizer_create(&tokenizer, gguf, &fault) < 0) {
        fprintf(stderr, "fuzz_tokenizer: %s (set HALO_SOURCE_ROOT)\n", fault.text);
        abort();
    }
    halo_gguf_close(gguf);
    return tokenizer;
}

struct file {
    char bytes[16384];
    size_t n;
};

static void put(struct file *file, const void *bytes, size_t n)
{
    assert(file->n + n <= sizeof file->bytes);
    memcpy(file->bytes + file->n, bytes, n);
    file->n += n;
}

static void put_number(struct file *file, uint64_t value, size_t n)
{
    put(file, &value, n);
}

static void put_text(struct file *file, const char *text)
{
    put_number(file, strlen(text), 8);
    put(file, text, strlen(text));
}

static void put_array(struct file *file, const char *key, enum halo_gguf_kind kind, size_t n)
{
    put_text(file, key);
    put_number(file, HALO_GGUF_ARRAY, 4);
    put_number(file, kind, 4);
    put_number(file, n, 8);
}

static struct halo_tokenizer *tokenizer_spm(bool prefix)
{
    static const struct {
        const char *text;
        float score;
        int kind;
    } more[] = {
        {"<unk>", 0, 2},
        {"<s>", 0, 3},
        {"</s>", 0, 3},
        {"[x]", 0, 4},
        {"[xx]", 0, 4},
        {"\xE2\x96\x81", -3, 1},
        {"a", -4, 1},
        {"b", -5, 1},
        {"ab", -2, 1},
        {"ba", -2, 1},
        {"\xE2\x96\x81"
         "a",
         -1, 1},
        {"aa", 0, 1},
        {"\xC3\xA9", -6, 1},
        {"aab", 1, 1},
    };
    const size_t n_more = sizeof more / sizeof *more, n = n_more + 256;
    struct file *file = calloc(1, sizeof *file);
    char text[8];
    put(file, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 24);
    put_text(file, "tokenizer.ggml.model");
    put_number(file, HALO_GGUF_STRING, 4);
    put_text(file, "llama");
    put_text(file, "tokenizer.ggml.add_space_prefix");
    put_number(file, HALO_GGUF_BOOL, 4);
    put_number(file, prefix, 1);
    put_array(file, "tokenizer.ggml.tokens", HALO_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)(uint8_t)(i - n_more));
        put_text(file, i < n_more ? more[i].text : text);
    }
    put_array(file, "tokenizer.ggml.token_type", HALO_GGUF_I32, n);
    for (size_t i = 0; i < n; i++)
        put_number(file, i < n_more ? (uint64_t)more[i].kind : 6, 4);
    put_array(file, "tokenizer.ggml.scores", HALO_GGUF_F32, n);
    for (size_t i = 0; i < n; i++)
        put(file, i < n_more ? &more[i].score : &(const float){0}, 4);
    struct halo_gguf *gguf = NULL;
    struct halo_tokenizer *tokenizer = NULL;
    struct halo_fault fault = {0};
    if (halo_gguf_open_memory(&gguf, file->bytes, file->n, &fault) < 0 ||
        halo_tokenizer_create(&tokenizer, gguf, &fault) < 0) {
        fprintf(stderr, "fuzz_tokenizer: %s\n", fault.text);
        abort();
    }
    halo_gguf_close(gguf);
    free(file);
    return tokenizer;
}

/* ---- texts ---- */

static char *join_pieces(const struct halo_tokenizer *tokenizer, const struct halo_tokens *tokens, size_t *ret_n)
{
    size_t longest = halo_tokenizer_max_piece_bytes(tokenizer);
    char *text = malloc(tokens->n * longest + 1);
    *ret_n = 0;
    for (size_t i = 0; i < tokens->n; i++) {
        assert(tokens->ids[i] >= 0 && (uint32_t)tokens->ids[i] < halo_tokenizer_n_vocab(tokenizer));
        struct halo_span piece = halo_tokenizer_piece(tokenizer, tokens->ids[i], true);
        assert(piece.n <= longest);
        memcpy(text + *ret_n, piece.bytes, piece.n);
        *ret_n += piece.n;
    }
    return text;
}

static void check_parts(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special,
                        const struct halo_tokens *whole)
{
    struct halo_tokens tokens = {0};
    size_t cut = n / 3, end = n - n / 4;
    const struct halo_tokenizer_part parts[] = {
        {text, cut, special}, {text + cut, end - cut, special}, {text + end, n - end, special}};
    assert(halo_tokenizer_encode_parts(tokenizer, parts, 3, true, NULL, &tokens, NULL) == 0);
    assert(tokens.n == whole->n &&
           (tokens.n == 0 || memcmp(tokens.ids, whole->ids, tokens.n * sizeof *tokens.ids) == 0));
    halo_tokens_finish(&tokens);
}

/* The whole text at once: valid, and no run of newlines is longer than two once it is normalized. */
static void check_detokenize(const struct halo_tokenizer *tokenizer, const struct halo_tokens *tokens)
{
    struct halo_arena arena;
    struct halo_span text;
    size_t n;
    halo_arena_init(&arena, 0);
    assert(halo_text_detokenize(tokenizer, tokens->ids, tokens->n, true, &arena, &text, NULL) == 0);
    assert(halo_text_sanitize(text.bytes, text.n, NULL) == text.n);
    char *normal = malloc(text.n + 1);
    size_t n_runs = halo_text_normalize(text.bytes, text.n, normal, &n);
    assert((n_runs == 0) == (n == text.n) && !memmem(normal, n, "\n\n\n", 3));
    free(normal);
    const int32_t outside = (int32_t)halo_tokenizer_n_vocab(tokenizer);
    assert(halo_text_detokenize(tokenizer, &outside, 1, true, &arena, &text, NULL) < 0);
    halo_arena_finish(&arena);
}

/* exact: the pieces are the text. Otherwise spaces were marked, and a mark in the text itself is a space afterwards. */
static void check_text(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special, bool exact,
                       bool prefix)
{
    struct halo_tokens tokens = {0};
    size_t n_back, at = 0, n_control = 0;
    assert(halo_tokenizer_encode(tokenizer, text, n, special, true, NULL, &tokens, NULL) == 0);
    char *back = join_pieces(tokenizer, &tokens, &n_back);
    for (size_t i = 0; i < n_back && !prefix; i++) {
        bool mark = !exact && n - at >= 3 && memcmp(text + at, "\xE2\x96\x81", 3) == 0;
        assert(at < n && (back[i] == text[at] || (mark && back[i] == ' ')));
        at += mark && back[i] == ' ' ? 3 : 1;
    }
    assert(prefix || at == n);
    for (size_t i = 0; i < tokens.n; i++)
        n_control += halo_tokenizer_kind(tokenizer, tokens.ids[i]) == HALO_TOKEN_CONTROL;
    assert(special || n_control == 0);
    check_parts(tokenizer, text, n, special, &tokens);
    check_detokenize(tokenizer, &tokens);
    free(back);
    halo_tokens_finish(&tokens);
}

/* ---- a hostile vocabulary ---- */

static void check_vocabulary(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello <s>world</s> 123's  \n\t<|im_end|> \xC3\xA9\xE6\xBC\xA2\xF0\x9F\x99\x82 \xFF "
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    struct halo_gguf *gguf = NULL;
    struct halo_tokenizer *tokenizer = NULL;
    struct halo_tokens tokens = {0};
    struct halo_fault fault = {0};
    if (halo_gguf_open_memory(&gguf, data, size, &fault) < 0)
        return;
    int r = halo_tokenizer_create(&tokenizer, gguf, &fault);
    assert((r == 0) == (tokenizer != NULL) && (r == 0 || fault.text[0]));
    halo_gguf_close(gguf);
    if (!tokenizer)
        return;
    const struct halo_tokenizer_part parts[] = {{"<|im_start|>user\n", 17, true}, {text, sizeof(text) - 1, false}};
    assert(halo_tokenizer_encode_prompt(tokenizer, parts, 2, NULL, &tokens, &fault) == 0);
    assert(halo_tokenizer_encode(tokenizer, text, sizeof text - 1, true, true, NULL, &tokens, &fault) == 0);
    size_t n_back;
    free(join_pieces(tokenizer, &tokens, &n_back));
    for (uint32_t id = 0; id < halo_tokenizer_n_vocab(tokenizer) && id < 1000; id++) {
        struct halo_span spelling = halo_tokenizer_text(tokenizer, (int32_t)id);
        assert(halo_tokenizer_find(tokenizer, spelling.bytes, spelling.n) == (spelling.n ? (int32_t)id : -1));
        halo_tokenizer_is_end(tokenizer, (int32_t)id);
        assert(halo_tokenizer_encode(tokenizer, spelling.bytes, spelling.n, true, false, NULL, &tokens, &fault) == 0);
    }
    halo_tokens_finish(&tokens);
    halo_tokenizer_destroy(tokenizer);
}

/* ---- the stream ---- */

/* Where the text ends by the rule of text.h, found the slow way. */
static size_t find_end(const char *text, size_t n, const struct halo_span *stops, size_t n_stops)
{
    for (size_t at = 1; at <= n; at++) {
        size_t longest = 0;
        for (size_t s = 0; s < n_stops; s++)
            if (stops[s].n <= at && stops[s].n > longest &&
                memcmp(text + at - stops[s].n, stops[s].bytes, stops[s].n) == 0)
                longest = stops[s].n;
        if (longest)
            return at - longest;
    }
    return n;
}

/* Two bytes: the number of stop strings (each: a length byte, the bytes), the length of pieces; then the text. */
static void check_stream(const uint8_t *data, size_t size)
{
    struct halo_span stops[4];
    size_t n_stops = size ? data[0] % 5 : 0, n_piece = size > 1 ? data[1] % 7 + 1 : 1, at = 2;
    for (size_t s = 0; s < n_stops; s++) {
        size_t n = at < size ? data[at] % 8 : 0;
        if (at >= size || n > size - at - 1)
            return;
        stops[s] = (struct halo_span){(const char *)data + at + 1, n};
        at += 1 + n;
    }
    const char *bytes = (const char *)data + (at < size ? at : size);
    size_t n = at < size ? size - at : 0, n_out = 0;
    const struct halo_text_params params = {.stops = stops, .n_stops = n_stops, .max_piece_bytes = 7};
    struct halo_text_stream stream;
    struct halo_arena arena;
    struct halo_fault fault = {0};
    halo_arena_init(&arena, 0);
    char *text = malloc(3 * n + 1), *out = malloc(3 * n + 1);
    size_t n_text = halo_text_sanitize(bytes, n, text);
    if (halo_text_stream_init(&stream, &arena, &params, &fault) == 0) {
        struct halo_span span;
        for (size_t i = 0; i < n; i += n_piece) {
            halo_text_stream_feed(&stream, bytes + i, n - i < n_piece ? n - i : n_piece, &span);
            assert(halo_text_sanitize(span.bytes, span.n, NULL) == span.n);
            memcpy(out + n_out, span.bytes, span.n);
            n_out += span.n;
        }
        halo_text_stream_finish(&stream, &span);
        memcpy(out + n_out, span.bytes, span.n);
        n_out += span.n;
        assert(n_out == find_end(text, n_text, stops, n_stops) && memcmp(out, text, n_out) == 0);
        assert(stream.released_bytes == n_out);
    } else {
        assert(fault.code == HALO_FAULT_BAD_REQUEST);
    }
    free(text);
    free(out);
    halo_arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct halo_tokenizer *fable, *spm, *spm_prefix;
    if (!fable) {
        fable = tokenizer_of_file();
        spm = tokenizer_spm(false);
        spm_prefix = tokenizer_spm(true);
    }
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    bool special = data[0] & 1;
    switch (data[0] >> 1 & 7) {
    case 0:
    case 1: check_text(fable, text, size - 1, special, true, false); break;
    case 2: check_text(spm, text, size - 1, special, false, false); break;
    case 3: check_text(spm_prefix, text, size - 1, special, false, true); break;
    case 4:
    case 5: check_stream(data + 1, size - 1); break;
    default: check_vocabulary(data + 1, size - 1);
    }
    return 0;
}
