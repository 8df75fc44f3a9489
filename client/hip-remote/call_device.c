/* call_device.c: devices and their properties, answered from what the session read when it began. */
#include <stdio.h>
#include <string.h>

#include "client_priv.h"

int hipInit(unsigned int flags)
{
    halo_client_retry();
    int error = halo_client_enter();
    if (!error && flags)
        error = HIP_INVALID_VALUE;
    return halo_client_leave(error);
}

static int get_version(int *ret)
{
    int error = halo_client_enter();
    if (!error && !ret)
        error = HIP_INVALID_VALUE;
    if (!error)
        *ret = halo_client.runtime_version;
    return halo_client_leave(error);
}

int hipRuntimeGetVersion(int *ret)
{
    return get_version(ret);
}

int hipDriverGetVersion(int *ret)
{
    return get_version(ret);
}

int hipGetDeviceCount(int *ret)
{
    int error = halo_client_enter();
    if (ret)
        *ret = error ? 0 : halo_client_count_devices();
    else if (!error)
        error = HIP_INVALID_VALUE;
    if (!error && halo_client_count_devices() == 0)
        error = HIP_NO_DEVICE;
    return halo_client_leave(error);
}

/* Each request carries the device of its thread. */
int hipSetDevice(int device)
{
    int error = halo_client_enter_device(&device);
    if (!error)
        halo_client_choose(device);
    return halo_client_leave(error);
}

int hipGetDevice(int *ret)
{
    int error = halo_client_enter();
    if (!error && !ret)
        error = HIP_INVALID_VALUE;
    if (!error)
        *ret = halo_client_device_number();
    return halo_client_leave(error);
}

/* ---- properties ---- */

/* What the worker does not tell is zero: no memory is shared, nothing is mapped, nothing is coherent. */
#define PROPERTIES_NEW_BYTES 1472
#define PROPERTIES_OLD_BYTES 792
#define MEMORY_BYTES_AT 288
#define MEMORY_BYTES_OLD_AT 256
#define LDS_PER_UNIT_AMD_AT 1416 /* the same number once more, in a field of AMD's own */
#define ARCH_AT 1160
#define ARCH_OLD_AT 396

static int fill_properties(uint8_t *to, int device, bool is_old)
{
    if (!to)
        return HIP_INVALID_VALUE;
    const struct halo_client_device *d = &halo_client.devices[device];
    const struct halo_remote_get_device_properties_reply *from = &d->properties;
    memset(to, 0, is_old ? PROPERTIES_OLD_BYTES : PROPERTIES_NEW_BYTES);
    memcpy(to, d->name, sizeof(d->name));
    memcpy(to + (is_old ? ARCH_OLD_AT : ARCH_AT), d->arch, sizeof(d->arch));
#define X(field, type, at_new, at_old) memcpy(to + (is_old ? at_old : at_new), &from->field, sizeof(type));
#include <hip_remote/properties.def>
#undef X
    memcpy(to + (is_old ? MEMORY_BYTES_OLD_AT : MEMORY_BYTES_AT), &from->memory_bytes, sizeof(uint64_t));
    if (!is_old)
        memcpy(to + LDS_PER_UNIT_AMD_AT, &from->lds_bytes_per_unit, sizeof(uint64_t));
    return 0;
}

int hipGetDevicePropertiesR0600(void *ret, int device)
{
    int error = halo_client_enter_device(&device);
    if (!error)
        error = fill_properties(ret, device, false);
    return halo_client_leave(error);
}

int hipGetDevicePropertiesR0000(void *ret, int device)
{
    return hipGetDeviceProperties(ret, device);
}

/* The symbol without a suffix has the layout of HIP 5 in later libraries too. */
int hipGetDeviceProperties(void *ret, int device)
{
    int error = halo_client_enter_device(&device);
    if (!error)
        error = fill_properties(ret, device, true);
    return halo_client_leave(error);
}

/* Attributes that promise memory shared with the host, or handles for other processes. */
static bool is_virtual(int attribute)
{
    static const int virtual[] = {3, 4, 9, 13, 15, 16, 24, 65, 66, 90, 10005, 10006, 10011, 10016};
    for (size_t i = 0; i < sizeof(virtual) / sizeof(*virtual); i++)
        if (virtual[i] == attribute)
            return true;
    return false;
}

int hipDeviceGetAttribute(int *ret, int attribute, int device)
{
    struct halo_remote_device_get_attribute_reply a;
    int error = halo_client_enter_device(&device);
    if (!error && !ret)
        error = HIP_INVALID_VALUE;
    if (!error && is_virtual(attribute)) {
        *ret = 0;
    } else if (!error) {
        const struct halo_remote_device_get_attribute q = {attribute, device};
        int r = halo_remote_device_get_attribute(&halo_client.port, &q, &a);
        error = halo_client_status(r, &a.status);
        *ret = error ? 0 : a.value;
    }
    return halo_client_leave(error);
}

static int copy_text(char *ret, int n, int device, bool is_name)
{
    if (!ret || n <= 0)
        return HIP_INVALID_VALUE;
    snprintf(ret, (size_t)n, "%s", is_name ? halo_client.devices[device].name : halo_client.devices[device].pci_bus_id);
    return 0;
}

int hipDeviceGetName(char *ret, int n, int device)
{
    int error = halo_client_enter_device(&device);
    if (!error)
        error = copy_text(ret, n, device, true);
    return halo_client_leave(error);
}

int hipDeviceGetPCIBusId(char *ret, int n, int device)
{
    int error = halo_client_enter_device(&device);
    if (!error)
        error = copy_text(ret, n, device, false);
    return halo_client_leave(error);
}

int hipDeviceSynchronize(void)
{
    struct halo_remote_device_synchronize_reply a;
    int error = halo_client_enter();
    if (!error) {
        int r = halo_remote_device_synchronize(&halo_client.port, &(struct halo_remote_device_synchronize){}, &a);
        error = halo_client_status(r, &a.status);
    }
    if (!error)
        error = halo_client_deferred();
    return halo_client_leave(error);
}
