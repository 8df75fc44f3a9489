/* kv_pages.c: the page pool of the KV cache.
 *
 * Runs on the device thread. The free list is a stack, so that pages given back last, still warm in the caches, are
 * used first; idle pages are taken when it is empty, the longest idle first. Fails with: HALO_KV_E_FULL (the caller
 * preempts or waits), -ENOMEM at init.
 */
#include <engine/kv_pages.h>

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <kernels/plan.h>

#include "device/kv_pages_priv.h"

#define PAGE HALO_KV_PAGE_TOKENS
#define NONE HALO_PREFIX_NONE

uint32_t halo_kv_pages_for(uint64_t n_positions)
{
    return (uint32_t)((n_positions + PAGE - 1) / PAGE);
}

int halo_kv_pool_init(struct halo_kv_pool *pool, uint32_t n_pages)
{
    *pool = (struct halo_kv_pool){.n_pages = n_pages, .n_free = n_pages};
    pool->free = calloc(n_pages ? n_pages : 1, sizeof(*pool->free));
    pool->refs = calloc(n_pages ? n_pages : 1, sizeof(*pool->refs));
    if (!pool->free || !pool->refs || halo_prefix_init(&pool->prefix, n_pages) < 0) {
        pool->n_free = pool->n_pages = 0;
        halo_kv_pool_finish(pool);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n_pages; i++)
        pool->free[i] = n_pages - 1 - i;
    return 0;
}

int halo_kv_pool_add_side(struct halo_kv_pool *pool, uint32_t n_pages, uint32_t window, uint32_t span)
{
    assert(pool->n_sides < HALO_KV_SIDES_MAX && halo_kv_pool_available(pool) == pool->n_pages);
    int r = halo_kv_side_init(&pool->sides[pool->n_sides], n_pages, pool->n_pages, window, span);
    pool->n_sides += r == 0;
    return r;
}

void halo_kv_pool_finish(struct halo_kv_pool *pool)
{
    assert(halo_kv_pool_available(pool) == pool->n_pages);
    for (uint32_t s = 0; s < pool->n_sides; s++)
        halo_kv_side_finish(&pool->sides[s]);
    free(pool->free);
    free(pool->refs);
    halo_prefix_finish(&pool->prefix);
    *pool = (struct halo_kv_pool){0};
}

void halo_kv_pool_detach(struct halo_kv_pool *pool, uint32_t page)
{
    for (uint32_t s = 0; s < pool->n_sides; s++)
        halo_kv_side_detach(&pool->sides[s], page);
}

void halo_kv_pool_make_free(struct halo_kv_pool *pool, uint32_t page)
{
    assert(pool->refs[page] == 0 && pool->n_free < pool->n_pages);
    pool->free[pool->n_free++] = page;
}

static uint32_t evict(struct halo_kv_pool *pool)
{
    uint32_t page = halo_prefix_evict(&pool->prefix);
    halo_kv_pool_detach(pool, page);
    return page;
}

uint32_t halo_kv_pool_take(struct halo_kv_pool *pool)
{
    uint32_t page = pool->n_free > 0 ? pool->free[--pool->n_free] : evict(pool);
    assert(pool->refs[page] == 0);
    pool->refs[page] = 1;
    return page;
}

void halo_kv_pool_hold(struct halo_kv_pool *pool, uint32_t page)
{
    if (pool->refs[page]++ == 0)
        halo_prefix_set_busy(&pool->prefix, page);
    assert(pool->refs[page] > 0);
}

void halo_kv_pool_drop(struct halo_kv_pool *pool, uint32_t page)
{
    assert(page < pool->n_pages && pool->refs[page] > 0);
    if (--pool->refs[page] > 0)
        return;
    if (halo_prefix_has(&pool->prefix, page))
        halo_prefix_set_idle(&pool->prefix, page);
    else
        halo_kv_pool_make_free(pool, page);
}

uint32_t halo_kv_pool_forget(struct halo_kv_pool *pool, bool all, uint64_t user)
{
    uint32_t at = 0, n_freed = 0, page;
    bool idle = false;
    while ((page = halo_prefix_forget(&pool->prefix, all, user, &at, &idle)) != NONE) {
        halo_kv_pool_detach(pool, page);
        if (idle) {
            halo_kv_pool_make_free(pool, page);
            n_freed++;
        }
    }
    return n_freed;
}
