/* call_limits.c: devices beside each other, limits, priorities, identity; and settings that a remote GPU does not
 * have. */
#include <string.h>

#include "client_priv.h"

#define DEVICE_FLAGS 0x1fu

/* Of the program's numbers. */
static bool is_device(int device)
{
    return device >= 0 && device < halo_client_count_devices();
}

/* At the thread's worker; negative or too large: another one's. */
static bool is_here(int device)
{
    return device >= 0 && device < halo_client.n_devices;
}

int hipDeviceGet(int *ret, int ordinal)
{
    int error = halo_client_enter();
    if (!error)
        error = !ret ? HIP_INVALID_VALUE : is_device(ordinal) ? 0 : HIP_INVALID_DEVICE;
    if (!error)
        *ret = ordinal;
    return halo_client_leave(error);
}

int hipDeviceTotalMem(size_t *ret, int device)
{
    int error = halo_client_enter_device(&device);
    if (!error)
        error = !ret ? HIP_INVALID_VALUE : 0;
    if (!error)
        *ret = halo_client.devices[device].properties.memory_bytes;
    return halo_client_leave(error);
}

int hipDeviceComputeCapability(int *ret_major, int *ret_minor, int device)
{
    int error = halo_client_enter_device(&device);
    if (!error)
        error = !ret_major || !ret_minor ? HIP_INVALID_VALUE : 0;
    if (!error) {
        *ret_major = halo_client.devices[device].properties.major;
        *ret_minor = halo_client.devices[device].properties.minor;
    }
    return halo_client_leave(error);
}

int hipDeviceGetByPCIBusId(int *ret, const char *bus_id)
{
    int error = halo_client_enter();
    int found = -1;
    /* Of the thread's worker: the numbers of two machines may be the same. */
    for (int i = 0; !error && bus_id && i < halo_client.n_devices; i++)
        if (strcmp(halo_client.devices[i].pci_bus_id, bus_id) == 0)
            found = halo_client.first_device + i;
    if (!error && (!ret || found < 0))
        error = HIP_INVALID_VALUE;
    if (!error)
        *ret = found;
    return halo_client_leave(error);
}

int hipDeviceGetUuid(void *ret_16_bytes, int device)
{
    struct halo_remote_device_get_uuid_reply a;
    int error = halo_client_enter_device(&device);
    if (!error)
        error = !ret_16_bytes ? HIP_INVALID_VALUE : 0;
    if (!error) {
        int r = halo_remote_device_get_uuid(&halo_client.port, &(struct halo_remote_device_get_uuid){device}, &a);
        error = halo_client_status(r, &a.status);
    }
    if (!error)
        memcpy(ret_16_bytes, a.uuid, 16);
    return halo_client_leave(error);
}

int hipDeviceGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    struct halo_remote_device_get_stream_priority_range_reply a;
    int error = halo_client_enter();
    if (!error) {
        int r = halo_remote_device_get_stream_priority_range(
            &halo_client.port, &(struct halo_remote_device_get_stream_priority_range){}, &a);
        error = halo_client_status(r, &a.status);
    }
    if (!error && ret_least)
        *ret_least = a.least;
    if (!error && ret_greatest)
        *ret_greatest = a.greatest;
    return halo_client_leave(error);
}

int hipDeviceGetLimit(size_t *ret, int limit)
{
    struct halo_remote_device_get_limit_reply a;
    int error = halo_client_enter();
    if (!error && (!ret || limit < 0 || limit > 2))
        error = HIP_INVALID_VALUE;
    if (!error) {
        int r = halo_remote_device_get_limit(&halo_client.port, &(struct halo_remote_device_get_limit){limit}, &a);
        error = halo_client_status(r, &a.status);
    }
    if (!error)
        *ret = a.value;
    return halo_client_leave(error);
}

/* ---- peers ---- */

int hipDeviceCanAccessPeer(int *ret, int device, int peer)
{
    struct halo_remote_device_can_access_peer_reply a = {.can = 0};
    int error = halo_client_enter_device(&device);
    if (!error)
        error = !ret ? HIP_INVALID_VALUE : is_device(peer) ? 0 : HIP_INVALID_DEVICE;
    peer -= halo_client.first_device;
    if (!error && device != peer && is_here(peer)) {
        const struct halo_remote_device_can_access_peer q = {device, peer};
        int r = halo_remote_device_can_access_peer(&halo_client.port, &q, &a);
        error = halo_client_status(r, &a.status);
    }
    if (!error)
        *ret = a.can;
    return halo_client_leave(error);
}

int hipDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    int error = halo_client_enter();
    peer -= halo_client.first_device;
    if (!error)
        error = flags ? HIP_INVALID_VALUE : is_here(peer) && peer != halo_client_thread_device ? 0 : HIP_INVALID_DEVICE;
    if (!error)
        error =
            halo_client_send(HIP_OP_DEVICE_ENABLE_PEER_ACCESS, &(struct halo_remote_device_enable_peer_access){peer});
    return halo_client_leave(error);
}

int hipDeviceDisablePeerAccess(int peer)
{
    int error = halo_client_enter();
    peer -= halo_client.first_device;
    if (!error)
        error = is_here(peer) && peer != halo_client_thread_device ? 0 : HIP_INVALID_DEVICE;
    if (!error)
        error =
            halo_client_send(HIP_OP_DEVICE_DISABLE_PEER_ACCESS, &(struct halo_remote_device_disable_peer_access){peer});
    return halo_client_leave(error);
}

/* ---- how the host waits: the client's own affair ---- */

int hipSetDeviceFlags(unsigned int flags)
{
    int error = halo_client_enter();
    if (!error && flags & ~DEVICE_FLAGS)
        error = HIP_INVALID_VALUE;
    return halo_client_leave(error);
}

int hipGetDeviceFlags(unsigned int *ret)
{
    int error = halo_client_enter();
    if (!error && !ret)
        error = HIP_INVALID_VALUE;
    if (!error)
        *ret = 0;
    return halo_client_leave(error);
}
