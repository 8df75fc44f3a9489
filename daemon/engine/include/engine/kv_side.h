/* kv_side.h: the pages of a group that does not keep every position: a group with a window, or the slots of one of
 * states.
 *
 * The first group of a plan keeps every position, and its pages are what the prefix index lists. A page of another
 * group follows one of the first: it has the same positions, and while that one is listed it stays *attached* to it. No
 * sequence that is far ahead needs it, so an attached page without a user is idle, and is taken, the longest idle
 * first, when no page is free: then the listed page goes on without it, and a text can no longer be taken up there.
 *
 * A slot of states is attached to the listed page at whose last position the states were taken (a *checkpoint*): reuse
 * needs one exactly there.
 *
 * Threads: the device thread. Memory: all at init. Limits and bytes of a group: kernels/plan.h.
 */
#ifndef HALO_ENGINE_KV_SIDE_H
#define HALO_ENGINE_KV_SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include <kernels/plan.h>

struct halo_kv_side_page {
    uint32_t owner; /* the page of the first group that it is attached to, or HALO_KV_NO_PAGE */
    uint32_t idle_next, idle_prev;
    uint16_t refs;
    bool covered; /* another one is attached further on in the same text */
};

struct halo_kv_side {
    uint32_t window, span; /* positions that a row sees, 0: states; pages that one sequence holds, at most */
    uint32_t n_pages, n_free, n_idle;
    uint32_t *free; /* [n_pages] a stack */
    struct halo_kv_side_page *pages;
    uint32_t *of; /* by page of the first group: the page attached to it, or HALO_KV_NO_PAGE */
    uint32_t idle_first, idle_last;
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
    return side->n_free + side->n_idle;
}

/* The page of the position that a row behind n_filled positions sees first. */
uint32_t halo_kv_side_first(const struct halo_kv_side *side, uint32_t n_filled);

/* A free page, or an idle one, held: the one idle for the longest, of states one that is covered before all others. One
 * must be available. */
uint32_t halo_kv_side_take(struct halo_kv_side *side);
void halo_kv_side_hold(struct halo_kv_side *side, uint32_t page);
void halo_kv_side_drop(struct halo_kv_side *side, uint32_t page);

/* It was of use: if it is idle, others are taken before it. */
void halo_kv_side_touch(struct halo_kv_side *side, uint32_t page);

/* A held page follows this page of the first group, which has none yet. */
void halo_kv_side_attach(struct halo_kv_side *side, uint32_t page, uint32_t first_page);
/* What is attached to this page is of less use than before: another one stands further on in the text. */
void halo_kv_side_cover(struct halo_kv_side *side, uint32_t first_page);
/* The page of the first group is listed no more: what was attached to it is free unless somebody holds it. */
void halo_kv_side_detach(struct halo_kv_side *side, uint32_t first_page);

#endif
