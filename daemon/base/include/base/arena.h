/* arena.h: memory that is freed all at once.
 *
 * Chunks grow geometrically; an allocation never moves. A limit bounds the whole (0: none). Sealing makes any further
 * allocation an assertion failure: a model's arena is sealed after binding. Not thread-safe: one owner at a time.
 */
#ifndef HALO_BASE_ARENA_H
#define HALO_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct halo_arena_chunk;

struct halo_arena {
    struct halo_arena_chunk *head;  /* newest chunk */
    struct halo_arena_chunk *spare; /* kept by a reset, empty */
    size_t used_bytes;              /* handed out, alignment included */
    size_t held_bytes;              /* taken from the system */
    size_t limit_bytes;             /* 0: no limit */
    bool sealed;
};

void halo_arena_init(struct halo_arena *arena, size_t limit_bytes);
void halo_arena_finish(struct halo_arena *arena);

/* Zeroed memory, aligned to 16 (or to `align`, a power of two). NULL when the limit or the system's memory is
 * exhausted, or when n * size overflows. A size of 0 gives a valid pointer. */
void *halo_arena_alloc(struct halo_arena *arena, size_t n, size_t size);
void *halo_arena_alloc_aligned(struct halo_arena *arena, size_t bytes, size_t align);

/* Copies with a NUL after it; `bytes` may hold any byte. */
char *halo_arena_strndup(struct halo_arena *arena, const char *bytes, size_t n);

/* Frees everything, but keeps chunks of at most keep_bytes in all for what comes next: serving requests with
 * fresh memory would cost more than most of them do. */
void halo_arena_reset(struct halo_arena *arena, size_t keep_bytes);
void halo_arena_seal(struct halo_arena *arena);

#endif
