/* device.h: a code object whose kernels run, as tests/hip-emu knows it beside host_abi.h. Any thread. */
#ifndef HALO_TEST_GFX_SIM_DEVICE_H
#define HALO_TEST_GFX_SIM_DEVICE_H

#include <stddef.h>

#include <host_abi.h>

#pragma GCC visibility push(default)

/* 0, or a negative errno with the reason on stderr. */
int isa_device_open(const char *path);
/* Kernels may touch these bytes from now on; n 0: no more. */
void isa_device_memory(void *p, size_t n);

const struct halo_host_kernel *halo_host_kernel_find(const char *name);
int halo_host_kernel_run(const struct halo_host_kernel *kernel, const uint32_t grid[3], const uint32_t block[3],
                         void **args, char *reason);

#pragma GCC visibility pop

#endif
