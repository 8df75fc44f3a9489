/* prefix.h: which pages of a KV pool hold which tokens: the index behind prefix reuse.
 *
 * A page is listed with the ids of its positions, under the page that holds the positions in front (its parent; none
 * for the first 32), so that a path from a root is a text. A whole page has HALO_KV_PAGE_TOKENS ids and is found by the
 * hash of its chain; a tail has fewer and is found among the children of its parent. A hash only leads to a page: it is
 * taken when parent, user and all ids are equal. Every user has a forest of its own: what one sent is never found by
 * another, nor by timing.
 *
 * The index belongs to one pool, and the pool to one loaded model: file, KV type and rotation are part of the key by
 * being part of the object. It knows nothing of references; the pool says when a page is idle (listed, used by no
 * sequence) and when it is busy. Idle pages wait in the order in which they became idle. Sequences give pages back from
 * the last to the first, so a child always stands in front of its parent there, and the oldest idle page has no
 * children: it can be evicted by itself.
 *
 * Threads: the device thread. Memory: all at init.
 */
#ifndef HALO_ENGINE_PREFIX_H
#define HALO_ENGINE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

#include <kernels/plan.h>

#define HALO_PREFIX_NONE UINT32_MAX
#define HALO_PREFIX_ROOTS 64    /* lists of first pages, by user */
#define HALO_PREFIX_SIBLINGS 64 /* children looked through for a tail, newest first */

/* One page of the pool; all of it means nothing while it is not listed. */
struct halo_prefix_entry {
    uint64_t user, hash;                /* hash: of the whole chain; whole pages only */
    uint32_t parent, child, next, prev; /* child: the newest; next and prev: siblings */
    uint32_t bucket_next;
    uint32_t idle_next, idle_prev;
    uint32_t n_ids;
    bool listed, idle;
    int32_t ids[HALO_KV_PAGE_TOKENS];
};

struct halo_prefix {
    uint32_t n_pages, n_buckets, n_listed, n_idle;
    struct halo_prefix_entry *entries; /* [n_pages] by page */
    uint32_t *buckets;                 /* [n_buckets], a power of two */
    uint32_t roots[HALO_PREFIX_ROOTS];
    uint32_t idle_first, idle_last; /* oldest and newest */
    uint64_t n_evicted;
};

int halo_prefix_init(struct halo_prefix *prefix, uint32_t n_pages); /* 0 or -ENOMEM */
void halo_prefix_finish(struct halo_prefix *prefix);

/* The whole page that holds these 32 ids behind `parent` (listed, or HALO_PREFIX_NONE for the first). NONE: there is
 * none. */
uint32_t halo_prefix_find(const struct halo_prefix *prefix, uint32_t parent, uint64_t user, const int32_t *ids);

/* Whether a page can be used; `usable` NULL: any can. */
struct halo_prefix_filter {
    bool (*usable)(const void *ud, uint32_t page);
    const void *ud;
};

/* The usable page behind `parent` that begins with most of ids[0..n). Returns how many it shares (0: none). */
uint32_t halo_prefix_find_tail(const struct halo_prefix *prefix, uint32_t parent, uint64_t user, const int32_t *ids,
                               uint32_t n, struct halo_prefix_filter filter, uint32_t *ret_page);

/* The next page behind `parent` whose ids are a beginning of ids[0..n). `page`: the last one found, HALO_PREFIX_NONE at
 * first. NONE: there is no other. */
uint32_t halo_prefix_next_begin(const struct halo_prefix *prefix, uint32_t parent, uint64_t user, const int32_t *ids,
                                uint32_t n, uint32_t page);

/* The page behind `parent` with exactly these n ids (1 to 32), or NONE. */
uint32_t halo_prefix_find_exact(const struct halo_prefix *prefix, uint32_t parent, uint64_t user, const int32_t *ids,
                                uint32_t n);

/* Lists a page that is not listed, as busy, with its first n (1 to 32) ids. */
void halo_prefix_add(struct halo_prefix *prefix, uint32_t page, uint32_t parent, uint64_t user, const int32_t *ids,
                     uint32_t n);

/* Takes an idle tail out whose ids are the beginning of ids[0..n): a page that was just listed says the same and more.
 * NONE: there is none. */
uint32_t halo_prefix_drop_covered(struct halo_prefix *prefix, uint32_t page);

static inline bool halo_prefix_has(const struct halo_prefix *prefix, uint32_t page)
{
    return prefix->entries[page].listed;
}

/* A listed page that no sequence uses any more; one that is used again. */
void halo_prefix_set_idle(struct halo_prefix *prefix, uint32_t page);
void halo_prefix_set_busy(struct halo_prefix *prefix, uint32_t page);

/* Takes the page out that has been idle for the longest. n_idle must not be 0. */
uint32_t halo_prefix_evict(struct halo_prefix *prefix);

/* Takes out an idle page without children. */
void halo_prefix_remove(struct halo_prefix *prefix, uint32_t page);

/* Takes one page of this user (of anybody when `all`) out, searching from *at. NONE: there is none left. Until it says
 * so the index must not be used for anything else. *ret_idle: nobody uses it. */
uint32_t halo_prefix_forget(struct halo_prefix *prefix, bool all, uint64_t user, uint32_t *at, bool *ret_idle);

#endif
