/* memory.c: tier 3, and the uploads of bringup: memory on the GPU, filled from the host and read back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <client/clock.h>

#include "tier_priv.h"

#define PIECE_BYTES (256ul << 20)
#define SHARE_OF_FREE 8 /* a small GPU is not filled: both sides of a pinned copy may come out of the same memory */

struct trip {
    struct halo_doctor_runtime *runtime;
    enum halo_doctor_path path;
    void *device;
    uint64_t *host;
    void *seen; /* the host's memory as the GPU sees it, which is read in place; NULL: it is copied from the host */
    size_t n_bytes;
};

static const char *const path_names[] = {"pageable", "pinned", "zero-copy"};

/* Another number at each place, so that a page in the wrong place is seen. */
static uint64_t number_at(size_t i, uint64_t seed)
{
    return (i + seed) * 0x9e3779b97f4a7c15u;
}

static enum halo_doctor_failure copy(struct halo_doctor_tier *tier, const struct trip *trip, bool up)
{
    struct halo_hip_api *api = &trip->runtime->api;
    void *stream = trip->runtime->stream, *from = trip->seen ? trip->seen : trip->host;
    char what[96];
    snprintf(what, sizeof(what), "%s %zu MiB %s %s memory", up ? "uploading" : "downloading", trip->n_bytes >> 20,
             up ? "from" : "to", path_names[trip->path]);
    halo_doctor_tier_phase(tier, "%s", what);
    double begin = halo_client_now_s();
    int r = up ? api->MemcpyAsync(trip->device, from, trip->n_bytes,
                                  trip->seen ? HIP_COPY_ON_DEVICE : HIP_COPY_TO_DEVICE, stream)
               : api->MemcpyAsync(trip->host, trip->device, trip->n_bytes, HIP_COPY_TO_HOST, stream);
    enum halo_doctor_failure failure = halo_doctor_tier_hip(tier, r, what);
    if (!failure)
        failure = halo_doctor_runtime_drain(tier, trip->runtime, what);
    if (!failure)
        halo_doctor_finding_read(tier->finding, "%s %s = %.1f GB/s", path_names[trip->path], up ? "up" : "down",
                                 (double)trip->n_bytes / 1e9 / (halo_client_now_s() - begin));
    return failure;
}

static enum halo_doctor_failure there_and_back(struct halo_doctor_tier *tier, const struct trip *trip, uint64_t seed)
{
    const size_t n = trip->n_bytes / sizeof(uint64_t);
    halo_doctor_tier_phase(tier, "filling %zu MiB of %s memory", trip->n_bytes >> 20, path_names[trip->path]);
    for (size_t i = 0; i < n; i++)
        trip->host[i] = number_at(i, seed);
    enum halo_doctor_failure failure = copy(tier, trip, true);
    if (failure)
        return failure;
    memset(trip->host, 0, trip->n_bytes);
    failure = copy(tier, trip, false);
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "comparing");
    for (size_t i = 0; i < n; i++)
        if (trip->host[i] != number_at(i, seed))
            return halo_doctor_tier_fail(tier, HALO_DOCTOR_WRONG,
                                         "byte %zu of %zu came back changed from the GPU, through %s memory",
                                         i * sizeof(uint64_t), trip->n_bytes, path_names[trip->path]);
    return HALO_DOCTOR_FINE;
}

/* 256 MiB, and less where that is much of what is free. Whole pages, 1 MiB at least. */
static size_t choose_bytes(const struct halo_doctor_runtime *runtime)
{
    size_t available = 0, total = 0, n = PIECE_BYTES;
    if (runtime->api.MemGetInfo(&available, &total) == HIP_SUCCESS)
        while (n > 1 << 20 && n > available / SHARE_OF_FREE)
            n /= 2;
    return n;
}

static enum halo_doctor_failure take_host(struct halo_doctor_tier *tier, struct trip *trip)
{
    struct halo_hip_api *api = &trip->runtime->api;
    void *host = NULL;
    halo_doctor_tier_phase(tier, "taking %zu MiB of %s memory", trip->n_bytes >> 20, path_names[trip->path]);
    if (trip->path == HALO_DOCTOR_PAGEABLE) {
        trip->host = malloc(trip->n_bytes);
        return trip->host ? HALO_DOCTOR_FINE
                          : halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "the host has no %zu MiB left",
                                                  trip->n_bytes >> 20);
    }
    unsigned kind = trip->path == HALO_DOCTOR_PINNED ? HIP_HOST_COHERENT : HIP_HOST_NON_COHERENT; /* as weights lie */
    int r = api->HostMalloc(&host, trip->n_bytes, HIP_HOST_MAPPED | kind);
    if (!r && trip->path == HALO_DOCTOR_ZERO_COPY)
        r = api->HostGetDevicePointer(&trip->seen, host, 0);
    trip->host = host;
    return halo_doctor_tier_hip(tier, r, "taking pinned memory");
}

static enum halo_doctor_failure go(struct halo_doctor_tier *tier, struct trip *trip, enum halo_doctor_path path)
{
    trip->path = path;
    enum halo_doctor_failure failure = take_host(tier, trip);
    if (!failure)
        failure = there_and_back(tier, trip, (uint64_t)path + 1);
    if (path == HALO_DOCTOR_PAGEABLE)
        free(trip->host);
    return failure;
}

static enum halo_doctor_failure begin(struct halo_doctor_tier *tier, struct halo_doctor_runtime *runtime,
                                      struct trip *ret)
{
    enum halo_doctor_failure failure = halo_doctor_runtime_open(tier, runtime);
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "asking how much memory is free");
    *ret = (struct trip){.runtime = runtime, .n_bytes = choose_bytes(runtime)};
    halo_doctor_finding_read(tier->finding, "size = %zu MiB", ret->n_bytes >> 20);
    halo_doctor_tier_phase(tier, "taking %zu MiB of the GPU's memory", ret->n_bytes >> 20);
    return halo_doctor_tier_hip(tier, runtime->api.Malloc(&ret->device, ret->n_bytes), "taking the GPU's memory");
}

enum halo_doctor_failure halo_doctor_trip(struct halo_doctor_tier *tier, enum halo_doctor_path path)
{
    struct halo_doctor_runtime runtime;
    struct trip trip;
    enum halo_doctor_failure failure = begin(tier, &runtime, &trip);
    return failure ? failure : go(tier, &trip, path);
}

enum halo_doctor_failure halo_doctor_tier_memory(struct halo_doctor_tier *tier)
{
    struct halo_doctor_runtime runtime;
    struct trip trip;
    enum halo_doctor_failure failure = begin(tier, &runtime, &trip);
    if (!failure)
        failure = go(tier, &trip, HALO_DOCTOR_PAGEABLE);
    if (!failure)
        failure = go(tier, &trip, HALO_DOCTOR_PINNED);
    if (!failure)
        halo_doctor_finding_say(tier->finding, HALO_DOCTOR_PASS, "All %zu MiB came back unchanged, both ways.",
                                trip.n_bytes >> 20);
    return failure;
}
