/* kv_side.c: see kv_side.h. Device thread. */
#include <engine/kv_side.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE HALO_KV_NO_PAGE

int halo_kv_side_init(struct halo_kv_side *side, uint32_t n_pages, uint32_t n_first, uint32_t window, uint32_t span)
{
    assert(span > 0 && span <= n_pages);
    *side = (struct halo_kv_side){.window = window,
                                  .span = span,
                                  .n_pages = n_pages,
                                  .n_free = n_pages,
                                  .free = malloc(n_pages * sizeof(*side->free)),
                                  .pages = calloc(n_pages, sizeof(*side->pages)),
                                  .of = malloc((n_first + 1ull) * sizeof(*side->of))};
    for (int worth = 0; worth < HALO_KV_N_WORTHS; worth++)
        side->idle[worth] = (struct halo_kv_idle){NONE, NONE, 0};
    if (!side->free || !side->pages || !side->of) {
        side->n_pages = side->n_free = 0;
        halo_kv_side_finish(side);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n_pages; i++) {
        side->free[i] = n_pages - 1 - i;
        side->pages[i].owner = NONE;
    }
    memset(side->of, 0xff, (n_first + 1ull) * sizeof(*side->of));
    return 0;
}

void halo_kv_side_finish(struct halo_kv_side *side)
{
    assert(halo_kv_side_available(side) == side->n_pages);
    free(side->free);
    free(side->pages);
    free(side->of);
    *side = (struct halo_kv_side){0};
}

void halo_kv_side_reserve(struct halo_kv_side *side, uint32_t n_reserved)
{
    assert(n_reserved <= side->n_pages - side->span && side->n_free == side->n_pages);
    side->n_reserved = n_reserved;
}

uint32_t halo_kv_side_first(const struct halo_kv_side *side, uint32_t n_filled)
{
    return halo_kv_first_page(side->window, n_filled);
}

static void link_idle(struct halo_kv_side *side, uint32_t page)
{
    struct halo_kv_side_page *p = &side->pages[page];
    struct halo_kv_idle *idle = &side->idle[p->worth];
    p->idle_next = NONE;
    p->idle_prev = idle->last;
    if (idle->last != NONE)
        side->pages[idle->last].idle_next = page;
    else
        idle->first = page;
    idle->last = page;
    idle->n++;
}

static void set_busy(struct halo_kv_side *side, uint32_t page)
{
    const struct halo_kv_side_page *p = &side->pages[page];
    struct halo_kv_idle *idle = &side->idle[p->worth];
    if (p->idle_prev != NONE)
        side->pages[p->idle_prev].idle_next = p->idle_next;
    else
        idle->first = p->idle_next;
    if (p->idle_next != NONE)
        side->pages[p->idle_next].idle_prev = p->idle_prev;
    else
        idle->last = p->idle_prev;
    idle->n--;
}

static void set_idle(struct halo_kv_side *side, uint32_t page)
{
    struct halo_kv_idle *resumed = &side->idle[HALO_KV_RESUMED];
    link_idle(side, page);
    if (resumed->n > halo_kv_most_resumed(side->n_pages, side->n_reserved))
        halo_kv_side_set_worth(side, resumed->first, HALO_KV_LAST);
}

static void make_free(struct halo_kv_side *side, uint32_t page)
{
    assert(side->pages[page].refs == 0 && side->n_free < side->n_pages);
    side->free[side->n_free++] = page;
}

static uint32_t least_worth(const struct halo_kv_side *side)
{
    int worth = 0;
    while (side->idle[worth].n == 0)
        worth++;
    return side->idle[worth].first;
}

uint32_t halo_kv_side_take(struct halo_kv_side *side)
{
    assert(halo_kv_side_available(side) > 0);
    if (side->n_free == 0)
        halo_kv_side_detach(side, side->pages[least_worth(side)].owner);
    uint32_t page = side->free[--side->n_free];
    assert(side->pages[page].refs == 0 && side->pages[page].owner == NONE);
    side->pages[page].refs = 1;
    return page;
}

void halo_kv_side_hold(struct halo_kv_side *side, uint32_t page)
{
    if (side->pages[page].refs++ == 0)
        set_busy(side, page);
    assert(side->pages[page].refs > 0);
}

void halo_kv_side_drop(struct halo_kv_side *side, uint32_t page)
{
    assert(page < side->n_pages && side->pages[page].refs > 0);
    if (--side->pages[page].refs > 0)
        return;
    if (side->pages[page].owner != NONE)
        set_idle(side, page);
    else
        make_free(side, page);
}

void halo_kv_side_touch(struct halo_kv_side *side, uint32_t page)
{
    if (side->pages[page].owner == NONE || side->pages[page].refs > 0)
        return;
    set_busy(side, page);
    set_idle(side, page);
}

void halo_kv_side_attach(struct halo_kv_side *side, uint32_t page, uint32_t first_page)
{
    assert(side->pages[page].refs > 0 && side->pages[page].owner == NONE && side->of[first_page] == NONE);
    side->pages[page].owner = first_page;
    side->pages[page].worth = HALO_KV_PASSED;
    side->of[first_page] = page;
}

void halo_kv_side_set_worth(struct halo_kv_side *side, uint32_t page, enum halo_kv_worth worth)
{
    struct halo_kv_side_page *p = &side->pages[page];
    bool idle = p->owner != NONE && p->refs == 0;
    if (p->worth == worth)
        return;
    if (idle)
        set_busy(side, page);
    p->worth = worth;
    if (idle)
        set_idle(side, page);
}

void halo_kv_side_raise_worth(struct halo_kv_side *side, uint32_t first_page, enum halo_kv_worth worth)
{
    uint32_t page = side->of[first_page];
    if (page != NONE && side->pages[page].worth < worth)
        halo_kv_side_set_worth(side, page, worth);
}

void halo_kv_side_detach(struct halo_kv_side *side, uint32_t first_page)
{
    uint32_t page = side->of[first_page];
    if (page == NONE)
        return;
    side->of[first_page] = NONE;
    side->pages[page].owner = NONE;
    if (side->pages[page].refs > 0)
        return;
    set_busy(side, page);
    make_free(side, page);
}
