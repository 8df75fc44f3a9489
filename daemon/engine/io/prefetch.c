/* prefetch.c: the thread that reads weights. One load at a time, in order of arrival; it owns the ring while it reads.
 * A profiling reads its points between loads. */
#include "io/prefetch_priv.h"

#include <base/thread.h>

enum halo_load_stage halo_prefetch_read(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_prefetch_thread *prefetch = threads->prefetch;
    halo_phase_set(&prefetch->phase, HALO_ACTIVITY_FILE, "reading the weights of %s", load->instance->name);
    halo_load_read(load, prefetch->ops, prefetch->port, &prefetch->phase);
    return HALO_LOAD_SEAL; /* which sees to a failure too: the memory is the device's */
}

/* One point; the next one waits behind the loads that have come meanwhile. */
static void profile(struct halo_prefetch_thread *prefetch, struct halo_profiling *p)
{
    halo_phase_set(&prefetch->phase, HALO_ACTIVITY_FILE, "measuring the drive of %s", p->model);
    int r = halo_profiling_step(p, &prefetch->phase);
    if (r > 0) {
        if (!atomic_exchange(&p->progress_posted, true))
            halo_note_post(prefetch->port, &p->progress_note, HALO_NOTE_PROFILE_PROGRESS);
        halo_note_post(&prefetch->box, &p->note, HALO_NOTE_PROFILE);
        return;
    }
    halo_profiling_close(p);
    bool again = r == 0 && p->record.profile.memory_bytes_s == 0;
    p->stage = r < 0 ? HALO_PROFILING_DONE : again ? HALO_PROFILING_RETRY : HALO_PROFILING_COOL;
    halo_note_post(r < 0 ? prefetch->port : again ? prefetch->device : prefetch->io, &p->note, HALO_NOTE_PROFILE);
}

/* The memory of a slab, before the device thread uses its slots. */
static void take_slab(struct halo_prefetch_thread *prefetch, struct halo_resize *resize)
{
    struct halo_instance *instance = HALO_NOTE_ITEM(resize, struct halo_instance, resize);
    halo_phase_set(&prefetch->phase, HALO_ACTIVITY_FILE, "taking memory for experts of %s", instance->name);
    resize->is_taken = halo_experts_take(instance->experts, &resize->fault) == 0;
    halo_note_post(prefetch->device, &resize->note, HALO_NOTE_RESIZE);
}

static void *loop(void *ud)
{
    struct halo_prefetch_thread *prefetch = ud;
    for (;;) {
        halo_phase_set(&prefetch->phase, HALO_ACTIVITY_IDLE, "idle");
        struct halo_mail *mail = halo_mailbox_wait(&prefetch->box, UINT64_MAX);
        while (mail) {
            struct halo_note *note = halo_note_of(mail);
            mail = mail->next; /* before the note's object goes to somebody else */
            if (note->what == HALO_NOTE_PROFILE)
                profile(prefetch, HALO_NOTE_ITEM(note, struct halo_profiling, note));
            else if (note->what == HALO_NOTE_RESIZE)
                take_slab(prefetch, HALO_NOTE_ITEM(note, struct halo_resize, note));
            else
                halo_load_run(HALO_NOTE_ITEM(note, struct halo_load, note));
        }
    }
    return NULL;
}

int halo_prefetch_thread_start(struct halo_prefetch_thread *prefetch)
{
    halo_phase_init(&prefetch->phase);
    int r = halo_mailbox_init(&prefetch->box, false);
    return r < 0 ? r : halo_thread_start(&prefetch->thread, "prefetch", loop, prefetch);
}
