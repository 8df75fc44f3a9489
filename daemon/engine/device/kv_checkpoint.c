/* kv_checkpoint.c: where states of a text are kept, and how long they and windows are worth keeping (kv_worth.h).
 *
 * Runs on the device thread.
 */
#include <engine/kv_pages.h>

#include <assert.h>

#include "device/kv_pages_priv.h"

#define PAGE HALO_KV_PAGE_TOKENS
#define NONE HALO_PREFIX_NONE
#define NO_PAGE HALO_KV_NO_PAGE

/* Of the states of this text those in front of position n, which this page holds, are passed. */
static void pass_states(struct halo_kv_pool *pool, struct halo_kv_side *side, uint32_t page, uint32_t n)
{
    const struct halo_prefix *prefix = &pool->prefix;
    uint32_t begin = (n - 1) / PAGE * PAGE; /* of page `at` */
    for (uint32_t at = page; at != NONE; at = prefix->entries[at].parent, begin -= PAGE) {
        const struct halo_prefix_entry *entry = &prefix->entries[at];
        uint32_t other = NONE;
        while ((other = halo_prefix_next_begin(prefix, entry->parent, entry->user, entry->ids, entry->n_ids, other)) !=
               NONE)
            if (side->of[other] != NO_PAGE && begin + prefix->entries[other].n_ids < n)
                halo_kv_side_set_worth(side, side->of[other], HALO_KV_PASSED);
    }
}

/* Of the windows those in front of the one that the text is taken up from. */
static void pass_windows(const struct halo_kv_table *table, struct halo_kv_side *side)
{
    uint32_t first = halo_kv_side_first(side, table->n * PAGE);
    for (uint32_t i = 0; i < table->n; i++)
        if (side->of[table->pages[i]] != NO_PAGE)
            halo_kv_side_set_worth(side, side->of[table->pages[i]], i < first ? HALO_KV_PASSED : HALO_KV_RESUMED);
}

void halo_kv_table_set_resumed(struct halo_kv_table *table, struct halo_kv_pool *pool,
                               const uint32_t from[HALO_KV_GROUPS_MAX], uint32_t n)
{
    uint32_t page = from ? from[0] : halo_kv_table_parent(table, table->n);
    table->resumed = false;
    for (uint32_t s = 0; s < pool->n_sides && page != NONE; s++) {
        const struct halo_kv_side *side = &pool->sides[s];
        if (side->of[page] != NO_PAGE && side->pages[side->of[page]].worth > HALO_KV_PASSED)
            table->resumed = true;
    }
    for (uint32_t s = 0; s < pool->n_sides && table->resumed; s++) {
        struct halo_kv_side *side = &pool->sides[s];
        if (halo_kv_side_has_states(side))
            pass_states(pool, side, page, n);
        else
            pass_windows(table, side);
        if (side->of[page] != NO_PAGE)
            halo_kv_side_set_worth(side, side->of[page], HALO_KV_RESUMED);
    }
}

/* ---- checkpoints ---- */

/* Whether every group has what a checkpoint at this listed page lacks. NONE: the page is yet to be listed. */
static bool sides_have_room(const struct halo_kv_pool *pool, uint32_t page, enum halo_kv_worth worth)
{
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        const struct halo_kv_side *side = &pool->sides[s];
        bool lacks = page == NONE || (halo_kv_side_has_states(side) && side->of[page] == NO_PAGE);
        if (lacks && !halo_kv_side_has_room_for(side, worth))
            return false;
    }
    return true;
}

/* The listed page that ends with position n, held: a whole one of the table, or a copy of the begin of one. NONE: there
 * is none. */
static uint32_t hold_end(const struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user,
                         const int32_t *ids, uint32_t n, enum halo_kv_worth worth, bool *ret_new)
{
    uint32_t n_tail = n % PAGE, at = n / PAGE;
    *ret_new = false;
    if (!halo_kv_table_has_parent(table, pool, at))
        return NONE;
    uint32_t page = n_tail == 0 ? halo_kv_table_parent(table, at)
                                : halo_prefix_find_exact(&pool->prefix, halo_kv_table_parent(table, at), user,
                                                         ids + at * PAGE, n_tail);
    if (!sides_have_room(pool, page, worth))
        return NONE;
    if (page != NONE) {
        halo_kv_pool_hold(pool, page);
        return page;
    }
    if (halo_kv_pool_available(pool) == 0)
        return NONE;
    *ret_new = true;
    page = halo_kv_pool_take(pool);
    halo_prefix_add(&pool->prefix, page, halo_kv_table_parent(table, at), user, ids + at * PAGE, n_tail);
    return page;
}

uint32_t halo_kv_table_checkpoint(const struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user,
                                  const int32_t *ids, uint32_t n, enum halo_kv_worth worth,
                                  uint32_t ret_to[HALO_KV_GROUPS_MAX])
{
    bool is_new;
    for (uint32_t group = 0; group < HALO_KV_GROUPS_MAX; group++)
        ret_to[group] = NO_PAGE;
    assert(n > 0);
    uint32_t page = hold_end(table, pool, user, ids, n, worth, &is_new);
    if (page == NONE)
        return NONE;
    ret_to[0] = is_new ? page : NO_PAGE;
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        struct halo_kv_side *side = &pool->sides[s];
        bool states = halo_kv_side_has_states(side);
        if (side->of[page] == NO_PAGE && (states || is_new)) {
            ret_to[s + 1] = halo_kv_side_take(side);
            halo_kv_side_attach(side, ret_to[s + 1], page);
            halo_kv_side_set_worth(side, ret_to[s + 1], worth);
            halo_kv_side_drop(side, ret_to[s + 1]);
        } else {
            halo_kv_side_raise_worth(side, page, worth);
        }
    }
    halo_kv_pool_drop(pool, page);
    return page;
}

void halo_kv_pool_undo_checkpoint(struct halo_kv_pool *pool, uint32_t page, const uint32_t to[HALO_KV_GROUPS_MAX])
{
    for (uint32_t s = 0; s < pool->n_sides; s++)
        if (to[s + 1] != NO_PAGE)
            halo_kv_side_detach(&pool->sides[s], page);
    if (to[0] == NO_PAGE)
        return;
    halo_prefix_remove(&pool->prefix, page);
    halo_kv_pool_detach(pool, page);
    halo_kv_pool_make_free(pool, page);
}
