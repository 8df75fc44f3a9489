/* device_priv.h: what the files of the device thread share. On the floor device_state.c; on it device_load.c (the
 * stages of a load that are the device's) and device_save.c (prefixes out of a pool); on these device_thread.c (the
 * loop, sequences, benches). */
#ifndef HALO_ENGINE_DEVICE_PRIV_H
#define HALO_ENGINE_DEVICE_PRIV_H

#include <engine/keep.h>

#include "device/device_thread_priv.h"

static inline void halo_device_set_phase(struct halo_device_thread *thread, const char *what)
{
    atomic_store(&thread->phase.what, what);
}

/* device_state.c */
/* Whether work can be done at all; otherwise the fault says why. */
bool halo_device_usable(struct halo_device_thread *thread, struct halo_fault *fault);
/* What a negative errno of the device means for everything else: when the device is lost, all sequences end. */
void halo_device_on_failure(struct halo_device_thread *thread, int error);
/* The same of a fault that may be the device's. */
void halo_device_on_fault(struct halo_device_thread *thread, const struct halo_fault *fault);
/* Describes the device again, for those who ask halo_device_thread_info(), and with it the budget that nobody has set:
 * what is free while there are no models; beside models it only grows, and by no more than is free for sure when none
 * of their KV pages has been touched yet. */
void halo_device_refresh_info(struct halo_device_thread *thread);
void halo_device_forget_model(struct halo_device_thread *thread, struct halo_instance *instance);
/* What a load may take now: what is free, and no more than the models that are there leave of the budget. */
struct halo_room halo_device_room(struct halo_device_thread *thread);
/* Bytes of a page or slot of each group of its plan; 0 for groups that it does not have. */
void halo_device_page_bytes(const struct halo_device_thread *thread, const struct halo_instance *instance,
                            uint64_t ret[HALO_KV_GROUPS_MAX]);

/* device_save.c: the next chunk, or the end when the last one was written or something failed. */
void halo_device_save_pages(struct halo_device_thread *thread, struct halo_save *save);

#endif
