/* handles_priv.h: the objects of one session behind the client's handles.
 *
 * The client picks index and generation; an index is used again only with a greater generation, so that a handle of a
 * destroyed object never means its successor. One thread.
 */
#ifndef HALO_WORKER_HANDLES_PRIV_H
#define HALO_WORKER_HANDLES_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include <hip_remote/handle.h>

struct halo_handle_slot {
    void *object; /* NULL: not live */
    uint32_t generation;
};

struct halo_handles {
    struct halo_handle_slot *slots;
    enum halo_remote_handle_type type;
    uint32_t n, n_live;
    uint32_t n_used; /* slots from here on were never live */
};

int halo_handles_init(struct halo_handles *h, enum halo_remote_handle_type type, uint32_t n); /* 0 or -ENOMEM */
void halo_handles_finish(struct halo_handles *h);                                             /* the slots alone */

/* Whether a new object may have this handle: 0, or the HIP error. */
int halo_handles_check_new(const struct halo_handles *h, uint64_t bits);
/* After a check. */
void halo_handles_put(struct halo_handles *h, uint64_t bits, void *object);
/* NULL: a forged handle, or one of an object that was destroyed. */
void *halo_handles_get(const struct halo_handles *h, uint64_t bits);
/* The same, and the handle is dead. */
void *halo_handles_take(struct halo_handles *h, uint64_t bits);

#endif
