/* kv_keep_priv.h: what of a page pool outlives it, and how it comes back (keep.h).
 *
 * Threads: the device thread. Memory: what a function takes it gives back before it returns.
 */
#ifndef HALO_ENGINE_KV_KEEP_PRIV_H
#define HALO_ENGINE_KV_KEEP_PRIV_H

#include <engine/kv_pages.h>

/* Holds every listed page, so that none is evicted: order[0..result) has them, room for n_pages: those used last first,
 * but each behind the one that it follows. */
uint32_t halo_kv_keep_hold(struct halo_kv_pool *pool, uint32_t *order);
/* Releases them, the last first, so that the order of eviction is what it was. */
void halo_kv_keep_drop(struct halo_kv_pool *pool, const uint32_t *order, uint32_t n);

/* What a file may hold. */
struct halo_kv_keep_room {
    uint64_t most_bytes;                      /* of all pages */
    uint64_t own_bytes;                       /* that each page takes beside the bytes of its groups */
    uint64_t group_bytes[HALO_KV_GROUPS_MAX]; /* of a page or slot */
};

/* What goes to the disk with each page of order[0..n): ret_groups[page], room for n_pages, bit g: what is attached to
 * it in group g; bit 0: the page itself; 0: it stays. Of windows those that a text can be continued behind, of states
 * those of halo_kv_is_saved. Where there are states, pages that no state follows are of no use: a text goes as a whole,
 * where there is room for it, or stays. 0 or -ENOMEM. */
int halo_kv_keep_choose(const struct halo_kv_pool *pool, const uint32_t *order, uint32_t n,
                        const struct halo_kv_keep_room *room, uint8_t *ret_groups);

/* The greatest worth of what goes with a page. */
enum halo_kv_worth halo_kv_keep_worth(const struct halo_kv_pool *pool, uint32_t page, uint8_t groups);

/* Takes a free page and lists it; or finds one that says the same already. Held in both cases. NONE: no page is
 * free. */
uint32_t halo_kv_keep_list(struct halo_kv_pool *pool, uint32_t parent, uint64_t user, const int32_t *ids, uint32_t n,
                           bool *ret_new);
/* A free page of group `group` (> 0), held and attached to this listed page; HALO_KV_NO_PAGE: none is free, or the page
 * has one. */
uint32_t halo_kv_keep_attach(struct halo_kv_pool *pool, uint32_t group, uint32_t page, enum halo_kv_worth worth);

#endif
