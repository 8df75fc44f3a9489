/* memory.c: how much memory models may take. Any thread.
 *
 * On an integrated GPU the runtime's own figure counts one pool or the other by kernel version, so the driver's files
 * are asked: the larger of GTT and VRAM is what allocations come from, and no more than the host has left. Elsewhere
 * the runtime knows.
 */
#include <stdio.h>
#include <string.h>

#include "device_priv.h"

#define CARDS_MAX 8

static bool read_number(uint32_t card, const char *name, uint64_t *ret)
{
    char path[96];
    unsigned long long n;
    snprintf(path, sizeof(path), "/sys/class/drm/card%u/device/%s", card, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fscanf(file, "%llu", &n) == 1;
    fclose(file);
    *ret = ok ? n : 0;
    return ok;
}

static bool driver_memory(uint64_t *ret_total, uint64_t *ret_free)
{
    for (uint32_t card = 0; card < CARDS_MAX; card++) {
        uint64_t gtt, gtt_used, vram, vram_used;
        if (!read_number(card, "mem_info_gtt_total", &gtt) || !read_number(card, "mem_info_gtt_used", &gtt_used) ||
            !read_number(card, "mem_info_vram_total", &vram) || !read_number(card, "mem_info_vram_used", &vram_used))
            continue;
        /* Some kernels let the used figure run below zero. */
        gtt_used = gtt_used <= gtt ? gtt_used : 0;
        vram_used = vram_used <= vram ? vram_used : 0;
        *ret_total = gtt > vram ? gtt : vram;
        *ret_free = gtt > vram ? gtt - gtt_used : vram - vram_used;
        return true;
    }
    return false;
}

static uint64_t host_free(void)
{
    char line[128];
    unsigned long long kib, bytes = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            bytes = kib * 1024;
    if (file)
        fclose(file);
    return bytes;
}

void halo_hip_memory(const struct halo_device *device, uint64_t *ret_total, uint64_t *ret_free)
{
    size_t available = 0, total = 0;
    *ret_total = *ret_free = 0;
    if (device->properties.integrated && driver_memory(ret_total, ret_free)) {
        uint64_t host = host_free();
        *ret_free = *ret_free < host ? *ret_free : host;
        return;
    }
    /* The runtime may be asked only while it answers. */
    if (!atomic_load(&device->lost) && device->api.MemGetInfo(&available, &total) == HIP_SUCCESS) {
        *ret_total = total;
        *ret_free = available;
    }
}
