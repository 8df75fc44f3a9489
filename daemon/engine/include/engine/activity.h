/* activity.h: what kind of work the device thread is in, for the watchdog: how long it may take depends on it.
 *
 * Written by the device thread, read by the heartbeat. The order is that of the words on the wire.
 */
#ifndef HALO_ENGINE_ACTIVITY_H
#define HALO_ENGINE_ACTIVITY_H

#include <stdatomic.h>

enum halo_activity {
    HALO_ACTIVITY_IDLE,
    HALO_ACTIVITY_MODEL,   /* takes memory for a model, seals it, gives it back */
    HALO_ACTIVITY_FIRST,   /* the first step of a model: drivers compile, pages are touched */
    HALO_ACTIVITY_PREFILL, /* a step with pieces of prompts */
    HALO_ACTIVITY_DECODE,  /* a step with one row for each sequence */
    HALO_ACTIVITY_STEP,    /* around a step, and everything else */
};

#endif
