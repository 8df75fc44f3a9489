/* wait.c: waiting for the GPU, always with a deadline.
 *
 * hipEventSynchronize can wait for ever, and a thread in it ignores signals; so the event is polled: continuously at
 * first, because a decode step takes few milliseconds, then with pauses. Device thread, and the loading thread for its
 * own event.
 */
#include <errno.h>
#include <time.h>

#include <common/clock.h>

#include "device_priv.h"

#define SPIN_NS 200000
#define PAUSE_NS 50000
#define NS_PER_MS 1000000ull

int halo_hip_wait(struct halo_device *device, void *event, const char *what, char *reason)
{
    uint64_t begin = halo_monotonic_ns(), deadline = begin + device->deadline_ms * NS_PER_MS, now;
    for (;;) {
        int r = device->api.EventQuery(event);
        if (r != HIP_ERROR_NOT_READY)
            return halo_hip_check(device, r, what, reason);
        now = halo_monotonic_ns();
        if (now > deadline)
            break;
        if (now - begin > SPIN_NS)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        else
            __builtin_ia32_pause();
    }
    char sentence[HALO_DEVICE_REASON];
    halo_reason(
        sentence, -ETIME,
        "%s: the GPU did not finish within %u ms: a lost completion or a kernel that never ends; if it comes back, try "
        "HSA_ENABLE_INTERRUPT=0; `halo-doctor` looks at kernel and firmware",
        what, device->deadline_ms);
    halo_reason(reason, -ETIME, "%s", sentence);
    return halo_hip_lose(device, -ETIME, sentence);
}

int halo_hip_drain(struct halo_device *device, const char *what, char *reason)
{
    int r = halo_hip_check(device, device->api.EventRecord(device->event, device->stream), what, reason);
    return r ? r : halo_hip_wait(device, device->event, what, reason);
}
