/* bandwidth.c: the bandwidth of the GPU's memory: a copy within it, counted as bytes read plus bytes written; that of
 * copies from the host; the cost of a launch.
 *
 * For a bench or a profile, which have the device to themselves: takes buffers far larger than any cache and gives them
 * back. 0 where they do not fit. Device thread.
 */
#include <stdlib.h>

#include <common/clock.h>

#include "device_priv.h"

#define PIECE_BYTES (512ull << 20)
#define PIECE_BYTES_MIN (64ull << 20)
#define BATCH 4 /* copies between two readings of the clock */
#define MEASURE_S 0.1
#define LAUNCHES 64
#define LAUNCH_BYTES 4096

static double now_s(void)
{
    return (double)halo_monotonic_ns() * 1e-9;
}

static int copy(struct halo_device *device, const struct halo_hip_region *from, const struct halo_hip_region *to,
                int kind)
{
    int r = 0;
    for (int i = 0; i < BATCH && !r; i++)
        r = halo_hip_check(device,
                           device->api.MemcpyAsync(to->device, kind == HIP_COPY_TO_DEVICE ? from->host : from->device,
                                                   from->n_bytes, kind, device->stream),
                           "measuring the bandwidth", NULL);
    return r ? r : halo_hip_drain(device, "measuring the bandwidth", NULL);
}

/* Copies per second times their bytes: the fastest batch within MEASURE_S, for other users of the machine can only slow
 * a batch down. */
static double measure(struct halo_device *device, const struct halo_hip_region *from, const struct halo_hip_region *to,
                      int kind)
{
    double best = 0, begin = now_s(), last = begin;
    if (copy(device, from, to, kind)) /* the first touch of the pages */
        return 0;
    do {
        double start = now_s();
        if (copy(device, from, to, kind))
            return 0;
        last = now_s();
        double rate = BATCH * (double)from->n_bytes / (last - start);
        best = rate > best ? rate : best;
    } while (last - begin < MEASURE_S);
    return best;
}

double halo_hip_measure_bandwidth(struct halo_device *device)
{
    double best = 0;
    if (halo_hip_usable(device, NULL))
        return 0;
    for (uint64_t n_bytes = PIECE_BYTES; n_bytes >= PIECE_BYTES_MIN && best == 0; n_bytes /= 2) {
        struct halo_hip_region from = {0}, to = {0};
        if (halo_hip_region_take(device, &from, HALO_HIP_MEMORY_DEVICE, n_bytes, "bandwidth", NULL) == 0 &&
            halo_hip_region_take(device, &to, HALO_HIP_MEMORY_DEVICE, n_bytes, "bandwidth", NULL) == 0)
            best = 2 * measure(device, &from, &to, HIP_COPY_ON_DEVICE); /* read and written */
        halo_hip_region_release(device, &from);
        halo_hip_region_release(device, &to);
        if (halo_hip_usable(device, NULL))
            return 0;
    }
    return best;
}

/* ---- costs ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of small fills, which the runtime launches as kernels, each waited for. */
static double measure_launch(struct halo_device *device, const struct halo_hip_region *to)
{
    double times[LAUNCHES];
    for (int i = -1; i < LAUNCHES; i++) { /* the first one loads the kernel */
        double start = now_s();
        if (halo_hip_check(device, device->api.MemsetAsync(to->device, 0, LAUNCH_BYTES, device->stream),
                           "measuring a launch", NULL) ||
            halo_hip_drain(device, "measuring a launch", NULL))
            return 0;
        if (i >= 0)
            times[i] = now_s() - start;
    }
    qsort(times, LAUNCHES, sizeof(*times), by_value);
    return times[LAUNCHES / 2];
}

void halo_hip_measure_costs(struct halo_device *device, struct halo_device_costs *ret)
{
    struct halo_hip_region from = {0}, to = {0};
    *ret = (struct halo_device_costs){0};
    if (halo_hip_usable(device, NULL))
        return;
    if (halo_hip_region_take(device, &to, HALO_HIP_MEMORY_DEVICE, PIECE_BYTES_MIN, "costs", NULL) == 0)
        ret->launch_s = measure_launch(device, &to);
    if (ret->launch_s > 0 && !device->properties.integrated &&
        halo_hip_region_take(device, &from, HALO_HIP_MEMORY_PINNED, PIECE_BYTES_MIN, "costs", NULL) == 0)
        ret->copy_bytes_s = measure(device, &from, &to, HIP_COPY_TO_DEVICE);
    halo_hip_region_release(device, &from);
    halo_hip_region_release(device, &to);
}
