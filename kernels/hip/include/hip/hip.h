/* hip.h: the HIP device: AMD's GPUs through a HIP runtime that is opened at run time, and whatever else provides its
 * functions. */
#ifndef HALO_HIP_HIP_H
#define HALO_HIP_HIP_H

#include <kernels/device.h>

/* The table of the HIP device; static storage. options.library names the runtime, NULL looks for it. Kernels are read
 * from $HALO_KERNEL_DIR, else from where they were installed. */
const struct halo_device_ops *halo_device_hip(void);

/* Has the runtime take two hardware queues for this process instead of four (GPU_MAX_HW_QUEUES=2), unless the
 * environment says how many. The chip maps eight over all processes. A program calls it before its first thread and
 * before it opens a device: the runtime reads its environment when it is loaded. */
void halo_hip_limit_queues(void);

/* Where the client library of remote HIP is installed. */
const char *halo_hip_remote_library(void);

/* Has that library, or the one at another place, begin its sessions with these workers ("unix:PATH" or "HOST:PORT",
 * separated by commas), so that the process can give up the right to connect before it opens the device. `key_file`:
 * for workers with a key, or NULL. Before the first thread: it sets variables of the environment. 0 with how many GPUs
 * they have together, or a negative errno with the reason (HALO_DEVICE_REASON bytes). */
int halo_hip_remote_connect(const char *library, const char *workers, const char *key_file, uint32_t *ret_gpus,
                            char *reason);

#endif
