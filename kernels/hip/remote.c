/* remote.c: has the client library of remote HIP begin its session before the process opens the device. Main thread. */
#include <hip/hip.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include <common/reason.h>

/* Less than halod waits for an engine to be ready. */
#define CONNECT_MS "10000"

const char *halo_hip_remote_library(void)
{
    return HALO_HIP_REMOTE_LIBRARY;
}

int halo_hip_remote_connect(const char *library, const char *worker, const char *key_file, char *reason)
{
    int (*init)(unsigned);
    const char *(*why)(void);
    if (setenv("HIP_REMOTE_WORKER", worker, 1) < 0 || setenv("HIP_REMOTE_CONNECT_TIMEOUT_MS", CONNECT_MS, 0) < 0 ||
        (key_file && setenv("HIP_REMOTE_KEY_FILE", key_file, 1) < 0))
        return halo_reason(reason, -errno, "no memory for the address of a worker");
    void *client = dlopen(library, RTLD_NOW | RTLD_LOCAL); /* stays open: it has the session */
    if (!client)
        return halo_reason(reason, -ENOENT, "no client library for the worker %s: %s", worker, dlerror());
    *(void **)&init = dlsym(client, "hipInit");
    *(void **)&why = dlsym(client, "halo_hip_remote_reason");
    if (!init || !why)
        return halo_reason(reason, -ENOTSUP, "%s is not the client library of remote HIP, which a worker needs",
                           library);
    if (init(0) != 0)
        return halo_reason(reason, -EHOSTUNREACH, "no session with the worker %s: %s", worker, why());
    return 0;
}
