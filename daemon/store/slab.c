/* slab.c: see slab.h.
 *
 * One range of addresses is reserved for all slabs; taking a slab makes its part of it accessible, giving it back drops
 * the pages and makes it inaccessible again, so that a stray access faults instead of bringing pages back.
 *
 * A page that the kernel took reads as zeros, and so may one that it left. So the first word of each page of a
 * purgeable slot is a mark, and what stood there is kept aside. Exchanging the mark for that word tells both cases
 * apart, and the write itself makes the kernel leave the page (madvise(2), MADV_FREE).
 */
#include <store/slab.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "populate_priv.h"

#define HUGE_BYTES ((uint64_t)2 << 20)

#define PURGE_MARK UINT64_C(0x68616c6f2d6d726b) /* any word but 0 */

struct slab {
    bool taken, locked;
};

struct halo_slabs {
    struct halo_slabs_options options; /* no zeros */
    uint64_t stride;                   /* of a slot */
    uint64_t slab_stride;              /* of a slab, a multiple of HUGE_BYTES */
    uint32_t slots_each;               /* in every slab but the last */
    uint32_t n;
    struct slab *slabs;
    void *map;
    uint64_t map_bytes;
    uint8_t *base;      /* in the map, aligned to HUGE_BYTES */
    uint64_t *aside;    /* [n_purgeable][pages of a slot] first words of the pages of purgeable slots */
    bool *is_purgeable; /* [n_purgeable] */
    struct halo_remarks notices;
    bool lock_told, huge_told;
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static int sizes_fill(struct halo_slabs *s, struct halo_fault *fault)
{
    struct halo_slabs_options *o = &s->options;
    o->slab_bytes = o->slab_bytes ? o->slab_bytes : HALO_SLAB_BYTES_MAX;
    bool fits = o->slot_bytes > 0 && o->n_slots > 0 && o->slot_bytes <= o->slab_bytes - HALO_HULL_ALIGN;
    s->stride = fits ? halo_hull_end(o->slot_bytes) + HALO_HULL_ALIGN : 0;
    bool holds_one = o->slab_bytes - s->stride < s->stride;
    if (!fits || s->stride > o->slab_bytes || (o->slab_bytes > HALO_SLAB_BYTES_MAX && !holds_one))
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "%u slots of %" PRIu64 " bytes do not fit in slabs of %" PRIu64 " bytes (at most %" PRIu64
                              ")",
                              o->n_slots, o->slot_bytes, o->slab_bytes, HALO_SLAB_BYTES_MAX);
    s->slots_each = (uint32_t)(o->slab_bytes / s->stride);
    if (s->slots_each > o->n_slots)
        s->slots_each = o->n_slots;
    s->n = (o->n_slots + s->slots_each - 1) / s->slots_each;
    s->slab_stride = round_up(s->slots_each * s->stride, HUGE_BYTES);
    s->map_bytes = s->n * s->slab_stride + HUGE_BYTES;
    return 0;
}

static uint64_t pages_each(const struct halo_slabs *s)
{
    return s->stride / HALO_HULL_ALIGN;
}

static int purge_create(struct halo_slabs *s, struct halo_fault *fault)
{
    uint32_t n = s->options.n_purgeable;
    assert(n <= s->options.n_slots && (n == 0 || !s->options.lock));
    if (n == 0)
        return 0;
    s->aside = calloc(n, pages_each(s) * sizeof(*s->aside));
    s->is_purgeable = calloc(n, sizeof(*s->is_purgeable));
    return s->aside && s->is_purgeable
               ? 0
               : halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a table of %u purgeable slots", n);
}

int halo_slabs_create(const struct halo_slabs_options *options, struct halo_slabs **ret, struct halo_fault *fault)
{
    struct halo_slabs *s = calloc(1, sizeof(*s));
    if (!s)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a table of slots");
    s->options = *options;
    s->map = MAP_FAILED;
    int r = sizes_fill(s, fault);
    if (r == 0) {
        s->slabs = calloc(s->n, sizeof(*s->slabs));
        r = purge_create(s, fault);
    }
    if (r == 0) {
        s->map = mmap(NULL, s->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!s->slabs || s->map == MAP_FAILED)
            r = halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no addresses for %" PRIu64 " bytes of slots",
                               s->map_bytes);
    }
    if (r < 0) {
        halo_slabs_destroy(s);
        return r;
    }
    s->base = (uint8_t *)s->map + (round_up((uintptr_t)s->map, HUGE_BYTES) - (uintptr_t)s->map);
    *ret = s;
    return 0;
}

void halo_slabs_destroy(struct halo_slabs *s)
{
    if (!s)
        return;
    if (s->map != MAP_FAILED)
        munmap(s->map, s->map_bytes);
    free(s->aside);
    free(s->is_purgeable);
    free(s->slabs);
    free(s);
}

uint32_t halo_slabs_n(const struct halo_slabs *s)
{
    return s->n;
}

uint64_t halo_slabs_stride(const struct halo_slabs *s)
{
    return s->stride;
}

void *halo_slabs_base(const struct halo_slabs *s, uint32_t slab, uint64_t *ret_bytes, uint32_t *ret_first,
                      uint32_t *ret_n)
{
    assert(slab < s->n);
    uint32_t first = slab * s->slots_each, left = s->options.n_slots - first;
    uint32_t n = left < s->slots_each ? left : s->slots_each;
    *ret_bytes = n * s->stride;
    *ret_first = first;
    *ret_n = n;
    return s->base + slab * s->slab_stride;
}

/* Linux before 5.14. */
static void touch(uint8_t *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += HALO_HULL_ALIGN)
        *(volatile uint8_t *)(at + i) = 0;
}

static int populate(struct halo_slabs *s, void *at, uint64_t bytes)
{
    if (madvise(at, bytes, MADV_HUGEPAGE) < 0 && !s->huge_told) {
        halo_remarks_add(&s->notices, "this kernel gives no huge pages (%s): slots are in pages of %d bytes",
                         strerror(errno), HALO_HULL_ALIGN);
        s->huge_told = true;
    }
    if (madvise(at, bytes, MADV_DONTFORK) < 0)
        return -errno;
    int r = store_populate(at, bytes);
    if (r == -EINVAL) {
        touch(at, bytes);
        r = 0;
    }
    return r;
}

static void lock(struct halo_slabs *s, struct slab *slab, void *at, uint64_t bytes)
{
    struct rlimit limit = {0};
    slab->locked = mlock(at, bytes) == 0;
    if (slab->locked || s->lock_told)
        return;
    int error = errno;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    halo_remarks_add(&s->notices,
                     "%" PRIu64 " MiB of slots are not locked in memory (%s): the limit is %" PRIu64
                     " KiB; type `systemctl edit halod`, add LimitMEMLOCK=infinity under [Service], restart halod",
                     bytes >> 20, strerror(error), (uint64_t)limit.rlim_cur >> 10);
    s->lock_told = true;
}

int halo_slabs_take(struct halo_slabs *s, uint32_t number, struct halo_fault *fault)
{
    uint64_t bytes;
    uint32_t first, n;
    void *at = halo_slabs_base(s, number, &bytes, &first, &n);
    struct slab *slab = &s->slabs[number];
    if (slab->taken)
        return 0;
    int r = mprotect(at, bytes, PROT_READ | PROT_WRITE) < 0 ? -errno : populate(s, at, bytes);
    slab->taken = true;
    if (r < 0) {
        halo_slabs_give_back(s, number);
        halo_fault_errno(fault, HALO_FAULT_OUT_OF_MEMORY, r, "the kernel gives no %" PRIu64 " MiB for slots",
                         bytes >> 20);
        return -ENOMEM;
    }
    if (s->options.lock)
        lock(s, slab, at, bytes);
    return 0;
}

/* Of a slot that may be purgeable. */
static uint32_t purge_index(const struct halo_slabs *s, uint32_t slot)
{
    return slot - (s->options.n_slots - s->options.n_purgeable);
}

bool halo_slabs_is_purgeable(const struct halo_slabs *s, uint32_t slot)
{
    assert(slot < s->options.n_slots);
    return slot >= s->options.n_slots - s->options.n_purgeable && s->is_purgeable[purge_index(s, slot)];
}

int halo_slabs_make_purgeable(struct halo_slabs *s, uint32_t slot)
{
    assert(slot < s->options.n_slots && slot >= s->options.n_slots - s->options.n_purgeable);
    uint8_t *at = halo_slabs_slot(s, slot);
    uint64_t *aside = &s->aside[purge_index(s, slot) * pages_each(s)];
    assert(at && !halo_slabs_is_purgeable(s, slot));
    for (uint64_t page = 0; page < pages_each(s); page++) {
        uint64_t *first = (uint64_t *)(void *)(at + page * HALO_HULL_ALIGN);
        aside[page] = *first;
        *first = PURGE_MARK;
    }
    s->is_purgeable[purge_index(s, slot)] = true;
    if (madvise(at, s->stride, MADV_FREE) == 0)
        return 0;
    int r = -errno;
    bool is_there = halo_slabs_keep(s, slot);
    assert(is_there);
    return r;
}

bool halo_slabs_keep(struct halo_slabs *s, uint32_t slot)
{
    bool is_there = true;
    if (!halo_slabs_is_purgeable(s, slot))
        return true;
    uint8_t *at = halo_slabs_slot(s, slot);
    const uint64_t *aside = &s->aside[purge_index(s, slot) * pages_each(s)];
    for (uint64_t page = 0; page < pages_each(s); page++) {
        uint64_t *first = (uint64_t *)(void *)(at + page * HALO_HULL_ALIGN), mark = PURGE_MARK;
        is_there &= __atomic_compare_exchange_n(first, &mark, aside[page], false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    s->is_purgeable[purge_index(s, slot)] = false;
    return is_there;
}

bool halo_slabs_looks_purged(const struct halo_slabs *s, uint32_t slot)
{
    unsigned char there = 1;
    assert(halo_slabs_is_purgeable(s, slot));
    return mincore(halo_slabs_slot(s, slot), HALO_HULL_ALIGN, &there) == 0 && !(there & 1);
}

void halo_slabs_discard(struct halo_slabs *s, uint32_t slot)
{
    assert(halo_slabs_is_purgeable(s, slot));
    int r = madvise(halo_slabs_slot(s, slot), s->stride, MADV_DONTNEED);
    assert(r == 0);
    s->is_purgeable[purge_index(s, slot)] = false;
}

void halo_slabs_give_back(struct halo_slabs *s, uint32_t number)
{
    uint64_t bytes;
    uint32_t first, n;
    void *at = halo_slabs_base(s, number, &bytes, &first, &n);
    struct slab *slab = &s->slabs[number];
    if (!slab->taken)
        return;
    if (slab->locked)
        munlock(at, bytes);
    for (uint32_t slot = first; slot < first + n; slot++)
        if (halo_slabs_is_purgeable(s, slot))
            s->is_purgeable[purge_index(s, slot)] = false;
    int r = madvise(at, bytes, MADV_DONTNEED);
    assert(r == 0); /* refused only for locked pages and foreign addresses */
    r = mprotect(at, bytes, PROT_NONE);
    (void)r; /* refused when the process has too many mappings: the pages are gone all the same */
    *slab = (struct slab){0};
}

bool halo_slabs_is_taken(const struct halo_slabs *s, uint32_t slab)
{
    assert(slab < s->n);
    return s->slabs[slab].taken;
}

uint32_t halo_slabs_slab_of(const struct halo_slabs *s, uint32_t slot)
{
    assert(slot < s->options.n_slots);
    return slot / s->slots_each;
}

void *halo_slabs_slot(const struct halo_slabs *s, uint32_t slot)
{
    uint32_t slab = halo_slabs_slab_of(s, slot);
    return s->slabs[slab].taken ? s->base + slab * s->slab_stride + slot % s->slots_each * s->stride : NULL;
}

static uint64_t overlap(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end)
{
    uint64_t begin = a > b ? a : b, end = a_end < b_end ? a_end : b_end;
    return begin < end ? end - begin : 0;
}

/* A mapping may reach beyond the slabs: no more is counted of it than lies in them. */
static int64_t huge_bytes(const struct halo_slabs *s)
{
    char line[512];
    uint64_t begin, end, kib, ours = 0, first = (uintptr_t)s->base, last = first + s->n * s->slab_stride;
    int64_t sum = 0;
    FILE *file = fopen("/proc/self/smaps", "re");
    if (!file)
        return -errno;
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
            ours = overlap(begin, end, first, last);
        else if (ours > 0 && sscanf(line, "AnonHugePages: %" SCNu64 " kB", &kib) == 1)
            sum += (int64_t)(kib << 10 < ours ? kib << 10 : ours);
    }
    fclose(file);
    return sum;
}

void halo_slabs_memory(const struct halo_slabs *s, struct halo_slabs_memory *ret)
{
    *ret = (struct halo_slabs_memory){.n_slabs = s->n};
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t bytes;
        uint32_t first, n;
        halo_slabs_base(s, i, &bytes, &first, &n);
        ret->n_taken += s->slabs[i].taken;
        ret->bytes += s->slabs[i].taken ? bytes : 0;
        ret->locked_bytes += s->slabs[i].locked ? bytes : 0;
    }
    ret->huge_bytes = huge_bytes(s);
}

void halo_slabs_notices(const struct halo_slabs *s, struct halo_remarks *ret)
{
    *ret = s->notices;
}
