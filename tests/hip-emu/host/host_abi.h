/* host_abi.h: how a program runs kernels that were compiled for the host (kernels.host).
 *
 * kernels.host is a shared library with these two functions and nothing else in its interface; the emulated runtime
 * opens it like a code object. Kernels register under the names of variants.def. Calls may come from several threads at
 * once, each running its own launch; under AddressSanitizer (HALO_HOST_ONE_THREAD) from one thread at a time.
 */
#ifndef HALO_HIP_HOST_ABI_H
#define HALO_HIP_HOST_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HALO_HOST_REASON 256

struct halo_host_kernel {
    const char *name;
    void (*entry)(void **args);          /* args like kernelParams of hipModuleLaunchKernel */
    uint32_t block;                      /* threads it must be launched with */
    uint32_t args_bytes;                 /* size of *args[0] */
    const struct halo_host_kernel *next; /* the list of all kernels */
};

/* NULL when there is no such kernel; for NULL the first of all kernels. */
const struct halo_host_kernel *halo_host_kernel_find(const char *name);

/* Runs all blocks of the launch, one after the other, and returns. 0; -EINVAL for a block size that is not the
 * kernel's or an empty grid; -EDEADLK when threads of a block wait at different barriers or shuffles; -ENOMEM. The
 * reason is written to reason[HALO_HOST_REASON]. */
int halo_host_kernel_run(const struct halo_host_kernel *kernel, const uint32_t grid[3], const uint32_t block[3],
                         void **args, char *reason);

typedef const struct halo_host_kernel *halo_host_kernel_find_fn(const char *name);
typedef int halo_host_kernel_run_fn(const struct halo_host_kernel *kernel, const uint32_t grid[3],
                                    const uint32_t block[3], void **args, char *reason);

#ifdef __cplusplus
}
#endif

#endif
