/* tokenizer_merge.c: the merge loop that both kinds of tokenizer share.
 *
 * Again and again the neighbours with the smallest key become one symbol, the leftmost of equal ones first. Every
 * symbol carries the key of the pair that it begins, so an entry of the queue is out of date exactly when its key is
 * not the symbol's any more. (Another pair with the same key at the same place is just as good: order depends on key
 * and place only.) A short word is searched directly; a long one uses a binary heap, so that a megabyte without a
 * border costs n log n. Scratch of one call, one thread.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "tokenizer_priv.h"

#define MERGE_SCAN_MAX 24 /* up to here looking through the list is faster than a heap */

int halo_merger_reserve(struct halo_merger *merger, size_t n_symbols)
{
    if (n_symbols <= merger->capacity)
        return 0;
    size_t capacity = n_symbols < 256 ? 256 : n_symbols + n_symbols / 2;
    halo_merger_finish(merger);
    /* Each pair enters the heap when it is formed: n - 1 at the start and two for each merge. */
    merger->symbols = reallocarray(NULL, capacity, sizeof *merger->symbols);
    merger->heap = reallocarray(NULL, capacity, 3 * sizeof *merger->heap);
    merger->capacity = merger->symbols && merger->heap ? capacity : 0;
    return merger->capacity ? 0 : -ENOMEM;
}

void halo_merger_finish(struct halo_merger *merger)
{
    free(merger->symbols);
    free(merger->heap);
    *merger = (struct halo_merger){0};
}

static void heap_sink(uint64_t *heap, size_t n, size_t at)
{
    uint64_t entry = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= entry)
            break;
        heap[at] = heap[child];
    }
    heap[at] = entry;
}

static void heap_push(struct halo_merger *merger, uint64_t entry)
{
    assert(merger->n_heap < 3 * merger->capacity);
    size_t at = merger->n_heap++;
    for (; at && merger->heap[(at - 1) / 2] > entry; at = (at - 1) / 2)
        merger->heap[at] = merger->heap[(at - 1) / 2];
    merger->heap[at] = entry;
}

static uint64_t heap_pop(struct halo_merger *merger)
{
    uint64_t least = merger->heap[0];
    merger->heap[0] = merger->heap[--merger->n_heap];
    if (merger->n_heap)
        heap_sink(merger->heap, merger->n_heap, 0);
    return least;
}

static uint32_t next_by_scan(const struct halo_merge_symbol *symbols)
{
    uint32_t best = HALO_MERGE_NONE, key = HALO_MERGE_NONE;
    for (uint32_t i = 0; i != HALO_MERGE_NONE; i = symbols[i].next)
        if (symbols[i].key < key) {
            key = symbols[i].key;
            best = i;
        }
    return best;
}

static uint32_t next_by_heap(struct halo_merger *merger)
{
    while (merger->n_heap) {
        uint64_t entry = heap_pop(merger);
        uint32_t at = (uint32_t)entry;
        if (merger->symbols[at].key == entry >> 32)
            return at;
    }
    return HALO_MERGE_NONE;
}

static void pair_update(struct halo_encoder *encoder, uint32_t left, halo_merge_pair_fn *pair, bool use_heap)
{
    struct halo_merge_symbol *symbol = &encoder->merger.symbols[left];
    symbol->key = HALO_MERGE_NONE;
    if (symbol->next == HALO_MERGE_NONE)
        return;
    pair(encoder, symbol, &encoder->merger.symbols[symbol->next]);
    if (use_heap && symbol->key != HALO_MERGE_NONE)
        heap_push(&encoder->merger, (uint64_t)symbol->key << 32 | left);
}

int halo_merger_run(struct halo_encoder *encoder, size_t n_symbols, halo_merge_pair_fn *pair)
{
    struct halo_merger *merger = &encoder->merger;
    struct halo_merge_symbol *symbols = merger->symbols;
    assert(n_symbols >= 1 && n_symbols <= merger->capacity && n_symbols < HALO_MERGE_NONE);
    bool use_heap = n_symbols > MERGE_SCAN_MAX;
    merger->n_heap = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n_symbols; i++) {
        symbols[i].prev = i ? (uint32_t)i - 1 : HALO_MERGE_NONE;
        symbols[i].next = i + 1 < n_symbols ? (uint32_t)i + 1 : HALO_MERGE_NONE;
        r = halo_turn_work(encoder->turn, 1);
    }
    for (size_t i = 0; r == 0 && i < n_symbols; i++) {
        pair_update(encoder, (uint32_t)i, pair, use_heap);
        r = halo_turn_work(encoder->turn, 1);
    }
    while (r == 0) {
        uint32_t at = use_heap ? next_by_heap(merger) : next_by_scan(symbols);
        if (at == HALO_MERGE_NONE)
            break;
        struct halo_merge_symbol *left = &symbols[at], *right = &symbols[left->next];
        left->id = left->result;
        left->n += right->n;
        left->next = right->next;
        right->key = HALO_MERGE_NONE;
        if (left->next != HALO_MERGE_NONE)
            symbols[left->next].prev = at;
        pair_update(encoder, at, pair, use_heap);
        if (left->prev != HALO_MERGE_NONE)
            pair_update(encoder, left->prev, pair, use_heap);
        r = halo_turn_work(encoder->turn, 1);
    }
    return r;
}
