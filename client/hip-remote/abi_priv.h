/* abi_priv.h: the part of HIP's interface that the client library answers: prototypes and numbers. */
#ifndef HALO_HIP_REMOTE_ABI_PRIV_H
#define HALO_HIP_REMOTE_ABI_PRIV_H

#include <stddef.h>

struct hip_channel_desc {
    int x, y, z, w, kind;
};

#define HIP_EXPORT(node, how, symbol, result, arguments) __attribute__((visibility("default"))) result symbol arguments;
#include "exports.def"

enum {
    HIP_SUCCESS = 0,
    HIP_INVALID_VALUE = 1,
    HIP_OUT_OF_MEMORY = 2,
    HIP_NOT_INITIALIZED = 3,
    HIP_DEINITIALIZED = 4,
    HIP_INVALID_CONFIGURATION = 9,
    HIP_NO_DEVICE = 100,
    HIP_INVALID_DEVICE = 101,
    HIP_INVALID_IMAGE = 200,
    HIP_INVALID_HANDLE = 400,
    HIP_ILLEGAL_STATE = 401,
    HIP_NOT_FOUND = 500,
    HIP_NOT_READY = 600,
    HIP_ILLEGAL_ADDRESS = 700,
    HIP_LAUNCH_TIMEOUT = 702,
    HIP_CONTEXT_IS_DESTROYED = 709,
    HIP_ASSERT = 710,
    HIP_LAUNCH_FAILURE = 719,
    HIP_NOT_SUPPORTED = 801,
    HIP_CAPTURE_UNSUPPORTED = 900,
    HIP_UNKNOWN = 999,
};

enum { HIP_COPY_ON_HOST, HIP_COPY_TO_DEVICE, HIP_COPY_TO_HOST, HIP_COPY_ON_DEVICE, HIP_COPY_DEFAULT };
#define HIP_COPY_ON_DEVICE_NO_CU 1024 /* on the device, by whichever engine */

#endif
