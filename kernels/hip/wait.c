/* wait.c: waiting for the GPU, always with a deadline.
 *
 * hipEventSynchronize can wait for ever, and a thread in it ignores signals; so the event is polled. A pause lasts
 * 50 us and the timer slack of the thread on top, usually as much again: half of that is 3 % of a decode step of 2 ms.
 * So there is none around the time at which the event is expected, nor at first where nothing is known. Device thread,
 * and the loading thread for its own event.
 */
#include <errno.h>
#include <time.h>

#include <common/clock.h>

#include "device_priv.h"

#define SPIN_NS 200000 /* before the expected time, and after it: more than a pause lasts */
#define PAUSE_NS 50000
#define NS_PER_MS 1000000ull

bool halo_hip_wait_is_close(uint64_t waited_ns, uint64_t expected_ns)
{
    return waited_ns + SPIN_NS > expected_ns && waited_ns < expected_ns + SPIN_NS;
}

int halo_hip_wait_like(struct halo_device *device, void *event, uint64_t *took_ns, const char *what, char *reason)
{
    uint64_t begin = halo_monotonic_ns(), deadline = begin + device->deadline_ms * NS_PER_MS, now;
    for (;;) {
        int r = device->api.EventQuery(event);
        now = halo_monotonic_ns();
        if (r != HIP_ERROR_NOT_READY) {
            *took_ns = now - begin;
            return halo_hip_check(device, r, what, reason);
        }
        if (now > deadline)
            break;
        if (halo_hip_wait_is_close(now - begin, *took_ns))
            __builtin_ia32_pause();
        else
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
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

int halo_hip_wait(struct halo_device *device, void *event, const char *what, char *reason)
{
    uint64_t unknown_ns = 0;
    return halo_hip_wait_like(device, event, &unknown_ns, what, reason);
}

int halo_hip_drain(struct halo_device *device, const char *what, char *reason)
{
    int r = halo_hip_check(device, device->api.EventRecord(device->event, device->stream), what, reason);
    return r ? r : halo_hip_wait(device, device->event, what, reason);
}
