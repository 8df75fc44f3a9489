/* prefetch_priv.h: the thread that reads weights into their places, and files at random to measure their drive. */
#ifndef HALO_ENGINE_PREFETCH_PRIV_H
#define HALO_ENGINE_PREFETCH_PRIV_H

#include <pthread.h>

#include <kernels/device.h>

#include <engine/load.h>
#include <engine/profile.h>

struct halo_prefetch_thread {
    pthread_t thread;
    struct halo_mailbox box;
    struct halo_mailbox *port, *io, *device;
    struct halo_phase phase;
    const struct halo_device_ops *ops;
};

/* Starts it. 0 or a negative errno. It ends with the process. */
int halo_prefetch_thread_start(struct halo_prefetch_thread *prefetch);

/* The stage READ of a load. */
enum halo_load_stage halo_prefetch_read(struct halo_load *load, const struct halo_load_threads *threads);

#endif
