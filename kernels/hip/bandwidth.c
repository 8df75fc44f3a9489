/* bandwidth.c: the bandwidth of the GPU's memory: a copy within it, counted as bytes read plus bytes written.
 *
 * For a bench, which has the device to itself: takes two buffers far larger than any cache and gives them back. 0 where
 * they do not fit. Device thread.
 */
#include <common/clock.h>

#include "device_priv.h"

#define PIECE_BYTES (512ull << 20)
#define PIECE_BYTES_MIN (64ull << 20)
#define BATCH 4 /* copies between two readings of the clock */
#define MEASURE_S 0.1

static double now_s(void)
{
    return (double)halo_monotonic_ns() * 1e-9;
}

static int copy(struct halo_device *device, const struct halo_hip_region *from, const struct halo_hip_region *to)
{
    int r = 0;
    for (int i = 0; i < BATCH && !r; i++)
        r = halo_hip_check(
            device,
            device->api.MemcpyAsync(to->device, from->device, from->n_bytes, HIP_COPY_ON_DEVICE, device->stream),
            "measuring the bandwidth", NULL);
    return r ? r : halo_hip_drain(device, "measuring the bandwidth", NULL);
}

/* The fastest batch within MEASURE_S: other users of the machine can only slow a batch down. */
static double measure(struct halo_device *device, const struct halo_hip_region *from, const struct halo_hip_region *to)
{
    double best = 0, begin = now_s(), last = begin;
    if (copy(device, from, to)) /* the first touch of the pages */
        return 0;
    do {
        double start = now_s();
        if (copy(device, from, to))
            return 0;
        last = now_s();
        double rate = 2.0 * BATCH * (double)from->n_bytes / (last - start);
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
            best = measure(device, &from, &to);
        halo_hip_region_release(device, &from);
        halo_hip_region_release(device, &to);
        if (halo_hip_usable(device, NULL))
            return 0;
    }
    return best;
}
