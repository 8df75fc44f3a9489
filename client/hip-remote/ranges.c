/* ranges.c: a sorted array, and the reservation of addresses. POSIX only. */
#include "ranges_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

void halo_remote_ranges_finish(struct halo_remote_ranges *r)
{
    free(r->entries);
    *r = (struct halo_remote_ranges){0};
}

/* How many ranges begin at or before the address. */
static uint32_t count_before(const struct halo_remote_ranges *r, uint64_t at)
{
    uint32_t lo = 0, hi = r->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (r->entries[mid].at <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int halo_remote_ranges_add(struct halo_remote_ranges *r, struct halo_remote_range range)
{
    uint32_t i = count_before(r, range.at);
    if ((i > 0 && r->entries[i - 1].at + r->entries[i - 1].bytes > range.at) ||
        (i < r->n && range.at + range.bytes > r->entries[i].at))
        return -EEXIST;
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 64;
        struct halo_remote_range *entries = realloc(r->entries, cap * sizeof(*entries));
        if (!entries)
            return -ENOMEM;
        r->entries = entries;
        r->cap = cap;
    }
    memmove(r->entries + i + 1, r->entries + i, (r->n - i) * sizeof(*r->entries));
    r->entries[i] = range;
    r->n++;
    return 0;
}

const struct halo_remote_range *halo_remote_ranges_find(const struct halo_remote_ranges *r, uint64_t at, uint64_t n)
{
    uint32_t i = count_before(r, at);
    const struct halo_remote_range *range = i > 0 ? &r->entries[i - 1] : NULL;
    return range && at - range->at <= range->bytes && n <= range->bytes - (at - range->at) &&
                   (n > 0 || at < range->at + range->bytes)
               ? range
               : NULL;
}

bool halo_remote_ranges_meet(const struct halo_remote_ranges *r, uint64_t at, uint64_t n)
{
    uint32_t i = count_before(r, at + n - 1);
    return i > 0 && r->entries[i - 1].at + r->entries[i - 1].bytes > at;
}

bool halo_remote_ranges_take(struct halo_remote_ranges *r, uint64_t at, struct halo_remote_range *ret)
{
    uint32_t i = count_before(r, at);
    if (i == 0 || r->entries[i - 1].at != at)
        return false;
    *ret = r->entries[i - 1];
    memmove(r->entries + i - 1, r->entries + i, (r->n - i) * sizeof(*r->entries));
    r->n--;
    return true;
}

/* ---- reservation ---- */

/* The pages of the range without those that it shares with a neighbour. */
static struct halo_remote_range own_pages(const struct halo_remote_ranges *r, struct halo_remote_range range)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = range.at / page * page;
    uint64_t to = (range.at + range.bytes + page - 1) / page * page;
    uint32_t i = count_before(r, range.at);
    if (i > 0) {
        uint64_t end = (r->entries[i - 1].at + r->entries[i - 1].bytes + page - 1) / page * page;
        from = end > from ? end : from;
    }
    if (i < r->n) {
        uint64_t begin = r->entries[i].at / page * page;
        to = begin < to ? begin : to;
    }
    return (struct halo_remote_range){from, to > from ? to - from : 0};
}

int halo_remote_ranges_reserve(const struct halo_remote_ranges *r, struct halo_remote_range range)
{
    struct halo_remote_range pages = own_pages(r, range);
    if (pages.bytes == 0)
        return 0;
    /* A hint, not MAP_FIXED: what is mapped there stays, and the mapping lands elsewhere. */
    void *wanted = (void *)(uintptr_t)pages.at;
    void *got = mmap(wanted, pages.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == wanted)
        return 0;
    if (got != MAP_FAILED)
        munmap(got, pages.bytes);
    return -EADDRINUSE;
}

void halo_remote_ranges_release(const struct halo_remote_ranges *r, struct halo_remote_range range)
{
    struct halo_remote_range pages = own_pages(r, range);
    if (pages.bytes > 0 && !range.is_shared)
        munmap((void *)(uintptr_t)pages.at, pages.bytes);
}
