/* kv_table.c: the page tables of sequences: pages they take, those they share, and what they leave for others.
 *
 * Runs on the device thread. What a table has of the first group decides what it has of the others: while a text is
 * computed each keeps its window, and a text is taken up where all of them have what the next row sees.
 */
#include <engine/kv_pages.h>

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <kernels/plan.h>

#include "device/kv_pages_priv.h"

#define PAGE HALO_KV_PAGE_TOKENS
#define NONE HALO_PREFIX_NONE
#define NO_PAGE HALO_KV_NO_PAGE

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
        table->pages[table->n++] = halo_kv_pool_take(pool);
    for (uint32_t s = 0; s < pool->n_sides; s++)
        for (uint32_t end = side_end(table, pool, s, wanted); table->side[s].n < end; table->side[s].n++)
            table->side[s].pages[table->side[s].n] = halo_kv_side_take(&pool->sides[s]);
    return 0;
}

void halo_kv_table_slide(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t n_filled)
{
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        if (halo_kv_side_has_states(&pool->sides[s]))
            continue;
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
        if (!halo_kv_side_has_states(&pool->sides[s]))
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
        halo_kv_pool_drop(pool, table->pages[--table->n]);
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
    uint32_t parent = parent_of(table, table->n);
    assert(first <= limit);
    if (has_states(pool))
        return find_checkpoint(pool, parent, user, ids + first, n, ret_pages);
    n = halo_prefix_find_tail(&pool->prefix, parent, user, ids + first, n, &page);
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
           (page = halo_prefix_find(&pool->prefix, parent_of(table, n), user, ids + n * PAGE)) != NONE) {
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
    table->n_known = n;
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
    table->n = find_chain(table, pool, user, ids, limit);
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

/* The nearest page with a slot in front of this one's end in the same text: a whole page that it follows, or one that
 * says the beginning of such a page or of this one. */
static uint32_t find_before(const struct halo_kv_pool *pool, const struct halo_kv_side *side, uint32_t page)
{
    for (uint32_t at = page; at != NONE; at = pool->prefix.entries[at].parent) {
        const struct halo_prefix_entry *entry = &pool->prefix.entries[at];
        uint32_t found = NONE, other = NONE;
        while ((other = halo_prefix_next_begin(&pool->prefix, entry->parent, entry->user, entry->ids, entry->n_ids,
                                               other)) != NONE)
            if (other != page && side->of[other] != NO_PAGE)
                found = other;
        if (found != NONE)
            return found;
    }
    return NONE;
}

/* A slot was attached to this page: the one in front of it is not the last of the conversation any more. */
static void cover_before(struct halo_kv_pool *pool, uint32_t s, uint32_t page)
{
    uint32_t before = find_before(pool, &pool->sides[s], page);
    if (before != NONE)
        halo_kv_side_cover(&pool->sides[s], before);
}

bool halo_kv_table_checkpoint(const struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t at,
                              uint32_t ret_pages[HALO_KV_GROUPS_MAX])
{
    bool any = false;
    for (uint32_t group = 0; group < HALO_KV_GROUPS_MAX; group++)
        ret_pages[group] = NO_PAGE;
    for (uint32_t s = 0; s < pool->n_sides && halo_prefix_has(&pool->prefix, table->pages[at]); s++) {
        struct halo_kv_side *side = &pool->sides[s];
        if (!halo_kv_side_has_states(side) || side->of[table->pages[at]] != NO_PAGE ||
            halo_kv_side_available(side) == 0)
            continue;
        ret_pages[s + 1] = halo_kv_side_take(side);
        halo_kv_side_attach(side, ret_pages[s + 1], table->pages[at]);
        cover_before(pool, s, table->pages[at]);
        halo_kv_side_drop(side, ret_pages[s + 1]);
        any = true;
    }
    return any;
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
        if (halo_kv_side_has_states(&pool->sides[s]) || pool->sides[s].of[page] == NO_PAGE)
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

/* What the sequence has come to stands behind the last position of this listed page. */
static void leave_states(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t page)
{
    for (uint32_t s = 0; s < pool->n_sides; s++)
        if (halo_kv_side_has_states(&pool->sides[s]) && page != NONE && pool->sides[s].of[page] == NO_PAGE &&
            table->side[s].n > 0) {
            attach_side(table, pool, s, 0, page);
            cover_before(pool, s, page);
        }
}

void halo_kv_table_leave(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                         uint32_t n_filled)
{
    uint32_t at = n_filled / PAGE, n = n_filled % PAGE, same;
    if (n > 0 && has_parent(table, pool, at)) {
        uint32_t parent = parent_of(table, at), page = table->pages[at];
        assert(at < table->n && pool->refs[page] == 1 && !halo_prefix_has(&pool->prefix, page));
        if (halo_prefix_find_tail(&pool->prefix, parent, user, ids + at * PAGE, n, &same) < n ||
            (has_states(pool) && pool->prefix.entries[same].n_ids > n)) {
            list(table, pool, user, ids, at, n);
            same = page;
        }
        leave_states(table, pool, same);
    } else if (n == 0 && has_parent(table, pool, at)) {
        leave_states(table, pool, parent_of(table, at));
    }
    halo_kv_table_clear(table, pool);
}
