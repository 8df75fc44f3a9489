/* region.c: the few large regions of memory of a model. Device thread.
 *
 * Never a file mapping: pinning one is the most common hang on load. The runtime's functions that take or free memory
 * wait for all queued work, without a limit: that work is waited for here before, with the deadline of every wait.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "device_priv.h"

static int take_paged(struct halo_hip_region *ret, uint64_t n_bytes, const char *what, char *reason)
{
    /* Reserved only: pages are backed as weights are read. */
    void *base = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return halo_reason(reason, -ENOMEM, "the %s need %.1f MiB of addresses: %s", what,
                           (double)n_bytes / (1024 * 1024), strerror(errno));
    madvise(base, n_bytes, MADV_HUGEPAGE); /* advice only */
    ret->host = base;
    return 0;
}

/* Runtimes return pages as a rule, but NVIDIA's puts small pieces side by side. */
static int take_pinned(struct halo_device *device, struct halo_hip_region *ret, uint64_t n_bytes)
{
    unsigned flags =
        HIP_HOST_MAPPED | (ret->kind == HALO_HIP_MEMORY_WEIGHTS ? HIP_HOST_NON_COHERENT : HIP_HOST_COHERENT);
    void *p = NULL, *seen = NULL;
    int r = device->api.HostMalloc(&p, n_bytes, flags);
    if (!r && (uintptr_t)p % HALO_HIP_PAGE_BYTES != 0) {
        device->api.HostFree(p);
        r = device->api.HostMalloc(&p, n_bytes + HALO_HIP_PAGE_BYTES, flags);
    }
    if (r)
        return r;
    uint64_t skipped = -(uintptr_t)p % HALO_HIP_PAGE_BYTES;
    ret->taken = p;
    ret->host = ret->taken + skipped;
    /* Only a GPU that shares the host's memory is given it; a remote one has no address for it. */
    if (device->properties.integrated && (r = device->api.HostGetDevicePointer(&seen, p, 0)) == 0)
        ret->device = (uint8_t *)seen + skipped;
    return r;
}

int halo_hip_region_take(struct halo_device *device, struct halo_hip_region *ret, enum halo_hip_memory kind,
                         uint64_t n_bytes, const char *what, char *reason)
{
    void *p = NULL;
    int r = 0;
    *ret = (struct halo_hip_region){.kind = kind, .n_bytes = n_bytes};
    if (n_bytes > PTRDIFF_MAX - HALO_HIP_PAGE_BYTES)
        return halo_reason(reason, -ENOMEM, "the %s would need more memory than a process can address", what);
    if (n_bytes == 0)
        return 0;
    if (kind != HALO_HIP_MEMORY_PAGED && (r = halo_hip_drain(device, "the work before memory is taken", reason)) != 0)
        return r;
    switch (kind) {
    case HALO_HIP_MEMORY_PAGED: return take_paged(ret, n_bytes, what, reason);
    case HALO_HIP_MEMORY_DEVICE:
        r = device->api.Malloc(&p, n_bytes);
        ret->device = r ? NULL : p;
        break;
    case HALO_HIP_MEMORY_WEIGHTS:
    case HALO_HIP_MEMORY_PINNED: r = take_pinned(device, ret, n_bytes); break;
    }
    if (!r)
        return 0;
    char sentence[96];
    snprintf(sentence, sizeof(sentence), "%.1f MiB for the %s", (double)n_bytes / (1024 * 1024), what);
    halo_hip_region_release(device, ret);
    return halo_hip_check(device, r, sentence, reason);
}

void halo_hip_region_release(struct halo_device *device, struct halo_hip_region *region)
{
    /* A lost device may never answer; its memory ends with the process. */
    if (region->kind != HALO_HIP_MEMORY_PAGED && (region->device || region->host) &&
        (atomic_load(&device->lost) || halo_hip_drain(device, "the work before memory is freed", NULL) != 0)) {
        *region = (struct halo_hip_region){0};
        return;
    }
    switch (region->kind) {
    case HALO_HIP_MEMORY_PAGED:
        if (region->host)
            munmap(region->host, region->n_bytes);
        break;
    case HALO_HIP_MEMORY_DEVICE:
        if (region->device)
            device->api.Free(region->device);
        break;
    case HALO_HIP_MEMORY_WEIGHTS:
    case HALO_HIP_MEMORY_PINNED:
        if (region->taken)
            device->api.HostFree(region->taken);
        break;
    }
    *region = (struct halo_hip_region){0};
}
