/* ranges_priv.h: memory by address: what was allocated on the device, and what of the host's is HIP's.
 *
 * A range of the device has the address that it has on the worker. The pages around it are reserved in this process, so
 * that no memory of the host ever has an address of the device. One thread at a time.
 */
#ifndef HALO_HIP_REMOTE_RANGES_PRIV_H
#define HALO_HIP_REMOTE_RANGES_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct halo_remote_range {
    uint64_t at, bytes;
    int device;        /* of a range of the device */
    bool is_shared;    /* likewise: another worker has memory there too, no page is reserved for this one */
    uint8_t *uploaded; /* of the allocator: see upload_priv.h */
};

struct halo_remote_ranges {
    struct halo_remote_range *entries; /* [n], ascending, apart from each other */
    uint32_t n, cap;
};

void halo_remote_ranges_finish(struct halo_remote_ranges *r);
/* 0, -ENOMEM, or -EEXIST: it overlaps one that is there. */
int halo_remote_ranges_add(struct halo_remote_ranges *r, struct halo_remote_range range);
/* The range that holds all of these bytes; NULL: none does. n may be 0. */
const struct halo_remote_range *halo_remote_ranges_find(const struct halo_remote_ranges *r, uint64_t at, uint64_t n);
/* Whether a range has one of these bytes. */
bool halo_remote_ranges_meet(const struct halo_remote_ranges *r, uint64_t at, uint64_t n);
/* Forgets the range that begins here. False: there is none. */
bool halo_remote_ranges_take(struct halo_remote_ranges *r, uint64_t at, struct halo_remote_range *ret);

/* For a range of the device, before it is added and after it was taken: reserves the pages around it that no neighbour
 * has reserved. 0, or -EADDRINUSE: this process uses some of them. */
int halo_remote_ranges_reserve(const struct halo_remote_ranges *r, struct halo_remote_range range);
void halo_remote_ranges_release(const struct halo_remote_ranges *r, struct halo_remote_range range);

#endif
