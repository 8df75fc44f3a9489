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
#define NO_PAGE HALO_KV_NO_PAGE

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

/* The page is listed no more. */
static void detach(struct halo_kv_pool *pool, uint32_t page)
{
    for (uint32_t s = 0; s < pool->n_sides; s++)
        halo_kv_side_detach(&pool->sides[s], page);
}

static void make_free(struct halo_kv_pool *pool, uint32_t page)
{
    assert(pool->refs[page] == 0 && pool->n_free < pool->n_pages);
    pool->free[pool->n_free++] = page;
}

static uint32_t evict(struct halo_kv_pool *pool)
{
    uint32_t page = halo_prefix_evict(&pool->prefix);
    detach(pool, page);
    return page;
}

static uint32_t take(struct halo_kv_pool *pool)
{
    uint32_t page = pool->n_free > 0 ? pool->free[--pool->n_free] : evict(pool);
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
    while ((page = halo_prefix_forget(&pool->prefix, all, user, &at, &idle)) != NONE) {
        detach(pool, page);
        if (idle) {
            make_free(pool, page);
            n_freed++;
        }
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
    /* Which groups there are is the pool's to know. What is not used of this is never touched. */
    table->pages = calloc(table->capacity ? table->capacity : 1, HALO_KV_GROUPS_MAX * sizeof(*table->pages));
    for (uint32_t s = 0; table->pages && s < HALO_KV_SIDES_MAX; s++)
        table->side[s].pages = table->pages + (s + 1ull) * table->capacity;
    return table->pages ? 0 : -ENOMEM;
}

void halo_kv_table_finish(struct halo_kv_table *table)
{
    assert(table->n == 0);
    free(table->pages);
    *table = (struct halo_kv_table){0};
}

/* Behind the last page that the table may hold of a group with a window, of n_pages. */
static uint32_t side_end(const struct halo_kv_table *table, const struct halo_kv_pool *pool, uint32_t s,
                         uint32_t n_pages)
{
    uint64_t end = (uint64_t)table->side[s].first + pool->sides[s].span;
    return end < n_pages ? (uint32_t)end : n_pages;
}

bool halo_kv_table_fits(const struct halo_kv_table *table, const struct halo_kv_pool *pool, uint32_t n_positions,
                        uint32_t n_spare)
{
    uint32_t wanted = halo_kv_pages_for(n_positions);
    if ((wanted > table->n ? wanted - table->n : 0) + n_spare > halo_kv_pool_available(pool))
        return false;
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        uint32_t end = side_end(table, pool, s, wanted), n = table->side[s].n;
        if ((end > n ? end - n : 0) + n_spare > halo_kv_side_available(&pool->sides[s]))
            return false;
    }
    return true;
}

int halo_kv_table_grow(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t n_positions)
{
    uint32_t wanted = halo_kv_pages_for(n_positions);
    assert(wanted <= table->capacity);
    if (!halo_kv_table_fits(table, pool, n_positions, 0))
        return HALO_KV_E_FULL;
    while (table->n < wanted)
        table->pages[table->n++] = take(pool);
    for (uint32_t s = 0; s < pool->n_sides; s++)
        for (uint32_t end = side_end(table, pool, s, wanted); table->side[s].n < end; table->side[s].n++)
            table->side[s].pages[table->side[s].n] = halo_kv_side_take(&pool->sides[s]);
    return 0;
}

void halo_kv_table_slide(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t n_filled)
{
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        uint32_t first = halo_kv_side_first(&pool->sides[s], n_filled);
        for (; table->side[s].first < first; table->side[s].first++) {
            uint32_t *page = &table->side[s].pages[table->side[s].first];
            if (table->side[s].first < table->side[s].n)
                halo_kv_side_drop(&pool->sides[s], *page);
            else
                table->side[s].n++;
            *page = NO_PAGE;
        }
    }
}

uint32_t halo_kv_table_reach(const struct halo_kv_table *table, const struct halo_kv_pool *pool)
{
    uint32_t n = table->n;
    for (uint32_t s = 0; s < pool->n_sides; s++)
        n = table->side[s].n < n ? table->side[s].n : n;
    return n * PAGE;
}

struct halo_batch_seq halo_kv_table_seq(const struct halo_kv_table *table)
{
    struct halo_batch_seq seq = {.pages = {table->pages}, .n_pages = table->n};
    for (uint32_t s = 0; s < HALO_KV_SIDES_MAX; s++)
        seq.pages[s + 1] = table->side[s].pages;
    return seq;
}

void halo_kv_table_clear(struct halo_kv_table *table, struct halo_kv_pool *pool)
{
    while (table->n > 0)
        drop(pool, table->pages[--table->n]);
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        while (table->side[s].n > table->side[s].first)
            halo_kv_side_drop(&pool->sides[s], table->side[s].pages[--table->side[s].n]);
        table->side[s].first = table->side[s].n = 0;
    }
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

/* Page `at` of a group with a window becomes `page`; what was there is dropped. */
static void replace_side(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t s, uint32_t at, uint32_t page)
{
    halo_kv_side_hold(&pool->sides[s], page);
    if (at < table->side[s].n)
        halo_kv_side_drop(&pool->sides[s], table->side[s].pages[at]);
    else
        table->side[s].n = at + 1;
    table->side[s].pages[at] = page;
}

/* What the table has at `at` follows a listed page from now on. */
static void attach_side(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t s, uint32_t at, uint32_t page)
{
    if (at >= table->side[s].first && at < table->side[s].n)
        halo_kv_side_attach(&pool->sides[s], table->side[s].pages[at], page);
}

/* The chain of whole listed pages that begin ids[0..limit), written into the table but not held. Returns how many of
 * them a sequence can go on behind. */
static uint32_t find_chain(struct halo_kv_table *table, const struct halo_kv_pool *pool, uint64_t user,
                           const int32_t *ids, uint32_t limit)
{
    uint32_t best = 0, in_a_row[HALO_KV_SIDES_MAX] = {0}; /* pages attached to the last ones of the chain */
    for (uint32_t n = 0; (n + 1) * PAGE <= limit;) {
        uint32_t page = halo_prefix_find(&pool->prefix, parent_of(table, n), user, ids + n * PAGE);
        bool whole = true;
        if (page == NONE)
            break;
        table->pages[n++] = page;
        for (uint32_t s = 0; s < pool->n_sides; s++) {
            const struct halo_kv_side *side = &pool->sides[s];
            in_a_row[s] = side->of[page] == NO_PAGE ? 0 : in_a_row[s] + 1;
            whole = whole && in_a_row[s] >= n - halo_kv_side_first(side, n * PAGE);
        }
        best = whole ? n : best;
    }
    return best;
}

uint32_t halo_kv_table_take(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                            uint32_t limit)
{
    assert(table->n == 0 && halo_kv_pages_for(limit) <= table->capacity);
    table->n = find_chain(table, pool, user, ids, limit);
    for (uint32_t i = 0; i < table->n; i++)
        hold(pool, table->pages[i]);
    halo_kv_table_slide(table, pool, table->n * PAGE);
    for (uint32_t s = 0; s < pool->n_sides; s++)
        for (uint32_t i = table->side[s].first; i < table->n; i++)
            replace_side(table, pool, s, i, pool->sides[s].of[table->pages[i]]);
    return table->n * PAGE;
}

uint32_t halo_kv_table_find_tail(const struct halo_kv_table *table, const struct halo_kv_pool *pool, uint64_t user,
                                 const int32_t *ids, uint32_t limit, uint32_t ret_pages[HALO_KV_GROUPS_MAX])
{
    uint32_t first = table->n * PAGE, n = limit - first < PAGE ? limit - first : PAGE;
    assert(first <= limit);
    n = halo_prefix_find_tail(&pool->prefix, parent_of(table, table->n), user, ids + first, n, &ret_pages[0]);
    for (uint32_t s = 0; s < pool->n_sides && n > 0; s++)
        if ((ret_pages[s + 1] = pool->sides[s].of[ret_pages[0]]) == NO_PAGE)
            n = 0;
    return n;
}

/* Takes a listed page for page `at`. What is attached to it comes too; where nothing is, what the table has there
 * becomes attached. */
static void take_over(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t at, uint32_t page)
{
    hold(pool, page);
    drop(pool, table->pages[at]);
    table->pages[at] = page;
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        struct halo_kv_side *side = &pool->sides[s];
        if (side->of[page] != NO_PAGE)
            replace_side(table, pool, s, at, side->of[page]);
        else
            attach_side(table, pool, s, at, page);
    }
}

static uint32_t find_same(const struct halo_kv_table *table, const struct halo_kv_pool *pool, uint64_t user,
                          const int32_t *ids, uint32_t at)
{
    assert(at < table->n);
    return has_parent(table, pool, at) ? halo_prefix_find(&pool->prefix, parent_of(table, at), user, ids + at * PAGE)
                                       : NONE;
}

bool halo_kv_table_swap(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                        uint32_t at)
{
    uint32_t page = find_same(table, pool, user, ids, at);
    if (page == NONE)
        return false;
    for (uint32_t s = 0; s < pool->n_sides; s++)
        if (pool->sides[s].of[page] == NO_PAGE)
            return false;
    take_over(table, pool, at, page);
    return true;
}

static void list(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids, uint32_t at,
                 uint32_t n)
{
    uint32_t covered, page = table->pages[at];
    halo_prefix_add(&pool->prefix, page, parent_of(table, at), user, ids + at * PAGE, n);
    for (uint32_t s = 0; s < pool->n_sides; s++)
        attach_side(table, pool, s, at, page);
    while ((covered = halo_prefix_drop_covered(&pool->prefix, page)) != NONE) {
        detach(pool, covered);
        make_free(pool, covered);
    }
}

void halo_kv_table_keep(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                        uint32_t at)
{
    if (!has_parent(table, pool, at))
        return;
    uint32_t same = find_same(table, pool, user, ids, at);
    if (same != NONE) {
        take_over(table, pool, at, same);
        return;
    }
    assert(!halo_prefix_has(&pool->prefix, table->pages[at]));
    list(table, pool, user, ids, at, PAGE);
}

void halo_kv_table_leave(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                         uint32_t n_filled)
{
    uint32_t at = n_filled / PAGE, n = n_filled % PAGE, same;
    if (n > 0 && has_parent(table, pool, at)) {
        uint32_t parent = parent_of(table, at), page = table->pages[at];
        assert(at < table->n && pool->refs[page] == 1 && !halo_prefix_has(&pool->prefix, page));
        if (halo_prefix_find_tail(&pool->prefix, parent, user, ids + at * PAGE, n, &same) < n)
            list(table, pool, user, ids, at, n);
    }
    halo_kv_table_clear(table, pool);
}
