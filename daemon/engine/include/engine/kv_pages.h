/* kv_pages.h: the page pool of one model's KV cache and the page tables that borrow from it.
 *
 * A page holds HALO_KV_PAGE_TOKENS positions of every layer; page numbers are those of the device. A page has a
 * reference count: taken with one, back in the free list at zero.
 *
 * Threads: the device thread. Memory: all of it at init (a table's at table_init, on whatever thread prepares the
 * sequence).
 */
#ifndef HALO_ENGINE_KV_PAGES_H
#define HALO_ENGINE_KV_PAGES_H

#include <stdint.h>

#define HALO_KV_E_FULL 1 /* outcome: not enough free pages; nothing was taken */

struct halo_kv_pool {
    uint32_t n_pages, n_free;
    uint32_t *free; /* [n_pages] a stack; the first n_free are valid. Lowest numbers come out first from a fresh pool */
    uint16_t *refs; /* [n_pages] 0: free */
};

/* Pages of one sequence: pages[i] has the positions i * 32 .. i * 32 + 31. */
struct halo_kv_table {
    uint32_t *pages;
    uint32_t n, capacity;
};

/* How many pages hold n_positions. */
uint32_t halo_kv_pages_for(uint64_t n_positions);

int halo_kv_pool_init(struct halo_kv_pool *pool, uint32_t n_pages); /* 0 or -ENOMEM */
void halo_kv_pool_finish(struct halo_kv_pool *pool);                /* every page must be back */

/* Room for a sequence of up to max_positions. 0 or -ENOMEM. */
int halo_kv_table_init(struct halo_kv_table *table, uint32_t max_positions);
void halo_kv_table_finish(struct halo_kv_table *table); /* must be empty */

/* Makes the table cover n_positions (<= its room). 0 or HALO_KV_E_FULL. */
int halo_kv_table_grow(struct halo_kv_table *table, struct halo_kv_pool *pool, uint32_t n_positions);

/* Gives all pages back. */
void halo_kv_table_clear(struct halo_kv_table *table, struct halo_kv_pool *pool);

#endif
