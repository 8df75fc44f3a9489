/* api.h: the HIP runtime, opened at run time: function pointers and the few numbers of its interface.
 *
 * The numbers are those of HIP 5 to 7 (equal in all of them). No HIP header is needed to build. Public for
 * halo-doctor, which makes the calls one by one to see which of them fails; everybody else uses the device (hip.h).
 */
#ifndef HALO_HIP_API_H
#define HALO_HIP_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HIP_SUCCESS = 0,
    HIP_ERROR_OUT_OF_MEMORY = 2,
    HIP_ERROR_NO_DEVICE = 100,
    HIP_ERROR_INVALID_DEVICE = 101,
    HIP_ERROR_NOT_FOUND = 500,
    HIP_ERROR_NOT_READY = 600,
};
enum { HIP_COPY_TO_DEVICE = 1, HIP_COPY_TO_HOST = 2, HIP_COPY_ON_DEVICE = 3 };
#define HIP_STREAM_NON_BLOCKING 1u
#define HIP_EVENT_NO_TIMING 2u
#define HIP_HOST_MAPPED 2u
/* Memory that is coherent with the host is not cached in the GPU's L2: for weights that costs most of the bandwidth. */
#define HIP_HOST_COHERENT 0x40000000u
#define HIP_HOST_NON_COHERENT 0x80000000u

/* What a runtime says of a device, taken from its own struct (two layouts are in the field, see api.c). */
struct halo_hip_properties {
    char arch[64];   /* "gfx1151", "host", "sm_90"; without what follows a colon */
    char target[64]; /* with it: "gfx90a:sramecc+:xnack-" */
    uint32_t wave_size, n_units;
    bool integrated;
};

struct halo_hip_api {
    void *library;
    char path[192]; /* what was opened */
#define HALO_HIP_FN(name, arguments) int(*name) arguments;
#include "hip_api.def"
#undef HALO_HIP_FN
    int (*properties)(void *ret, int device);
    bool properties_old;
};

/* Opens `path`, or with NULL the versioned names, newest first. 0; -ENOENT without a library; -ENOTSUP when functions
 * are missing, all of which are named. `reason` has HALO_DEVICE_REASON bytes (kernels/device.h). */
int halo_hip_api_open(struct halo_hip_api *ret, const char *path, char *reason);
void halo_hip_api_close(struct halo_hip_api *api);

/* Properties of a device: a HIP error. */
int halo_hip_api_properties(const struct halo_hip_api *api, int device, struct halo_hip_properties *ret);

/* "out of memory (2)": names of the errors that are met in the field. The buffer is the caller's. */
const char *halo_hip_error_name(int error, char buffer[48]);

/* -ENOMEM for out of memory, -ENODEV for no device, -EIO for everything else. */
int halo_hip_error_number(int error);

#endif
