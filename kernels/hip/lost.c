/* lost.c: errors of the runtime: those that the device cannot recover from, and notices of what it does without.
 *
 * A sticky HIP error marks the device as lost: everything fails with HALO_DEVICE_E_LOST from then on, and the process
 * should end. Any thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "device_priv.h"

int halo_hip_lose(struct halo_device *device, int error, const char *reason)
{
    int alive = 0;
    if (atomic_compare_exchange_strong(&device->lost, &alive, 1)) {
        halo_reason(device->lost_reason, 0, "%s", reason);
        atomic_store(&device->lost, 2); /* the sentence may be read now */
    }
    return error;
}

int halo_hip_choose(struct halo_device *device, char *reason)
{
    if (!device->is_one_of_several || atomic_load(&device->lost))
        return 0;
    return halo_hip_check(device, device->api.SetDevice(device->index), "choosing the GPU", reason);
}

int halo_hip_usable(struct halo_device *device, char *reason)
{
    int lost = atomic_load(&device->lost);
    if (!lost)
        return halo_hip_choose(device, reason);
    return halo_reason(reason, HALO_DEVICE_E_LOST, "the device was lost: %.200s",
                       lost == 2 ? device->lost_reason : "a moment ago");
}

int halo_hip_check(struct halo_device *device, int hip_error, const char *what, char *reason)
{
    if (hip_error == HIP_SUCCESS)
        return 0;
    char name[48], sentence[HALO_DEVICE_REASON];
    int r = halo_hip_error_number(hip_error);
    r = r == -ENOMEM ? r : HALO_DEVICE_E_LOST;
    halo_reason(sentence, r, "%s: %s", what, halo_hip_error_name(hip_error, name));
    halo_reason(reason, r, "%s", sentence);
    return r == HALO_DEVICE_E_LOST ? halo_hip_lose(device, r, sentence) : r;
}

void halo_hip_notice(struct halo_device *device, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&device->notice_lock);
    device->n_notices++;
    vsnprintf(device->notice, sizeof(device->notice), format, args);
    pthread_mutex_unlock(&device->notice_lock);
    va_end(args);
}
