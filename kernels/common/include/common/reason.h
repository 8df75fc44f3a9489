/* reason.h: the sentence that goes with an error of a device. Any thread. */
#ifndef HALO_COMMON_REASON_H
#define HALO_COMMON_REASON_H

#include <kernels/device.h>

/* Writes the sentence into a buffer of HALO_DEVICE_REASON bytes (may be NULL) and returns `error`. */
__attribute__((format(printf, 3, 4))) int halo_reason(char *reason, int error, const char *format, ...);

#endif
