/* kv_reuse.c: what sequences share: the texts that they take up, and what they leave for others.
 *
 * Runs on the device thread. A text is taken up where every group has what the next row sees: all pages of the first
 * one, the window of those that have one, the states exactly there.
 */
#include <engine/kv_pages.h>

#include <assert.h>
#include <string.h>

#include "device/kv_pages_priv.h"

#define PAGE HALO_KV_PAGE_TOKENS
#define NONE HALO_PREFIX_NONE
#define NO_PAGE HALO_KV_NO_PAGE

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

static bool has_states(const struct halo_kv_pool *pool)
{
    for (uint32_t s = 0; s < pool->n_sides; s++)
        if (halo_kv_side_has_states(&pool->sides[s]))
            return true;
    return false;
}

/* What is attached to a listed page. False: something is missing. */
static bool find_sides(const struct halo_kv_pool *pool, uint32_t page, uint32_t ret_pages[HALO_KV_GROUPS_MAX])
{
    bool whole = true;
    ret_pages[0] = page;
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        ret_pages[s + 1] = pool->sides[s].of[page];
        whole = whole && ret_pages[s + 1] != NO_PAGE;
    }
    return whole;
}

static bool has_sides(const void *ud, uint32_t page)
{
    uint32_t pages[HALO_KV_GROUPS_MAX];
    return find_sides(ud, page, pages);
}

/* Behind `n` whole pages: the longest page that is a beginning of ids[0..n_ids) as a whole and has its states. */
static uint32_t find_checkpoint(const struct halo_kv_pool *pool, uint32_t parent, uint64_t user, const int32_t *ids,
                                uint32_t n_ids, uint32_t ret_pages[HALO_KV_GROUPS_MAX])
{
    uint32_t page = NONE, best = 0, pages[HALO_KV_GROUPS_MAX];
    while ((page = halo_prefix_next_begin(&pool->prefix, parent, user, ids, n_ids, page)) != NONE) {
        uint32_t n = pool->prefix.entries[page].n_ids;
        if (n > best && find_sides(pool, page, pages)) {
            best = n;
            memcpy(ret_pages, pages, sizeof(pages));
        }
    }
    return best;
}

uint32_t halo_kv_table_find_tail(const struct halo_kv_table *table, const struct halo_kv_pool *pool, uint64_t user,
                                 const int32_t *ids, uint32_t limit, uint32_t ret_pages[HALO_KV_GROUPS_MAX])
{
    uint32_t first = table->n * PAGE, n = limit - first < PAGE ? limit - first : PAGE, page;
    uint32_t parent = halo_kv_table_parent(table, table->n);
    assert(first <= limit);
    if (has_states(pool))
        return find_checkpoint(pool, parent, user, ids + first, n, ret_pages);
    struct halo_prefix_filter filter = {has_sides, pool};
    n = halo_prefix_find_tail(&pool->prefix, parent, user, ids + first, n, filter, &page);
    return n > 0 && find_sides(pool, page, ret_pages) ? n : 0;
}

/* The chain of whole listed pages that begin ids[0..limit), written into the table but not held. Returns how many of
 * them a sequence can go on behind: their windows are there, and so are the states behind the last of them, or behind a
 * tail that follows. */
static uint32_t find_chain(struct halo_kv_table *table, const struct halo_kv_pool *pool, uint64_t user,
                           const int32_t *ids, uint32_t limit)
{
    uint32_t best = 0, n = 0, in_a_row[HALO_KV_SIDES_MAX] = {0}; /* pages attached to the last ones of the chain */
    uint32_t page, tail[HALO_KV_GROUPS_MAX];
    bool windows = true, states = true;
    while ((n + 1) * PAGE <= limit &&
           (page = halo_prefix_find(&pool->prefix, halo_kv_table_parent(table, n), user, ids + n * PAGE)) != NONE) {
        table->pages[n++] = page;
        windows = states = true;
        for (uint32_t s = 0; s < pool->n_sides; s++) {
            const struct halo_kv_side *side = &pool->sides[s];
            in_a_row[s] = side->of[page] == NO_PAGE ? 0 : in_a_row[s] + 1;
            if (halo_kv_side_has_states(side))
                states = states && in_a_row[s] > 0;
            else
                windows = windows && in_a_row[s] >= n - halo_kv_side_first(side, n * PAGE);
        }
        best = windows && states ? n : best;
    }
    table->places.parted = n * PAGE;
    /* Between two whole pages a state may stand too. Windows are known at the end only. */
    for (table->n = n; !states && windows && table->n > best && (table->n == n || pool->n_sides == 1); table->n--)
        if (halo_kv_table_find_tail(table, pool, user, ids, limit, tail) > 0)
            best = table->n;
    return best;
}

uint32_t halo_kv_table_take(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                            uint32_t limit)
{
    assert(table->n == 0 && halo_kv_pages_for(limit) <= table->capacity);
    table->n = table->n_taken = find_chain(table, pool, user, ids, limit);
    for (uint32_t i = 0; i < table->n; i++)
        halo_kv_pool_hold(pool, table->pages[i]);
    halo_kv_table_slide(table, pool, table->n * PAGE);
    for (uint32_t s = 0; s < pool->n_sides; s++)
        for (uint32_t i = table->side[s].first; i < table->n && !halo_kv_side_has_states(&pool->sides[s]); i++)
            replace_side(table, pool, s, i, pool->sides[s].of[table->pages[i]]);
    return table->n * PAGE;
}

bool halo_kv_table_find_states(const struct halo_kv_table *table, const struct halo_kv_pool *pool,
                               uint32_t ret_pages[HALO_KV_GROUPS_MAX])
{
    bool whole = true;
    for (uint32_t group = 0; group < HALO_KV_GROUPS_MAX; group++)
        ret_pages[group] = NO_PAGE;
    for (uint32_t s = 0; s < pool->n_sides && table->n > 0; s++)
        if (halo_kv_side_has_states(&pool->sides[s])) {
            ret_pages[s + 1] = pool->sides[s].of[table->pages[table->n - 1]];
            whole = whole && ret_pages[s + 1] != NO_PAGE;
        }
    return whole;
}

/* Takes a listed page for page `at`. What is attached to it comes too; where nothing is, what the table has there
 * becomes attached. */
static void take_over(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t at, uint32_t page)
{
    halo_kv_pool_hold(pool, page);
    halo_kv_pool_drop(pool, table->pages[at]);
    table->pages[at] = page;
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        struct halo_kv_side *side = &pool->sides[s];
        if (halo_kv_side_has_states(side))
            continue;
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
    return halo_kv_table_has_parent(table, pool, at)
               ? halo_prefix_find(&pool->prefix, halo_kv_table_parent(table, at), user, ids + at * PAGE)
               : NONE;
}

bool halo_kv_table_swap(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                        uint32_t at)
{
    uint32_t page = find_same(table, pool, user, ids, at);
    if (page == NONE)
        return false;
    for (uint32_t s = 0; s < pool->n_sides; s++)
        if (halo_kv_side_has_states(&pool->sides[s]) || pool->sides[s].of[page] == NO_PAGE)
            return false;
    take_over(table, pool, at, page);
    return true;
}

static void list(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids, uint32_t at,
                 uint32_t n)
{
    uint32_t covered, page = table->pages[at];
    halo_prefix_add(&pool->prefix, page, halo_kv_table_parent(table, at), user, ids + at * PAGE, n);
    for (uint32_t s = 0; s < pool->n_sides; s++)
        if (!halo_kv_side_has_states(&pool->sides[s]))
            attach_side(table, pool, s, at, page);
    /* One that says less may have a state where this one has none. */
    while (!has_states(pool) && (covered = halo_prefix_drop_covered(&pool->prefix, page)) != NONE) {
        halo_kv_pool_detach(pool, covered);
        halo_kv_pool_make_free(pool, covered);
    }
}

void halo_kv_table_keep(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                        uint32_t at)
{
    if (!halo_kv_table_has_parent(table, pool, at))
        return;
    uint32_t same = find_same(table, pool, user, ids, at);
    if (same != NONE) {
        take_over(table, pool, at, same);
        return;
    }
    assert(!halo_prefix_has(&pool->prefix, table->pages[at]));
    list(table, pool, user, ids, at, PAGE);
}

/* What is worth keeping at the end of what a table has computed. */
static enum halo_kv_worth end_worth(const struct halo_kv_table *table)
{
    return table->resumed ? HALO_KV_RESUMED : HALO_KV_LAST;
}

/* What the sequence has come to stands behind the last position of this listed page. */
static void leave_states(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t page)
{
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        struct halo_kv_side *side = &pool->sides[s];
        if (!halo_kv_side_has_states(side) || page == NONE || table->side[s].n == 0)
            continue;
        if (side->of[page] == NO_PAGE)
            attach_side(table, pool, s, 0, page);
        halo_kv_side_raise_worth(side, page, end_worth(table));
    }
}

/* The window in front of the last page: a text is taken up there, whatever of the page is copied then. */
static void leave_windows(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t n_filled)
{
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        struct halo_kv_side *side = &pool->sides[s];
        for (uint32_t i = halo_kv_side_first(side, n_filled / PAGE * PAGE); i < table->n; i++)
            if (!halo_kv_side_has_states(side))
                halo_kv_side_raise_worth(side, table->pages[i], end_worth(table));
    }
}

void halo_kv_table_leave(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                         uint32_t n_filled)
{
    uint32_t at = n_filled / PAGE, n = n_filled % PAGE, same;
    const struct halo_prefix_filter any = {NULL, NULL};
    if (n > 0 && halo_kv_table_has_parent(table, pool, at)) {
        uint32_t parent = halo_kv_table_parent(table, at), page = table->pages[at];
        assert(at < table->n && pool->refs[page] == 1 && !halo_prefix_has(&pool->prefix, page));
        if (halo_prefix_find_tail(&pool->prefix, parent, user, ids + at * PAGE, n, any, &same) < n ||
            (has_states(pool) && pool->prefix.entries[same].n_ids > n)) {
            list(table, pool, user, ids, at, n);
            same = page;
        }
        leave_states(table, pool, same);
    } else if (n == 0 && halo_kv_table_has_parent(table, pool, at)) {
        leave_states(table, pool, halo_kv_table_parent(table, at));
    }
    leave_windows(table, pool, n_filled);
    halo_kv_table_clear(table, pool);
}
