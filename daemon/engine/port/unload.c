/* unload.c: unloads as requests, and what is told when a model is gone. Port thread. */
#include <assert.h>

#include "port/port_priv.h"

void halo_port_unload(struct halo_port *port, struct halo_job *job)
{
    struct halo_instance *instance = halo_port_find(port, job, job->msg.unload.model);
    if (!instance)
        return;
    if (instance->state == HALO_INSTANCE_LOADING) {
        halo_job_park(instance, job);
        return;
    }
    if (instance->state != HALO_INSTANCE_READY && instance->unloader) {
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "model %.200s is already being unloaded", instance->name);
        return;
    }
    job->model = instance;
    instance->unloader = job;
    halo_job_move(job, HALO_JOB_LOAD);
    if (instance->state == HALO_INSTANCE_READY)
        halo_port_drain(port, instance, HALO_UNLOAD_ASKED);
}

void halo_port_unload_done(struct halo_port *port, struct halo_instance *instance)
{
    static_assert((int)HALO_WIRE_UNLOAD_IDLE == (int)HALO_UNLOAD_IDLE &&
                      (int)HALO_WIRE_UNLOAD_ROOM == (int)HALO_UNLOAD_ROOM,
                  "the words and the reasons have one order");
    static const struct halo_id nobody = {0};
    struct halo_job *job = instance->unloader, *waiting = instance->waiting;
    struct halo_ev ev;
    HALO_COUNT(&port->stats, unloads, 1);
    halo_ev_init(&ev, HALO_EV_UNLOADED, job ? &job->msg.id : &nobody);
    ev.unloaded.model = halo_str_of(instance->name);
    ev.unloaded.freed_bytes = (int64_t)instance->freed_bytes;
    ev.unloaded.reason = (enum halo_wire_unload)instance->why;
    ev.unloaded.has_prefix_pages = instance->n_saved > 0;
    ev.unloaded.prefix_pages = instance->n_saved;
    ev.unloaded.has_prefixes_not_saved = instance->save_fault.code != HALO_FAULT_NONE;
    ev.unloaded.prefixes_not_saved = halo_str_of(instance->save_fault.text);
    if (job)
        halo_job_end(port, job, &ev);
    else if (port->config.link)
        halo_port_put(port, &ev); /* halod must not bring it back */
    instance->waiting = NULL;
    halo_job_wake(port, waiting);
    halo_port_forget_instance(port, instance);
}
