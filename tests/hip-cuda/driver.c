/* driver.c: opens libcuda.so.1 and holds the context (contract in driver.h). */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

static struct driver driver;
static bool opened;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(void *) context;
static _Thread_local void *current;

static bool find(void *library, void **ret, const char *symbol)
{
    *ret = dlsym(library, symbol);
    if (!*ret)
        fprintf(stderr, "hip-cuda: libcuda.so.1 has no %s: its driver is too old\n", symbol);
    return *ret != NULL;
}

static void open_library(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "hip-cuda: no NVIDIA driver: %s\n", dlerror());
        return;
    }
    opened = true;
#define HALO_CU_FN(name, symbol, arguments) opened = find(library, (void **)&driver.name, symbol) && opened;
#include "driver.def"
#undef HALO_CU_FN
}

const struct driver *driver_open(void)
{
    pthread_once(&once, open_library);
    return opened ? &driver : NULL;
}

int driver_choose(int ordinal)
{
    const struct driver *d = driver_open();
    void *chosen = NULL;
    int device, r;
    if (!d)
        return CUDA_NO_DEVICE;
    if ((r = d->DeviceGet(&device, ordinal)) == CUDA_SUCCESS)
        r = d->DevicePrimaryCtxRetain(&chosen, device);
    if (!r)
        atomic_store(&context, chosen);
    return r ? r : driver_enter();
}

int driver_enter(void)
{
    void *wanted = atomic_load(&context);
    if (!wanted)
        return CUDA_NO_DEVICE;
    if (current == wanted)
        return CUDA_SUCCESS;
    int r = driver.CtxSetCurrent(wanted);
    current = r ? NULL : wanted;
    return r;
}
