/* runtime.c: tiers 1 and 2: the HIP runtime is there and sees the GPU; it initialises, and has the kernels. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <hip/hip.h>
#include <kernels/device.h>

#include "tier_priv.h"

#define GPUS_MAX 16
#define PAUSE_NS 50000 /* of the first look at an event; each is longer than the one before */
#define PAUSE_MAX_NS 10000000

static enum halo_doctor_failure open_library(struct halo_doctor_tier *tier, struct halo_hip_api *api)
{
    char reason[HALO_DEVICE_REASON] = "";
    halo_doctor_tier_phase(tier, "opening the HIP runtime");
    if (halo_hip_api_open(api, tier->options->hip_lib, reason))
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "%s", reason);
    return HALO_DOCTOR_FINE;
}

/* How many GPUs; the runtime initialises itself here. */
static enum halo_doctor_failure count_gpus(struct halo_doctor_tier *tier, const struct halo_hip_api *api, int *ret)
{
    halo_doctor_tier_phase(tier, "calling hipInit");
    enum halo_doctor_failure failure = halo_doctor_tier_hip(tier, api->Init(0), "hipInit");
    *ret = 0;
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "counting GPUs");
    failure = halo_doctor_tier_hip(tier, api->GetDeviceCount(ret), "hipGetDeviceCount");
    if (!failure && *ret <= 0)
        failure = halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "%s finds no GPU", api->path);
    return failure;
}

/* The first Strix Halo, else the first of all, as a box may have a card beside its own GPU. */
static enum halo_doctor_failure choose_gpu(struct halo_doctor_tier *tier, const struct halo_hip_api *api,
                                           struct halo_hip_properties *ret, int *ret_index)
{
    int n;
    enum halo_doctor_failure failure = count_gpus(tier, api, &n);
    *ret_index = 0;
    for (int i = 0; i < n && i < GPUS_MAX && !failure; i++) {
        struct halo_hip_properties properties;
        halo_doctor_tier_phase(tier, "reading the properties of GPU %d", i);
        failure = halo_doctor_tier_hip(tier, halo_hip_api_properties(api, i, &properties), "properties of the GPU");
        if (failure)
            break;
        halo_doctor_finding_read(tier->finding, "GPU %d = %s, %u units, waves of %u, %s memory", i, properties.arch,
                                 properties.n_units, properties.wave_size, properties.integrated ? "shared" : "own");
        bool better = strcmp(properties.arch, "gfx1151") == 0 && strcmp(ret->arch, "gfx1151") != 0;
        if (i == 0 || better) {
            *ret = properties;
            *ret_index = i;
        }
    }
    return failure;
}

static const char *version_text(int version, char text[32])
{
    snprintf(text, 32, "%d.%d", version / 10000000, version / 100000 % 100);
    return text;
}

enum halo_doctor_failure halo_doctor_tier_sees(struct halo_doctor_tier *tier)
{
    struct halo_hip_api api;
    struct halo_hip_properties chosen = {0};
    char text[32];
    int index, version = 0;
    enum halo_doctor_failure failure = open_library(tier, &api);
    if (failure)
        return failure;
    halo_doctor_finding_read(tier->finding, "runtime = %s", api.path);
    halo_doctor_tier_phase(tier, "asking for the runtime's version");
    if (api.RuntimeGetVersion(&version) == HIP_SUCCESS)
        halo_doctor_finding_read(tier->finding, "version = %s", version_text(version, text));
    failure = choose_gpu(tier, &api, &chosen, &index);
    if (failure)
        return failure;
    halo_doctor_finding_say(tier->finding, HALO_DOCTOR_PASS, "The runtime sees %s.", chosen.arch);
    return HALO_DOCTOR_FINE;
}

enum halo_doctor_failure halo_doctor_runtime_drain(struct halo_doctor_tier *tier, struct halo_doctor_runtime *runtime,
                                                   const char *what)
{
    int r = runtime->api.EventRecord(runtime->event, runtime->stream);
    if (r)
        return halo_doctor_tier_hip(tier, r, what);
    for (long pause_ns = PAUSE_NS; (r = runtime->api.EventQuery(runtime->event)) == HIP_ERROR_NOT_READY;) {
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns += pause_ns / 16; /* what is waited for is at most that much older when it is seen */
        pause_ns = pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
    }
    return halo_doctor_tier_hip(tier, r, what);
}

enum halo_doctor_failure halo_doctor_runtime_open(struct halo_doctor_tier *tier, struct halo_doctor_runtime *ret)
{
    struct halo_doctor_finding scratch = *tier->finding, *finding = tier->finding;
    int index;
    *ret = (struct halo_doctor_runtime){0};
    tier->finding = &scratch; /* tier 1 said it */
    enum halo_doctor_failure failure = open_library(tier, &ret->api);
    if (!failure)
        failure = choose_gpu(tier, &ret->api, &ret->properties, &index);
    tier->finding = finding;
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "choosing GPU %d", index);
    failure = halo_doctor_tier_hip(tier, ret->api.SetDevice(index), "hipSetDevice");
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "making a stream");
    failure = halo_doctor_tier_hip(tier, ret->api.StreamCreateWithFlags(&ret->stream, HIP_STREAM_NON_BLOCKING),
                                   "making a stream");
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "making an event");
    return halo_doctor_tier_hip(tier, ret->api.EventCreateWithFlags(&ret->event, HIP_EVENT_NO_TIMING),
                                "making an event");
}

/* As the engine does it: the GPU that has kernels, and they are loaded. */
static enum halo_doctor_failure load_kernels(struct halo_doctor_tier *tier)
{
    char reason[HALO_DEVICE_REASON] = "";
    struct halo_device *device = NULL;
    struct halo_device_info info;
    const struct halo_device_options options = {.library = tier->options->hip_lib};
    halo_doctor_tier_phase(tier, "loading the kernels");
    int r = halo_device_hip()->open(&device, &options, reason);
    if (r)
        return halo_doctor_tier_device(tier, r, reason);
    halo_device_hip()->describe(device, &info);
    halo_doctor_finding_read(tier->finding, "device = %s", info.detail);
    halo_doctor_finding_read(tier->finding, "memory = %.1f GiB, %.1f free", (double)info.memory_bytes / 0x1p30,
                             (double)info.free_bytes / 0x1p30);
    return HALO_DOCTOR_FINE;
}

enum halo_doctor_failure halo_doctor_tier_initialises(struct halo_doctor_tier *tier)
{
    struct halo_doctor_runtime runtime;
    enum halo_doctor_failure failure = halo_doctor_runtime_open(tier, &runtime);
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "waiting for an event of an empty stream");
    failure = halo_doctor_runtime_drain(tier, &runtime, "an event of an empty stream");
    if (!failure)
        failure = load_kernels(tier);
    if (!failure)
        halo_doctor_finding_say(tier->finding, HALO_DOCTOR_PASS,
                                "The runtime makes a stream and an event, and has the kernels.");
    return failure;
}
