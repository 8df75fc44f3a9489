/* tokenizer_strings.c: a table of texts: text to index and back.
 *
 * Built by one thread, then read by any. Open addressing at most three quarters full, linear probing. The memory is the
 * arena's; growing leaves the old arrays behind in it, which at most doubles them. Fails with -ENOMEM.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "tokenizer_priv.h"

static uint64_t fold(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_text(uint64_t seed, const char *text, size_t n)
{
    uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15u);
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        h = fold(h ^ word, 0xD6E8FEB86659FD93u);
        text += 8;
        n -= 8;
    }
    uint64_t tail = 0;
    memcpy(&tail, text, n);
    return fold(fold(h ^ tail, 0xA0761D6478BD642Fu), 0xE7037ED1A0B428DBu);
}

void halo_strings_init(struct halo_strings *strings, struct halo_arena *arena)
{
    *strings = (struct halo_strings){.arena = arena};
    if (getrandom(&strings->seed, sizeof strings->seed, GRND_NONBLOCK) != sizeof strings->seed)
        strings->seed = (uint64_t)time(NULL) * 0x9E3779B97F4A7C15u;
}

struct halo_span halo_strings_get(const struct halo_strings *strings, uint32_t index)
{
    assert(index < strings->n);
    uint32_t start = index ? strings->ends[index - 1] : 0;
    if (start == strings->ends[index]) /* there are no bytes at all if all texts are empty */
        return (struct halo_span){"", 0};
    return (struct halo_span){strings->bytes + start, strings->ends[index] - start};
}

/* The slot that holds the text, or the free one where it belongs. */
static struct halo_string_slot *find_slot(const struct halo_strings *strings, const char *text, size_t n, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32), mask = strings->n_slots - 1;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        struct halo_string_slot *slot = &strings->slots[at];
        if (slot->next == 0)
            return slot;
        if (slot->tag != tag)
            continue;
        struct halo_span other = halo_strings_get(strings, slot->next - 1);
        if (other.n == n && memcmp(other.bytes, text, n) == 0)
            return slot;
    }
}

int32_t halo_strings_find(const struct halo_strings *strings, const char *text, size_t n)
{
    if (n == 0 || n > strings->max_bytes)
        return -1;
    return (int32_t)find_slot(strings, text, n, hash_text(strings->seed, text, n))->next - 1;
}

static void *grow(struct halo_arena *arena, const void *old, size_t n_old, size_t n_new, size_t size)
{
    void *new = halo_arena_alloc(arena, n_new, size);
    if (new &&n_old)
        memcpy(new, old, n_old * size);
    return new;
}

static int grow_index(struct halo_strings *strings, uint32_t capacity)
{
    uint32_t n_slots = 16;
    while (n_slots / 4 * 3 < capacity)
        n_slots *= 2;
    uint32_t *ends = grow(strings->arena, strings->ends, strings->n, capacity, sizeof *ends);
    struct halo_string_slot *slots = halo_arena_alloc(strings->arena, n_slots, sizeof *slots);
    if (!ends || !slots)
        return -ENOMEM;
    strings->ends = ends;
    strings->capacity = capacity;
    strings->slots = slots;
    strings->n_slots = n_slots;
    for (uint32_t i = 0; i < strings->n; i++) {
        struct halo_span text = halo_strings_get(strings, i);
        uint64_t hash = hash_text(strings->seed, text.bytes, text.n);
        if (text.n)
            *find_slot(strings, text.bytes, text.n, hash) = (struct halo_string_slot){(uint32_t)(hash >> 32), i + 1};
    }
    return 0;
}

int halo_strings_reserve(struct halo_strings *strings, uint32_t n, size_t n_bytes)
{
    if (n > INT32_MAX / 4 || n_bytes > INT32_MAX)
        return -ENOMEM; /* indices and offsets are 32 bits */
    if (n_bytes > strings->capacity_bytes) {
        char *bytes = grow(strings->arena, strings->bytes, strings->n_bytes, n_bytes, 1);
        if (!bytes)
            return -ENOMEM;
        strings->bytes = bytes;
        strings->capacity_bytes = n_bytes;
    }
    return n > strings->capacity ? grow_index(strings, n) : 0;
}

int halo_strings_add(struct halo_strings *strings, const char *text, size_t n, uint32_t *ret)
{
    uint32_t want = strings->n < strings->capacity ? strings->capacity : strings->n * 2 + 8;
    size_t want_bytes = strings->n_bytes + n;
    want_bytes = want_bytes <= strings->capacity_bytes ? strings->capacity_bytes : want_bytes * 2;
    int r = halo_strings_reserve(strings, want, want_bytes);
    if (r < 0)
        return r;
    uint64_t hash = n ? hash_text(strings->seed, text, n) : 0;
    struct halo_string_slot *slot = n ? find_slot(strings, text, n, hash) : NULL;
    if (slot && slot->next) {
        *ret = slot->next - 1;
        return HALO_STRINGS_DUPLICATE;
    }
    if (n)
        memcpy(strings->bytes + strings->n_bytes, text, n);
    strings->n_bytes += n;
    strings->max_bytes = n > strings->max_bytes ? (uint32_t)n : strings->max_bytes;
    *ret = strings->n++;
    strings->ends[*ret] = (uint32_t)strings->n_bytes;
    if (slot)
        *slot = (struct halo_string_slot){(uint32_t)(hash >> 32), *ret + 1};
    return 0;
}
