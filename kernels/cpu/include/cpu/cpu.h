/* cpu.h: the CPU device: the embedded default and the oracle of every other device. */
#ifndef HALO_CPU_CPU_H
#define HALO_CPU_CPU_H

#include <kernels/device.h>

/* The table of the CPU device; static storage. */
const struct halo_device_ops *halo_device_cpu(void);

#endif
