/* kv_side.h: the pages of a group that does not keep every position: a group with a window, or the slots of one of
 * states.
 *
 * The first group of a plan keeps every position, and its pages are what the prefix index lists. A page of another
 * group follows one of the first: it has the same positions, and while that one is listed it stays *attached* to it. A
 * sequence that is far ahead does not need it, so an attached page without a user is idle, and is taken when no page is
 * free: then the listed page goes on without it, and a text can no longer be continued there. Which one is taken first
 * depends on its *worth*, then on when it was used last (a segmented LRU, kv_worth.h).
 *
 * A slot of states is attached to the listed page at whose last position the states were taken (a *checkpoint*): reuse
 * needs one exactly there. So that checkpoints remain when as many sequences run as can, some slots may be *reserved*:
 * sequences hold all but that many. Those that are left then are the ones of the greatest worth.
 *
 * Threads: the device thread. Memory: all at init. Limits and bytes of a group: kernels/plan.h.
 */
#ifndef HALO_ENGINE_KV_SIDE_H
#define HALO_ENGINE_KV_SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include <kernels/plan.h>

#include <engine/kv_worth.h>

struct halo_kv_side_page {
    uint32_t owner; /* the page of the first group that it is attached to, or HALO_KV_NO_PAGE */
    uint32_t idle_next, idle_prev;
    uint16_t refs;
    uint8_t worth; /* enum halo_kv_worth */
};

struct halo_kv_idle { /* the longest idle first */
    uint32_t first, last, n;
};

struct halo_kv_side {
    uint32_t window, span; /* positions that a row sees, 0: states; pages that one sequence holds, at most */
    uint32_t n_pages, n_free;
    uint32_t n_reserved; /* pages that sequences may not hold */
    uint32_t *free;      /* [n_pages] a stack */
    struct halo_kv_side_page *pages;
    uint32_t *of; /* by page of the first group: the page attached to it, or HALO_KV_NO_PAGE */
    struct halo_kv_idle idle[HALO_KV_N_WORTHS];
};

static inline bool halo_kv_side_has_states(const struct halo_kv_side *side)
{
    return side->window == 0;
}

/* n_first: pages of the first group. 0 or -ENOMEM. */
int halo_kv_side_init(struct halo_kv_side *side, uint32_t n_pages, uint32_t n_first, uint32_t window, uint32_t span);
void halo_kv_side_finish(struct halo_kv_side *side); /* every page must be free or idle */

/* Pages that can be taken now. */
static inline uint32_t halo_kv_side_available(const struct halo_kv_side *side)
{
    uint32_t n = side->n_free;
    for (int worth = 0; worth < HALO_KV_N_WORTHS; worth++)
        n += side->idle[worth].n;
    return n;
}

/* Pages that sequences can take now. */
static inline uint32_t halo_kv_side_room(const struct halo_kv_side *side)
{
    uint32_t n = halo_kv_side_available(side);
    return n > side->n_reserved ? n - side->n_reserved : 0;
}

/* Whether a checkpoint of this worth finds a page: it takes none of a conversation unless it is of one. */
static inline bool halo_kv_side_has_room_for(const struct halo_kv_side *side, enum halo_kv_worth worth)
{
    uint32_t n = halo_kv_side_available(side);
    return n > (worth < HALO_KV_RESUMED ? side->idle[HALO_KV_RESUMED].n : 0);
}

/* Before the first page is taken: n_reserved <= n_pages - span. */
void halo_kv_side_reserve(struct halo_kv_side *side, uint32_t n_reserved);

/* The page of the position that a row behind n_filled positions sees first. */
uint32_t halo_kv_side_first(const struct halo_kv_side *side, uint32_t n_filled);

/* A free page, or an idle one, held: of those of the least worth the longest idle. One must be available. */
uint32_t halo_kv_side_take(struct halo_kv_side *side);
void halo_kv_side_hold(struct halo_kv_side *side, uint32_t page);
void halo_kv_side_drop(struct halo_kv_side *side, uint32_t page);

/* It was of use: if it is idle, others of its worth are taken before it. */
void halo_kv_side_touch(struct halo_kv_side *side, uint32_t page);

/* A held page follows this page of the first group, which has none yet. Its worth is PASSED. */
void halo_kv_side_attach(struct halo_kv_side *side, uint32_t page, uint32_t first_page);
void halo_kv_side_set_worth(struct halo_kv_side *side, uint32_t page, enum halo_kv_worth worth);
/* What is attached to this listed page, if anything is, is worth that much at least. */
void halo_kv_side_raise_worth(struct halo_kv_side *side, uint32_t first_page, enum halo_kv_worth worth);
/* The page of the first group is listed no more: what was attached to it is free unless somebody holds it. */
void halo_kv_side_detach(struct halo_kv_side *side, uint32_t first_page);

#endif
