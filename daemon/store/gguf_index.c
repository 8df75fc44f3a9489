/* gguf_index.c: names to numbers, in linear time whatever the names are.
 *
 * Open addressing at most half full, SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) with
 * a random key for each table: a file made to collide does not know the key. Fails with -ENOMEM only.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include <base/clock.h>

#include "gguf_priv.h"

#define INDEX_BATCH 16

struct gguf_slot {
    uint32_t tag; /* high half of the hash: saves nearly all comparisons of names */
    uint32_t i;   /* GGUF_INDEX_NONE: empty */
};

static inline uint64_t rotl(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

static uint64_t sip_hash(const uint64_t key[2], const char *bytes, size_t n)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                     key[1] ^ 0x7465646279746573u};
    size_t whole = n & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof(word));
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t tail = (uint64_t)n << 56;
    for (size_t i = whole; i < n; i++)
        tail |= (uint64_t)(unsigned char)bytes[i] << (8 * (i - whole));
    v[3] ^= tail;
    sip_round(v);
    v[0] ^= tail;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The slot that holds `name`, or the empty one where it would go. */
static struct gguf_slot *index_probe(const struct gguf_index *index, uint64_t hash, struct halo_span name,
                                     gguf_name_fn *name_of, const void *ud)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    for (uint64_t at = hash & index->mask;; at = (at + 1) & index->mask) {
        struct gguf_slot *slot = &index->slots[at];
        if (slot->i == GGUF_INDEX_NONE)
            return slot;
        if (slot->tag != tag)
            continue;
        struct halo_span other = name_of(ud, slot->i);
        if (other.n == name.n && memcmp(other.bytes, name.bytes, name.n) == 0)
            return slot;
    }
}

/* Room for n names, all empty. */
static int index_init(struct gguf_index *index, uint64_t n)
{
    *index = (struct gguf_index){0};
    uint64_t size = 8;
    while (size < 2 * n)
        size *= 2;
    index->slots = malloc(size * sizeof(*index->slots));
    if (!index->slots)
        return -ENOMEM;
    memset(index->slots, 0xff, size * sizeof(*index->slots));
    index->mask = size - 1;
    if (getrandom(index->key, sizeof(index->key), GRND_NONBLOCK) != (ssize_t)sizeof(index->key)) {
        index->key[0] = halo_clock_ns();
        index->key[1] = (uintptr_t)index->slots;
    }
    return 0;
}

int gguf_index_build(struct gguf_index *index, uint64_t n, gguf_name_fn *name_of, const void *ud,
                     uint32_t *ret_duplicate)
{
    assert(n < GGUF_INDEX_NONE);
    int r = index_init(index, n);
    if (r)
        return r;
    /* A batch is hashed before it is entered: by then the slots, which lie anywhere in the table, are in the cache. */
    for (uint64_t first = 0; first < n; first += INDEX_BATCH) {
        uint64_t hashes[INDEX_BATCH], end = first + INDEX_BATCH < n ? first + INDEX_BATCH : n;
        for (uint64_t i = first; i < end; i++) {
            struct halo_span name = name_of(ud, (uint32_t)i);
            hashes[i - first] = sip_hash(index->key, name.bytes, name.n);
            __builtin_prefetch(&index->slots[hashes[i - first] & index->mask], 1);
        }
        for (uint64_t i = first; i < end; i++) {
            uint64_t hash = hashes[i - first];
            struct gguf_slot *slot = index_probe(index, hash, name_of(ud, (uint32_t)i), name_of, ud);
            if (slot->i != GGUF_INDEX_NONE) {
                *ret_duplicate = (uint32_t)i;
                return GGUF_INDEX_DUPLICATE;
            }
            *slot = (struct gguf_slot){.tag = (uint32_t)(hash >> 32), .i = (uint32_t)i};
        }
    }
    return 0;
}

uint32_t gguf_index_find(const struct gguf_index *index, struct halo_span name, gguf_name_fn *name_of, const void *ud)
{
    if (!index->slots)
        return GGUF_INDEX_NONE;
    return index_probe(index, sip_hash(index->key, name.bytes, name.n), name, name_of, ud)->i;
}

void gguf_index_finish(struct gguf_index *index)
{
    free(index->slots);
    *index = (struct gguf_index){0};
}
