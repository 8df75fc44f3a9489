/* runtime_priv.h: the HIP runtime of the worker. One thread; opened once, in the child, never closed. */
#ifndef HALO_WORKER_RUNTIME_PRIV_H
#define HALO_WORKER_RUNTIME_PRIV_H

#include <base/fault.h>
#include <hip/api.h>
#include <hip_remote/limits.h>

/* A library that exports this is the client of remote HIP, which would send every call back to a worker. */
#define HALO_WORKER_CLIENT_MARKER "halo_hip_remote_client"

/* HIP errors that the worker gives itself. */
enum {
    HALO_WORKER_INVALID_VALUE = 1,
    HALO_WORKER_NO_MEMORY = 2,
    HALO_WORKER_INVALID_CONFIGURATION = 9,
    HALO_WORKER_INVALID_DEVICE = 101,
    HALO_WORKER_INVALID_IMAGE = 200,
    HALO_WORKER_NO_BINARY = 209,
    HALO_WORKER_INVALID_HANDLE = 400,
    HALO_WORKER_ILLEGAL_STATE = 401,
    HALO_WORKER_NOT_FOUND = 500,
    HALO_WORKER_NOT_READY = 600,
    HALO_WORKER_NOT_SUPPORTED = 801,
    HALO_WORKER_CAPTURE_UNSUPPORTED = 900,
    HALO_WORKER_CAPTURED_EVENT = 907,
    HALO_WORKER_UNKNOWN = 999,
};

struct halo_worker_runtime {
    struct halo_hip_api api;
#define HALO_HIP_FN(name, arguments) int(*name) arguments; /* NULL: this runtime has none */
#include "hip_more.def"
#undef HALO_HIP_FN
    int version, n_devices;
    struct halo_hip_properties devices[HALO_REMOTE_DEVICES_MAX];
};

/* `path`: NULL for the system's library. 0, or a negative errno with its reason. */
int halo_worker_runtime_open(struct halo_worker_runtime *ret, const char *path, struct halo_fault *fault);

#endif
