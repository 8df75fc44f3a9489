/* phase.h: how a device publishes what it is about to do. Device thread; read by any thread. */
#ifndef HALO_COMMON_PHASE_H
#define HALO_COMMON_PHASE_H

#include <kernels/device.h>

/* `what` is static text or lives as long as the plan. Nothing happens without a phase (NULL). */
static inline void halo_phase_publish(struct halo_device_phase *phase, const char *what, uint32_t op)
{
    if (!phase)
        return;
    atomic_store_explicit(&phase->what, what, memory_order_relaxed);
    atomic_store_explicit(&phase->op, op, memory_order_relaxed);
    atomic_fetch_add_explicit(&phase->step, 1, memory_order_release);
}

#endif
