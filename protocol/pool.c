/* pool.c: the memory of one decoded message: a list of chunks, the newest first. */
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#include "pool_priv.h"

#define FIRST_BYTES 496
#define MOST_BYTES (64u << 10) /* chunks double up to this; a larger piece gets a chunk of its own size */

struct chunk {
    struct chunk *next;
    size_t used, cap;
    alignas(max_align_t) char bytes[];
};

void *halo_pool_alloc(void **pool, size_t n_bytes)
{
    const size_t align = alignof(max_align_t);
    struct chunk *chunk = *pool;
    size_t n, cap;

    if (n_bytes > SIZE_MAX / 2)
        return NULL;
    n = (n_bytes + align - 1) / align * align;
    if (!chunk || chunk->cap - chunk->used < n) {
        cap = chunk ? chunk->cap * 2 : FIRST_BYTES;
        if (cap > MOST_BYTES)
            cap = MOST_BYTES;
        if (cap < n)
            cap = n;
        chunk = malloc(sizeof *chunk + cap);
        if (!chunk)
            return NULL;
        chunk->next = *pool;
        chunk->used = 0;
        chunk->cap = cap;
        *pool = chunk;
    }
    chunk->used += n;
    return chunk->bytes + chunk->used - n;
}

void halo_pool_free(void **pool)
{
    struct chunk *chunk = *pool;

    while (chunk) {
        struct chunk *next = chunk->next;

        free(chunk);
        chunk = next;
    }
    *pool = NULL;
}
