/* prefetch.c: the thread that reads weights. One load at a time, in order of arrival; it owns the ring while it
 * reads. */
#include "io/prefetch_priv.h"

#include <engine/instance.h>

static void *loop(void *ud)
{
    struct halo_prefetch_thread *prefetch = ud;
    for (;;) {
        struct halo_mail *mail = halo_mailbox_wait(&prefetch->box, UINT64_MAX);
        while (mail) {
            struct halo_load *load = HALO_NOTE_ITEM(halo_note_of(mail), struct halo_load, note);
            mail = mail->next;
            halo_load_read(load, prefetch->ops, prefetch->port);
            halo_note_post(prefetch->device, &load->note, HALO_NOTE_LOAD_SEAL);
        }
    }
    return NULL;
}

int halo_prefetch_thread_start(struct halo_prefetch_thread *prefetch)
{
    int r = halo_mailbox_init(&prefetch->box, false);
    return r < 0 ? r : -pthread_create(&prefetch->thread, NULL, loop, prefetch);
}
