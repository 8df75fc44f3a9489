/* driver.c: opens libcuda.so.1 and keeps the contexts of its cards (contract in driver.h). */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#define CARDS_MAX 64

static struct driver driver;
static bool opened;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t retaining = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(void *) contexts[CARDS_MAX];
static _Thread_local int chosen;    /* this thread's card; as in HIP the first one until it chooses */
static _Thread_local void *current; /* the context that was made current last; NULL: the driver knows */

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

/* The card's primary context, which is retained once for the process. */
static int find_context(const struct driver *d, int ordinal, void **ret)
{
    int device, r = CUDA_SUCCESS;
    if (ordinal < 0 || ordinal >= CARDS_MAX)
        return CUDA_INVALID_DEVICE;
    *ret = atomic_load(&contexts[ordinal]);
    if (*ret)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&retaining);
    *ret = atomic_load(&contexts[ordinal]); /* another thread may have been here first */
    if (!*ret && (r = d->DeviceGet(&device, ordinal)) == CUDA_SUCCESS &&
        (r = d->DevicePrimaryCtxRetain(ret, device)) == CUDA_SUCCESS)
        atomic_store(&contexts[ordinal], *ret);
    pthread_mutex_unlock(&retaining);
    return r;
}

static int make_current(const struct driver *d, int ordinal)
{
    void *wanted = NULL;
    int r = find_context(d, ordinal, &wanted);
    if (r || current == wanted)
        return r;
    r = d->CtxSetCurrent(wanted);
    current = r ? NULL : wanted;
    return r;
}

int driver_choose(int ordinal)
{
    const struct driver *d = driver_open();
    int r = d ? make_current(d, ordinal) : CUDA_NO_DEVICE;
    if (!r)
        chosen = ordinal;
    return r;
}

int driver_enter(void)
{
    const struct driver *d = driver_open();
    return d ? make_current(d, chosen) : CUDA_NO_DEVICE;
}
