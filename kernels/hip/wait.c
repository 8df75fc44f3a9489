/* wait.c: waiting for the GPU, always with a deadline, and the phase that tells where it stands.
 *
 * hipEventSynchronize can wait for ever, and a thread in it ignores signals; so the event is asked again and again:
 * often at first, because a decode step takes few milliseconds, then with pauses. Device thread, and the loading one
 * for its own event.
 */
#include <errno.h>
#include <time.h>

#include "device_priv.h"

#define SPIN_NS 200000
#define PAUSE_NS 50000
#define NS_PER_MS 1000000ull

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int halo_hip_wait(struct halo_device *device, void *event, const char *what, char *reason)
{
    uint64_t begin = now_ns(), deadline = begin + device->deadline_ms * NS_PER_MS, now;
    for (;;) {
        int r = device->api.EventQuery(event);
        if (r != HIP_ERROR_NOT_READY)
            return halo_hip_check(device, r, what, reason);
        now = now_ns();
        if (now > deadline)
            break;
        if (now - begin > SPIN_NS)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        else
            __builtin_ia32_pause();
    }
    char sentence[HALO_DEVICE_REASON];
    halo_hip_reason(
        sentence, -ETIME,
        "%s: the GPU did not finish within %u ms: a lost completion or a kernel that never ends; if it comes back, try "
        "HSA_ENABLE_INTERRUPT=0; `halo-doctor` looks at kernel and firmware",
        what, device->deadline_ms);
    halo_hip_reason(reason, -ETIME, "%s", sentence);
    return halo_hip_lose(device, -ETIME, sentence);
}

int halo_hip_drain(struct halo_device *device, const char *what, char *reason)
{
    int r = halo_hip_check(device, device->api.EventRecord(device->event, device->stream), what, reason);
    return r ? r : halo_hip_wait(device, device->event, what, reason);
}

void halo_hip_publish(struct halo_device_phase *phase, const char *what, uint32_t op)
{
    if (!phase)
        return;
    atomic_store_explicit(&phase->what, what, memory_order_relaxed);
    atomic_store_explicit(&phase->op, op, memory_order_relaxed);
    atomic_fetch_add_explicit(&phase->step, 1, memory_order_release);
}
