/* slab.h: memory for slots of one size, in slabs that are given back and taken again whole.
 *
 * A slab is at most 1 GiB of anonymous memory (one registered buffer of io_uring, one registration with a GPU), or one
 * slot that is larger, aligned to 2 MiB, with MADV_HUGEPAGE and MADV_DONTFORK, every page in place
 * (MADV_POPULATE_WRITE) before it is handed out. A slot lies in one slab, begins on a HALO_HULL_ALIGN boundary and has
 * HALO_HULL_ALIGN bytes more than was asked for, so that the hull of a direct read of `slot_bytes` fits at any offset
 * congruent to the file's.
 *
 * Addresses never move: a slab that was given back keeps its range, which faults when touched. Giving a slab back while
 * reads into it are in flight or a device has it registered is a programmer's error.
 *
 * A slot can be made purgeable while nobody uses what is in it: when memory is short the kernel takes its pages by
 * itself (MADV_FREE), before it kills anything, and whoever keeps the slot again is told whether the bytes are still
 * there.
 *
 * Threads: one at a time for each slab, and one at a time that takes slabs or gives them back.
 */
#ifndef HALO_STORE_SLAB_H
#define HALO_STORE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <base/remarks.h>

#include <store/hull.h>

#define HALO_SLAB_BYTES_MAX ((uint64_t)1 << 30)

struct halo_slabs;

struct halo_slabs_options {
    uint64_t slot_bytes;  /* at least 1; with the slack at most slab_bytes */
    uint32_t n_slots;     /* at least 1 */
    uint64_t slab_bytes;  /* at most HALO_SLAB_BYTES_MAX, unless it holds one slot; 0: that */
    bool lock;            /* mlock: for memory that no device pins. Refused by the limit: a notice, not a failure */
    uint32_t n_purgeable; /* that slots from this many before the end on may be made purgeable: 8 bytes for each page */
};

struct halo_slabs_memory {
    uint32_t n_slabs, n_taken;
    uint64_t bytes;        /* of the slabs that are taken */
    uint64_t locked_bytes; /* of these */
    /* Of these, in huge pages by /proc/self/smaps; -errno when that cannot be read. */
    int64_t huge_bytes;
};

/* Reserves the addresses; no slab is taken yet. 0, or negative with the fault: BAD_REQUEST (sizes), OUT_OF_MEMORY. */
int halo_slabs_create(const struct halo_slabs_options *options, struct halo_slabs **ret, struct halo_fault *fault);
void halo_slabs_destroy(struct halo_slabs *slabs); /* NULL is accepted */

uint32_t halo_slabs_n(const struct halo_slabs *slabs);
/* The bytes from one slot to the next. */
uint64_t halo_slabs_stride(const struct halo_slabs *slabs);
/* Start and bytes of one slab, for who registers it; the slots [ret_first, ret_first + ret_n) lie in it. */
void *halo_slabs_base(const struct halo_slabs *slabs, uint32_t slab, uint64_t *ret_bytes, uint32_t *ret_first,
                      uint32_t *ret_n);

/* Puts every page of the slab in place: about 0.1 to 0.3 s for 1 GiB, so not on the device thread during a step. 0, or
 * negative with the fault: OUT_OF_MEMORY. A memory cgroup at its limit kills instead of refusing: the caller has a
 * budget. Nothing happens if it is taken. */
int halo_slabs_take(struct halo_slabs *slabs, uint32_t slab, struct halo_fault *fault);
/* Its pages go back to the kernel at once. Nothing happens if it is not taken. */
void halo_slabs_give_back(struct halo_slabs *slabs, uint32_t slab);
bool halo_slabs_is_taken(const struct halo_slabs *slabs, uint32_t slab);

/* The memory of a slot; NULL while its slab is not taken. */
void *halo_slabs_slot(const struct halo_slabs *slabs, uint32_t slot);
uint32_t halo_slabs_slab_of(const struct halo_slabs *slabs, uint32_t slot);

/* The kernel may take the slot's pages from now on: no read into it is in flight, nobody uses it, its slab is taken and
 * is not locked. Up to 0.1 ms a MiB. 0, or a negative errno: this kernel cannot do that, and nothing has changed. */
int halo_slabs_make_purgeable(struct halo_slabs *slabs, uint32_t slot);
/* The slot stays in memory again. False: the kernel took some of it, and what was in it is lost. */
bool halo_slabs_keep(struct halo_slabs *slabs, uint32_t slot);
bool halo_slabs_is_purgeable(const struct halo_slabs *slabs, uint32_t slot);
/* A hint: whether the kernel has taken the first page of a purgeable slot, which takes the slots in the order in which
 * they became purgeable. Leaves the pages alone; some 0.3 us. */
bool halo_slabs_looks_purged(const struct halo_slabs *slabs, uint32_t slot);
/* What is left of a purgeable slot goes back to the kernel. It is not purgeable any more; its pages come back, with
 * zeros, when they are used. */
void halo_slabs_discard(struct halo_slabs *slabs, uint32_t slot);

/* Reads /proc/self/smaps: some milliseconds. */
void halo_slabs_memory(const struct halo_slabs *slabs, struct halo_slabs_memory *ret);
/* The limits that were met, with the number and the line to type. */
void halo_slabs_notices(const struct halo_slabs *slabs, struct halo_remarks *ret);

#endif
