/* region_priv.h: one large piece of memory of a model. Device thread. */
#ifndef HALO_HIP_REGION_PRIV_H
#define HALO_HIP_REGION_PRIV_H

#include <stdint.h>

struct halo_device;

enum halo_hip_memory {
    HALO_HIP_MEMORY_DEVICE,  /* the GPU's own; no host address */
    HALO_HIP_MEMORY_WEIGHTS, /* pinned host memory that the GPU caches; not coherent while a kernel runs */
    HALO_HIP_MEMORY_PINNED,  /* pinned host memory, coherent */
    HALO_HIP_MEMORY_PAGED,   /* ordinary host memory; no device address */
};

struct halo_hip_region {
    enum halo_hip_memory kind;
    uint8_t *host, *device; /* of host memory the begin of a page, as direct reads need it */
    uint8_t *taken;         /* of pinned memory: what the runtime returned */
    uint64_t n_bytes;
};

/* 0 bytes: no memory. 0, or a negative errno with the reason. */
int halo_hip_region_take(struct halo_device *device, struct halo_hip_region *ret, enum halo_hip_memory kind,
                         uint64_t n_bytes, const char *what, char *reason);
/* Nothing happens if nothing was taken. Of a lost device the memory stays until the process ends. */
void halo_hip_region_release(struct halo_device *device, struct halo_hip_region *region);

#endif
