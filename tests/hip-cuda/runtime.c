/* runtime.c: the functions of libamdhip64.so over NVIDIA's driver: runs the HIP device on an NVIDIA card.
 *
 * A card reports its architecture as sm_<version>, so that the loader takes kernels.sm_90. Flags, error numbers and
 * capture modes that the device uses are equal in both APIs; HIP's bits for coherence of pinned memory are unknown to
 * the driver and left out. Any thread. Without a driver hipInit says so on stderr and returns "no device".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define EXPORT __attribute__((visibility("default")))
#define HALO_HIP_FN(name, arguments) EXPORT int hip##name arguments;
#include "hip_api.def"
#undef HALO_HIP_FN
EXPORT int hipGetDevicePropertiesR0600(void *ret, int device);

#define HOST_FLAGS 7u /* portable, mapped, write-combined: the same bits in HIP and CUDA */

/* The driver with its context current, or the error is returned. */
#define ENTER(d)                                                                                                       \
    const struct driver *d = driver_open();                                                                            \
    int entered = driver_enter();                                                                                      \
    if (entered)                                                                                                       \
    return entered

int hipInit(unsigned int flags)
{
    const struct driver *d = driver_open();
    return d ? d->Init(flags) : CUDA_NO_DEVICE;
}

int hipRuntimeGetVersion(int *ret)
{
    const struct driver *d = driver_open();
    return d ? d->DriverGetVersion(ret) : CUDA_NO_DEVICE;
}

int hipGetDeviceCount(int *ret)
{
    const struct driver *d = driver_open();
    return d ? d->DeviceGetCount(ret) : CUDA_NO_DEVICE;
}

int hipSetDevice(int device)
{
    return driver_choose(device);
}

int hipDeviceGetName(char *ret, int n, int device)
{
    const struct driver *d = driver_open();
    int handle, r = d ? d->DeviceGet(&handle, device) : CUDA_NO_DEVICE;
    return r ? r : d->DeviceGetName(ret, n, handle);
}

int hipDeviceGetPCIBusId(char *ret, int n, int device)
{
    const struct driver *d = driver_open();
    int handle, r = d ? d->DeviceGet(&handle, device) : CUDA_NO_DEVICE;
    return r ? r : d->DeviceGetPCIBusId(ret, n, handle);
}

/* The layout of HIP 6: wave size, units, integrated, architecture. With HALO_HIP_CUDA_INTEGRATED=1 a card with memory
 * of its own plays one that shares the host's: its kernels read pinned memory over the bus. */
int hipGetDevicePropertiesR0600(void *ret, int device)
{
    static const int attributes[] = {CUDA_ATTRIBUTE_WARP_SIZE, CUDA_ATTRIBUTE_MULTIPROCESSORS,
                                     CUDA_ATTRIBUTE_INTEGRATED, CUDA_ATTRIBUTE_MAJOR, CUDA_ATTRIBUTE_MINOR};
    const struct driver *d = driver_open();
    int handle, value[5] = {0}, error = d ? d->DeviceGet(&handle, device) : CUDA_NO_DEVICE;
    for (int i = 0; i < 5 && !error; i++)
        error = d->DeviceGetAttribute(&value[i], attributes[i], handle);
    const char *plays = getenv("HALO_HIP_CUDA_INTEGRATED");
    value[2] |= plays && strcmp(plays, "1") == 0;
    char *bytes = memset(ret, 0, 1472);
    memcpy(bytes + 308, &value[0], sizeof(int));
    memcpy(bytes + 388, &value[1], sizeof(int));
    memcpy(bytes + 396, &value[2], sizeof(int));
    snprintf(bytes + 1160, 256, "sm_%d%d", value[3], value[4]);
    return error;
}

int hipMemGetInfo(size_t *ret_free, size_t *ret_total)
{
    ENTER(d);
    return d->MemGetInfo(ret_free, ret_total);
}

int hipMalloc(void **ret, size_t n)
{
    ENTER(d);
    uint64_t p = 0;
    int r = d->MemAlloc(&p, n);
    *ret = (void *)(uintptr_t)p;
    return r;
}

int hipFree(void *p)
{
    ENTER(d);
    return d->MemFree((uint64_t)(uintptr_t)p);
}

int hipHostMalloc(void **ret, size_t n, unsigned int flags)
{
    ENTER(d);
    return d->MemHostAlloc(ret, n, flags & HOST_FLAGS);
}

int hipHostFree(void *p)
{
    ENTER(d);
    return d->MemFreeHost(p);
}

int hipHostGetDevicePointer(void **ret, void *p, unsigned int flags)
{
    ENTER(d);
    uint64_t seen = 0;
    int r = d->MemHostGetDevicePointer(&seen, p, flags);
    *ret = (void *)(uintptr_t)seen;
    return r;
}

/* One address space for host and device: the kind of a copy follows from its addresses. */
int hipMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream)
{
    ENTER(d);
    if (kind < 1 || kind > 3)
        return CUDA_INVALID_VALUE;
    return d->MemcpyAsync((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, n, stream);
}

int hipMemsetAsync(void *p, int byte, size_t n, void *stream)
{
    ENTER(d);
    return d->MemsetD8Async((uint64_t)(uintptr_t)p, (unsigned char)byte, n, stream);
}

int hipStreamCreateWithFlags(void **ret, unsigned int flags)
{
    ENTER(d);
    return d->StreamCreate(ret, flags);
}

int hipStreamDestroy(void *stream)
{
    ENTER(d);
    return d->StreamDestroy(stream);
}

int hipStreamBeginCapture(void *stream, int mode)
{
    ENTER(d);
    return d->StreamBeginCapture(stream, mode);
}

int hipStreamEndCapture(void *stream, void **ret)
{
    ENTER(d);
    return d->StreamEndCapture(stream, ret);
}

int hipGraphInstantiate(void **ret, void *graph, void **ret_node, char *log, size_t log_bytes)
{
    ENTER(d);
    (void)ret_node;
    (void)log;
    (void)log_bytes;
    return d->GraphInstantiate(ret, graph, 0);
}

int hipGraphLaunch(void *exec, void *stream)
{
    ENTER(d);
    return d->GraphLaunch(exec, stream);
}

int hipGraphExecDestroy(void *exec)
{
    ENTER(d);
    return d->GraphExecDestroy(exec);
}

int hipGraphDestroy(void *graph)
{
    ENTER(d);
    return d->GraphDestroy(graph);
}

int hipEventCreateWithFlags(void **ret, unsigned int flags)
{
    ENTER(d);
    return d->EventCreate(ret, flags);
}

int hipEventDestroy(void *event)
{
    ENTER(d);
    return d->EventDestroy(event);
}

int hipEventRecord(void *event, void *stream)
{
    ENTER(d);
    return d->EventRecord(event, stream);
}

int hipEventQuery(void *event)
{
    ENTER(d);
    return d->EventQuery(event);
}

int hipModuleLoadData(void **ret, const void *image)
{
    ENTER(d);
    return d->ModuleLoadData(ret, image);
}

int hipModuleUnload(void *module)
{
    ENTER(d);
    return d->ModuleUnload(module);
}

int hipModuleGetFunction(void **ret, void *module, const char *name)
{
    ENTER(d);
    return d->ModuleGetFunction(ret, module, name);
}

int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, void *function, int block, size_t lds_bytes)
{
    ENTER(d);
    return d->OccupancyMaxActiveBlocksPerMultiprocessor(ret, function, block, lds_bytes);
}

/* Kernels wait for their inputs themselves (halo_inputs_ready in gfx_nvidia.h). $HALO_HIP_CUDA_OVERLAP=0 turns this
 * off, to measure its effect. */
static unsigned int overlaps(void)
{
    const char *text = getenv("HALO_HIP_CUDA_OVERLAP");
    return !text || strcmp(text, "0") != 0;
}

int hipModuleLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int lds_bytes,
                          void *stream, void **args, void **extra)
{
    ENTER(d);
    if (extra)
        return CUDA_INVALID_VALUE; /* the two APIs use different markers */
    const struct cuda_attribute overlap = {.id = CUDA_LAUNCH_OVERLAP, .value.on = 1};
    const struct cuda_launch launch = {.grid = {grid_x, grid_y, grid_z},
                                       .block = {block_x, block_y, block_z},
                                       .shared_bytes = lds_bytes,
                                       .stream = stream,
                                       .attributes = &overlap,
                                       .n_attributes = overlaps()};
    return d->LaunchKernelEx(&launch, function, args, NULL);
}
