/* remote.c: the client library of remote HIP, if it is the runtime: begins its sessions before the process opens the
 * device (main thread), and names the workers.
 */
#include <hip/hip.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <common/reason.h>

#include "device_priv.h"

/* Less than halod waits for an engine to be ready. */
#define CONNECT_MS "10000"

void halo_hip_worker_name(const struct halo_hip_api *api, int gpu, char *ret, size_t n)
{
    void (*name)(int, char *, size_t);
    *(void **)&name = dlsym(api->library, "halo_hip_remote_worker"); /* of the client library alone */
    ret[0] = '\0';
    if (name)
        name(gpu, ret, n);
}

const char *halo_hip_remote_library(void)
{
    return HALO_HIP_REMOTE_LIBRARY;
}

int halo_hip_remote_connect(const char *library, const char *workers, const char *key_file, uint32_t *ret_gpus,
                            char *reason)
{
    int (*init)(unsigned), (*count)(int *), n = 0;
    const char *(*why)(void);
    if (setenv("HIP_REMOTE_WORKER", workers, 1) < 0 || setenv("HIP_REMOTE_CONNECT_TIMEOUT_MS", CONNECT_MS, 0) < 0 ||
        (key_file && setenv("HIP_REMOTE_KEY_FILE", key_file, 1) < 0))
        return halo_reason(reason, -errno, "no memory for the address of a worker");
    void *client = dlopen(library, RTLD_NOW | RTLD_LOCAL); /* stays open: it has the session */
    if (!client)
        return halo_reason(reason, -ENOENT, "no client library for the worker %s: %s", workers, dlerror());
    *(void **)&init = dlsym(client, "hipInit");
    *(void **)&count = dlsym(client, "hipGetDeviceCount");
    *(void **)&why = dlsym(client, "halo_hip_remote_reason");
    if (!init || !count || !why)
        return halo_reason(reason, -ENOTSUP, "%s is not the client library of remote HIP, which workers need", library);
    if (init(0) != 0 || count(&n) != 0) {
        bool is_list = strchr(workers, ',') != NULL; /* then the reason begins with the one that is missing */
        return halo_reason(reason, -EHOSTUNREACH, "no session with the worker %s%s%s", is_list ? "" : workers,
                           is_list ? "" : ": ", why());
    }
    *ret_gpus = (uint32_t)n;
    return 0;
}
