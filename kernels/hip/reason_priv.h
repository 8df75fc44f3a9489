/* reason_priv.h: the sentence that goes with an error. Any thread. */
#ifndef HALO_HIP_REASON_PRIV_H
#define HALO_HIP_REASON_PRIV_H

#include <kernels/device.h>

/* Writes the sentence into a buffer of HALO_DEVICE_REASON bytes (may be NULL) and returns `error`. */
__attribute__((format(printf, 3, 4))) int halo_hip_reason(char *reason, int error, const char *format, ...);

#endif
