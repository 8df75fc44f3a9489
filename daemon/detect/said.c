/* said.c: detectors of the text: silence, broken characters, foreign scripts, echoes, leaks, thoughts. Any thread.
 *
 * The text is one string here, so that nothing depends on how it was cut into events.
 */
#include <string.h>

#include "detect_priv.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

void halo_look_eos_immediate(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    if (reply->end == HALO_DETECT_OPEN)
        halo_find(ret, HALO_VERDICT_SKIP, "the reply did not end");
    else if (reply->n_text == 0)
        halo_find(ret, HALO_VERDICT_FAIL, "%zu ids and no text", reply->n_ids);
}

void halo_look_whitespace(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = 0;
    while (n < reply->n_text && is_space(reply->text[n]))
        n++;
    if (reply->n_text == 0 || reply->end == HALO_DETECT_OPEN)
        halo_find(ret, HALO_VERDICT_SKIP, reply->n_text ? "the reply did not end" : "there is no text");
    else if (n == reply->n_text)
        halo_find(ret, HALO_VERDICT_FAIL, "%zu bytes of white space", n);
}

/* The character at `at`, its length in *ret_n; -1: no UTF-8 (RFC 3629). */
static int32_t character(const char *text, size_t n, size_t at, size_t *ret_n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text[at];
    size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    *ret_n = 1;
    if (length == 0 || length > n - at)
        return -1;
    uint32_t c = length == 1 ? first : first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)text[at + i] & 0xC0) != 0x80)
            return -1;
        c = c << 6 | ((unsigned char)text[at + i] & 0x3F);
    }
    if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return -1;
    *ret_n = length;
    return (int32_t)c;
}

void halo_look_utf8(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n_replaced = 0, first = 0, length;
    if (reply->n_text == 0) {
        halo_find(ret, HALO_VERDICT_SKIP, "there is no text");
        return;
    }
    for (size_t at = 0; at < reply->n_text; at += length) {
        int32_t c = character(reply->text, reply->n_text, at, &length);
        if (c < 0) {
            halo_find(ret, HALO_VERDICT_FAIL, "not UTF-8 at byte %zu (0x%02x)", at, (unsigned char)reply->text[at]);
            return;
        }
        if (c == 0xFFFD && n_replaced++ == 0)
            first = at;
    }
    if (n_replaced > 0)
        halo_find(ret, HALO_VERDICT_WARN, "%zu replacement characters, the first at byte %zu", n_replaced, first);
}

/* ---- scripts ---- */

enum script { LATIN, GREEK, CYRILLIC, HEBREW, ARABIC, INDIC, THAI, HANGUL, KANA, HAN, N_SCRIPTS };

static const char *const script_names[] = {"Latin", "Greek", "Cyrillic", "Hebrew", "Arabic",
                                           "Indic", "Thai",  "Hangul",   "Kana",   "Han"};

/* The script of a letter by its block; N_SCRIPTS: none that is told apart. */
static enum script script_of(int32_t c)
{
    static const struct {
        int32_t from, to;
        enum script script;
    } blocks[] = {
        {'A', 'Z', LATIN},        {'a', 'z', LATIN},        {0xC0, 0x24F, LATIN},    {0x370, 0x3FF, GREEK},
        {0x400, 0x52F, CYRILLIC}, {0x590, 0x5FF, HEBREW},   {0x600, 0x6FF, ARABIC},  {0x900, 0xDFF, INDIC},
        {0xE00, 0xE7F, THAI},     {0x1100, 0x11FF, HANGUL}, {0x3040, 0x30FF, KANA},  {0x3400, 0x4DBF, HAN},
        {0x4E00, 0x9FFF, HAN},    {0xAC00, 0xD7A3, HANGUL}, {0x20000, 0x2FFFF, HAN},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (c >= blocks[i].from && c <= blocks[i].to)
            return blocks[i].script;
    return N_SCRIPTS;
}

static size_t count_scripts(const char *text, size_t n, size_t counts[N_SCRIPTS])
{
    size_t n_letters = 0, length;
    memset(counts, 0, N_SCRIPTS * sizeof *counts);
    for (size_t at = 0; at < n; at += length) {
        enum script script = script_of(character(text, n, at, &length));
        if (script < N_SCRIPTS) {
            counts[script]++;
            n_letters++;
        }
    }
    return n_letters;
}

/* A tenth of the second half in a script that neither the first quarter nor the prompt has. Han, Kana and Hangul go
 * together, and Latin goes with everything: it is what code and names are written in. */
void halo_look_script_drift(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t begun[N_SCRIPTS], asked[N_SCRIPTS], ended[N_SCRIPTS], quarter = reply->n_text / 4, half = reply->n_text / 2;
    size_t n_begun = count_scripts(reply->text, quarter, begun);
    size_t n_ended = count_scripts(reply->text + half, reply->n_text - half, ended);
    if (n_begun < 16 || n_ended < 32) {
        halo_find(ret, HALO_VERDICT_SKIP, "%zu and %zu letters, 16 and 32 are needed", n_begun, n_ended);
        return;
    }
    count_scripts(reply->prompt ? reply->prompt : "", reply->n_prompt, asked);
    bool east = begun[HAN] + begun[KANA] + begun[HANGUL] + asked[HAN] + asked[KANA] + asked[HANGUL] > 0;
    for (int s = LATIN + 1; s < N_SCRIPTS; s++)
        if (ended[s] * 10 >= n_ended && begun[s] + asked[s] == 0 && !(s >= HANGUL && east)) {
            halo_find(ret, HALO_VERDICT_WARN, "%zu of %zu letters of the second half are %s, which nothing before has",
                      ended[s], n_ended, script_names[s]);
            return;
        }
}

/* ---- echo and leaks ---- */

void halo_look_prompt_echo(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = reply->n_prompt, skip = 0;
    if (!reply->prompt || n < 32 || reply->n_text < 32) {
        halo_find(ret, HALO_VERDICT_SKIP, reply->prompt ? "prompt and reply are too short" : "the prompt is not known");
        return;
    }
    while (skip < reply->n_text && is_space(reply->text[skip]))
        skip++;
    size_t length = n < reply->n_text - skip ? n : reply->n_text - skip, same = 0;
    while (same < length && reply->text[skip + same] == reply->prompt[same])
        same++;
    if (same >= 32 && same * 2 >= n)
        halo_find(ret, HALO_VERDICT_WARN, "the reply begins with %zu bytes of the prompt", same);
}

void halo_look_special_leak(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    static const char *const markers[] = {
        "<|im_start|>",        "<|im_end|>",        "<|endoftext|>",     "<|eot_id|>",
        "<|start_header_id|>", "<|end_header_id|>", "<|begin_of_text|>", "<start_of_turn>",
        "<end_of_turn>",       "<|start|>",         "<|end|>",           "[/INST]"};
    if (reply->n_text == 0) {
        halo_find(ret, HALO_VERDICT_SKIP, "there is no text");
        return;
    }
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) {
        size_t at = halo_detect_find(reply->text, reply->n_text, 0, markers[i]);
        bool asked = reply->prompt && halo_detect_find(reply->prompt, reply->n_prompt, 0, markers[i]) < reply->n_prompt;
        if (at < reply->n_text && !asked) {
            halo_find(ret, HALO_VERDICT_FAIL, "%s at byte %zu, which the prompt does not contain", markers[i], at);
            return;
        }
    }
}

/* ---- thoughts ---- */

#define OPENS "<think>"
#define CLOSES "</think>"

void halo_look_think_empty(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = reply->n_text, open = halo_detect_find(reply->text, n, 0, OPENS);
    if (open == n) {
        halo_find(ret, HALO_VERDICT_SKIP, "there is no thought");
        return;
    }
    for (; open < n; open = halo_detect_find(reply->text, n, open + 1, OPENS)) {
        size_t at = open + sizeof OPENS - 1, close = halo_detect_find(reply->text, n, at, CLOSES);
        while (at < n && is_space(reply->text[at]))
            at++;
        if (at == close && close < n)
            halo_find(ret, HALO_VERDICT_WARN, "the thought at byte %zu is empty", open);
    }
}

void halo_look_think_stall(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    size_t n = reply->n_text, open = n, close = 0, n_ids = 0;
    for (size_t at = halo_detect_find(reply->text, n, 0, OPENS); at < n && close < n;) {
        open = at;
        close = halo_detect_find(reply->text, n, open, CLOSES);
        at = halo_detect_find(reply->text, n, close, OPENS);
    }
    if (open == n) {
        halo_find(ret, HALO_VERDICT_SKIP, "there is no thought");
        return;
    }
    if (close < n)
        return;
    for (size_t i = 0; reply->text_at && i < reply->n_ids; i++)
        n_ids += reply->text_at[i] > open;
    if (reply->stall_ids > 0 && n_ids >= reply->stall_ids)
        halo_find(ret, HALO_VERDICT_FAIL, "the thought at byte %zu has %zu ids, %zu are allowed", open, n_ids,
                  reply->stall_ids);
    else
        halo_find(ret, HALO_VERDICT_WARN, "the thought at byte %zu does not end", open);
}
