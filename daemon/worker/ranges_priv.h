/* ranges_priv.h: the live device memory of one session, in order of its addresses. One thread. */
#ifndef HALO_WORKER_RANGES_PRIV_H
#define HALO_WORKER_RANGES_PRIV_H

#include <stdbool.h>
#include <stdint.h>

struct halo_range_entry {
    uint64_t at, bytes;
    const void *module; /* that a global belongs to; NULL: allocated */
};

struct halo_ranges {
    struct halo_range_entry *entries; /* [n], ascending, apart from each other */
    uint32_t n, cap;
    uint64_t bytes; /* of those that were allocated */
};

int halo_ranges_init(struct halo_ranges *r, uint32_t cap); /* 0 or -ENOMEM */
void halo_ranges_finish(struct halo_ranges *r);

/* False: no room, or it overlaps one that is live. */
bool halo_ranges_add(struct halo_ranges *r, struct halo_range_entry entry);
/* The range that begins at this address, was allocated, and is now forgotten. False: there is none. */
bool halo_ranges_take(struct halo_ranges *r, uint64_t at, struct halo_range_entry *ret);
/* Whether n bytes lie in one live range. */
bool halo_ranges_hold(const struct halo_ranges *r, uint64_t at, uint64_t n);
/* Forgets the globals of a module. */
void halo_ranges_drop_module(struct halo_ranges *r, const void *module);

#endif
