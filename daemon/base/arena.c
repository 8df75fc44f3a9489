/* arena.c: memory that is freed all at once.
 *
 * One owner at a time. Owns a list of chunks, newest first; only the newest one is filled. A chunk is at least twice as
 * large as the one before it (from 4 KiB up to 1 MiB steps), so the number of chunks stays logarithmic while little is
 * wasted on a small arena. Fails with NULL: the limit, the system's memory, or a size that overflows.
 */
#include <base/arena.h>

#include <assert.h>
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

static void free_chunks(struct halo_arena_chunk *chunk)
{
    while (chunk) {
        struct halo_arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void halo_arena_finish(struct halo_arena *arena)
{
    free_chunks(arena->head);
    free_chunks(arena->spare);
    *arena = (struct halo_arena){0};
}

/* Offset of the next free byte of `chunk` at this alignment (of the address, not of the offset). */
static size_t chunk_aligned_fill(const struct halo_arena_chunk *chunk, size_t align)
{
    uintptr_t at = (uintptr_t)chunk + chunk->fill;
    return chunk->fill + (size_t)(-at & (align - 1));
}

/* The smallest spare chunk with room for `need` bytes, header included. */
static struct halo_arena_chunk *arena_take_spare(struct halo_arena *arena, size_t need)
{
    struct halo_arena_chunk **best = NULL;
    for (struct halo_arena_chunk **at = &arena->spare; *at; at = &(*at)->next)
        if ((*at)->size >= need && (!best || (*at)->size < (*best)->size))
            best = at;
    struct halo_arena_chunk *chunk = best ? *best : NULL;
    if (chunk) {
        *best = chunk->next;
        chunk->next = arena->head;
        arena->head = chunk;
    }
    return chunk;
}

static void arena_drop_spare(struct halo_arena *arena)
{
    for (struct halo_arena_chunk *chunk = arena->spare; chunk; chunk = chunk->next)
        arena->held_bytes -= chunk->size;
    free_chunks(arena->spare);
    arena->spare = NULL;
}

static struct halo_arena_chunk *arena_grow(struct halo_arena *arena, size_t bytes, size_t align)
{
    size_t need;
    if (__builtin_add_overflow(bytes, align + sizeof(struct halo_arena_chunk), &need))
        return NULL;
    struct halo_arena_chunk *spare = arena_take_spare(arena, need);
    if (spare)
        return spare;
    size_t size = arena->head ? arena->head->size : ARENA_CHUNK_MIN_BYTES / 2;
    size = size < ARENA_CHUNK_MAX_BYTES / 2 ? size * 2 : ARENA_CHUNK_MAX_BYTES;
    if (size < need)
        size = need;
    if (arena->limit_bytes) {
        arena_drop_spare(arena); /* none of them fits: they must not stand in the way */
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

void halo_arena_reset(struct halo_arena *arena, size_t keep_bytes)
{
    assert(!arena->sealed);
    struct halo_arena_chunk *lists[] = {arena->head, arena->spare};
    arena->head = arena->spare = NULL;
    arena->used_bytes = arena->held_bytes = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (struct halo_arena_chunk *chunk = lists[i], *next; chunk; chunk = next) {
            next = chunk->next;
            if (chunk->size > keep_bytes - arena->held_bytes) {
                free(chunk);
                continue;
            }
            chunk->fill = sizeof *chunk;
            chunk->next = arena->spare;
            arena->spare = chunk;
            arena->held_bytes += chunk->size;
        }
}

void halo_arena_seal(struct halo_arena *arena)
{
    arena->sealed = true;
}
