/* lookup.c: the model that a request names.
 *
 * Port thread. A name stands for a file. The plain name of a loaded model is that model's; any other name, and every
 * path, is looked up by the io thread and stands for the model of that very file. A request that names a model which is
 * loading waits for it, one that names a model which is being unloaded waits until it is gone.
 */
#include <stdlib.h>
#include <string.h>

#include "port/port_priv.h"

bool halo_port_is_path(struct halo_str name)
{
    return memchr(name.at, '/', name.len);
}

static void look_up(struct halo_port *port, struct halo_job *job, struct halo_str name)
{
    job->lookup = calloc(1, sizeof(*job->lookup));
    if (!job->lookup) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory to look up a model");
        return;
    }
    job->lookup->job = job;
    job->lookup->name = name.at;
    halo_job_move(job, HALO_JOB_IO);
    halo_note_post(&port->io.box, &job->lookup->note, HALO_NOTE_LOOKUP);
}

void halo_port_lookup_done(struct halo_port *port, struct halo_lookup *lookup)
{
    struct halo_job *job = lookup->job;
    job->wait_next = NULL;
    halo_job_wake(port, job);
}

static void refuse_replaced(struct halo_port *port, struct halo_job *job, const struct halo_instance *instance)
{
    halo_job_end_error(port, job, HALO_ERROR_BAD_REQUEST,
                       "%.200s was replaced or changed after it was loaded as %.200s: unload that model first",
                       instance->path, instance->name);
}

/* The model of the file that the name leads to. NULL: the request was ended. */
static struct halo_instance *find_at(struct halo_port *port, struct halo_job *job)
{
    const struct halo_lookup *lookup = job->lookup;
    if (lookup->fault.code != HALO_FAULT_NONE) {
        halo_job_end_fault(port, job, &lookup->fault);
        return NULL;
    }
    struct halo_instance *found = halo_port_instance_of(port, &lookup->id);
    struct halo_instance *before = halo_port_instance_before(port, lookup->name, &lookup->id);
    bool for_end = job->msg.type == HALO_MSG_UNLOAD || job->msg.type == HALO_MSG_RESET; /* then a load is no help */
    if (!found && before)
        refuse_replaced(port, job, before);
    else if (!found)
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "model %.200s is not loaded%s", lookup->name,
                           for_end ? "" : "; send `load` first");
    return found;
}

/* The only model, when the request names none. NULL: the request was ended. */
static struct halo_instance *find_only(struct halo_port *port, struct halo_job *job)
{
    struct halo_instance *found = NULL;
    for (uint32_t i = 0; i < port->n_instances; i++) {
        struct halo_instance *instance = port->instances[i];
        if (instance->state != HALO_INSTANCE_LOADING && instance->state != HALO_INSTANCE_READY)
            continue;
        if (found) {
            halo_job_end_error(port, job, HALO_ERROR_BAD_REQUEST,
                               "several models are loaded (%.150s, %.150s, ...): `model` must name one", found->name,
                               instance->name);
            return NULL;
        }
        found = instance;
    }
    if (!found)
        halo_job_end_error(port, job, HALO_ERROR_NOT_FOUND, "no model is loaded; send `load` first");
    return found;
}

struct halo_instance *halo_port_find(struct halo_port *port, struct halo_job *job, struct halo_str name)
{
    struct halo_instance *found = halo_port_instance_named(port, name);
    if (found && (!found->matched || !halo_port_is_path(name)))
        return found;
    if (job->lookup)
        return find_at(port, job);
    look_up(port, job, name); /* another name of a file may be loaded */
    return NULL;
}

bool halo_port_hold_model(struct halo_port *port, struct halo_job *job, struct halo_str name)
{
    struct halo_instance *instance = name.len > 0 ? halo_port_find(port, job, name) : find_only(port, job);
    if (!instance)
        return false;
    if (instance->state != HALO_INSTANCE_READY) {
        halo_job_park(instance, job);
        return false;
    }
    halo_port_hold_instance(job, instance);
    return true;
}
