/* prefix.c: the index of pages by what they hold.
 *
 * Device thread; allocates only at init. Lists run through the entries by page number. A parent may be taken out before
 * its children only while everything of its user is being forgotten.
 */
#include <engine/prefix.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE HALO_PREFIX_NONE

int halo_prefix_init(struct halo_prefix *prefix, uint32_t n_pages)
{
    *prefix = (struct halo_prefix){.n_pages = n_pages, .n_buckets = 1, .idle_first = NONE, .idle_last = NONE};
    while (prefix->n_buckets < n_pages)
        prefix->n_buckets *= 2;
    prefix->entries = calloc(n_pages ? n_pages : 1, sizeof(*prefix->entries));
    prefix->buckets = malloc(prefix->n_buckets * sizeof(*prefix->buckets));
    if (!prefix->entries || !prefix->buckets) {
        halo_prefix_finish(prefix);
        return -ENOMEM;
    }
    memset(prefix->buckets, 0xff, prefix->n_buckets * sizeof(*prefix->buckets));
    memset(prefix->roots, 0xff, sizeof(prefix->roots));
    return 0;
}

void halo_prefix_finish(struct halo_prefix *prefix)
{
    free(prefix->entries);
    free(prefix->buckets);
    *prefix = (struct halo_prefix){0};
}

/* ---- where things are ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static uint64_t chain_hash(const struct halo_prefix *prefix, uint32_t parent, uint64_t user, const int32_t *ids)
{
    uint64_t hash = parent == NONE ? mix(user + 1) : prefix->entries[parent].hash;
    for (uint32_t i = 0; i < HALO_KV_PAGE_TOKENS; i++)
        hash = (hash ^ (uint32_t)ids[i]) * 0x9e3779b97f4a7c15u;
    return mix(hash);
}

/* The newest child, where a list begins. */
static uint32_t *children_of(struct halo_prefix *prefix, uint32_t parent, uint64_t user)
{
    return parent == NONE ? &prefix->roots[mix(user) % HALO_PREFIX_ROOTS] : &prefix->entries[parent].child;
}

static uint32_t first_child(const struct halo_prefix *prefix, uint32_t parent, uint64_t user)
{
    return parent == NONE ? prefix->roots[mix(user) % HALO_PREFIX_ROOTS] : prefix->entries[parent].child;
}

uint32_t halo_prefix_find(const struct halo_prefix *prefix, uint32_t parent, uint64_t user, const int32_t *ids)
{
    assert(parent == NONE || prefix->entries[parent].listed);
    uint64_t hash = chain_hash(prefix, parent, user, ids);
    uint32_t page = prefix->buckets[hash & (prefix->n_buckets - 1)];
    for (; page != NONE; page = prefix->entries[page].bucket_next) {
        const struct halo_prefix_entry *entry = &prefix->entries[page];
        if (entry->hash == hash && entry->parent == parent && entry->user == user &&
            memcmp(entry->ids, ids, sizeof(entry->ids)) == 0)
            return page;
    }
    return NONE;
}

static uint32_t common(const struct halo_prefix_entry *entry, const int32_t *ids, uint32_t n)
{
    uint32_t same = 0, most = entry->n_ids < n ? entry->n_ids : n;
    while (same < most && entry->ids[same] == ids[same])
        same++;
    return same;
}

uint32_t halo_prefix_find_tail(const struct halo_prefix *prefix, uint32_t parent, uint64_t user, const int32_t *ids,
                               uint32_t n, struct halo_prefix_filter filter, uint32_t *ret_page)
{
    uint32_t best = 0, n_seen = 0;
    assert(n <= HALO_KV_PAGE_TOKENS && (parent == NONE || prefix->entries[parent].listed));
    *ret_page = NONE;
    for (uint32_t page = first_child(prefix, parent, user); page != NONE && best < n && n_seen < HALO_PREFIX_SIBLINGS;
         page = prefix->entries[page].next) {
        const struct halo_prefix_entry *entry = &prefix->entries[page];
        if (entry->user != user)
            continue; /* roots of several users share a list */
        n_seen++;
        uint32_t same = common(entry, ids, n);
        if (same > best && (!filter.usable || filter.usable(filter.ud, page))) {
            best = same;
            *ret_page = page;
        }
    }
    return best;
}

uint32_t halo_prefix_next_begin(const struct halo_prefix *prefix, uint32_t parent, uint64_t user, const int32_t *ids,
                                uint32_t n, uint32_t page)
{
    page = page == NONE ? first_child(prefix, parent, user) : prefix->entries[page].next;
    while (page != NONE) {
        const struct halo_prefix_entry *entry = &prefix->entries[page];
        if (entry->user == user && common(entry, ids, n) == entry->n_ids)
            break;
        page = entry->next;
    }
    return page;
}

uint32_t halo_prefix_find_exact(const struct halo_prefix *prefix, uint32_t parent, uint64_t user, const int32_t *ids,
                                uint32_t n)
{
    uint32_t page = NONE;
    while ((page = halo_prefix_next_begin(prefix, parent, user, ids, n, page)) != NONE)
        if (prefix->entries[page].n_ids == n)
            break;
    return page;
}

/* ---- in and out ---- */

void halo_prefix_add(struct halo_prefix *prefix, uint32_t page, uint32_t parent, uint64_t user, const int32_t *ids,
                     uint32_t n)
{
    struct halo_prefix_entry *entry = &prefix->entries[page];
    assert(page < prefix->n_pages && !entry->listed && n >= 1 && n <= HALO_KV_PAGE_TOKENS);
    assert(parent == NONE || (prefix->entries[parent].listed && prefix->entries[parent].n_ids == HALO_KV_PAGE_TOKENS &&
                              prefix->entries[parent].user == user));
    uint32_t *head = children_of(prefix, parent, user);
    *entry = (struct halo_prefix_entry){.user = user,
                                        .parent = parent,
                                        .child = NONE,
                                        .next = *head,
                                        .prev = NONE,
                                        .bucket_next = NONE,
                                        .idle_next = NONE,
                                        .idle_prev = NONE,
                                        .n_ids = n,
                                        .listed = true};
    memcpy(entry->ids, ids, n * sizeof(*ids));
    if (*head != NONE)
        prefix->entries[*head].prev = page;
    *head = page;
    if (n == HALO_KV_PAGE_TOKENS) {
        entry->hash = chain_hash(prefix, parent, user, ids);
        uint32_t *bucket = &prefix->buckets[entry->hash & (prefix->n_buckets - 1)];
        entry->bucket_next = *bucket;
        *bucket = page;
    }
    prefix->n_listed++;
}

static void unlink_bucket(struct halo_prefix *prefix, uint32_t page)
{
    uint32_t *at = &prefix->buckets[prefix->entries[page].hash & (prefix->n_buckets - 1)];
    while (*at != page)
        at = &prefix->entries[*at].bucket_next;
    *at = prefix->entries[page].bucket_next;
}

static void take_out(struct halo_prefix *prefix, uint32_t page)
{
    struct halo_prefix_entry *entry = &prefix->entries[page];
    assert(entry->listed);
    if (entry->idle)
        halo_prefix_set_busy(prefix, page);
    if (entry->n_ids == HALO_KV_PAGE_TOKENS)
        unlink_bucket(prefix, page);
    if (entry->prev != NONE)
        prefix->entries[entry->prev].next = entry->next;
    else
        *children_of(prefix, entry->parent, entry->user) = entry->next;
    if (entry->next != NONE)
        prefix->entries[entry->next].prev = entry->prev;
    entry->listed = false;
    prefix->n_listed--;
}

uint32_t halo_prefix_drop_covered(struct halo_prefix *prefix, uint32_t page)
{
    const struct halo_prefix_entry *by = &prefix->entries[page];
    uint32_t n_seen = 0;
    assert(by->listed);
    for (uint32_t other = by->next; other != NONE && n_seen < HALO_PREFIX_SIBLINGS;
         other = prefix->entries[other].next) {
        const struct halo_prefix_entry *entry = &prefix->entries[other];
        if (entry->user != by->user)
            continue;
        n_seen++;
        if (entry->idle && entry->n_ids < HALO_KV_PAGE_TOKENS && entry->n_ids <= by->n_ids &&
            common(entry, by->ids, entry->n_ids) == entry->n_ids) {
            take_out(prefix, other);
            return other;
        }
    }
    return NONE;
}

/* ---- idle pages ---- */

void halo_prefix_set_idle(struct halo_prefix *prefix, uint32_t page)
{
    struct halo_prefix_entry *entry = &prefix->entries[page];
    assert(entry->listed && !entry->idle);
    entry->idle = true;
    entry->idle_next = NONE;
    entry->idle_prev = prefix->idle_last;
    if (prefix->idle_last != NONE)
        prefix->entries[prefix->idle_last].idle_next = page;
    else
        prefix->idle_first = page;
    prefix->idle_last = page;
    prefix->n_idle++;
}

void halo_prefix_set_busy(struct halo_prefix *prefix, uint32_t page)
{
    struct halo_prefix_entry *entry = &prefix->entries[page];
    assert(entry->listed && entry->idle);
    if (entry->idle_prev != NONE)
        prefix->entries[entry->idle_prev].idle_next = entry->idle_next;
    else
        prefix->idle_first = entry->idle_next;
    if (entry->idle_next != NONE)
        prefix->entries[entry->idle_next].idle_prev = entry->idle_prev;
    else
        prefix->idle_last = entry->idle_prev;
    entry->idle = false;
    prefix->n_idle--;
}

uint32_t halo_prefix_evict(struct halo_prefix *prefix)
{
    uint32_t page = prefix->idle_first;
    assert(page != NONE && prefix->entries[page].child == NONE);
    take_out(prefix, page);
    prefix->n_evicted++;
    return page;
}

void halo_prefix_remove(struct halo_prefix *prefix, uint32_t page)
{
    assert(prefix->entries[page].idle && prefix->entries[page].child == NONE);
    take_out(prefix, page);
}

uint32_t halo_prefix_forget(struct halo_prefix *prefix, bool all, uint64_t user, uint32_t *at, bool *ret_idle)
{
    for (; *at < prefix->n_pages; ++*at) {
        const struct halo_prefix_entry *entry = &prefix->entries[*at];
        if (!entry->listed || (!all && entry->user != user))
            continue;
        *ret_idle = entry->idle;
        take_out(prefix, *at);
        return (*at)++;
    }
    return NONE;
}
