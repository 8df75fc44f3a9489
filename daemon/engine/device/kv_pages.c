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

void halo_kv_pool_finish(struct halo_kv_pool *pool)
{
    assert(halo_kv_pool_available(pool) == pool->n_pages);
    free(pool->free);
    free(pool->refs);
    halo_prefix_finish(&pool->prefix);
    *pool = (struct halo_kv_pool){0};
}

static void make_free(struct halo_kv_pool *pool, uint32_t page)
{
    assert(pool->refs[page] == 0 && pool->n_free < pool->n_pages);
    pool->free[pool->n_free++] = page;
}

static uint32_t take(struct halo_kv_pool *pool)
{
    uint32_t page = pool->n_free > 0 ? pool->free[--pool->n_free] : halo_prefix_evict(&pool->prefix);
    assert(pool->refs[page] == 0);
    pool->refs[page] = 1;
    return page;
}

static void hold(struct halo_kv_pool *pool, uint32_t page)
{
    if (pool->refs[page]++ == 0)
        halo_prefix_set_busy(&pool->prefix, page);
    assert(pool->refs[page] > 0);
}

static void drop(struct halo_kv_pool *pool, uint32_t page)
{
    assert(page < pool->n_pages && pool->refs[page] > 0);
    if (--pool->refs[page] > 0)
        return;
    if (halo_prefix_has(&pool->prefix, page))
        halo_prefix_set_idle(&pool->prefix, page);
    else
        make_free(pool, page);
}

uint32_t halo_kv_pool_forget(struct halo_kv_pool *pool, bool all, uint64_t user)
{
    uint32_t at = 0, n_freed = 0, page;
    bool idle = false;
    while ((page = halo_prefix_forget(&pool->prefix, all, user, &at, &idle)) != NONE)
        if (idle) {
            make_free(pool, page);
            n_freed++;
        }
    return n_freed;
}

/* ---- what outlives the pool ---- */

/* The page and what it follows, the first of the text first. A page that is held here has its place already. */
static uint32_t hold_chain(struct halo_kv_pool *pool, uint32_t page, bool *held, uint32_t *order, uint32_t n)
{
    uint32_t n_chain = 0;
    for (uint32_t at = page; at != NONE && !held[at]; at = pool->prefix.entries[at].parent)
        n_chain++;
    uint32_t place = n + n_chain;
    for (uint32_t at = page; place > n; at = pool->prefix.entries[at].parent) {
        hold(pool, at);
        held[at] = true;
        order[--place] = at;
    }
    return n + n_chain;
}

uint32_t halo_kv_pool_hold_listed(struct halo_kv_pool *pool, uint32_t *order)
{
    const struct halo_prefix *prefix = &pool->prefix;
    bool *held = calloc(pool->n_pages + 1, sizeof(*held));
    uint32_t n = 0;
    if (!held)
        return 0;
    for (uint32_t page = 0; page < pool->n_pages; page++) /* those in use are the latest */
        if (prefix->entries[page].listed && !prefix->entries[page].idle)
            n = hold_chain(pool, page, held, order, n);
    while (prefix->idle_last != NONE)
        n = hold_chain(pool, prefix->idle_last, held, order, n);
    free(held);
    return n;
}

void halo_kv_pool_drop_listed(struct halo_kv_pool *pool, const uint32_t *order, uint32_t n)
{
    while (n > 0)
        drop(pool, order[--n]);
}

uint32_t halo_kv_pool_list_free(struct halo_kv_pool *pool, uint32_t parent, uint64_t user, const int32_t *ids,
                                uint32_t n, bool *ret_new)
{
    uint32_t page = NONE;
    if (n == PAGE)
        page = halo_prefix_find(&pool->prefix, parent, user, ids);
    else if (halo_prefix_find_tail(&pool->prefix, parent, user, ids, n, &page) < n)
        page = NONE;
    *ret_new = page == NONE;
    if (page != NONE) {
        hold(pool, page);
        return page;
    }
    if (pool->n_free == 0)
        return NONE;
    page = take(pool);
    halo_prefix_add(&pool->prefix, page, parent, user, ids, n);
    return page;
}

/* ---- tables ---- */

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
    if (wanted - table->n > halo_kv_pool_available(pool))
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

/* ---- reuse ---- */

static uint32_t parent_of(const struct halo_kv_table *table, uint32_t at)
{
    return at == 0 ? NONE : table->pages[at - 1];
}

/* Whether something can be listed or found behind the pages in front of `at`. */
static bool has_parent(const struct halo_kv_table *table, const struct halo_kv_pool *pool, uint32_t at)
{
    return at == 0 || halo_prefix_has(&pool->prefix, table->pages[at - 1]);
}

uint32_t halo_kv_table_take(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                            uint32_t limit)
{
    assert(table->n == 0 && halo_kv_pages_for(limit) <= table->capacity);
    while ((table->n + 1) * PAGE <= limit) {
        uint32_t page = halo_prefix_find(&pool->prefix, parent_of(table, table->n), user, ids + table->n * PAGE);
        if (page == NONE)
            break;
        hold(pool, page);
        table->pages[table->n++] = page;
    }
    return table->n * PAGE;
}

uint32_t halo_kv_table_find_tail(const struct halo_kv_table *table, const struct halo_kv_pool *pool, uint64_t user,
                                 const int32_t *ids, uint32_t limit, uint32_t *ret_page)
{
    uint32_t first = table->n * PAGE, n = limit - first < PAGE ? limit - first : PAGE;
    assert(first <= limit);
    return halo_prefix_find_tail(&pool->prefix, parent_of(table, table->n), user, ids + first, n, ret_page);
}

bool halo_kv_table_swap(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                        uint32_t at)
{
    assert(at < table->n);
    if (!has_parent(table, pool, at))
        return false;
    uint32_t page = halo_prefix_find(&pool->prefix, parent_of(table, at), user, ids + at * PAGE);
    if (page == NONE)
        return false;
    hold(pool, page);
    drop(pool, table->pages[at]);
    table->pages[at] = page;
    return true;
}

static void list(struct halo_kv_pool *pool, uint32_t page, uint32_t parent, uint64_t user, const int32_t *ids,
                 uint32_t n)
{
    uint32_t covered;
    halo_prefix_add(&pool->prefix, page, parent, user, ids, n);
    while ((covered = halo_prefix_drop_covered(&pool->prefix, page)) != NONE)
        make_free(pool, covered);
}

void halo_kv_table_keep(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                        uint32_t at)
{
    if (!has_parent(table, pool, at) || halo_kv_table_swap(table, pool, user, ids, at))
        return;
    assert(!halo_prefix_has(&pool->prefix, table->pages[at]));
    list(pool, table->pages[at], parent_of(table, at), user, ids + at * PAGE, PAGE);
}

void halo_kv_table_leave(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                         uint32_t n_filled)
{
    uint32_t at = n_filled / PAGE, n = n_filled % PAGE, same;
    if (n > 0 && has_parent(table, pool, at)) {
        uint32_t parent = parent_of(table, at), page = table->pages[at];
        assert(at < table->n && pool->refs[page] == 1 && !halo_prefix_has(&pool->prefix, page));
        if (halo_prefix_find_tail(&pool->prefix, parent, user, ids + at * PAGE, n, &same) < n)
            list(pool, page, parent, user, ids + at * PAGE, n);
    }
    halo_kv_table_clear(table, pool);
}
