/* kv_pages.c: the page pool of the KV cache.
 *
 * Runs on the device thread. The free list is a stack, so that pages given back last, still warm in the caches, are
 * used first. Fails with: HALO_KV_E_FULL (the caller preempts or waits), -ENOMEM at init.
 */
#include <engine/kv_pages.h>

#include <assert.h>
#include <errno.h>
#include <kernels/plan.h>
#include <stdlib.h>

uint32_t halo_kv_pages_for(uint64_t n_positions)
{
    return (uint32_t)((n_positions + HALO_KV_PAGE_TOKENS - 1) / HALO_KV_PAGE_TOKENS);
}

int halo_kv_pool_init(struct halo_kv_pool *pool, uint32_t n_pages)
{
    *pool = (struct halo_kv_pool){.n_pages = n_pages, .n_free = n_pages};
    pool->free = calloc(n_pages ? n_pages : 1, sizeof(*pool->free));
    pool->refs = calloc(n_pages ? n_pages : 1, sizeof(*pool->refs));
    if (!pool->free || !pool->refs) {
        pool->n_free = pool->n_pages = 0;
        halo_kv_pool_finish(pool);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n_pages; i++)
        pool->free[i] = n_pages - 1 - i;
    return 0;
}

void halo_kv_pool_finish(struct halo_kv_pool *pool)
{
    assert(pool->n_free == pool->n_pages);
    free(pool->free);
    free(pool->refs);
    *pool = (struct halo_kv_pool){0};
}

static uint32_t take(struct halo_kv_pool *pool)
{
    assert(pool->n_free > 0);
    uint32_t page = pool->free[--pool->n_free];
    assert(pool->refs[page] == 0);
    pool->refs[page] = 1;
    return page;
}

static void drop(struct halo_kv_pool *pool, uint32_t page)
{
    assert(page < pool->n_pages && pool->refs[page] > 0);
    if (--pool->refs[page] == 0)
        pool->free[pool->n_free++] = page;
}

int halo_kv_table_init(struct halo_kv_table *table, uint32_t max_positions)
{
    *table = (struct halo_kv_table){.capacity = halo_kv_pages_for(max_positions)};
    table->pages = calloc(table->capacity ? table->capacity : 1, sizeof(*table->pages));
    return table->pages ? 0 : -ENOMEM;
}

void halo_kv_table_finish(struct halo_kv_table *table)
{
    assert(table->n == 0);
    free(table->pages);
    *table = (struct halo_kv_table){0};
}

int halo_kv_table_grow(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t n_positions)
{
    uint32_t wanted = halo_kv_pages_for(n_positions);
    assert(wanted <= table->capacity);
    if (wanted <= table->n)
        return 0;
    if (wanted - table->n > pool->n_free)
        return HALO_KV_E_FULL;
    while (table->n < wanted)
        table->pages[table->n++] = take(pool);
    return 0;
}

void halo_kv_table_clear(struct halo_kv_table *table, struct halo_kv_pool *pool)
{
    while (table->n > 0)
        drop(pool, table->pages[--table->n]);
}
