/* cpu.h: the CPU device: the embedded default and the oracle of every other device. */
#ifndef HALO_CPU_CPU_H
#define HALO_CPU_CPU_H

#include <kernels/device.h>

/* The table of the CPU device; static storage. */
const struct halo_device_ops *halo_device_cpu(void);

/* Nanoseconds the device thread has spent in each kind of op since the model was created, indexed by enum halo_op_kind.
 * Device thread only. */
void halo_cpu_profile(const struct halo_device_model *model, uint64_t ret_ns[HALO_OP_COUNT]);

#endif
