/* gpu.h: which of the machine's GPUs to examine, from what the kernel reports. */
#ifndef HALO_DOCTOR_GPU_H
#define HALO_DOCTOR_GPU_H

#include "probe.h"

#define HALO_DOCTOR_GFX1151 110501 /* gfx_target_version: major x 10000 + minor x 100 + step */

struct halo_doctor_gpu {
    unsigned n_gpus;       /* AMD GPUs that the compute driver has nodes for */
    int node;              /* /sys/class/kfd/kfd/topology/nodes/N; -1: none */
    uint64_t gfx;          /* gfx_target_version; 0: not known */
    char name[24];         /* "gfx1151"; empty: not known */
    int minor;             /* of /dev/dri/renderD<minor>; -1: not known */
    char dir[64];          /* its device folder: "/sys/class/drm/renderD128/device"; empty: none */
    char properties[8192]; /* of the node */
};

/* The Strix Halo GPU, else the first AMD GPU, else an AMD card without a compute node. False: there is none. */
bool halo_doctor_gpu_find(struct halo_doctor_probe *probe, struct halo_doctor_gpu *ret);
/* The same, with the verdict SKIP when there is none, or none that is a Strix Halo. */
bool halo_doctor_gpu_need(struct halo_doctor_probe *probe, struct halo_doctor_gpu *ret);
bool halo_doctor_gpu_need_strix(struct halo_doctor_probe *probe, struct halo_doctor_gpu *ret);

/* "gfx1151" of 110501: the last two parts are hexadecimal. */
void halo_doctor_gpu_name(uint64_t gfx, char *ret, size_t room);

#endif
