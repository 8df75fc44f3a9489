/* kv_keep.c: see kv_keep_priv.h. Fails with: -ENOMEM. */
#include "device/kv_keep_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "device/kv_pages_priv.h"

#define PAGE HALO_KV_PAGE_TOKENS
#define NONE HALO_PREFIX_NONE

/* ---- out ---- */

/* The page and what it follows, the first of the text first. A page that is held here has its place already. */
static uint32_t hold_chain(struct halo_kv_pool *pool, uint32_t page, bool *held, uint32_t *order, uint32_t n)
{
    uint32_t n_chain = 0;
    for (uint32_t at = page; at != NONE && !held[at]; at = pool->prefix.entries[at].parent)
        n_chain++;
    uint32_t place = n + n_chain;
    for (uint32_t at = page; place > n; at = pool->prefix.entries[at].parent) {
        halo_kv_pool_hold(pool, at);
        held[at] = true;
        order[--place] = at;
    }
    return n + n_chain;
}

uint32_t halo_kv_keep_hold(struct halo_kv_pool *pool, uint32_t *order)
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

void halo_kv_keep_drop(struct halo_kv_pool *pool, const uint32_t *order, uint32_t n)
{
    while (n > 0)
        halo_kv_pool_drop(pool, order[--n]);
}

static uint32_t n_children(const struct halo_prefix *prefix, uint32_t page)
{
    uint32_t n = 0;
    for (uint32_t child = prefix->entries[page].child; child != NONE && n < 2; child = prefix->entries[child].next)
        n++;
    return n;
}

/* The states that go with this page. */
static uint8_t states_of(const struct halo_kv_pool *pool, uint32_t page)
{
    uint8_t groups = 0;
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        const struct halo_kv_side *side = &pool->sides[s];
        if (halo_kv_side_has_states(side) && side->of[page] != HALO_KV_NO_PAGE &&
            halo_kv_is_saved(side->pages[side->of[page]].worth, n_children(&pool->prefix, page)))
            groups |= (uint8_t)(2u << s);
    }
    return groups;
}

/* A text may be continued at this position, from within the page or behind it: what it sees of windows goes too. */
static void mark_windows(const struct halo_kv_pool *pool, uint32_t page, uint32_t depth, uint32_t position,
                         uint8_t *groups)
{
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        const struct halo_kv_side *side = &pool->sides[s];
        uint32_t at = page, first = halo_kv_side_first(side, position);
        for (uint32_t n = depth + 1; n > first && !halo_kv_side_has_states(side);
             n--, at = pool->prefix.entries[at].parent)
            if (side->of[at] != HALO_KV_NO_PAGE)
                groups[at] |= (uint8_t)(2u << s);
    }
}

static uint64_t bytes_of(const struct halo_kv_keep_room *room, uint8_t groups)
{
    uint64_t n = room->own_bytes;
    for (uint32_t group = 0; group < HALO_KV_GROUPS_MAX; group++)
        n += groups >> group & 1 ? room->group_bytes[group] : 0;
    return n;
}

/* Only pages in front of states go, texts in the order of their last use, as far as there is room. */
static void choose_texts(const struct halo_kv_pool *pool, const uint32_t *order, uint32_t n,
                         const struct halo_kv_keep_room *room, bool *goes, uint8_t *groups)
{
    const struct halo_prefix_entry *entries = pool->prefix.entries;
    uint64_t left = room->most_bytes;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t n_bytes = 0;
        if (states_of(pool, order[i]) == 0)
            continue;
        for (uint32_t at = order[i]; at != NONE && !goes[at]; at = entries[at].parent)
            n_bytes += bytes_of(room, groups[at]);
        if (n_bytes > left)
            continue;
        left -= n_bytes;
        for (uint32_t at = order[i]; at != NONE && !goes[at]; at = entries[at].parent)
            goes[at] = true;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!goes[order[i]])
            groups[order[i]] = 0;
}

static bool has_states(const struct halo_kv_pool *pool)
{
    for (uint32_t s = 0; s < pool->n_sides; s++)
        if (halo_kv_side_has_states(&pool->sides[s]))
            return true;
    return false;
}

int halo_kv_keep_choose(const struct halo_kv_pool *pool, const uint32_t *order, uint32_t n,
                        const struct halo_kv_keep_room *room, uint8_t *ret_groups)
{
    const struct halo_prefix *prefix = &pool->prefix;
    bool *goes = calloc(pool->n_pages + 1, sizeof(*goes));
    uint32_t *depths = calloc(pool->n_pages + 1, sizeof(*depths)); /* by page: pages in front of it */
    if (!depths || !goes) {
        free(depths);
        free(goes);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++)
        ret_groups[order[i]] = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t page = order[i], parent = prefix->entries[page].parent;
        depths[page] = parent == NONE ? 0 : depths[parent] + 1;
        uint8_t states = states_of(pool, page);
        ret_groups[page] |= states;
        uint32_t n_behind = n_children(prefix, page);
        if (n_behind == 0) /* the end of a text, which may be cut anywhere in it */
            mark_windows(pool, page, depths[page], depths[page] * PAGE, ret_groups);
        else if (states != 0 || n_behind > 1)
            mark_windows(pool, page, depths[page], (depths[page] + 1) * PAGE, ret_groups);
    }
    if (has_states(pool))
        choose_texts(pool, order, n, room, goes, ret_groups);
    free(depths);
    free(goes);
    return 0;
}

enum halo_kv_worth halo_kv_keep_worth(const struct halo_kv_pool *pool, uint32_t page, uint8_t groups)
{
    enum halo_kv_worth most = HALO_KV_PASSED;
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        const struct halo_kv_side *side = &pool->sides[s];
        if (groups >> (s + 1) & 1 && side->pages[side->of[page]].worth > most)
            most = (enum halo_kv_worth)side->pages[side->of[page]].worth;
    }
    return most;
}

/* ---- in ---- */

uint32_t halo_kv_keep_list(struct halo_kv_pool *pool, uint32_t parent, uint64_t user, const int32_t *ids, uint32_t n,
                           bool *ret_new)
{
    uint32_t page = n == PAGE ? halo_prefix_find(&pool->prefix, parent, user, ids)
                              : halo_prefix_find_exact(&pool->prefix, parent, user, ids, n);
    *ret_new = page == NONE;
    if (page != NONE) {
        halo_kv_pool_hold(pool, page);
        return page;
    }
    if (pool->n_free == 0)
        return NONE;
    page = halo_kv_pool_take(pool);
    halo_prefix_add(&pool->prefix, page, parent, user, ids, n);
    return page;
}

uint32_t halo_kv_keep_attach(struct halo_kv_pool *pool, uint32_t group, uint32_t page, enum halo_kv_worth worth)
{
    struct halo_kv_side *side = &pool->sides[group - 1];
    if (side->n_free == 0 || side->of[page] != HALO_KV_NO_PAGE)
        return HALO_KV_NO_PAGE;
    uint32_t taken = halo_kv_side_take(side);
    halo_kv_side_attach(side, taken, page);
    halo_kv_side_set_worth(side, taken, worth);
    return taken;
}
