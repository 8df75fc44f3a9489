/* tier_memory.c: tier 3: memory on the GPU, filled from the host and read back, by pageable and by pinned memory. */
#include "tier_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PIECE_BYTES (256ul << 20)
#define SHARE_OF_FREE 8 /* a small GPU is not filled: both sides of a pinned copy may come out of the same memory */

struct trip {
    struct halo_doctor_runtime *runtime;
    void *device;
    uint64_t *host;
    size_t n_bytes;
    const char *kind; /* "pageable", "pinned" */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Another number at each place, so that a page in the wrong place is seen. */
static uint64_t number_at(size_t i, uint64_t seed) { return (i + seed) * 0x9e3779b97f4a7c15u; }

static enum halo_doctor_failure copy(struct halo_doctor_tier *tier, const struct trip *trip, int kind)
{
    bool up = kind == HIP_COPY_TO_DEVICE;
    char what[96];
    snprintf(what, sizeof(what), "%s %zu MiB %s %s memory", up ? "uploading" : "downloading", trip->n_bytes >> 20,
             up ? "from" : "to", trip->kind);
    halo_doctor_tier_phase(tier, "%s", what);
    double begin = now_s();
    int error =
        trip->runtime->api.MemcpyAsync(up ? trip->device : (void *)trip->host, up ? (void *)trip->host : trip->device,
                                       trip->n_bytes, kind, trip->runtime->stream);
    enum halo_doctor_failure failure = halo_doctor_tier_hip(tier, error, what);
    if (!failure)
        failure = halo_doctor_runtime_drain(tier, trip->runtime, what);
    if (!failure)
        halo_doctor_finding_read(tier->finding, "%s %s = %.1f GB/s", trip->kind, up ? "up" : "down",
                                 (double)trip->n_bytes / 1e9 / (now_s() - begin));
    return failure;
}

static enum halo_doctor_failure there_and_back(struct halo_doctor_tier *tier, const struct trip *trip, uint64_t seed)
{
    const size_t n = trip->n_bytes / sizeof(uint64_t);
    halo_doctor_tier_phase(tier, "filling %zu MiB of %s memory", trip->n_bytes >> 20, trip->kind);
    for (size_t i = 0; i < n; i++)
        trip->host[i] = number_at(i, seed);
    enum halo_doctor_failure failure = copy(tier, trip, HIP_COPY_TO_DEVICE);
    if (failure)
        return failure;
    memset(trip->host, 0, trip->n_bytes);
    failure = copy(tier, trip, HIP_COPY_TO_HOST);
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "comparing");
    for (size_t i = 0; i < n; i++)
        if (trip->host[i] != number_at(i, seed))
            return halo_doctor_tier_fail(tier, HALO_DOCTOR_WRONG,
                                         "byte %zu of %zu came back from the GPU changed, by way of %s memory",
                                         i * sizeof(uint64_t), trip->n_bytes, trip->kind);
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

enum halo_doctor_failure halo_doctor_tier_memory(struct halo_doctor_tier *tier)
{
    struct halo_doctor_runtime runtime;
    enum halo_doctor_failure failure = halo_doctor_runtime_open(tier, &runtime);
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "asking how much memory is free");
    struct trip trip = {.runtime = &runtime, .n_bytes = choose_bytes(&runtime), .kind = "pageable"};
    halo_doctor_finding_read(tier->finding, "size = %zu MiB", trip.n_bytes >> 20);
    halo_doctor_tier_phase(tier, "taking %zu MiB of the GPU's memory", trip.n_bytes >> 20);
    failure = halo_doctor_tier_hip(tier, runtime.api.Malloc(&trip.device, trip.n_bytes), "taking the GPU's memory");
    if (failure)
        return failure;
    trip.host = malloc(trip.n_bytes);
    if (!trip.host)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "the host has no %zu MiB left", trip.n_bytes >> 20);
    failure = there_and_back(tier, &trip, 1);
    free(trip.host);
    if (failure)
        return failure;
    void *pinned = NULL;
    halo_doctor_tier_phase(tier, "taking %zu MiB of pinned memory", trip.n_bytes >> 20);
    failure =
        halo_doctor_tier_hip(tier, runtime.api.HostMalloc(&pinned, trip.n_bytes, HIP_HOST_MAPPED | HIP_HOST_COHERENT),
                             "taking pinned memory");
    if (failure)
        return failure;
    trip.host = pinned;
    trip.kind = "pinned";
    failure = there_and_back(tier, &trip, 2);
    if (!failure)
        halo_doctor_finding_say(tier->finding, HALO_DOCTOR_PASS, "All %zu MiB came back as they were, both ways.",
                                trip.n_bytes >> 20);
    return failure;
}
