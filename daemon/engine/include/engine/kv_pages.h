/* kv_pages.h: the page pool of one model's KV cache and the page tables that borrow from it.
 *
 * A page holds HALO_KV_PAGE_TOKENS positions of every layer of a group; page numbers are those of the device. What
 * follows is said of the first group, which keeps every position; pages of the others, which have windows, go along
 * (kv_side.h): a table gives up those behind the window and takes as many anew.
 *
 * A page has a reference count: one for each table that holds it. At zero it is free, unless the prefix index lists
 * what it holds: then it stays as it is, idle, until it is used again or its memory is needed. Free and idle pages
 * together are what can be taken.
 *
 * Whole pages are shared as they are, for nobody writes to one again. A page that is shared only in part (the last one
 * of a text, or one whose text goes on differently) is copied by the device: see find_tail.
 *
 * Threads: the device thread. Memory: all of it at init (a table's at table_init, on whatever thread prepares the
 * sequence).
 */
#ifndef HALO_ENGINE_KV_PAGES_H
#define HALO_ENGINE_KV_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include <kernels/device.h>

#include <engine/kv_side.h>
#include <engine/prefix.h>

#define HALO_KV_SIDES_MAX (HALO_KV_GROUPS_MAX - 1)
#define HALO_KV_E_FULL 1 /* outcome: not enough pages; nothing was taken */

struct halo_kv_pool {
    uint32_t n_pages, n_free;
    uint32_t *free; /* [n_pages] a stack; the first n_free are valid. Lowest numbers come out first from a fresh pool */
    uint16_t *refs; /* [n_pages] 0: free or idle */
    struct halo_prefix prefix;
    uint32_t n_sides;
    struct halo_kv_side sides[HALO_KV_SIDES_MAX]; /* the other groups of the plan, in its order */
};

/* Pages of one sequence: pages[i] has the positions i * 32 .. i * 32 + 31. */
struct halo_kv_table {
    uint32_t *pages;
    uint32_t n, capacity;
    uint32_t n_taken;             /* of the pages: those that were there already */
    struct halo_kv_places places; /* parted: take()'s; stable: of whoever knows the text */
    bool resumed;                 /* continues what was the end of a text */
    struct {
        uint32_t *pages;   /* likewise; HALO_KV_NO_PAGE in front of `first` */
        uint32_t first, n; /* it holds pages[first] .. pages[n - 1] */
    } side[HALO_KV_SIDES_MAX];
};

/* How many pages hold n_positions. */
uint32_t halo_kv_pages_for(uint64_t n_positions);

int halo_kv_pool_init(struct halo_kv_pool *pool, uint32_t n_pages); /* 0 or -ENOMEM */
/* The next group of the plan, before the first table takes a page. 0 or -ENOMEM. */
int halo_kv_pool_add_side(struct halo_kv_pool *pool, uint32_t n_pages, uint32_t window, uint32_t span);
void halo_kv_pool_finish(struct halo_kv_pool *pool); /* every page must be free or idle */

/* Pages of the first group that can be taken now. */
static inline uint32_t halo_kv_pool_available(const struct halo_kv_pool *pool)
{
    return pool->n_free + pool->prefix.n_idle;
}

/* Forgets what pages of this user (of anybody when `all`) hold. Returns how many idle ones became free. */
uint32_t halo_kv_pool_forget(struct halo_kv_pool *pool, bool all, uint64_t user);

/* Room for a sequence of up to max_positions. 0 or -ENOMEM. */
int halo_kv_table_init(struct halo_kv_table *table, uint32_t max_positions);
void halo_kv_table_finish(struct halo_kv_table *table); /* must be empty */

/* Whether grow() would find its pages, and n_spare more in each group. */
bool halo_kv_table_fits(const struct halo_kv_table *table, const struct halo_kv_pool *pool, uint32_t n_positions,
                        uint32_t n_spare);

/* Makes the table cover n_positions (<= its room), in a group with a window as many as its span allows. 0 or
 * HALO_KV_E_FULL. */
int halo_kv_table_grow(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t n_positions);

/* n_filled positions are computed: gives up what no later row sees. */
void halo_kv_table_slide(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t n_filled);

/* How many positions the table has room for in every group. */
uint32_t halo_kv_table_reach(const struct halo_kv_table *table, const struct halo_kv_pool *pool);

/* The pages of all groups for a batch. */
struct halo_batch_seq halo_kv_table_seq(const struct halo_kv_table *table);

/* Gives all pages back, the last first. */
void halo_kv_table_clear(struct halo_kv_table *table, struct halo_kv_pool *pool);

/* ---- reuse ---- */

/* Fills an empty table with the longest chain of whole pages that begin ids[0..limit) and that a sequence can go on
 * behind: the windows in front of its end are there. Returns the positions that they hold. */
uint32_t halo_kv_table_take(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                            uint32_t limit);

/* How many positions behind those of the table (all its pages are whole and listed) some page has as well, within
 * limit. Copied to the table's next page, in each group, they need not be computed; ret_pages[group] may be that page
 * itself, when growing evicted it. Where there are states it is all that this page holds, or nothing. */
uint32_t halo_kv_table_find_tail(const struct halo_kv_table *table, const struct halo_kv_pool *pool, uint64_t user,
                                 const int32_t *ids, uint32_t limit, uint32_t ret_pages[HALO_KV_GROUPS_MAX]);

/* Of groups of states: the checkpoint behind the whole pages that were taken, HALO_KV_NO_PAGE for other groups. It is
 * to be copied to the sequence's slot, which may be that very one after growing. False: there is none. */
bool halo_kv_table_find_states(const struct halo_kv_table *table, const struct halo_kv_pool *pool,
                               uint32_t ret_pages[HALO_KV_GROUPS_MAX]);

/* The table takes up a text behind n positions: its whole pages, and what find_tail found (NULL: nothing). Notes
 * whether that was the end of a text. If so, what is kept further in front of it is passed now; not before, since a
 * request beside a conversation would take its last copy with it. */
void halo_kv_table_set_resumed(struct halo_kv_table *table, struct halo_kv_pool *pool,
                               const uint32_t from[HALO_KV_GROUPS_MAX], uint32_t n);

/* n positions (n > 0) are computed, and no more: lists a page that ends exactly there, with a slot in each group of
 * states. What the table has must be copied to ret_to[group] at once; HALO_KV_NO_PAGE: there already. Returns the
 * listed page; HALO_PREFIX_NONE: there is no room, or what is in front of it was forgotten. */
uint32_t halo_kv_table_checkpoint(const struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user,
                                  const int32_t *ids, uint32_t n, enum halo_kv_worth worth,
                                  uint32_t ret_to[HALO_KV_GROUPS_MAX]);
/* Such a copy failed. */
void halo_kv_pool_undo_checkpoint(struct halo_kv_pool *pool, uint32_t page, const uint32_t to[HALO_KV_GROUPS_MAX]);

/* Page `at` of the table, and a listed one that holds the same ids, in every group: takes the latter instead, without a
 * look at what is in the former. False: there is none. */
bool halo_kv_table_swap(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                        uint32_t at);

/* Page `at` is whole: lists it, or swaps it for an equal one. Nothing happens when the pages in front of it are not
 * listed (they were forgotten). */
void halo_kv_table_keep(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                        uint32_t at);

/* Gives all pages back like clear, and lists what the last of n_filled positions left in a page that is not whole. */
void halo_kv_table_leave(struct halo_kv_table *table, struct halo_kv_pool *pool, uint64_t user, const int32_t *ids,
                         uint32_t n_filled);

#endif
