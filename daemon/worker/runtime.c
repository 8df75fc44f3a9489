/* runtime.c: opens the HIP runtime, refuses our own client, and reads the devices. */
#include "runtime_priv.h"

#include <dlfcn.h>
#include <errno.h>

#include <kernels/device.h>

static int hip_fault(struct halo_fault *fault, const char *what, int error)
{
    char name[48];
    return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "%s failed: %s", what, halo_hip_error_name(error, name));
}

static int read_devices(struct halo_worker_runtime *rt, struct halo_fault *fault)
{
    const struct halo_hip_api *api = &rt->api;
    int error = api->Init(0);
    if (error)
        return hip_fault(fault, "hipInit", error);
    error = api->RuntimeGetVersion(&rt->version);
    if (error)
        return hip_fault(fault, "hipRuntimeGetVersion", error);
    error = api->GetDeviceCount(&rt->n_devices);
    if (error)
        return hip_fault(fault, "hipGetDeviceCount", error);
    if (rt->n_devices > HALO_REMOTE_DEVICES_MAX)
        rt->n_devices = HALO_REMOTE_DEVICES_MAX;
    for (int i = 0; i < rt->n_devices; i++) {
        error = halo_hip_api_properties(api, i, &rt->devices[i]);
        if (error)
            return hip_fault(fault, "hipGetDeviceProperties", error);
    }
    return 0;
}

int halo_worker_runtime_open(struct halo_worker_runtime *ret, const char *path, struct halo_fault *fault)
{
    char reason[HALO_DEVICE_REASON];
    *ret = (struct halo_worker_runtime){0};
    int r = halo_hip_api_open(&ret->api, path, reason);
    if (r < 0) {
        halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "%s", reason);
        return r;
    }
    if (dlsym(ret->api.library, HALO_WORKER_CLIENT_MARKER)) {
        halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                       "%s is the client of remote HIP, which would call this worker again; give AMD's runtime with "
                       "--hip-lib",
                       ret->api.path);
        return -ELOOP;
    }
#define HALO_HIP_FN(name, arguments) *(void **)&ret->name = dlsym(ret->api.library, "hip" #name);
#include "hip_more.def"
#undef HALO_HIP_FN
    return read_devices(ret, fault);
}
