/* phase.c: see phase.h. */
#include <engine/phase.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void halo_phase_init(struct halo_phase *phase)
{
    *phase = (struct halo_phase){.what = "starting"};
    pthread_mutex_init(&phase->lock, NULL);
}

void halo_phase_set(struct halo_phase *phase, enum halo_activity activity, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&phase->lock);
    vsnprintf(phase->what, sizeof(phase->what), format, args);
    pthread_mutex_unlock(&phase->lock);
    va_end(args);
    atomic_store(&phase->activity, (int)activity);
    halo_phase_tick(phase);
}

void halo_phase_text(struct halo_phase *phase, char ret[HALO_PHASE_BYTES])
{
    pthread_mutex_lock(&phase->lock);
    memcpy(ret, phase->what, HALO_PHASE_BYTES);
    pthread_mutex_unlock(&phase->lock);
}
