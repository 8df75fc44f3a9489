/* hip_runtime.h: as much of HIP as small programs need, for machines without AMD's own headers: C, C++, and .hip
 * files for hip-remote-cc. Programs for which it is not enough take AMD's headers; the library is the same.
 */
#ifndef HIP_REMOTE_HIP_RUNTIME_H
#define HIP_REMOTE_HIP_RUNTIME_H

#include <stddef.h>

typedef enum {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorInvalidDeviceFunction = 98,
    hipErrorNoDevice = 100,
    hipErrorNoBinaryForGpu = 209,
    hipErrorNotReady = 600,
    hipErrorNotSupported = 801,
    hipErrorUnknown = 999
} hipError_t;
typedef enum {
    hipMemcpyHostToHost,
    hipMemcpyHostToDevice,
    hipMemcpyDeviceToHost,
    hipMemcpyDeviceToDevice,
    hipMemcpyDefault
} hipMemcpyKind;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;

typedef struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned at_x = 1, unsigned at_y = 1, unsigned at_z = 1) : x(at_x), y(at_y), z(at_z)
    {
    }
#endif
} dim3;

#ifdef __cplusplus
extern "C" {
#endif
hipError_t hipInit(unsigned flags);
hipError_t hipGetDeviceCount(int *ret);
hipError_t hipSetDevice(int device);
hipError_t hipDeviceGetName(char *ret, int n, int device);
hipError_t hipMemGetInfo(size_t *ret_free, size_t *ret_total);
hipError_t hipDeviceSynchronize(void);
hipError_t hipMalloc(void **ret, size_t n);
hipError_t hipFree(void *p);
hipError_t hipHostMalloc(void **ret, size_t n, unsigned flags);
hipError_t hipHostFree(void *p);
hipError_t hipMemcpy(void *to, const void *from, size_t n, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t n, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyToSymbol(const void *symbol, const void *from, size_t n, size_t offset, hipMemcpyKind kind);
hipError_t hipMemcpyFromSymbol(void *to, const void *symbol, size_t n, size_t offset, hipMemcpyKind kind);
hipError_t hipMemset(void *p, int byte, size_t n);
hipError_t hipStreamCreate(hipStream_t *ret);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipEventCreate(hipEvent_t *ret);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float *ret_ms, hipEvent_t start, hipEvent_t end);
hipError_t hipGetLastError(void);
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);
hipError_t hipLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args, size_t lds_bytes, hipStream_t stream);
#ifdef __cplusplus
}
#endif

#ifdef __HIP__ /* the language: kernels and their launches */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

extern "C" hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds_bytes = 0,
                                                 hipStream_t stream = nullptr);
extern "C" hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds_bytes, hipStream_t *stream);

struct hip_remote_index {
    unsigned x, y, z;
};
#define threadIdx                                                                                                      \
    (hip_remote_index{__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),                              \
                      __builtin_amdgcn_workitem_id_z()})
#define blockIdx                                                                                                       \
    (hip_remote_index{__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),                            \
                      __builtin_amdgcn_workgroup_id_z()})
#define blockDim                                                                                                       \
    (hip_remote_index{__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),                        \
                      __builtin_amdgcn_workgroup_size_z()})
static __device__ inline void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#endif

#endif
