/* text.c: the text thread: everything that needs a tokenizer or a template.
 *
 * One thread, one job at a time, in order of arrival. It touches neither the device nor files. A job fails with
 * job->fault.
 */
#include <assert.h>

#include <base/thread.h>

#include "port/port_priv.h"

/* ---- the loop ---- */

static void do_job(struct halo_text_thread *text, struct halo_job *job)
{
    if (!atomic_load(&job->cancel)) {
        halo_phase_set(&text->phase, HALO_ACTIVITY_TEXT, "preparing the text of a %s request",
                       halo_msg_type_name(job->msg.type));
        switch (job->msg.type) {
        case HALO_MSG_GENERATE: halo_text_job_generate(text, job); break;
        case HALO_MSG_SCORE: halo_text_job_score(text, job); break;
        case HALO_MSG_TOKENIZE: halo_text_job_tokenize(text, job); break;
        case HALO_MSG_TEMPLATE: halo_text_job_template(text, job); break;
        case HALO_MSG_DETOKENIZE: halo_text_job_detokenize(text, job); break;
        default: assert(!"no job for the text thread");
        }
    }
    halo_note_post(text->port, &job->note, HALO_NOTE_TEXT_DONE);
}

static void *loop(void *ud)
{
    struct halo_text_thread *text = ud;
    for (;;) {
        halo_phase_set(&text->phase, HALO_ACTIVITY_IDLE, "idle");
        struct halo_mail *mail = halo_mailbox_wait(&text->box, UINT64_MAX);
        while (mail) {
            struct halo_note *note = halo_note_of(mail);
            mail = mail->next;
            do_job(text, HALO_NOTE_ITEM(note, struct halo_job, note));
        }
    }
    return NULL;
}

int halo_text_thread_start(struct halo_text_thread *text)
{
    halo_arena_init(&text->arena, 0);
    halo_arena_init(&text->scratch, 0);
    halo_phase_init(&text->phase);
    int r = halo_mailbox_init(&text->box, false);
    return r < 0 ? r : halo_thread_start(&text->thread, "text", loop, text);
}
