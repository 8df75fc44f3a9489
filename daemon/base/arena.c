/* arena.c: memory that is freed all at once.
 *
 * One owner at a time. Owns a list of chunks, newest first; only the newest one is filled. A chunk is at least twice as
 * large as the one before it (from 4 KiB up to 1 MiB steps), so the number of chunks stays logarithmic while little is
 * wasted on a small arena. Fails with NULL: the limit, the system's memory, or a size that overflows.
 */
#include <assert.h>
#include <base/arena.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK_MIN_BYTES ((size_t)4096)
#define ARENA_CHUNK_MAX_BYTES ((size_t)1 << 20)
#define ARENA_ALIGN ((size_t)16)

struct halo_arena_chunk {
    struct halo_arena_chunk *next;
    size_t size; /* of the whole chunk, this header included */
    size_t fill; /* offset of the first free byte */
};

void halo_arena_init(struct halo_arena *arena, size_t limit_bytes)
{
    *arena = (struct halo_arena){.limit_bytes = limit_bytes};
}

void halo_arena_finish(struct halo_arena *arena)
{
    while (arena->head) {
        struct halo_arena_chunk *next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
    *arena = (struct halo_arena){0};
}

/* Offset of the next free byte of `chunk` at this alignment (of the address, not of the offset). */
static size_t chunk_aligned_fill(const struct halo_arena_chunk *chunk, size_t align)
{
    uintptr_t at = (uintptr_t)chunk + chunk->fill;
    return chunk->fill + (size_t)(-at & (align - 1));
}

static struct halo_arena_chunk *arena_grow(struct halo_arena *arena, size_t bytes, size_t align)
{
    size_t need;
    if (__builtin_add_overflow(bytes, align + sizeof(struct halo_arena_chunk), &need))
        return NULL;
    size_t size = arena->head ? arena->head->size : ARENA_CHUNK_MIN_BYTES / 2;
    size = size < ARENA_CHUNK_MAX_BYTES / 2 ? size * 2 : ARENA_CHUNK_MAX_BYTES;
    if (size < need)
        size = need;
    if (arena->limit_bytes) {
        size_t left = arena->limit_bytes > arena->held_bytes ? arena->limit_bytes - arena->held_bytes : 0;
        if (need > left)
            return NULL;
        if (size > left)
            size = left;
    }
    struct halo_arena_chunk *chunk = malloc(size);
    if (!chunk)
        return NULL;
    *chunk = (struct halo_arena_chunk){.next = arena->head, .size = size, .fill = sizeof *chunk};
    arena->head = chunk;
    arena->held_bytes += size;
    return chunk;
}

void *halo_arena_alloc_aligned(struct halo_arena *arena, size_t bytes, size_t align)
{
    assert(!arena->sealed);
    assert(align && (align & (align - 1)) == 0);
    if (align < ARENA_ALIGN)
        align = ARENA_ALIGN;
    struct halo_arena_chunk *chunk = arena->head;
    size_t at = chunk ? chunk_aligned_fill(chunk, align) : 0;
    if (!chunk || at > chunk->size || chunk->size - at < bytes) {
        chunk = arena_grow(arena, bytes, align);
        if (!chunk)
            return NULL;
        at = chunk_aligned_fill(chunk, align);
    }
    assert(at <= chunk->size && chunk->size - at >= bytes);
    arena->used_bytes += at + bytes - chunk->fill;
    chunk->fill = at + bytes;
    return memset((char *)chunk + at, 0, bytes);
}

void *halo_arena_alloc(struct halo_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return halo_arena_alloc_aligned(arena, bytes, ARENA_ALIGN);
}

char *halo_arena_strndup(struct halo_arena *arena, const char *bytes, size_t n)
{
    char *copy = n < SIZE_MAX ? halo_arena_alloc(arena, n + 1, 1) : NULL;
    if (copy && n)
        memcpy(copy, bytes, n);
    return copy;
}

void halo_arena_reset(struct halo_arena *arena)
{
    assert(!arena->sealed);
    struct halo_arena_chunk *largest = NULL;
    for (struct halo_arena_chunk *c = arena->head; c; c = c->next)
        if (!largest || c->size > largest->size)
            largest = c;
    while (arena->head) {
        struct halo_arena_chunk *next = arena->head->next;
        if (arena->head != largest)
            free(arena->head);
        arena->head = next;
    }
    arena->used_bytes = 0;
    arena->held_bytes = 0;
    if (largest) {
        largest->next = NULL;
        largest->fill = sizeof *largest;
        arena->held_bytes = largest->size;
    }
    arena->head = largest;
}

void halo_arena_seal(struct halo_arena *arena)
{
    arena->sealed = true;
}
