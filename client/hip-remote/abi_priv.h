/* abi_priv.h: the part of HIP's interface that the client library answers: prototypes and numbers. */
#ifndef HALO_HIP_REMOTE_ABI_PRIV_H
#define HALO_HIP_REMOTE_ABI_PRIV_H

#include <stddef.h>

struct hip_channel_desc {
    int x, y, z, w, kind;
};

struct hip_dim3 {
    unsigned int x, y, z;
};

struct hip_func_attributes {
    int binary_version, cache_mode;
    size_t const_bytes, local_bytes;
    int max_dynamic_shared_bytes, max_threads_per_block, n_registers, carveout, ptx_version;
    size_t shared_bytes;
};

struct hip_pointer_attributes {
    int type; /* HIP_MEMORY_ */
    int device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned int flags;
};

enum { HIP_MEMORY_UNREGISTERED, HIP_MEMORY_HOST, HIP_MEMORY_DEVICE };

#define HIP_EXPORT(node, how, symbol, result, arguments) __attribute__((visibility("default"))) result symbol arguments;
#include "exports.def"

enum {
    HIP_SUCCESS = 0,
    HIP_INVALID_VALUE = 1,
    HIP_OUT_OF_MEMORY = 2,
    HIP_NOT_INITIALIZED = 3,
    HIP_DEINITIALIZED = 4,
    HIP_INVALID_CONFIGURATION = 9,
    HIP_INVALID_PITCH = 12,
    HIP_INVALID_SYMBOL = 13,
    HIP_INVALID_DEVICE_FUNCTION = 98,
    HIP_NO_DEVICE = 100,
    HIP_INVALID_DEVICE = 101,
    HIP_INVALID_IMAGE = 200,
    HIP_NO_BINARY_FOR_GPU = 209,
    HIP_FILE_NOT_FOUND = 301,
    HIP_INVALID_HANDLE = 400,
    HIP_ILLEGAL_STATE = 401,
    HIP_NOT_FOUND = 500,
    HIP_NOT_READY = 600,
    HIP_ILLEGAL_ADDRESS = 700,
    HIP_LAUNCH_TIMEOUT = 702,
    HIP_PEER_ALREADY_ENABLED = 704,
    HIP_CONTEXT_IS_DESTROYED = 709,
    HIP_ASSERT = 710,
    HIP_HOST_ALREADY_REGISTERED = 712,
    HIP_HOST_NOT_REGISTERED = 713,
    HIP_LAUNCH_FAILURE = 719,
    HIP_NOT_SUPPORTED = 801,
    HIP_CAPTURE_UNSUPPORTED = 900,
    HIP_UNKNOWN = 999,
};

enum { HIP_COPY_ON_HOST, HIP_COPY_TO_DEVICE, HIP_COPY_TO_HOST, HIP_COPY_ON_DEVICE, HIP_COPY_DEFAULT };
#define HIP_COPY_ON_DEVICE_NO_CU 1024 /* on the device, by whichever engine */

#endif
