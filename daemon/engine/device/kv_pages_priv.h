/* kv_pages_priv.h: what tables (kv_table.c, kv_reuse.c, kv_checkpoint.c) and what outlives them (kv_keep.c) do with the
 * pages of the first group. */
#ifndef HALO_ENGINE_KV_PAGES_PRIV_H
#define HALO_ENGINE_KV_PAGES_PRIV_H

#include <engine/kv_pages.h>

/* A free page, or the one idle for the longest, held. One must be available. */
uint32_t halo_kv_pool_take(struct halo_kv_pool *pool);
void halo_kv_pool_hold(struct halo_kv_pool *pool, uint32_t page);
void halo_kv_pool_drop(struct halo_kv_pool *pool, uint32_t page);
/* A page that is listed no more and that nobody holds. */
void halo_kv_pool_make_free(struct halo_kv_pool *pool, uint32_t page);
/* The page is listed no more: the other groups let go what was attached to it. */
void halo_kv_pool_detach(struct halo_kv_pool *pool, uint32_t page);

/* The page in front of page `at` of the table, HALO_PREFIX_NONE for the first. */
static inline uint32_t halo_kv_table_parent(const struct halo_kv_table *table, uint32_t at)
{
    return at == 0 ? HALO_PREFIX_NONE : table->pages[at - 1];
}

/* Whether something can be listed or found behind the pages in front of `at`. */
static inline bool halo_kv_table_has_parent(const struct halo_kv_table *table, const struct halo_kv_pool *pool,
                                            uint32_t at)
{
    return at == 0 || halo_prefix_has(&pool->prefix, table->pages[at - 1]);
}

#endif
