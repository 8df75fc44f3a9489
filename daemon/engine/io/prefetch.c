/* prefetch.c: the thread that reads weights. One load at a time, in order of arrival; it owns the ring while it
 * reads. */
#include "io/prefetch_priv.h"

#include <base/thread.h>

enum halo_load_stage halo_prefetch_read(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_prefetch_thread *prefetch = threads->prefetch;
    halo_phase_set(&prefetch->phase, HALO_ACTIVITY_FILE, "reading the weights of %s", load->instance->name);
    halo_load_read(load, prefetch->ops, prefetch->port, &prefetch->phase);
    return HALO_LOAD_SEAL; /* which sees to a failure too: the memory is the device's */
}

static void *loop(void *ud)
{
    struct halo_prefetch_thread *prefetch = ud;
    for (;;) {
        halo_phase_set(&prefetch->phase, HALO_ACTIVITY_IDLE, "idle");
        struct halo_mail *mail = halo_mailbox_wait(&prefetch->box, UINT64_MAX);
        while (mail) {
            struct halo_load *load = HALO_NOTE_ITEM(halo_note_of(mail), struct halo_load, note);
            mail = mail->next;
            halo_load_run(load);
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
