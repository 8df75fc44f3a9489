/* reset.c: requests that drop what a model's cache keeps, of a user or of all. Port thread. */
#include <stdlib.h>

#include "port/port_priv.h"

void halo_port_reset(struct halo_port *port, struct halo_job *job)
{
    const struct halo_msg_reset *msg = &job->msg.reset;
    if (!halo_port_hold_model(port, job, msg->model))
        return;
    struct halo_reset *reset = job->reset = calloc(1, sizeof(*reset));
    if (!reset) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for a reset");
        return;
    }
    *reset =
        (struct halo_reset){.job = job, .instance = job->model, .all = !msg->has_user, .user = (uint64_t)msg->user};
    halo_job_move(job, HALO_JOB_DEVICE);
    halo_note_post(&port->device.box, &reset->note, HALO_NOTE_RESET);
}

void halo_port_reset_done(struct halo_port *port, struct halo_reset *reset)
{
    struct halo_job *job = reset->job;
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_RESET, &job->msg.id);
    ev.reset.freed_pages = reset->n_freed;
    halo_job_end(port, job, &ev);
}
