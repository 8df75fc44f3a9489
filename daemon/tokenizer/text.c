/* text.c: from the bytes of tokens to text that may be shown.
 *
 * One thread at a time per stream. The bytes pass two stages: characters are put together (`partial`), then every
 * byte of a character moves the matcher of each stop string one step (Knuth-Morris-Pratt, so nothing is looked at
 * twice). What the farthest matcher has matched is exactly the text that must be held. Owns nothing: the memory is
 * the arena's. Fails only in init and detokenize.
 */
#include <tokenizer/text.h>

#include <assert.h>
#include <string.h>

#include <base/utf8.h>

struct halo_text_stop {
    const char *bytes;
    const uint16_t *fallback; /* [i]: longest border of the first i + 1 bytes */
    uint16_t n;
    uint16_t n_matched; /* length of the longest end of the text that begins this stop string */
};

static int stop_init(struct halo_text_stop *stop, struct halo_arena *arena, const struct halo_span *text)
{
    uint16_t *fallback = halo_arena_alloc(arena, text->n, sizeof *fallback);
    stop->bytes = halo_arena_strndup(arena, text->bytes, text->n);
    stop->fallback = fallback;
    stop->n = (uint16_t)text->n;
    if (!fallback || !stop->bytes)
        return -1;
    for (uint16_t i = 1, border = 0; i < stop->n; i++) {
        while (border && stop->bytes[i] != stop->bytes[border])
            border = fallback[border - 1];
        if (stop->bytes[i] == stop->bytes[border])
            border++;
        fallback[i] = border;
    }
    return 0;
}

static bool stop_step(struct halo_text_stop *stop, char byte)
{
    assert(stop->n_matched < stop->n);
    while (stop->n_matched && stop->bytes[stop->n_matched] != byte)
        stop->n_matched = stop->fallback[stop->n_matched - 1];
    if (stop->bytes[stop->n_matched] == byte)
        stop->n_matched++;
    return stop->n_matched == stop->n;
}

static int stops_check(const struct halo_text_params *params, struct halo_fault *fault)
{
    if (params->n_stops > HALO_TEXT_MAX_STOPS)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%zu stop strings were given, at most %d are allowed",
                              params->n_stops, HALO_TEXT_MAX_STOPS);
    for (size_t i = 0; i < params->n_stops; i++) {
        const struct halo_span *stop = &params->stops[i];
        if (stop->n == 0 || stop->n > HALO_TEXT_MAX_STOP_BYTES)
            return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "stop string %zu has %zu bytes, it must have 1 to %d",
                                  i, stop->n, HALO_TEXT_MAX_STOP_BYTES);
        if (halo_utf8_valid_run(stop->bytes, stop->n) != stop->n)
            return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "stop string %zu is not valid UTF-8", i);
    }
    return 0;
}

int halo_text_stream_init(struct halo_text_stream *stream, struct halo_arena *arena,
                          const struct halo_text_params *params, struct halo_fault *fault)
{
    int r = stops_check(params, fault);
    if (r < 0)
        return r;
    *stream = (struct halo_text_stream){
        .n_stops = params->n_stops,
        .max_piece_bytes = params->max_piece_bytes,
        .stopped_by = -1,
        .strip_space = params->strip_first_space,
    };
    size_t longest = 0;
    bool failed = false;
    stream->stops = halo_arena_alloc(arena, params->n_stops, sizeof *stream->stops);
    for (size_t i = 0; stream->stops && i < params->n_stops; i++) {
        failed |= stop_init(&stream->stops[i], arena, &params->stops[i]) < 0;
        longest = params->stops[i].n > longest ? params->stops[i].n : longest;
    }
    /* In the worst case every byte, those left of the last character included, becomes a replacement character. */
    size_t n_new = params->max_piece_bytes + sizeof stream->partial;
    if (__builtin_mul_overflow(n_new, (size_t)HALO_UTF8_REPLACEMENT_BYTES, &n_new))
        n_new = SIZE_MAX / 2;
    stream->capacity = longest + n_new;
    stream->buffer = halo_arena_alloc(arena, stream->capacity, 1);
    if (failed || !stream->stops || !stream->buffer)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a text stream of %zu bytes",
                              stream->capacity);
    return 0;
}

void halo_text_stream_skip(struct halo_text_stream *stream, uint64_t n_bytes)
{
    assert(stream->released_bytes == 0 && stream->n_held == 0 && stream->n_partial == 0);
    stream->skip_bytes = n_bytes;
}

/* Appends one character. True when a stop string is complete: then the text ends in front of it. */
static bool stream_append(struct halo_text_stream *stream, size_t *size, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert(*size < stream->capacity);
        stream->buffer[(*size)++] = bytes[i];
        for (size_t s = 0; s < stream->n_stops; s++)
            if (stop_step(&stream->stops[s], bytes[i]) &&
                (stream->stopped_by < 0 || stream->stops[s].n > stream->stops[stream->stopped_by].n))
                stream->stopped_by = (int)s;
        if (stream->stopped_by >= 0) {
            *size -= stream->stops[stream->stopped_by].n;
            return true;
        }
    }
    return false;
}

/* Puts one byte to the unfinished character, and appends what becomes certain by it. */
static bool stream_take(struct halo_text_stream *stream, size_t *size, char byte)
{
    stream->partial[stream->n_partial++] = (uint8_t)byte;
    while (stream->n_partial) {
        const char *front = (const char *)stream->partial;
        size_t n;
        enum halo_utf8 verdict = halo_utf8_scan(front, stream->n_partial, &n);
        if (verdict == HALO_UTF8_PARTIAL)
            return false;
        char character[4];
        memcpy(character, verdict == HALO_UTF8_VALID ? front : HALO_UTF8_REPLACEMENT,
               verdict == HALO_UTF8_VALID ? n : 3);
        size_t n_character = verdict == HALO_UTF8_VALID ? n : HALO_UTF8_REPLACEMENT_BYTES;
        stream->n_partial -= n;
        memmove(stream->partial, stream->partial + n, stream->n_partial);
        if (stream_append(stream, size, character, n_character))
            return true;
    }
    return false;
}

static int stream_release(struct halo_text_stream *stream, size_t n, size_t n_held, struct halo_span *ret)
{
    size_t n_skip = stream->skip_bytes < n ? (size_t)stream->skip_bytes : n;
    stream->skip_bytes -= n_skip;
    stream->released_bytes += n;
    stream->n_gone = n;
    stream->n_held = n_held;
    *ret = (struct halo_span){stream->buffer + n_skip, n - n_skip};
    return stream->stopped_by < 0 ? 0 : HALO_TEXT_STOPPED;
}

/* Moves the held text to the front of the buffer; returns its size. */
static size_t stream_begin(struct halo_text_stream *stream)
{
    memmove(stream->buffer, stream->buffer + stream->n_gone, stream->n_held);
    stream->n_gone = 0;
    return stream->n_held;
}

int halo_text_stream_feed(struct halo_text_stream *stream, const char *bytes, size_t n, struct halo_span *ret)
{
    assert(n <= stream->max_piece_bytes);
    size_t size = stream_begin(stream);
    if (stream->stopped_by >= 0)
        return stream_release(stream, 0, 0, ret);
    size_t at = 0;
    if (stream->strip_space && n) {
        stream->strip_space = false;
        at = bytes[0] == ' ';
    }
    for (; at < n; at++)
        if (stream_take(stream, &size, bytes[at])) {
            stream->n_partial = 0;
            return stream_release(stream, size, 0, ret);
        }
    size_t n_held = 0;
    for (size_t s = 0; s < stream->n_stops; s++)
        n_held = stream->stops[s].n_matched > n_held ? stream->stops[s].n_matched : n_held;
    assert(n_held <= size);
    return stream_release(stream, size - n_held, n_held, ret);
}

int halo_text_stream_finish(struct halo_text_stream *stream, struct halo_span *ret)
{
    size_t size = stream_begin(stream);
    if (stream->stopped_by < 0 && stream->n_partial)
        stream_append(stream, &size, HALO_UTF8_REPLACEMENT, HALO_UTF8_REPLACEMENT_BYTES);
    stream->n_partial = 0;
    return stream_release(stream, size, 0, ret);
}

size_t halo_text_sanitize(const char *bytes, size_t n, char *out)
{
    size_t n_out = 0;
    for (size_t at = 0, length; at < n; at += length) {
        bool valid = halo_utf8_scan(bytes + at, n - at, &length) == HALO_UTF8_VALID;
        size_t n_add = valid ? length : HALO_UTF8_REPLACEMENT_BYTES;
        if (out)
            memcpy(out + n_out, valid ? bytes + at : HALO_UTF8_REPLACEMENT, n_add);
        n_out += n_add;
    }
    return n_out;
}

int halo_text_detokenize(const struct halo_tokenizer *tokenizer, const int32_t *ids, size_t n, bool special,
                         struct halo_arena *arena, struct halo_span *ret, struct halo_fault *fault)
{
    size_t n_raw = 0;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= halo_tokenizer_n_vocab(tokenizer))
            return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "tokens[%zu] is %d, the vocabulary has ids 0 to %u", i,
                                  ids[i], halo_tokenizer_n_vocab(tokenizer) - 1);
        n_raw += halo_tokenizer_piece(tokenizer, ids[i], special).n;
    }
    char *raw = halo_arena_alloc(arena, n_raw, 1);
    if (!raw)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a text of %zu bytes", n_raw);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        struct halo_span piece = halo_tokenizer_piece(tokenizer, ids[i], special);
        if (piece.n)
            memcpy(raw + at, piece.bytes, piece.n);
        at += piece.n;
    }
    if (n_raw && raw[0] == ' ' && halo_tokenizer_strips_first_space(tokenizer)) {
        raw++;
        n_raw--;
    }
    size_t n_text = halo_text_sanitize(raw, n_raw, NULL);
    char *text = n_text == n_raw && halo_utf8_valid_run(raw, n_raw) == n_raw ? raw : halo_arena_alloc(arena, n_text, 1);
    if (!text)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a text of %zu bytes", n_text);
    if (text != raw)
        halo_text_sanitize(raw, n_raw, text);
    *ret = (struct halo_span){text, n_text};
    return 0;
}

size_t halo_text_normalize(const char *text, size_t n, char *out, size_t *ret_n)
{
    size_t n_out = 0, n_changed = 0, run = 0;
    for (size_t i = 0; i < n; i++) {
        run = text[i] == '\n' ? run + 1 : 0;
        n_changed += run == 3;
        if (run < 3)
            out[n_out++] = text[i];
    }
    *ret_n = n_out;
    return n_changed;
}
