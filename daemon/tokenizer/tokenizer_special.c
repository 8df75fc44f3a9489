/* tokenizer_special.c: finds added tokens in a text.
 *
 * The tokens lie in the order of their bytes, so those that begin alike are neighbours: reading the text byte by byte
 * narrows the range of candidates by binary search, and the last one that was complete is the longest. Leftmost
 * first, then longest: the rule of the tokenizers that the models were trained with. The work at one place is bounded
 * by the longest spelling, whatever the number of tokens. The table is built once; searching allocates nothing.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_priv.h"

static int compare_texts(const void *a, const void *b, void *ud)
{
    const struct halo_strings *vocab = ud;
    struct halo_span left = halo_strings_get(vocab, *(const uint32_t *)a),
                     right = halo_strings_get(vocab, *(const uint32_t *)b);
    int order = memcmp(left.bytes, right.bytes, left.n < right.n ? left.n : right.n);
    return order ? order : (left.n > right.n) - (left.n < right.n);
}

static bool is_special(const struct halo_tokenizer *t, uint32_t id)
{
    return t->kinds[id] == HALO_TOKEN_CONTROL || t->kinds[id] == HALO_TOKEN_USER_DEFINED ||
           t->kinds[id] == HALO_TOKEN_UNKNOWN;
}

int halo_special_init(struct halo_special *special, struct halo_tokenizer *t, struct halo_fault *fault)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        size_t n_text = halo_strings_get(&t->vocab, id).n;
        if (is_special(t, id) && n_text > HALO_TOKENIZER_MAX_SPECIAL_BYTES)
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                                  "the text of added token %u has %zu bytes, at most %d are allowed", id, n_text,
                                  HALO_TOKENIZER_MAX_SPECIAL_BYTES);
        n += is_special(t, id) && n_text;
    }
    special->ids = halo_arena_alloc(&t->arena, n, sizeof *special->ids);
    if (!special->ids)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %u added tokens", n);
    for (uint32_t id = 0; id < t->vocab.n; id++)
        if (is_special(t, id) && halo_strings_get(&t->vocab, id).n)
            special->ids[special->n++] = id;
    assert(special->n == n);
    qsort_r(special->ids, n, sizeof *special->ids, compare_texts, &t->vocab);
    for (uint32_t i = 0; i < n; i++)
        special->first[(uint8_t)halo_strings_get(&t->vocab, special->ids[i]).bytes[0] + 1]++;
    for (int byte = 0; byte < 256; byte++)
        special->first[byte + 1] += special->first[byte];
    return 0;
}

/* The first candidate in [low, high) whose byte at `depth` is not below `byte`. All of them are longer than `depth`. */
static uint32_t lower_bound(const struct halo_tokenizer *t, uint32_t low, uint32_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uint8_t)halo_strings_get(&t->vocab, t->special.ids[middle]).bytes[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest added token at the front of `text`; one that is parsed only on request must end before `control_limit`.
 */
static bool match_here(const struct halo_tokenizer *t, const char *text, size_t n, size_t control_limit,
                       struct halo_special_match *ret)
{
    uint32_t low = t->special.first[(uint8_t)text[0]], high = t->special.first[(uint8_t)text[0] + 1];
    bool found = false;
    for (size_t depth = 1; low < high; depth++) {
        uint32_t id = t->special.ids[low];
        if (halo_strings_get(&t->vocab, id).n == depth) { /* no two are the same, so only the first can end here */
            if (t->kinds[id] == HALO_TOKEN_USER_DEFINED || depth <= control_limit) {
                *ret = (struct halo_special_match){.n = depth, .id = (int32_t)id};
                found = true;
            }
            low++;
        }
        if (depth == n)
            break;
        unsigned byte = (uint8_t)text[depth];
        low = lower_bound(t, low, high, depth, byte);
        high = lower_bound(t, low, high, depth, byte + 1);
    }
    return found;
}

/* Moves the run of parts that may hold control tokens, [open_from, open_to), forward until it does not lie before
 * `at`. */
static void open_advance(struct halo_encoder *encoder, size_t at)
{
    while (encoder->open_to <= at && encoder->part < encoder->n_parts) {
        encoder->open_from = encoder->part_start;
        for (; encoder->part < encoder->n_parts && encoder->parts[encoder->part].special; encoder->part++)
            encoder->part_start += encoder->parts[encoder->part].n;
        encoder->open_to = encoder->part_start;
        for (; encoder->part < encoder->n_parts && !encoder->parts[encoder->part].special; encoder->part++)
            encoder->part_start += encoder->parts[encoder->part].n;
    }
}

int halo_special_next(struct halo_encoder *encoder, size_t at, struct halo_special_match *ret)
{
    const struct halo_tokenizer *t = encoder->tokenizer;
    for (; at < encoder->n; at++) {
        unsigned byte = (uint8_t)encoder->text[at];
        bool may_begin = t->special.first[byte] != t->special.first[byte + 1];
        int r = may_begin || at % HALO_BYTES_PER_WORK == 0 ? halo_turn_work(encoder->turn, 1) : 0;
        if (r < 0)
            return r;
        if (!may_begin)
            continue;
        open_advance(encoder, at);
        size_t limit = at >= encoder->open_from && at < encoder->open_to ? encoder->open_to - at : 0;
        if (match_here(t, encoder->text + at, encoder->n - at, limit, ret)) {
            ret->at = at;
            return HALO_SPECIAL_FOUND;
        }
    }
    return 0;
}
