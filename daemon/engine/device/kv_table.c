/* kv_table.c: the page tables of sequences: pages they take and give back. What they share is in kv_reuse.c.
 *
 * Runs on the device thread. While a text is computed, a table keeps its window of each group that has one.
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
#define NO_PAGE HALO_KV_NO_PAGE

int halo_kv_table_init(struct halo_kv_table *table, uint32_t max_positions)
{
    *table = (struct halo_kv_table){.capacity = halo_kv_pages_for(max_positions),
                                    .places = {.parted = HALO_KV_NOWHERE, .stable = HALO_KV_NOWHERE}};
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
        if ((end > n ? end - n : 0) + n_spare > halo_kv_side_room(&pool->sides[s]))
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

/* The text goes on without this page of a window. */
static void leave_page(const struct halo_kv_table *table, struct halo_kv_side *side, uint32_t at, uint32_t page)
{
    if (at >= table->n_taken)
        halo_kv_side_set_worth(side, page, halo_kv_window_worth(&table->places, side->window, at, table->resumed));
    halo_kv_side_drop(side, page);
}

void halo_kv_table_slide(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t n_filled)
{
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        if (halo_kv_side_has_states(&pool->sides[s]))
            continue;
        uint32_t first = halo_kv_side_first(&pool->sides[s], n_filled);
        for (; table->side[s].first < first; table->side[s].first++) {
            uint32_t at = table->side[s].first, *page = &table->side[s].pages[at];
            if (at < table->side[s].n)
                leave_page(table, &pool->sides[s], at, *page);
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
