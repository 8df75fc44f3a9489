/* ranges.c: a sorted array of address ranges. One thread. */
#include "ranges_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int halo_ranges_init(struct halo_ranges *r, uint32_t cap)
{
    *r = (struct halo_ranges){.entries = calloc(cap, sizeof(*r->entries)), .cap = cap};
    return r->entries ? 0 : -ENOMEM;
}

void halo_ranges_finish(struct halo_ranges *r)
{
    free(r->entries);
    *r = (struct halo_ranges){0};
}

/* The number of ranges that begin at or before this address. */
static uint32_t count_to(const struct halo_ranges *r, uint64_t at)
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

bool halo_ranges_add(struct halo_ranges *r, struct halo_range_entry entry)
{
    uint32_t i = count_to(r, entry.at);
    const struct halo_range_entry *before = i > 0 ? &r->entries[i - 1] : NULL;
    if (r->n == r->cap || entry.bytes == 0 || entry.bytes > UINT64_MAX - entry.at)
        return false;
    if ((before && entry.at - before->at < before->bytes) || (i < r->n && r->entries[i].at - entry.at < entry.bytes))
        return false;
    memmove(&r->entries[i + 1], &r->entries[i], (r->n - i) * sizeof(*r->entries));
    r->entries[i] = entry;
    r->n++;
    if (!entry.module)
        r->bytes += entry.bytes;
    return true;
}

static void remove_at(struct halo_ranges *r, uint32_t i)
{
    if (!r->entries[i].module)
        r->bytes -= r->entries[i].bytes;
    r->n--;
    memmove(&r->entries[i], &r->entries[i + 1], (r->n - i) * sizeof(*r->entries));
}

bool halo_ranges_take(struct halo_ranges *r, uint64_t at, struct halo_range_entry *ret)
{
    uint32_t i = count_to(r, at);
    if (i == 0 || r->entries[i - 1].at != at || r->entries[i - 1].module)
        return false;
    *ret = r->entries[i - 1];
    remove_at(r, i - 1);
    return true;
}

bool halo_ranges_hold(const struct halo_ranges *r, uint64_t at, uint64_t n)
{
    uint32_t i = count_to(r, at);
    if (i == 0)
        return false;
    const struct halo_range_entry *entry = &r->entries[i - 1];
    uint64_t offset = at - entry->at;
    return offset < entry->bytes && n <= entry->bytes - offset;
}

void halo_ranges_drop_module(struct halo_ranges *r, const void *module)
{
    for (uint32_t i = r->n; i > 0; i--)
        if (r->entries[i - 1].module == module)
            remove_at(r, i - 1);
}
