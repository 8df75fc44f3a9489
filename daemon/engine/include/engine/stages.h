/* stages.h: what each of several GPUs has of a model that they divide. */
#ifndef HALO_ENGINE_STAGES_H
#define HALO_ENGINE_STAGES_H

#include <stdint.h>

#include <kernels/device.h>

struct halo_stages {
    uint32_t n;                                           /* 0: the device divides no model */
    struct halo_device_share share[HALO_DEVICE_GPUS_MAX]; /* in the order of halo_device_info.gpus */
};

/* Of a plan that the device can run; n_gpus is that of its description. Any thread. */
void halo_stages_of(const struct halo_device_ops *ops, const struct halo_device *device, uint32_t n_gpus,
                    const struct halo_plan *plan, struct halo_stages *ret);

#endif
