/* memory.c: how much memory models may take. Any thread.
 *
 * On an integrated GPU the runtime's own figure counts one pool or the other by kernel version, so the driver's
 * counters of that GPU are read: the larger of GTT and VRAM is what allocations come from, and no more than the host
 * has left. Elsewhere, and where the driver has no counters, the runtime knows.
 */
#include <ctype.h>
#include <stdio.h>

#include <common/host_memory.h>

#include "device_priv.h"

static bool read_number(const char *sysfs, const char *pci, const char *name, uint64_t *ret)
{
    char path[256];
    unsigned long long n;
    snprintf(path, sizeof(path), "%.160s/bus/pci/devices/%.24s/%s", sysfs, pci, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fscanf(file, "%llu", &n) == 1;
    fclose(file);
    *ret = ok ? n : 0;
    return ok;
}

bool halo_hip_driver_memory(const char *sysfs, const char *pci, uint64_t *ret_total, uint64_t *ret_free)
{
    uint64_t gtt, gtt_used, vram, vram_used;
    char id[HALO_HIP_PCI_BYTES]; /* sysfs has it in lower case */
    size_t n = 0;
    for (; pci[n] && n + 1 < sizeof(id); n++)
        id[n] = (char)tolower((unsigned char)pci[n]);
    id[n] = '\0';
    if (n == 0 || !read_number(sysfs, id, "mem_info_gtt_total", &gtt) ||
        !read_number(sysfs, id, "mem_info_gtt_used", &gtt_used) ||
        !read_number(sysfs, id, "mem_info_vram_total", &vram) ||
        !read_number(sysfs, id, "mem_info_vram_used", &vram_used))
        return false;
    /* Some kernels let the used figure run below zero. */
    gtt_used = gtt_used <= gtt ? gtt_used : 0;
    vram_used = vram_used <= vram ? vram_used : 0;
    *ret_total = gtt > vram ? gtt : vram;
    *ret_free = gtt > vram ? gtt - gtt_used : vram - vram_used;
    return true;
}

void halo_hip_memory(const struct halo_device *device, uint64_t *ret_total, uint64_t *ret_free)
{
    size_t available = 0, total = 0;
    *ret_total = *ret_free = 0;
    if (device->properties.integrated && halo_hip_driver_memory("/sys", device->pci, ret_total, ret_free)) {
        uint64_t host_total, host_free;
        halo_host_memory("/proc", NULL, &host_total, &host_free);
        *ret_free = *ret_free < host_free ? *ret_free : host_free;
        return;
    }
    /* The runtime may be asked only while it answers. */
    if (!atomic_load(&device->lost) && device->api.MemGetInfo(&available, &total) == HIP_SUCCESS) {
        *ret_total = total;
        *ret_free = available;
    }
}
