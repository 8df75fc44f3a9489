/* phase.h: what a thread is doing, for the watchdog: each kind of work has its own deadline.
 *
 * The thread sets its phase before everything that can hang and ticks with each piece of progress inside it; the port
 * reads the phases of all threads for each heartbeat. The time of a phase begins anew when anything of it has moved, so
 * that neither a long piece of work that makes progress nor a queue in front of the thread is taken for a hang.
 */
#ifndef HALO_ENGINE_PHASE_H
#define HALO_ENGINE_PHASE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define HALO_PHASE_BYTES 256

/* The order is that of the words on the wire. */
enum halo_activity {
    HALO_ACTIVITY_IDLE,
    HALO_ACTIVITY_MODEL,   /* takes memory for a model, seals it, gives it back */
    HALO_ACTIVITY_FIRST,   /* the first step of a model: drivers compile, pages are touched */
    HALO_ACTIVITY_PREFILL, /* a step with pieces of prompts */
    HALO_ACTIVITY_DECODE,  /* a step with one row for each sequence */
    HALO_ACTIVITY_STEP,    /* around a step, and everything else on the device */
    HALO_ACTIVITY_TEXT,    /* tokenizes, renders a template */
    HALO_ACTIVITY_FILE,    /* reads or writes files and folders */
};

/* Of a thread that may take a lock between two pieces of work. The device thread, which may not, publishes a static
 * text instead (struct halo_device_phase). */
struct halo_phase {
    pthread_mutex_t lock; /* of what */
    char what[HALO_PHASE_BYTES];
    atomic_int activity;   /* enum halo_activity */
    _Atomic uint64_t mark; /* moves with every change and every tick */
};

void halo_phase_init(struct halo_phase *phase);

/* The thread itself. The text is cut at HALO_PHASE_BYTES. */
__attribute__((format(printf, 3, 4))) void halo_phase_set(struct halo_phase *phase, enum halo_activity activity,
                                                          const char *format, ...);
static inline void halo_phase_tick(struct halo_phase *phase)
{
    atomic_fetch_add_explicit(&phase->mark, 1, memory_order_relaxed);
}

/* Any thread: a copy of the text. */
void halo_phase_text(struct halo_phase *phase, char ret[HALO_PHASE_BYTES]);

#endif
